"""Other spellings of tool names: those of MCP servers, and one of the past."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from band_trio.tools.definitions import BAND_MCP_SERVER_NAME, MCP_TOOL_PREFIX

OLD_SEND_MESSAGE: Final = "create_agent_chat_message"
"""What band_send_message was called once; it only helps to classify calls of the past."""

_SERVER_PREFIX: Final = f"{BAND_MCP_SERVER_NAME}-"


def mcp_tool_names(names: Iterable[str]) -> list[str]:
    """Return *names* as Claude spells them when they come from our MCP server, sorted."""
    return sorted(MCP_TOOL_PREFIX + name for name in names)


def canonicalize_mcp_tool_name(name: str, own: Collection[str]) -> str:
    """Return a name without our server's prefix, if what is left is one of *own*.

    Names with the prefix of another server stay as they are: they are not ours.
    """
    bare = name.removeprefix(_SERVER_PREFIX)
    return bare if bare in own else name

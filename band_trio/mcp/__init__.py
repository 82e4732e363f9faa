"""The room tools as a server of the Model Context Protocol: over stdio, or over HTTP on loopback.

Needs the extra `mcp`, but for `build_mcp_registrations` and `OpenTurns`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from band_trio.kit.extras import load_extra
from band_trio.mcp.registrations import MCPToolRegistration, build_mcp_registrations
from band_trio.mcp.turns import OpenTurns
from band_trio.tools.catalogue import iter_tool_definitions, selected_tool_definitions

if TYPE_CHECKING:
    from band_trio.mcp.http import LocalMCPServer
    from band_trio.mcp.server import MCPServer

__all__ = [
    "LocalMCPServer",
    "MCPServer",
    "MCPToolRegistration",
    "OpenTurns",
    "build_mcp_registrations",
    "iter_tool_definitions",
    "selected_tool_definitions",
]

_LATER: Final = {"LocalMCPServer": "http", "MCPServer": "server"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(load_extra(f"{__name__}.{_LATER[name]}", "mcp", name), name)

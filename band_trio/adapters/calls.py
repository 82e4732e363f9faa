"""Tool calls from plain code, by name and through dispatch, as a model makes them."""

from __future__ import annotations

import logging
from typing import Any, Final

from band_trio.tools.dispatch import succeeded
from band_trio.types import AgentToolsProtocol

_log: Final = logging.getLogger(__name__)


async def call_tool(tools: AgentToolsProtocol, name: str, /, **arguments: Any) -> Any:
    """Call the tool *name* and return its result.

    Raises:
        BandToolError: the call failed; the text is what a model would have read.
        RoomExecutionStoppedError: the agent is stopped in this room.
    """
    outcome = await tools.execute_tool_call_structured(name, arguments)
    if not outcome.ok and tools.turn.replied:
        # The message may have been delivered: failing the turn now could send it once more.
        _log.warning("room %s: %s", tools.room_id, outcome.error_message)
        return outcome.value
    return succeeded(outcome)

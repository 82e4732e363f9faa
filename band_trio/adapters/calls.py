"""Tool calls from plain code, by name and through dispatch, as a model makes them."""

from __future__ import annotations

import logging
from typing import Any, Final

from band_trio.kit.hygiene import clean_text
from band_trio.tools.dispatch import succeeded
from band_trio.tools.protocol import AgentToolsProtocol

_log: Final = logging.getLogger(__name__)


async def call_tool(tools: AgentToolsProtocol, name: str, /, **arguments: Any) -> Any:
    """Call the tool *name* and return its result.

    A message that may have been delivered, although the platform did not confirm it, is no
    failure: the turn has answered, and failing it would send the message once more. Then the
    result is None.

    Raises:
        BandToolError: the call failed; the text is what a model would have read. If the turn has
            answered before, catch it: a turn that fails is run again, and answers again.
        RoomExecutionStoppedError: the agent is stopped in this room.
    """
    answered = tools.turn.replied
    outcome = await tools.execute_tool_call_structured(name, arguments)
    if not outcome.ok and tools.turn.replied and not answered:
        _log.warning("room %s: %s", tools.room_id, clean_text(outcome.error_message or ""))
        return None
    return succeeded(outcome)

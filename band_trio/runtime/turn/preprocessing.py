"""From a claimed message to the input of a turn."""

from __future__ import annotations

import logging
from typing import Final

from band_trio.contract import AgentInput
from band_trio.kit.logs import RepeatedLog
from band_trio.protocol.rest import ChatMessage
from band_trio.tools.agent_tools import AgentTools
from band_trio.tools.context import RoomContext
from band_trio.tools.conversation import to_platform_message
from band_trio.types import HistoryProvider

_repeated: Final = RepeatedLog(logging.getLogger(__name__))


class DefaultPreprocessor:
    """What turns are given unless the application brings a preprocessor of its own."""

    async def process(
        self, ctx: RoomContext, event: ChatMessage, agent_id: str
    ) -> AgentInput | None:
        """Return the input of the turn for *event*; None for the agent's own message.

        The history holds what was said before the message, and only until a turn of the room
        was committed; where the message runs again, also what the agent has said since. If
        loading it failed, the turn runs without and is no bootstrap; the next turn tries again.
        """
        if event.sender_id == agent_id:
            return None
        history, bootstrap = HistoryProvider(), ctx.is_session_bootstrap
        if bootstrap or ctx.attempt > 1:
            raw = await ctx.load_history(event)
            if raw is None:
                _repeated.warning("room %s: the turn runs without its history", ctx.room_id)
                bootstrap = False
            else:
                history = HistoryProvider(raw)
        return AgentInput(
            msg=to_platform_message(event, room_id=ctx.room_id, participants=ctx.participants),
            tools=AgentTools.from_context(ctx),
            history=history,
            participants_msg=ctx.participants_msg,
            contacts_msg=ctx.contacts_msg,
            is_session_bootstrap=bootstrap,
            room_id=ctx.room_id,
            commit_context=ctx.commit_context,
            attempt=ctx.attempt,
        )

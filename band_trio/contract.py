"""What the runtime and an application agree on: the input of a turn, and who takes and makes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import attrs

from band_trio.tools.context import RoomContext
from band_trio.tools.protocol import AgentToolsProtocol
from band_trio.types import HistoryProvider, PlatformMessage


@attrs.frozen
class AgentInput:
    """Everything one turn is given."""

    msg: PlatformMessage
    tools: AgentToolsProtocol
    history: HistoryProvider
    participants_msg: str | None
    """Who is in the room; present exactly when that differs from what was last committed."""
    contacts_msg: str | None
    """Pending system lines, joined by newlines."""
    is_session_bootstrap: bool
    """True until a turn of this room was committed."""
    room_id: str
    commit_context: Callable[[], None] | None = None
    attempt: int = 1
    """Which run of this message it is, as far as anyone can tell. From 2 on `history` also holds
    what the agent itself has said since the message (`since_trigger`)."""


class Preprocessor(Protocol):
    """Turns a claimed message into the input of a turn, or declines it."""

    async def process(self, ctx: RoomContext, event: Any, agent_id: str) -> AgentInput | None:
        """Return the input of the turn for *event*, a message that is claimed; *agent_id* is ours.

        None ends the message as processed, without a turn. What it raises fails the turn.
        """


class FrameworkAdapter(Protocol):
    """The least an adapter is. `SimpleAdapter` adds the comfortable parts and is what to subclass."""

    async def on_event(self, inp: AgentInput) -> None:
        """Handle one message. What the tools have done decides whether it is processed or failed;
        an error fails it."""

    async def on_cleanup(self, room_id: str) -> None:
        """The room is served no longer: let go of what is kept for it."""

    async def on_started(self, agent_name: str, agent_description: str) -> None:
        """The agent is connected; called once, before the first message."""

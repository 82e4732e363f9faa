"""What one turn may see of its room; the object that preprocessors and tools are given."""

from __future__ import annotations

from typing import Any, Protocol

import attrs

from band_trio.link.rest.rest import RestClient
from band_trio.protocol.rest import ChatMessage
from band_trio.runtime.turn.roster import People
from band_trio.tools.ledger import Ledger
from band_trio.types import AdapterFeatures


class ContextSource(Protocol):
    """What knows of the room; a `Briefing`."""

    async def load_history(
        self, trigger: ChatMessage, attempt: int
    ) -> list[dict[str, Any]] | None: ...
    def commit(self, told: TurnContext) -> None: ...


@attrs.frozen
class TurnContext:
    """A read-only view of one room for one turn; implements the protocol `RoomContext`."""

    room_id: str
    agent_id: str
    hub_room_id: str | None
    rest: RestClient
    features: AdapterFeatures
    turn: Ledger
    is_session_bootstrap: bool
    participants_msg: str | None
    contacts_msg: str | None
    participants: list[dict[str, Any]]
    """Who is in the room; a copy, made once for the turn."""
    _source: ContextSource
    roster: People
    """The same by id, to be compared with later."""
    lines: int
    """Up to which system line it was told."""
    attempt: int = 1
    """Which run of the message this is, as far as anyone can tell."""

    async def load_history(self, message: ChatMessage) -> list[dict[str, Any]] | None:
        """Return the raw items before *message*, oldest first, until the bootstrap is done.

        From attempt 2 on what the agent itself has said since follows, each with `since_trigger`.
        Empty where hydration is off; None if loading failed.
        """
        return await self._source.load_history(message, self.attempt)

    def commit_context(self) -> None:
        """Note that this turn's bootstrap, roster and system lines have been taken in.

        Called by the runtime once the turn was judged complete.
        """
        self._source.commit(self)

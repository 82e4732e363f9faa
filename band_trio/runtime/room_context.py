"""What one turn may see of its room; the object that preprocessors and tools are given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import attrs

from band_trio.link.rest import RestClient
from band_trio.protocol.rest import ChatMessage
from band_trio.tools.ledger import Ledger
from band_trio.types import AdapterFeatures

LoadHistory = Callable[[ChatMessage], Awaitable[list[dict[str, Any]] | None]]


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
    _people: list[dict[str, Any]]
    _load: LoadHistory
    _commit: Callable[[], None]

    @property
    def participants(self) -> list[dict[str, Any]]:
        """Who is in the room; a copy."""
        return [dict(person) for person in self._people]

    async def load_history(self, message: ChatMessage) -> list[dict[str, Any]] | None:
        """Return the raw items before *message*, oldest first.

        Empty where hydration is off or the bootstrap is done; None if loading failed.
        """
        return await self._load(message)

    def commit_context(self) -> None:
        """Note that this turn's bootstrap, roster and system lines have been taken in.

        Called by the runtime once the turn was judged complete.
        """
        self._commit()

"""What a preprocessor, and the tools of a turn, may see of a room."""

from __future__ import annotations

from typing import Any, Protocol

from band_trio.features import AdapterFeatures
from band_trio.link.rest.rest import RestClient
from band_trio.types import TurnLedger


class RoomContext(Protocol):
    """What a preprocessor may see of a room: one room, one turn, read only."""

    @property
    def room_id(self) -> str:
        """The room's id."""

    @property
    def agent_id(self) -> str:
        """The agent's id."""

    @property
    def hub_room_id(self) -> str | None:
        """The id of the room for contact events, if there is one."""

    @property
    def rest(self) -> RestClient:
        """The client for the platform's REST API, with the agent's key."""

    @property
    def features(self) -> AdapterFeatures:
        """What the adapter may use and shows."""

    @property
    def turn(self) -> TurnLedger:
        """The ledger of the turn."""

    @property
    def participants(self) -> list[dict[str, Any]]:
        """Who is in the room, as far as it is known: a copy."""

    @property
    def attempt(self) -> int:
        """Which run of the message this is, from 1, as far as anyone can tell."""

    @property
    def is_session_bootstrap(self) -> bool:
        """Whether no turn of this room was committed yet."""

    @property
    def participants_msg(self) -> str | None:
        """Who is in the room, in words; None where that was told before."""

    @property
    def contacts_msg(self) -> str | None:
        """System lines since the last turn; None without one."""

    async def load_history(self, message: Any) -> list[dict[str, Any]] | None:
        """Return what was said before *message*, oldest first (raw items: see `HistoryConverter`).

        Empty where the history is turned off; None where it could not be loaded.
        """

    def commit_context(self) -> None:
        """Note that the handler has been told all this: the next turn is told what is new."""

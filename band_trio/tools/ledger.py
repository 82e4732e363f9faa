"""The ledger of one turn: what its tools did, and whether they still may.

Tools write it, the runtime reads it. Whether a turn is complete follows from recorded effects
only; nothing that a handler says or returns counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Protocol

import attrs
import trio

from band_trio.errors import TurnClosedError
from band_trio.types import TurnEffect


class TurnListener(Protocol):
    """What the runtime wants to hear from the tools of a turn; synchronous, must not raise."""

    def stop_observed(self) -> None:
        """The platform answered that the agent is stopped in this room."""

    def participant_seen(self, participant: Mapping[str, Any]) -> None:
        """A tool added somebody; *participant* has at least `id`."""

    def participant_gone(self, participant_id: str) -> None:
        """A tool removed somebody."""

    def roster_read(self, participants: list[dict[str, Any]]) -> None:
        """A tool read the whole roster."""

    def detached(self) -> None:
        """The turn waits for a person: its time limit is suspended."""

    def posted(self, kind: str, outcome: str) -> None:
        """A message, event, notice or failure was posted (`ok`), refused or of unknown fate."""


@attrs.define(eq=False)
class Ledger:
    """What a turn has done, its nursery, and the fence that closes behind it."""

    judged: bool = True
    """False: returning is success, whatever was recorded."""
    listener: TurnListener | None = None
    attempt: int = 1
    """Which run of its message this is; from 2 on an earlier one may have done something."""
    since: datetime | None = None
    """When the message of the turn was written, by the platform's clock, if it says so."""
    effects: set[TurnEffect] = attrs.field(factory=set, init=False)
    _settled: bool = attrs.field(default=False, init=False)
    _reported: bool = attrs.field(default=False, init=False)
    detached: bool = attrs.field(default=False, init=False)
    """Whether the turn's time limit is suspended."""
    _closed: bool = attrs.field(default=False, init=False)
    _nursery: trio.Nursery | None = attrs.field(default=None, init=False)

    @property
    def nursery(self) -> trio.Nursery:
        """For work of the adapter beside or after `on_message`; the turn ends when both have.

        Raises:
            TurnClosedError: the turn is over, or never had a nursery.
        """
        if self._nursery is None:
            raise TurnClosedError("This turn has no nursery: it is over, or was never started.")
        return self._nursery

    @property
    def replied(self) -> bool:
        """Whether something was said, or declined to be said."""
        return bool(self.effects & {TurnEffect.REPLY, TurnEffect.DECLINE})

    @property
    def complete(self) -> bool:
        """Whether the turn did what a message asks for."""
        return self._settled or self._reported or any(e.did_work for e in self.effects)

    @property
    def reported(self) -> bool:
        """Whether the turn has told the room about its own failure."""
        return self._reported

    @property
    def closed(self) -> bool:
        """Whether the turn is over; its tools then refuse every call."""
        return self._closed

    def record(self, effect: TurnEffect) -> None:
        """Note what a successful tool call did. A closed turn is not changed any more."""
        if not self._closed:
            self.effects.add(effect)

    def settle(self) -> None:
        """Declare the turn complete although nothing was said."""
        if not self._closed:
            self._settled = True

    def note_reported(self) -> None:
        """Note that the room knows of the failure; the runtime does not report it again."""
        if not self._closed:
            self._reported = True

    def detach(self) -> None:
        """Suspend the time limit of the turn, because it waits for a person."""
        if not self._closed and not self.detached:
            self.detached = True
            self.tell(lambda listener: listener.detached())

    def check_open(self) -> None:
        """Refuse a tool call of a turn that is over.

        Raises:
            TurnClosedError: it is over.
        """
        if self._closed:
            raise TurnClosedError("This turn is over; its tools have no effect any more.")

    def open_in(self, nursery: trio.Nursery | None) -> None:
        """Give the turn its nursery; the runtime's part."""
        self._nursery = nursery

    def close(self) -> None:
        """End the turn: from now on every tool call is refused."""
        self._closed = True
        self._nursery = None

    def tell(self, notify: Callable[[TurnListener], None]) -> None:
        """Pass on to the runtime what a tool has learnt."""
        if self.listener is not None:
            notify(self.listener)

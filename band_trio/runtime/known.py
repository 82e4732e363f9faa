"""What one room knows of message ids: a cache with a bound, never the truth."""

from __future__ import annotations

import math
from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import Final

import attrs


class Known(StrEnum):
    """Why a message of the list is not run (again)."""

    RECENT = "recent"
    """Processed here."""
    GIVEN_UP = "given_up"
    SET_ASIDE = "set_aside"
    """Waits for its next run without holding others back."""
    REFUSED = "refused"
    """Not ours to run; asked again later."""


_CAPACITY: Final = {
    Known.RECENT: 128,
    Known.GIVEN_UP: 1000,
    Known.SET_ASIDE: 100,
    Known.REFUSED: 100,
}
"""Entries per kind; the oldest is forgotten, and recognised again from the list or by a claim."""


@attrs.frozen
class KnownMessage:
    """One entry of the table."""

    state: Known
    until: float = math.inf
    """When it may run again, in trio's time."""
    spent: int = 0
    """Runs that failed, by our own count."""
    tries: int = 0
    """How often it was put off."""
    inserted_at: datetime | None = None


@attrs.define(eq=False)
class IdTable:
    """id → what is known of it; bounded per kind."""

    _kinds: dict[Known, dict[str, KnownMessage]] = attrs.field(factory=dict, init=False)

    def get(self, message_id: str) -> KnownMessage | None:
        """Return what is known of an id."""
        for entries in self._kinds.values():
            if (entry := entries.get(message_id)) is not None:
                return entry
        return None

    def put(self, message_id: str, entry: KnownMessage, *, keep: datetime | None = None) -> None:
        """Replace what is known of an id; entries inserted at the instant *keep* are not evicted."""
        self.forget(message_id)
        entries = self._kinds.setdefault(entry.state, {})
        entries[message_id] = entry
        surplus = len(entries) - _CAPACITY[entry.state]
        if surplus > 0:
            old = (id_ for id_, e in entries.items() if keep is None or e.inserted_at != keep)
            for oldest in list(islice(old, surplus)):
                del entries[oldest]

    def make_room(self, now: float) -> bool:
        """Tell whether another message may be set aside, at a time of trio's clock.

        Where the table is full, one is forgotten whose time has come: the list tells of it again.
        One that still has to wait would run too early.
        """
        waiting = self._kinds.get(Known.SET_ASIDE, {})
        if len(waiting) < _CAPACITY[Known.SET_ASIDE]:
            return True
        due = next((id_ for id_, entry in waiting.items() if entry.until <= now), None)
        if due is not None:
            del waiting[due]
        return due is not None

    def forget(self, message_id: str) -> None:
        """Drop an id, whatever its kind."""
        for entries in self._kinds.values():
            entries.pop(message_id, None)

    def count(self, state: Known) -> int:
        """Return how many ids are of a kind."""
        return len(self._kinds.get(state, ()))

    def next_due(self, after: float) -> float:
        """Return the first time later than *after* at which a waiting message may run again.

        Infinite if there is none. What was due before has been looked for by the read that began
        at *after*: if it is still here, the platform does not list it any more.
        """
        waiting = (Known.SET_ASIDE, Known.REFUSED)
        times = [e.until for kind in waiting for e in self._kinds.get(kind, {}).values()]
        return min((time for time in times if time > after), default=math.inf)

    def recheck_refused(self) -> None:
        """Let refused messages be asked for again: a new epoch may have changed the answer."""
        self._kinds.pop(Known.REFUSED, None)

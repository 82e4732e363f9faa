"""One message for one agent: its states, its attempts, and the index that finds the next one.

The moves (platform docs, Message state machine):

    none → delivered → processing → processed      processing again is a no-op,
                           ↓  ↑          │         after failed or processed it is
                         failed ←── processing     a new attempt
"""

from __future__ import annotations

from bisect import bisect_left, insort
from enum import StrEnum
from typing import Any, Final

import attrs

from band_trio.stores.refusal import no_live_attempt


class State(StrEnum):
    """How far a message got with one recipient."""

    NONE = "none"
    DELIVERED = "delivered"
    PROCESSING = "processing"
    PROCESSED = "processed"
    FAILED = "failed"


@attrs.define(eq=False)
class Attempt:
    """One run of the message."""

    number: int
    started_at: str
    status: str = "processing"
    """`processing`, `success` or `failed`."""
    error: str | None = None
    completed_at: str | None = None

    def render(self) -> dict[str, Any]:
        """Return the row of the attempts list."""
        row: dict[str, Any] = {
            "attempt_number": self.number,
            "status": self.status,
            "started_at": self.started_at,
        }
        if self.completed_at is not None:
            row["completed_at"] = self.completed_at
        if self.error is not None:
            row["error"] = self.error
        return row


@attrs.define(eq=False)
class Delivery:
    """The state of one message for one agent. Times are texts, given by the caller."""

    state: State = State.NONE
    delivered_at: str | None = None
    processed_at: str | None = None
    attempts: list[Attempt] = attrs.field(factory=list)

    @property
    def attempt_number(self) -> int:
        """The number of the latest attempt, 0 before the first."""
        return len(self.attempts)

    def deliver(self, at: str) -> bool:
        """Note that the message was handed over; tell whether that was news."""
        if self.state is not State.NONE:
            return False
        self.state, self.delivered_at = State.DELIVERED, at
        return True

    def claim(self, at: str) -> bool:
        """Start an attempt unless one is live; tell whether one was started."""
        if self.state is State.PROCESSING:
            return False
        self.attempts.append(Attempt(len(self.attempts) + 1, at))
        self.state = State.PROCESSING
        return True

    def settle(self, state: State, at: str, error: str | None = None) -> None:
        """End the live attempt as `processed` or `failed`.

        Raises:
            Refusal: there is no live attempt.
        """
        if self.state is not State.PROCESSING:
            raise no_live_attempt()
        attempt = self.attempts[-1]
        attempt.completed_at = at
        if state is State.PROCESSED:
            attempt.status, self.processed_at = "success", at
        else:
            attempt.status, attempt.error = "failed", error
        self.state = state

    def render(self) -> dict[str, Any]:
        """Return the delivery object of `metadata.delivery_status`."""
        row: dict[str, Any] = {"status": self.state.value}
        if self.delivered_at is not None:
            row["delivered_at"] = self.delivered_at
        if self.processed_at is not None:
            row["processed_at"] = self.processed_at
        if self.attempts:
            row["current_attempt"] = len(self.attempts)
            row["attempts"] = [attempt.render() for attempt in self.attempts]
        return row


# --------------------------------------------------------------------------- the index


class Shelf(StrEnum):
    """Lists by which an agent asks for its messages (platform docs, Listing)."""

    OPEN = "open"
    """Everything not processed: what `next` takes the oldest of."""
    PENDING = "pending"
    PROCESSING = "processing"
    PROCESSED = "processed"
    FAILED = "failed"
    ALL = "all"


_SHELVES: Final[dict[State, frozenset[Shelf]]] = {
    State.NONE: frozenset({Shelf.OPEN, Shelf.PENDING, Shelf.ALL}),
    State.DELIVERED: frozenset({Shelf.OPEN, Shelf.PENDING, Shelf.ALL}),
    State.PROCESSING: frozenset({Shelf.OPEN, Shelf.PROCESSING, Shelf.ALL}),
    State.PROCESSED: frozenset({Shelf.PROCESSED, Shelf.ALL}),
    State.FAILED: frozenset({Shelf.OPEN, Shelf.PENDING, Shelf.FAILED, Shelf.ALL}),
}


@attrs.define(eq=False)
class Inbox:
    """The messages of one room that are addressed to one agent, by number, oldest first.

    Kept sorted at every move, so that neither `next` nor a page ever walks the history.
    """

    _shelves: dict[Shelf, list[int]] = attrs.field(factory=lambda: {shelf: [] for shelf in Shelf})

    def add(self, number: int) -> None:
        """Take in a new message; numbers rise."""
        for shelf in _SHELVES[State.NONE]:
            self._shelves[shelf].append(number)

    def move(self, number: int, before: State, after: State) -> None:
        """Follow a change of state."""
        old, new = _SHELVES[before], _SHELVES[after]
        for shelf in old - new:
            rows = self._shelves[shelf]
            del rows[bisect_left(rows, number)]
        for shelf in new - old:
            insort(self._shelves[shelf], number)

    def rows(self, shelf: Shelf) -> list[int]:
        """Return the numbers of a list; not to be changed."""
        return self._shelves[shelf]

    @property
    def oldest(self) -> int | None:
        """The number of the oldest message that is not processed."""
        rows = self._shelves[Shelf.OPEN]
        return rows[0] if rows else None

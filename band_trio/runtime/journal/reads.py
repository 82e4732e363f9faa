"""When a room has to read its list, and how urgent that is: values without I/O.

Times are trio's. Asking often causes one read; a bound that is hit anywhere is answered by asking.
"""

from __future__ import annotations

import math
import random
from enum import IntEnum
from typing import Final

import attrs

from band_trio.config.agent import SessionConfig
from band_trio.kit.token_bucket import TokenBucket

JOIN_SECONDS: Final = 2.0
"""Longest wait of a new connection's first read for the join of the room's topic. Joined before,
nothing is missed between the read and the first push; later, the list is read once more."""


class Dirty(IntEnum):
    """Whether the list has to be read again, and how urgent that is."""

    CLEAN = 0
    POLL = 1
    """Nothing says that there is work, but the time of a poll has come. Told with a read, and never
    asked for."""
    FIRST = 2
    """The connection or the topic is new: as fast as the platform's answers allow."""
    CAUSED = 3
    """A hint, a control or found work asks for it: at once."""


@attrs.define(eq=False)
class Paced:
    """When something is done that nothing asks for: its time comes, and then its place in a bucket
    that all rooms share. So many rooms stretch the interval, not the load."""

    _bucket: TokenBucket
    _at: float = -math.inf
    _placed: bool = attrs.field(default=False, init=False)

    def set(self, at: float) -> None:
        """Let its time come; where there is no place by then, it takes a later one at once."""
        self._at, self._placed = at, False
        if self._bucket.booked >= at:
            self._take(at)

    def hasten(self, now: float) -> None:
        """Let its time have come; the place that it may have stays."""
        if not self._placed:
            self._at = min(self._at, now)

    def due(self, now: float) -> float:
        """Return when it may be done, or when to ask again."""
        if now >= self._at and not self._placed:
            self._take(now)
        return self._at

    def has_place(self, now: float) -> bool:
        """Tell whether it has a place that is still to come."""
        return self._placed and now < self._at

    def _take(self, not_before: float) -> None:
        self._at, self._placed = self._bucket.reserve(not_before), True


@attrs.define(eq=False)
class Reads:
    """The reads of one room."""

    _session: SessionConfig
    poll: Paced
    """An idle room reads although nothing asks for it."""
    probe: Paced
    """A stopped room asks whether it may go on."""
    dirty: Dirty = attrs.field(default=Dirty.FIRST, init=False)
    epoch: int = attrs.field(default=0, init=False)
    """Rises with each new connection, as far as this room was told."""
    caught_up: bool = attrs.field(default=False, init=False)
    """Whether the list was read to its end: what turns up from then on, and is not known, is new."""
    began_at: float = attrs.field(default=-math.inf, init=False)
    """When the last pass over the list began."""
    _poll_wait: float | None = attrs.field(default=None, init=False)
    _first_at: float = attrs.field(default=0.0, init=False)
    """When a first read need not wait for the join any longer."""
    read_in: int = attrs.field(default=-1, init=False)
    """The epoch in which the list was last read to its end."""

    @property
    def due(self) -> float:
        """When the read that is asked for may begin."""
        return self._first_at if self.dirty is Dirty.FIRST else -math.inf

    def begin(self, now: float, *, joined: bool) -> None:
        """The room is served from now on; *joined*: its topic is, from an earlier try."""
        self.caught_up, self.read_in = False, -1
        self.poll.set(math.inf)
        self._poll_wait = None
        self._ask_first(now if joined else now + JOIN_SECONDS)

    def ask(self, cause: Dirty) -> None:
        """Ask for a read."""
        self.dirty = max(self.dirty, cause)

    def joined(self, now: float) -> None:
        """The room's topic was joined: pushes before this moment are lost."""
        self._ask_first(now)

    def new_epoch(self, now: float) -> None:
        """The connection is a new one."""
        self.epoch += 1
        self.probe.hasten(now)
        self._ask_first(now + JOIN_SECONDS)

    def _ask_first(self, not_before: float) -> None:
        self.ask(Dirty.FIRST)
        self._first_at = not_before

    def began(self, now: float) -> None:
        """A pass over the list begins."""
        self.dirty, self.began_at = Dirty.CLEAN, now

    def abandoned(self, cause: Dirty, *, found: bool) -> None:
        """A pass for that *cause* was given up before its end; *found*: it ran something."""
        if found:
            self.ask(Dirty.CAUSED)
        elif cause is not Dirty.POLL:  # one that is still due
            self.ask(cause)

    def ended(self, epoch: int, now: float, *, found: bool) -> None:
        """A pass has come to the end of the list, in an *epoch*; *found*: it ran something."""
        self.read_in, self.caught_up = epoch, True
        if self.poll.has_place(now):
            return  # it would be lost to all rooms
        shortest, longest = self._session.idle_resync_seconds, self._session.idle_resync_max_seconds
        before = self._poll_wait
        self._poll_wait = shortest if found or before is None else min(2 * before, longest)
        # Waits that grow are spread: rooms that began together do not poll together.
        least = min(before or 0.0, self._poll_wait)
        self.poll.set(now + random.uniform(least, self._poll_wait))

    def probed(self, now: float) -> None:
        """It was asked whether it may go on, or it has just been stopped."""
        wait = self._session.stopped_resync_seconds or self._session.idle_resync_seconds
        self.probe.set(now + wait)

"""Speculative reads: when an idle room wants one, and the agent's one bucket that spaces them.

Many rooms stretch the interval, not the load.
"""

from __future__ import annotations

import random
from typing import Final

import attrs
import trio

BURST_SECONDS: Final = 2.0
"""What a quiet time saves up: the reads of so many seconds may then happen at once."""


@attrs.define(eq=False)
class ResyncBucket:
    """A token bucket that hands out times: a reservation says when its read may happen."""

    rate: float
    """Reads per second in the long run."""
    burst: int
    """Reads that may happen at once."""
    _next: float = attrs.field(default=-1e18, init=False)
    """When the next token would be due if the bucket had no depth."""

    @classmethod
    def of_rate(cls, rate: float) -> ResyncBucket:
        """Return the bucket for the reads of a whole agent."""
        return cls(rate, max(1, round(rate * BURST_SECONDS)))

    def reserve(self) -> float:
        """Take one token and return the time (trio's) from which the read may happen."""
        now = trio.current_time()
        earliest = now - (self.burst - 1) / self.rate
        self._next = max(self._next, earliest)
        due = self._next
        self._next += 1 / self.rate
        return max(due, now)


@attrs.define(eq=False)
class IdlePolls:
    """When an idle room reads its list although nothing asks for it: twice as late each time."""

    _shortest: float
    """Seconds from one read to the next after one that found work."""
    _longest: float
    at: float = attrs.field(default=0.0, init=False)
    """When the next read is due, in trio's time."""
    _wait: float | None = attrs.field(default=None, init=False)

    def after_pass(self, now: float, *, found_work: bool) -> None:
        """Take note that the list has been read."""
        if self._wait is None:  # the first wait is spread, so that rooms do not poll together
            self._wait = self._shortest
            self.at = now + random.uniform(0, self._shortest)
            return
        self._wait = self._shortest if found_work else min(2 * self._wait, self._longest)
        self.at = now + self._wait

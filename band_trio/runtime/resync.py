"""One bucket for all speculative reads of the agent: many rooms stretch the interval, not the load."""

from __future__ import annotations

import attrs
import trio


@attrs.define(eq=False)
class ResyncBucket:
    """A token bucket that hands out times: a reservation says when its read may happen."""

    rate: float
    """Reads per second in the long run."""
    burst: int
    """Reads that may happen at once."""
    _next: float = attrs.field(default=-1e18, init=False)
    """When the next token would be due if the bucket had no depth."""

    def reserve(self) -> float:
        """Take one token and return the time (trio's) from which the read may happen."""
        now = trio.current_time()
        earliest = now - (self.burst - 1) / self.rate
        self._next = max(self._next, earliest)
        due = self._next
        self._next += 1 / self.rate
        return max(due, now)

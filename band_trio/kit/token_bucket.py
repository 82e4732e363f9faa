"""A token bucket that hands out times, without I/O."""

from __future__ import annotations

import attrs


@attrs.define(eq=False)
class TokenBucket:
    """A reservation says when its request may be made: many askers stretch the wait, not the load."""

    rate: float
    """Requests per second in the long run."""
    burst: int = 1
    """Requests that may be made at once."""
    _next: float = attrs.field(default=-1e18, init=False)
    """When the next token would be due if the bucket had no depth."""

    @property
    def booked(self) -> float:
        """Until when all tokens are taken."""
        return self._next

    def reserve(self, now: float) -> float:
        """Take one token and return the time, later than or equal to *now*, at which it is due."""
        due = max(self._next, now - (self.burst - 1) / self.rate)
        self._next = due + 1 / self.rate
        return max(due, now)

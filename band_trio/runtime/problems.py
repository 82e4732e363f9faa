"""What went wrong beside the turns: hooks and rooms that failed, for health and report."""

from __future__ import annotations

import attrs


@attrs.define(eq=False)
class Problems:
    """Failures in the order in which they happened; bounded."""

    _texts: list[str] = attrs.field(factory=list, init=False)
    capacity: int = 100
    """Beyond it, only the count of what was left out grows."""
    _left_out: int = attrs.field(default=0, init=False)

    def note(self, text: str) -> None:
        """Record a failure."""
        if len(self._texts) < self.capacity:
            self._texts.append(text)
        else:
            self._left_out += 1

    def texts(self) -> tuple[str, ...]:
        """Return what was kept."""
        more = (f"and {self._left_out} more",) if self._left_out else ()
        return (*self._texts, *more)

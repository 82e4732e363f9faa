"""Lines from the platform that the next turn of a room is told, each at least once."""

from __future__ import annotations

import attrs


@attrs.define(eq=False)
class SystemLines:
    """A bounded list; full: the oldest are replaced by one line that counts them."""

    capacity: int
    _lines: list[str] = attrs.field(factory=list, init=False)
    _last: int = attrs.field(default=0, init=False)
    """Number of the newest line; numbers rise by one and are never reused."""
    _told: int = attrs.field(default=0, init=False)
    """Number up to which lines have been delivered and committed."""

    def add(self, line: str) -> None:
        """Append a line for the next turn."""
        self._last += 1
        self._lines.append(line)
        del self._lines[: -self.capacity]

    def pending(self) -> tuple[str | None, int]:
        """Return the text of all lines, or None, and the number up to which they reach."""
        texts = list(self._lines)
        left_out = self._last - self._told - len(texts)
        if left_out:
            texts.insert(0, f"({left_out} earlier updates are left out)")
        return ("\n".join(texts) or None), self._last

    def commit(self, upto: int) -> None:
        """Drop exactly what was delivered: all lines up to that number."""
        self._told = max(self._told, upto)
        surplus = len(self._lines) - (self._last - self._told)
        if surplus > 0:
            del self._lines[:surplus]

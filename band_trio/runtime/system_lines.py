"""Lines from the platform that the next turn of a room is told, each at least once."""

from __future__ import annotations

import attrs


@attrs.define(eq=False)
class SystemLines:
    """A bounded list; full: the oldest are replaced by one line that counts them."""

    capacity: int
    _lines: list[tuple[int, str]] = attrs.field(factory=list, init=False)
    """(number, text); numbers rise and are never reused."""
    _last: int = attrs.field(default=0, init=False)
    _left_out: int = attrs.field(default=0, init=False)

    def add(self, line: str) -> None:
        """Append a line for the next turn."""
        self._last += 1
        self._lines.append((self._last, line))
        if len(self._lines) > self.capacity:
            del self._lines[0]
            self._left_out += 1

    def pending(self) -> tuple[str | None, int]:
        """Return the text of all lines, or None, and the number up to which they reach."""
        texts = [text for _, text in self._lines]
        if self._left_out:
            texts.insert(0, f"({self._left_out} earlier updates are left out)")
        return ("\n".join(texts) or None), self._last

    def commit(self, upto: int) -> None:
        """Drop exactly what was delivered: all lines up to that number."""
        self._lines = [line for line in self._lines if line[0] > upto]
        if not self._lines or self._lines[0][0] > upto:
            self._left_out = 0

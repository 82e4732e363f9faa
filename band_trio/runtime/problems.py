"""What went wrong beside the turns: hooks and rooms that failed, for health and report."""

from __future__ import annotations

import attrs


@attrs.define(eq=False)
class Notes:
    """Texts in the order in which they came; bounded."""

    capacity: int = 100
    """Beyond it, only the count of what was left out grows."""
    _texts: list[str] = attrs.field(factory=list, init=False)
    _left_out: int = attrs.field(default=0, init=False)

    def add(self, text: str) -> None:
        """Keep a text, or count it."""
        if len(self._texts) < self.capacity:
            self._texts.append(text)
        else:
            self._left_out += 1

    def texts(self) -> tuple[str, ...]:
        """Return what was kept."""
        more = (f"and {self._left_out} more",) if self._left_out else ()
        return (*self._texts, *more)


@attrs.define(eq=False)
class Problems:
    """Failures of a run. Those of its end have a place of their own, which no others fill up."""

    _all: Notes = attrs.field(factory=Notes, init=False)
    _of_end: Notes = attrs.field(factory=Notes, init=False)

    def note(self, text: str, *, of_end: bool = False) -> None:
        """Record a failure; *of_end*: of a clean-up, or of something that could not be ended."""
        self._all.add(text)
        if of_end:
            self._of_end.add(text)

    def texts(self) -> tuple[str, ...]:
        """Return all that went wrong."""
        return self._all.texts()

    def of_end(self) -> tuple[str, ...]:
        """Return what went wrong in clean-up and in ending."""
        return self._of_end.texts()

"""Log lines that may repeat: the first three, then one per minute with a count."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import attrs
import trio

FIRST: Final = 3
"""Lines that are written as they come."""
EVERY_SECONDS: Final = 60.0
"""Distance of the lines after that."""
FORGET_SECONDS: Final = 600.0
"""After this much silence a line counts as new again."""


@attrs.define
class _Line:
    written: int = 0
    left_out: int = 0
    last_seen: float = 0.0
    last_written: float = 0.0


@attrs.define(eq=False)
class RepeatedLog:
    """Writes lines to a logger, and thins out each one that repeats. Use it inside trio."""

    logger: logging.Logger
    now: Callable[[], float] = trio.current_time
    # One entry per message template of the code, hence few.
    _lines: dict[str, _Line] = attrs.field(factory=dict, init=False)

    def warning(self, template: str, *args: object) -> None:
        """Log at WARNING, thinned out per *template*."""
        self.log(logging.WARNING, template, *args)

    def log(self, level: int, template: str, *args: object) -> None:
        """Log at *level*, thinned out per *template*; the arguments do not count."""
        now = self.now()
        line = self._lines.get(template)
        if line is None or now - line.last_seen > FORGET_SECONDS:
            line = self._lines[template] = _Line()
        line.last_seen = now
        if line.written >= FIRST and now - line.last_written < EVERY_SECONDS:
            line.left_out += 1
            return
        if line.left_out:
            template, args = f"{template} (and %d more like it)", (*args, line.left_out)
        self.logger.log(level, template, *args)
        line.written += 1
        line.left_out, line.last_written = 0, now

"""Log lines that may repeat: the first three, then one per minute with a count.

Counted per run of an agent, so that no agent of a program hides the lines of another. Knows
nothing of trio: the run brings its clock along.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import attrs

from band_trio.kit.hygiene import clean_text

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
class _Run:
    now: Callable[[], float]
    # One entry per message template of the code, hence few.
    lines: dict[tuple[str, str], _Line] = attrs.field(factory=dict)


_run: Final[ContextVar[_Run | None]] = ContextVar("band_trio_repeated_lines", default=None)


@contextmanager
def thinned_lines(now: Callable[[], float]) -> Generator[None]:
    """Thin out the lines of every `RepeatedLog` in this block, and in the tasks it starts.

    *now* is the clock, in seconds.
    """
    token = _run.set(_Run(now))
    try:
        yield
    finally:
        _run.reset(token)


@attrs.frozen(eq=False)
class RepeatedLog:
    """Writes lines to a logger, and thins out each one that repeats within `thinned_lines`."""

    logger: logging.Logger

    def warning(self, template: str, *args: object) -> None:
        """Log at WARNING, thinned out per *template*."""
        self.log(logging.WARNING, template, *args)

    def log(self, level: int, template: str, *args: object) -> None:
        """Log at *level*, thinned out per *template*; the arguments do not count.

        Those that are not numbers are shown as one line each, whoever chose them.
        """
        run = _run.get()
        try:
            now = run.now() if run is not None else None
        except RuntimeError:
            now = None  # in a thread: trio's clock is not to be had there
        if run is None or now is None:
            self._write(level, template, args)
            return
        key = (self.logger.name, template)
        line = run.lines.get(key)
        if line is None or now - line.last_seen > FORGET_SECONDS:
            line = run.lines[key] = _Line()
        line.last_seen = now
        if line.written >= FIRST and now - line.last_written < EVERY_SECONDS:
            line.left_out += 1
            return
        if line.left_out:
            template, args = f"{template} (and %d more like it)", (*args, line.left_out)
        self._write(level, template, args)
        line.written += 1
        line.left_out, line.last_written = 0, now

    def _write(self, level: int, template: str, args: tuple[object, ...]) -> None:
        if self.logger.isEnabledFor(level):
            shown = [arg if isinstance(arg, int | float) else clean_text(str(arg)) for arg in args]
            self.logger.log(level, template, *shown)

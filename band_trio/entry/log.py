"""The log of a program that runs agents: lines on stderr, in colours where somebody looks."""

from __future__ import annotations

import logging
import sys
from typing import Final

from band_trio.entry.console import Console, Style
from band_trio.errors import BandConfigError

_OURS: Final = "band_trio"

_NEWS: Final = ("band_trio.cli", "band_trio.entry", "band_trio.link.channel.supervisor")
"""What these say at INFO is written along with warnings: that it has begun, is ready, stops and has
stopped; and that a connection is up, without which its loss would read as if it lasted."""

_STYLES: Final = (
    (logging.ERROR, Style.BAD),
    (logging.WARNING, Style.NEWS),
    (logging.INFO, Style.PLAIN),
)


class _ConsoleHandler(logging.Handler):
    """Writes records to a console, the traceback without a colour."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self.setFormatter(
            logging.Formatter("%(asctime)s %(levelname)-7s %(message)s", datefmt="%H:%M:%S")
        )

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line, newline, rest = self.format(record).partition("\n")
            style = next((s for level, s in _STYLES if record.levelno >= level), Style.STATE)
            self._console.line(line, style)
            if newline:
                self._console.line(rest)
        except Exception:  # noqa: BLE001 - reported as logging does: a log line ends no program
            self.handleError(record)


def set_up_log(level: int) -> None:
    """Write records of band_trio from *level* on, and those of others from WARNING on.

    Nothing changes if the application has set up logging: if the root logger, or that of
    band_trio, has a handler.
    """
    if not is_set_up():
        add_handler()
        set_levels(level)


def is_set_up() -> bool:
    """Tell whether somebody has given logging a place to write to."""
    return any(
        not isinstance(handler, logging.NullHandler)
        for name in (None, _OURS)
        for handler in logging.getLogger(name).handlers
    )


def add_handler() -> None:
    """Write all records to stderr; to nowhere, where there is none."""
    if sys.stderr is not None:
        logging.getLogger().addHandler(_ConsoleHandler(Console(sys.stderr)))


def set_levels(level: int) -> None:
    """Let band_trio log from *level* on, and its few news too if that includes warnings."""
    logging.getLogger(_OURS).setLevel(level)
    for name in _NEWS:
        news = min(level, logging.INFO) if level <= logging.WARNING else level
        logging.getLogger(name).setLevel(news)


def level_of(level: object) -> int:
    """Return the number of a level that is given by number or name.

    Raises:
        BandConfigError: it is neither.
    """
    known = logging.getLevelNamesMapping()
    number = known.get(level.upper()) if isinstance(level, str) else level
    if isinstance(number, bool) or not isinstance(number, int):
        raise BandConfigError(
            f"level must be one of {', '.join(known)}, or a number of logging, not {level!r}"
        )
    return number

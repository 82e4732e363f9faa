"""Lines on stdout or stderr: plain text, in colours where rich is installed and somebody looks."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from enum import StrEnum
from typing import TextIO


class Style(StrEnum):
    """Kinds of lines, as rich styles."""

    PLAIN = ""
    TITLE = "bold"
    MESSAGE = "bold cyan"
    TOOL = "magenta"
    STATE = "dim"
    NEWS = "yellow"
    GOOD = "bold green"
    BAD = "bold red"


class Console:
    """Writes lines at once; never raises, so that a closed pipe ends no platform."""

    def __init__(self, stream: TextIO | None = None) -> None:
        wanted: TextIO | None = sys.stdout if stream is None else stream
        # Python has no stdout at all where it was closed before the start.
        self._stream = io.StringIO() if wanted is None else wanted
        self._write = _rich_writer(self._stream) or self._write_plain
        self.broken = wanted is None
        """Whether the reader has gone; lines are dropped from then on."""

    def line(self, text: str = "", style: Style = Style.PLAIN) -> None:
        """Write one line."""
        if self.broken:
            return
        try:
            self._write(text, style)
        except BrokenPipeError:
            self.broken = True
            if self._stream is sys.stdout:
                # The interpreter flushes stdout once more when it ends: let it succeed.
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())

    def _write_plain(self, text: str, style: Style) -> None:
        encoding = self._stream.encoding or "utf-8"
        printable = text.encode(encoding, "replace").decode(encoding)
        print(printable, file=self._stream, flush=True)


def _rich_writer(stream: TextIO) -> Callable[[str, Style], None] | None:
    if not stream.isatty():
        return None
    try:
        from rich.console import Console as RichConsole  # noqa: TID251 - the one door
        from rich.text import Text  # noqa: TID251
    except ImportError:
        return None
    console = RichConsole(file=stream, highlight=False)

    def write(text: str, style: Style) -> None:
        console.print(Text(text, style=style.value), soft_wrap=True)

    return write

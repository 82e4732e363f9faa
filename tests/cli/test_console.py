"""Output: colours for eyes only, never an error for the platform behind it."""

from __future__ import annotations

import io
import os
import sys

import pytest

from band_trio.entry.console import Console, Style


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_pipe_gets_plain_lines() -> None:
    stream = io.StringIO()
    Console(stream).line("Clerk → Maria: [bold]hi[/bold]", Style.MESSAGE)

    assert stream.getvalue() == "Clerk → Maria: [bold]hi[/bold]\n"


def test_a_terminal_gets_colours_and_the_text_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = _Terminal()
    Console(stream).line("[bold]hi[/bold] " + "x" * 300, Style.BAD)

    assert "\x1b[1;31m" in stream.getvalue()
    assert "[bold]hi[/bold] " + "x" * 300 in stream.getvalue()


def test_a_terminal_without_rich_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    stream = _Terminal()
    Console(stream).line("hi", Style.BAD)

    assert stream.getvalue() == "hi\n"


def test_letters_that_a_terminal_lacks_are_replaced() -> None:
    raw = io.BytesIO()
    Console(io.TextIOWrapper(raw, encoding="ascii")).line("a → b")

    assert raw.getvalue() == b"a ? b\n"


def test_a_reader_that_has_gone_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    stream = os.fdopen(writing, "w")
    console = Console(stream)
    console.line("one")
    console.line("two")

    assert console.broken
    with pytest.raises(BrokenPipeError):
        stream.close()


def test_without_any_stdout_lines_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    console = Console()
    console.line("one")

    assert console.broken

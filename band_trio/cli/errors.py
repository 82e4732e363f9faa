"""What ends a command with one line and an exit code."""

from __future__ import annotations

from band_trio.entry.exits import Exit


class CliError(Exception):
    """A problem that its one line explains; never shown with a traceback."""

    def __init__(self, text: str, code: Exit = Exit.USAGE) -> None:
        super().__init__(text)
        self.code = code

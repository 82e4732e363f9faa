"""What ends a command with one line and an exit code."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of all commands."""

    OK = 0
    """A graceful end, also by the first signal."""
    FAILED = 1
    """An error ended it, the stop was not graceful, or cleaning up had errors."""
    USAGE = 2
    """The command line or the configuration cannot be used."""
    FORCED = 130
    """A second signal, or one before anything had started."""


class CliError(Exception):
    """A problem that its one line explains; never shown with a traceback."""

    def __init__(self, text: str, code: Exit = Exit.USAGE) -> None:
        super().__init__(text)
        self.code = code

"""Exit codes of everything that runs agents."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of all commands and of `band_trio.run`."""

    OK = 0
    """A graceful end, also by the first signal."""
    FAILED = 1
    """An error ended it, the stop was not graceful, or cleaning up had errors."""
    USAGE = 2
    """The command line or the configuration cannot be used."""
    FORCED = 130
    """A second signal, or one before anything had started."""

"""A signal while the command `band-trio` is still being imported: a quiet end, no traceback.

Importing takes a good part of a second, and the package is imported before any line of the
command. So this is looked at first, and does nothing in any other program.
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import pairwise
from pathlib import PurePath
from types import FrameType

INTERRUPTED = b"band-trio: interrupted\n"
EXIT_CODE = 130
"""The same as `band_trio.entry.exits.Exit.FORCED`, which cannot be imported yet."""


def is_the_command() -> bool:
    """Tell whether this process is `band-trio …` or `python -m band_trio …`."""
    name = sys.argv[0] if sys.argv else ""
    if name == "-m":  # what it is until the module is found
        options = sys.orig_argv
        return ("-m", "band_trio") in pairwise(options)
    return PurePath(name).stem == "band-trio"


def end_quietly(number: int, frame: FrameType | None) -> None:
    """Be the handler of both signals: nothing has started, so nothing is to be stopped."""
    os.write(2, INTERRUPTED)
    os._exit(EXIT_CODE)


def handle_early_signals() -> None:
    """Install the handler, if this process is the command and nobody ignores the signal."""
    if is_the_command():
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, end_quietly)


handle_early_signals()

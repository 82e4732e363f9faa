"""Ctrl-C and SIGTERM: the first one stops in order, the second one ends the process.

`trio.open_signal_receiver` hears nothing while a handler blocks the thread, and just then a second
Ctrl-C must still help. Hence plain signal handlers, which Python runs between two instructions of
the main thread; the first one is passed on to trio through its thread-safe door.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final

import trio

from band_trio.cli import texts
from band_trio.cli.errors import Exit

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """Counts the signals of one command."""

    def __init__(self) -> None:
        self.first: str | None = None
        """Name of the first signal, once it has come."""
        self._token: trio.lowlevel.TrioToken | None = None
        self._came = trio.Event()
        self._over = False

    async def wait(self) -> str:
        """Wait for the first signal and return its name. Use it once, in the main thread."""
        self._token = trio.lowlevel.current_trio_token()
        try:
            await self._came.wait()
        finally:
            self._over = self.first is None
            self._token = None
        assert self.first is not None  # the handler sets it before it wakes us
        return self.first

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Be the handler of both signals."""
        if self.first is not None:
            # Nothing is flushed or closed on purpose: whatever hangs could hang here too.
            os.write(2, texts.SECOND_SIGNAL.encode())
            os._exit(Exit.FORCED)
        self.first = signal.Signals(number).name
        if self._token is not None:
            self._token.run_sync_soon(self._came.set)
        elif trio.lowlevel.in_trio_run():
            self._came.set()  # nobody waits yet; an exception here would break trio itself
        elif not self._over:
            raise KeyboardInterrupt  # still importing: there is nothing to stop in order


@contextmanager
def stop_signals() -> Generator[StopSignals]:
    """Handle both signals within the block; main thread only."""
    signals = StopSignals()
    before = {number: signal.signal(number, signals.handle) for number in SIGNALS}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""Ctrl-C and SIGTERM: the first one stops in order, the second one ends the process.

`trio.open_signal_receiver` hears nothing while a handler blocks the thread, and just then a second
Ctrl-C must still help. Hence plain signal handlers, which Python runs between two instructions of
the main thread; the first one is passed on to trio through its thread-safe door.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final, TypeVar

import trio

from band_trio.entry import texts
from band_trio.entry.exits import Exit

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

SAME_REQUEST_SECONDS: Final = 1.0
"""Within this time of the first signal the *other* one is the same request: process managers,
and shells with a trap, send both."""

T = TypeVar("T")


class StopSignals:
    """Counts the signals of one program."""

    def __init__(self) -> None:
        self.first: str | None = None
        """Name of the first signal, once it has come."""
        self._first_at = 0.0
        self._seen: set[int] = set()
        self._running = False
        self._token: trio.lowlevel.TrioToken | None = None
        self._came = trio.Event()

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """`trio.run(work)`; from now on the first signal wakes `wait` instead of raising."""
        self._running = True
        return trio.run(work)

    async def wait(self) -> str:
        """Wait for the first signal and return its name. Use it once, in the main thread."""
        self._token = trio.lowlevel.current_trio_token()
        try:
            await self._came.wait()
        finally:
            self._token = None
        assert self.first is not None  # the handler sets it before it wakes us
        return self.first

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Be the handler of both signals."""
        if self.first is not None and not self._is_the_same_request(number):
            _end_at_once(texts.SECOND_SIGNAL)
        self._seen.add(number)
        if self.first is None:
            self.first, self._first_at = signal.Signals(number).name, time.monotonic()
            self._pass_on()

    def _is_the_same_request(self, number: int) -> bool:
        since = time.monotonic() - self._first_at
        return number not in self._seen and since <= SAME_REQUEST_SECONDS

    def _pass_on(self) -> None:
        if self._token is not None:
            self._token.run_sync_soon(self._came.set)
        elif self._running:
            self._came.set()  # nobody waits yet; an exception here would break trio itself
        elif trio.lowlevel.in_trio_run():
            # A run of the application's own, while it is loaded: an exception would break that one.
            _end_at_once(f"band-trio: {texts.INTERRUPTED}\n")
        else:
            raise KeyboardInterrupt  # nothing runs yet: there is nothing to stop in order


def _end_at_once(text: str) -> None:
    # Nothing is flushed or closed on purpose: whatever hangs could hang here too.
    os.write(2, text.encode())
    os._exit(Exit.FORCED)


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

"""A bell for one listener: ringing it any number of times wakes the listener once."""

from __future__ import annotations

import attrs
import trio


@attrs.define(eq=False)
class Bell:
    """Level-triggered: a ring before the wait is not lost, and many rings are one."""

    _rung: bool = False
    _waiter: trio.Event | None = None

    def ring(self) -> None:
        """Wake the listener, now or when it next waits."""
        self._rung = True
        if self._waiter is not None:
            self._waiter.set()

    async def wait(self) -> None:
        """Wait for a ring since the last wait. For one task at a time."""
        if self._rung:
            self._rung = False
            await trio.lowlevel.checkpoint()
            return
        self._waiter = trio.Event()
        try:
            await self._waiter.wait()
        finally:
            self._waiter = None
        self._rung = False

    async def wait_until(self, deadline: float) -> None:
        """Wait for a ring, at most until *deadline* in trio's time."""
        with trio.move_on_at(deadline):
            await self.wait()

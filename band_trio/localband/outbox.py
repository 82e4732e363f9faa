"""What waits to be sent on one socket, bounded in bytes."""

from __future__ import annotations

import sys
from collections import deque
from typing import Final

import attrs
import trio

OUTBOX_BYTES: Final = 8 * 1024 * 1024
"""Memory that may wait for a slow peer. Pushes are hints: what is thrown away with the socket is
listed when its agent comes back."""


@attrs.frozen
class Close:
    """Ends a socket, after everything that was queued before."""

    code: int
    reason: str = ""


@attrs.define(eq=False)
class Outbox:
    """Frames in the order in which they were queued; one task takes them."""

    limit: int = OUTBOX_BYTES
    closed: bool = False
    """Nothing is queued any more."""
    _items: deque[str | Close] = attrs.field(factory=deque)
    _bytes: int = 0
    _filled: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot, repr=False)

    def put(self, text: str) -> bool:
        """Queue a frame; tell whether it fits, or there is nobody left to read it."""
        size = sys.getsizeof(text)
        if self.closed or self._bytes + size > self.limit:
            return False
        self._bytes += size
        self._add(text)
        return True

    def close(self, close: Close) -> None:
        """Queue the end."""
        if not self.closed:
            self.closed = True
            self._add(close)

    def clear(self) -> None:
        """Throw away what waits."""
        self._items.clear()
        self._bytes = 0

    def _add(self, item: str | Close) -> None:
        self._items.append(item)
        self._filled.unpark()

    async def take(self) -> str | Close:
        """Take the next one, once there is one."""
        while not self._items:
            await self._filled.park()
        item = self._items.popleft()
        if isinstance(item, str):
            self._bytes -= sys.getsizeof(item)
        return item

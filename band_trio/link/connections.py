"""The connections of the REST side: each is used by one request at a time, the warmest one first.

A library's pool walks over all its connections several times per request, which with thirty of
them costs more than the request; and a cancelled request can leave a slot of it lost for good.
Here taking a connection is a pop, and one whose request did not end well is closed, not kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

import attrs
import trio

IDLE_SECONDS: Final = 30.0
"""A connection that was not needed for this long is closed when the next request ends."""
CLOSE_SECONDS: Final = 1.0
"""Longest time for closing connections."""


class Closable(Protocol):
    """What can be closed; closing twice does nothing."""

    async def aclose(self) -> None: ...


T = TypeVar("T", bound=Closable)


@attrs.define(eq=False)
class Connections(Generic[T]):
    """Connections made on demand. How many there are is up to the limiters of the callers."""

    _make: Callable[[], T]
    _idle: deque[tuple[float, T]] = attrs.field(factory=deque, init=False)
    """Those that wait, with the time since when; the longest first."""

    def take(self) -> T:
        """Return the connection that was used last, or a new one, for the caller alone."""
        return self._idle.pop()[1] if self._idle else self._make()

    async def put_back(self, connection: T) -> None:
        """Keep a connection whose request has ended well; one that has not is the caller's to
        close."""
        now = trio.current_time()
        self._idle.append((now, connection))
        if self._idle[0][0] < now - IDLE_SECONDS:
            oldest = self._idle.popleft()[1]
            with trio.move_on_after(CLOSE_SECONDS, shield=True):
                await oldest.aclose()

    async def aclose(self) -> None:
        """Close what waits."""
        while self._idle:
            await self._idle.popleft()[1].aclose()

"""Limiters that the application's code of one room cannot use up.

Whoever runs that code says so with `work_of`; trio hands it on to every task and thread that the
code starts. What the runtime does by itself, as reading a room before its turn, is nobody's.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from types import TracebackType
from typing import Final

import trio

_room: Final[ContextVar[str | None]] = ContextVar("band_trio_room", default=None)


@contextmanager
def work_of(room_id: str) -> Generator[None]:
    """Count what is asked for in this block as asked for by a room's application code."""
    token = _room.set(room_id)
    try:
        yield
    finally:
        _room.reset(token)


def room_in(context: Context) -> str | None:
    """Return the room whose code runs in a context; None if it is nobody's."""
    return context.get(_room)


class FairLimiter:
    """Tokens of which the code of one room holds a third at most.

    The code of all rooms together leaves *kept* tokens to the runtime. Works with `async with`,
    and as the limiter of `trio.to_thread.run_sync`.
    """

    def __init__(self, tokens: int, *, kept: int = 0) -> None:
        self._share = max(1, tokens // 3)
        self._tokens = trio.CapacityLimiter(tokens)
        # In front of the tokens, so that neither side fills their queue and starves the other.
        self._for_rooms = trio.CapacityLimiter(max(1, tokens - kept))
        self._for_runtime = trio.CapacityLimiter(tokens)
        # Of the rooms that hold a token just now, or wait for one.
        self._rooms: dict[str, trio.CapacityLimiter] = {}
        self._held: dict[object, str | None] = {}

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        """Take a token for *borrower*, as soon as there is one that its room may have."""
        room_id = _room.get()
        taken: list[trio.CapacityLimiter] = []
        waited = False
        try:
            for limit in self._limits(room_id):
                try:
                    limit.acquire_on_behalf_of_nowait(borrower)
                except trio.WouldBlock:
                    await limit.acquire_on_behalf_of(borrower)
                    waited = True
                taken.append(limit)
            if not waited:
                await trio.lowlevel.checkpoint()
        except BaseException:
            self._give_back(room_id, taken, borrower)
            raise
        self._held[borrower] = room_id

    def release_on_behalf_of(self, borrower: object) -> None:
        """Give back the token of *borrower*."""
        room_id = self._held.pop(borrower)
        self._give_back(room_id, self._limits(room_id), borrower)

    def _limits(self, room_id: str | None) -> list[trio.CapacityLimiter]:
        if room_id is None:
            return [self._for_runtime, self._tokens]
        mine = self._rooms.get(room_id)
        if mine is None:
            mine = self._rooms[room_id] = trio.CapacityLimiter(self._share)
        return [mine, self._for_rooms, self._tokens]

    def _give_back(
        self, room_id: str | None, limits: list[trio.CapacityLimiter], borrower: object
    ) -> None:
        for limit in reversed(limits):
            limit.release_on_behalf_of(borrower)
        if room_id in self._rooms and not self._rooms[room_id].borrowed_tokens:
            del self._rooms[room_id]  # nobody waits either: a token goes to a waiter at once

    async def __aenter__(self) -> None:
        await self.acquire_on_behalf_of(trio.lowlevel.current_task())

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release_on_behalf_of(trio.lowlevel.current_task())

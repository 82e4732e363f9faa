"""Limiters that the application's code of one room cannot use up.

Whoever runs that code says so with `work_of`; trio hands it on to every task and thread that the
code starts. What the runtime does by itself, as reading a room before its turn, is nobody's.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import Context, ContextVar
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


def is_work_of_a_room() -> bool:
    """Tell whether application code is asking."""
    return _room.get() is not None


class Limiter:
    """So many tokens, first come, first served; taking a free one is no checkpoint.

    Works as the limiter of `trio.to_thread.run_sync`, which waits in any case.
    """

    def __init__(self, tokens: int) -> None:
        self._tokens = trio.CapacityLimiter(tokens)

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        """Take a token for *borrower*."""
        try:
            self._tokens.acquire_on_behalf_of_nowait(borrower)
        except trio.WouldBlock:
            await self._tokens.acquire_on_behalf_of(borrower)

    def release_on_behalf_of(self, borrower: object) -> None:
        """Give back the token of *borrower*."""
        self._tokens.release_on_behalf_of(borrower)

    @property
    def taken(self) -> float:
        """How many tokens are taken."""
        return self._tokens.borrowed_tokens


class FairLimiter(Limiter):
    """One of which the code of one room holds a third at most."""

    def __init__(self, tokens: int) -> None:
        super().__init__(tokens)
        self._share = max(1, tokens // 3)
        # Of the rooms that hold a token just now, or wait for one.
        self._rooms: dict[str, Limiter] = {}
        self._held: dict[object, str] = {}

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        """Take a token for *borrower*, as soon as there is one that its room may have."""
        room_id = _room.get()
        if room_id is None:
            await super().acquire_on_behalf_of(borrower)
            return
        mine = self._rooms.get(room_id)
        if mine is None:
            mine = self._rooms[room_id] = Limiter(self._share)
        # First, so that one room does not fill the queue of all.
        await mine.acquire_on_behalf_of(borrower)
        try:
            await super().acquire_on_behalf_of(borrower)
        except BaseException:
            self._give_back(room_id, borrower)
            raise
        self._held[borrower] = room_id

    def release_on_behalf_of(self, borrower: object) -> None:
        """Give back the token of *borrower*."""
        self._tokens.release_on_behalf_of(borrower)
        room_id = self._held.pop(borrower, None)
        if room_id is not None:
            self._give_back(room_id, borrower)

    def _give_back(self, room_id: str, borrower: object) -> None:
        mine = self._rooms[room_id]
        mine.release_on_behalf_of(borrower)
        if not mine.taken:  # nobody waits either: a token goes to a waiter at once
            del self._rooms[room_id]

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

ROOM: Final[ContextVar[str | None]] = ContextVar("band_trio_room", default=None)
"""The room whose application code runs; None for the runtime itself."""


@contextmanager
def work_of(room_id: str) -> Generator[None]:
    """Count what is asked for in this block as asked for by a room's application code."""
    token = ROOM.set(room_id)
    try:
        yield
    finally:
        ROOM.reset(token)


def room_in(context: Context) -> str | None:
    """Return the room whose code runs in a context; None if it is nobody's."""
    return context.get(ROOM)


class FairLimiter:
    """So many tokens, of which the code of one room holds a third at most.

    To be used as a `trio.CapacityLimiter`, that of `trio.to_thread.run_sync` included.
    """

    def __init__(self, tokens: int) -> None:
        self._tokens = trio.CapacityLimiter(tokens)
        self._share = max(1, tokens // 3)
        # Of the rooms that hold a token just now, or wait for one.
        self._rooms: dict[str, trio.CapacityLimiter] = {}
        self._held: dict[object, str] = {}

    def acquire_on_behalf_of_nowait(self, borrower: object) -> None:
        """Take a token for *borrower*.

        Raises:
            trio.WouldBlock: there is none that its room may have.
        """
        mine = self._mine(room_id := ROOM.get())
        if mine is not None:
            mine.acquire_on_behalf_of_nowait(borrower)
        try:
            self._tokens.acquire_on_behalf_of_nowait(borrower)
        except trio.WouldBlock:
            self._give_back(room_id, borrower)
            raise
        self._note(room_id, borrower)

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        """Take a token for *borrower*, as soon as there is one that its room may have."""
        mine = self._mine(room_id := ROOM.get())
        if mine is not None:  # first, so that one room does not fill the queue of all
            await mine.acquire_on_behalf_of(borrower)
        try:
            await self._tokens.acquire_on_behalf_of(borrower)
        except BaseException:
            self._give_back(room_id, borrower)
            raise
        self._note(room_id, borrower)

    def release_on_behalf_of(self, borrower: object) -> None:
        """Give back the token of *borrower*."""
        self._tokens.release_on_behalf_of(borrower)
        self._give_back(self._held.pop(borrower, None), borrower)

    def _mine(self, room_id: str | None) -> trio.CapacityLimiter | None:
        if room_id is None:
            return None
        mine = self._rooms.get(room_id)
        if mine is None:
            mine = self._rooms[room_id] = trio.CapacityLimiter(self._share)
        return mine

    def _note(self, room_id: str | None, borrower: object) -> None:
        if room_id is not None:
            self._held[borrower] = room_id

    def _give_back(self, room_id: str | None, borrower: object) -> None:
        if room_id is None:
            return
        mine = self._rooms[room_id]
        mine.release_on_behalf_of(borrower)
        if not mine.borrowed_tokens:  # nobody waits either: a token goes to a waiter at once
            del self._rooms[room_id]

"""Looking for a post whose answer is missing, in the context of its room.

The context holds everything that the agent has sent, oldest first (platform docs, Context). So its
end is worth knowing: there a search begins, which has no time for a whole room.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final

import attrs
import trio

from band_trio.errors import BandError
from band_trio.kit.logs import RepeatedLog
from band_trio.link.rest.pages import PageWalk
from band_trio.protocol.rest import ChatMessage, Page

_repeated: Final = RepeatedLog(logging.getLogger(__name__))

SEARCH_SECONDS: Final = 2.0
"""Longest search."""
AGAIN_SECONDS: Final = 0.5
"""A post that is not there yet is looked for again: a write may be late as its answer is."""
ROOMS: Final = 1000
"""Rooms whose end is known; beyond that the least recent one is read from its beginning."""

IsIt = Callable[[ChatMessage], bool]
"""Tell whether a row is what was posted."""
ReadContext = Callable[[str, str | None], Awaitable[Page[ChatMessage]]]
"""Read the page of a room and a cursor; None is the first one."""


@attrs.define(eq=False)
class _Room:
    cursor: str | None = None
    """Leads to the newest page that was read, or to the one behind it."""
    newest: datetime | None = None
    """When the last row of that page was written."""
    last_post: str | None = None
    """Id of the newest post whose fate is known."""


@attrs.define(eq=False)
class SentPosts:
    """What is known of the ends of rooms; of the rest of a post only who made it knows."""

    _rooms: dict[str, _Room] = attrs.field(factory=dict, init=False)
    """The least recent first."""

    def note_page(self, room_id: str, cursor: str | None, page: Page[ChatMessage]) -> None:
        """Remember where a page leads, unless a later one was read before."""
        if not page.items:
            return
        room, at = self._room(room_id), page.items[-1].inserted_at
        if room.newest is None or (at is not None and at >= room.newest):
            room.cursor, room.newest = page.next_cursor or cursor, at

    def note_post(self, room_id: str, post_id: str | None) -> None:
        """Remember a post that is in the room."""
        if post_id is not None:
            self._room(room_id).last_post = post_id

    def last_post(self, room_id: str) -> str | None:
        """Return the id of the newest post that is known to be in a room."""
        room = self._rooms.get(room_id)
        return room.last_post if room is not None else None

    def forget(self, room_id: str) -> None:
        """Forget a room that was left."""
        self._rooms.pop(room_id, None)

    def _room(self, room_id: str) -> _Room:
        room = self._rooms.pop(room_id, None)
        if room is None:
            room = _Room()
        self._rooms[room_id] = room
        if len(self._rooms) > ROOMS:
            del self._rooms[next(iter(self._rooms))]
        return room

    async def find(
        self, read: ReadContext, room_id: str, is_it: IsIt, behind: str | None
    ) -> ChatMessage | None:
        """Return the first row that *is_it*; None if none is met in `SEARCH_SECONDS`.

        *behind* is the id of a row that came before what is looked for, if that is known: what
        stands before it is something else, however alike.
        """
        with trio.move_on_after(SEARCH_SECONDS):
            while True:
                try:
                    if (row := await self._read_on(read, room_id, is_it, behind)) is not None:
                        return row
                except BandError as exc:
                    if (room := self._rooms.get(room_id)) is not None:
                        room.cursor = None  # it may be that
                    _repeated.warning("room %s: looking for a post failed: %s", room_id, exc)
                await trio.sleep(AGAIN_SECONDS)
        return None

    async def _read_on(
        self, read: ReadContext, room_id: str, is_it: IsIt, behind: str | None
    ) -> ChatMessage | None:
        room, found = self._rooms.get(room_id), None
        walk = PageWalk("a room's context", room.cursor if room is not None else None)
        while not walk.ended:
            await walk.pace()
            page = await read(room_id, walk.cursor)
            for row in page.items:
                if row.id == behind:
                    found = None
                elif found is None and is_it(row):
                    found = row
            walk.follow(page)
        return found

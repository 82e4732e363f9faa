"""All rooms of the agent, page by page, read whenever something asks for them.

Pages are counted, not anchored (platform docs, Pagination), so a room may be missed. A listing that
is not complete adds rooms, and is read again while that tells more.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Final

import attrs
import trio

from band_trio.errors import BandApiError, BandError
from band_trio.kit.backoff import half_jitter
from band_trio.kit.bell import Bell
from band_trio.kit.logs import RepeatedLog
from band_trio.kit.token_bucket import TokenBucket
from band_trio.link.rest.pages import Listed, read_numbered
from band_trio.link.rest.rest import RestClient
from band_trio.protocol.rest import ChatRoom
from band_trio.runtime.lifecycle import Lifecycle
from band_trio.trace import Read, Tracer

_repeated: Final = RepeatedLog(logging.getLogger(__name__))

LIST_PAGES: Final = 1_000
"""A platform that has more is not believed: a hundred thousand rooms. At the pace of a walk they
are read well within the patience of a start."""
LIST_BASE: Final = 0.5
LIST_CAP: Final = 30.0
"""Seconds between two tries of a listing that fails."""
LIST_BURST: Final = 3
LIST_EVERY: Final = 10.0
"""So many listings at once, then one in so many seconds, however often they are asked for."""


@attrs.frozen
class RoomListing:
    """What the platform listed."""

    rooms: dict[str, str | None]
    """id → title."""
    complete: bool
    """Whether absence from it means that the agent is not in a room."""
    newer: frozenset[str] = frozenset()
    """Rooms that pushes spoke of while it was read: they know better."""
    doubted: frozenset[str] = frozenset()
    """Rooms that the platform did not know when they were asked for before it was read."""

    def disproves(self, room_id: str) -> bool:
        """Tell whether it shows that the agent is not in a room."""
        if room_id in self.rooms or room_id in self.newer:
            return False
        return self.complete or room_id in self.doubted


async def read_rooms(rest: RestClient, *, one_try: bool = False) -> Listed[ChatRoom]:
    """Read all pages; errors of the requests come out.

    With *one_try* no request is repeated: the caller has a patience of its own.
    """
    read = partial(rest.list_chats, one_try=one_try)
    return await read_numbered("the agent's rooms", read, most=LIST_PAGES)


async def list_rooms(rest: RestClient, *, one_try: bool = False) -> RoomListing:
    """List the rooms; see `read_rooms`."""
    listed = await read_rooms(rest, one_try=one_try)
    titles = {room.id: room.title for room in listed.rows.values()}
    return RoomListing(titles, complete=listed.complete)


@attrs.define(eq=False)
class RoomLister:
    """Reads the listing when it is asked for, until it succeeds."""

    _rest: RestClient
    _lifecycle: Lifecycle
    _tracer: Tracer
    _due: bool = attrs.field(default=False, init=False)
    _bell: Bell = attrs.field(factory=Bell, init=False)
    _bucket: TokenBucket = attrs.field(
        factory=lambda: TokenBucket(1 / LIST_EVERY, LIST_BURST), init=False
    )
    _failures: int = attrs.field(default=0, init=False)
    _reconnected: bool = attrs.field(default=False, init=False)
    """Whether there is a new connection since the last try."""
    _told: float = attrs.field(default=0.0, init=False)
    """Seconds to wait before the next try, as the platform said."""
    _heard: list[set[str]] = attrs.field(factory=list, init=False)
    """Per listing that is being read: rooms that pushes spoke of meanwhile."""
    _doubted: set[str] = attrs.field(factory=set, init=False)
    _incomplete: frozenset[str] | None = attrs.field(default=None, init=False)
    """The rooms of the last listing, if that was not complete."""

    def ask(self) -> None:
        """Have the rooms listed; asking often causes one listing."""
        self._due = True
        self._bell.ring()

    def new_epoch(self) -> None:
        """There is a new connection: list at once, whatever has failed before."""
        self._reconnected = True
        self.ask()

    def doubt(self, room_id: str, *, unknown: bool) -> None:
        """A room of ours may not be read, or is *unknown*: a listing shows what is meant."""
        if unknown:
            self._doubted.add(room_id)
        self.ask()

    def heard_of(self, room_id: str) -> None:
        """A push has spoken of a room: newer than any listing that is being read."""
        self._doubted.discard(room_id)
        for heard in self._heard:
            heard.add(room_id)

    async def read(self, *, one_try: bool = False) -> RoomListing:
        """List the rooms once; errors come out.

        One that is not complete is due again, until two in a row say the same.
        """
        self._due = self._reconnected = False
        doubted, heard = frozenset(self._doubted), set[str]()
        self._heard.append(heard)
        try:
            listing = await list_rooms(self._rest, one_try=one_try)
        finally:
            self._heard = [each for each in self._heard if each is not heard]
        self._tracer(Read("", "chats"))
        self._doubted -= doubted
        before, rooms = self._incomplete, frozenset(listing.rooms)
        self._incomplete = None if listing.complete else rooms
        if not listing.complete and rooms != before:
            self.ask()
        return attrs.evolve(listing, newer=frozenset(heard), doubted=doubted)

    async def next(self) -> RoomListing | None:
        """Wait until the listing is due, and read it, for as long as that takes.

        None once admission is closed: nothing is read any more.
        """
        while True:
            while not self._due:
                await self._bell.wait()
            if self._failures:
                await self._back_off()
            await trio.sleep_until(self._bucket.reserve(trio.current_time()))
            if self._lifecycle.closing:
                return None
            try:
                listing = await self.read()
            except BandError as exc:
                self._failed(exc)
            else:
                self._failures = self._failures + 1 if self._incomplete else 0
                self._told = 0.0
                return listing

    def _failed(self, error: BandError) -> None:
        self._due = True
        self._failures += 1
        self._told = (error.retry_after if isinstance(error, BandApiError) else None) or 0.0
        _repeated.warning("listing the rooms failed, it is tried again: %s", error)

    async def _back_off(self) -> None:
        """Wait before the next try: as long as told, else until a new connection at the latest."""
        wait = half_jitter(self._failures - 1, LIST_BASE, LIST_CAP)
        due = trio.current_time() + max(wait, self._told)
        while trio.current_time() < due and (self._told or not self._reconnected):
            await self._bell.wait_until(due)

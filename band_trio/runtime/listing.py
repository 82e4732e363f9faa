"""All rooms of the agent, page by page.

Pages are counted, not anchored (platform docs, Pagination): a room that goes away while they are
read shifts the others, and one may be missed. Such a listing adds rooms but removes none.
"""

from __future__ import annotations

from typing import Final

import attrs

from band_trio.link.rest import RestClient
from band_trio.trace import Read, Tracer

TRIES: Final = 3
"""How often a listing whose pages do not fit together is read before its additions are used."""
MAX_PAGES: Final = 10_000
"""A platform that reports more is not believed: a million rooms."""


@attrs.frozen
class RoomListing:
    """What the platform listed."""

    rooms: dict[str, str | None]
    """id → title."""
    complete: bool
    """Whether absence from it means that the agent is not in a room."""


async def list_rooms(rest: RestClient, tracer: Tracer, *, one_try: bool = False) -> RoomListing:
    """Read all pages, again if they do not fit together; errors of the requests come out.

    With *one_try* no request is repeated: the caller has a patience of its own.
    """
    listing = RoomListing({}, complete=False)
    for _ in range(TRIES):
        listing = await _read_pages(rest, one_try=one_try)
        tracer(Read("", "chats"))
        if listing.complete:
            break
    return listing


async def _read_pages(rest: RestClient, *, one_try: bool) -> RoomListing:
    rooms: dict[str, str | None] = {}
    totals: set[int | None] = set()
    number, last = 1, 1
    while number <= min(last, MAX_PAGES):
        page = await rest.list_chats(number, one_try=one_try)
        rooms.update((room.id, room.title) for room in page.items)
        totals.add(page.total_count)
        last = max(1, page.total_pages)
        number += 1
    total = totals.pop() if len(totals) == 1 else -1
    return RoomListing(rooms, complete=total is None or total == len(rooms))

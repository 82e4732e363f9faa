"""The listing: all pages, and whether absence from it means anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import trio
from hypothesis import given
from hypothesis import strategies as st

from band_trio.protocol.rest import ChatRoom, Page
from band_trio.runtime.listing import RoomLister, RoomListing, list_rooms
from tests.marks import guarantee
from tests.support.for_each import for_each


class Rooms:
    """A list of rooms in counted pages that may change between two reads."""

    def __init__(self, names: list[str], page: int, total: bool = True) -> None:
        self.names = list(names)
        self.page = page
        self.total = total
        self.changes: list[Callable[[list[str]], object]] = []
        self.asked: list[int] = []

    async def list_chats(self, page: int = 1, *, one_try: bool = False) -> Page[ChatRoom]:
        await trio.lowlevel.checkpoint()
        self.asked.append(page)
        start = (page - 1) * self.page
        rows = [
            ChatRoom(name, title=name.upper()) for name in self.names[start : start + self.page]
        ]
        total = len(self.names)
        answer = Page(
            rows, page=page, total_pages=-(-total // self.page),
            total_count=total if self.total else None,
        )  # fmt: skip
        if self.changes:
            self.changes.pop(0)(self.names)
        return answer


async def listed(rooms: Rooms) -> RoomListing:
    return await list_rooms(rooms)  # type: ignore[arg-type]


@guarantee(29)
@for_each("count", [0, 1, 9, 10, 11, 35])
@for_each("total", [True, False])
async def test_all_pages_are_read_and_only_a_count_makes_them_complete(
    count: int, total: bool
) -> None:
    names = [f"r{n}" for n in range(count)]
    rooms = Rooms(names, 10, total)
    assert await listed(rooms) == RoomListing({n: n.upper() for n in names}, complete=total)
    assert rooms.asked == list(range(1, max(1, -(-count // 10)) + 1))


@guarantee(29)
async def test_pages_that_shift_are_not_complete() -> None:
    rooms = Rooms([f"r{n}" for n in range(25)], 10)
    rooms.changes = [lambda names: names.pop(0)]
    assert not (await listed(rooms)).complete
    assert (await listed(rooms)).complete


@guarantee(29)
def test_what_a_listing_disproves() -> None:
    """Absence, from all of it or of a room that was not found either, unless a push is newer."""
    whole = RoomListing({"a": None}, complete=True, newer=frozenset("b"))
    assert [whole.disproves(each) for each in "abc"] == [False, False, True]
    part = RoomListing({"a": None}, False, newer=frozenset("b"), doubted=frozenset("abc"))
    assert [part.disproves(each) for each in "abcd"] == [False, False, True, False]


@guarantee(29, 77)
async def test_a_doubt_is_over_with_the_next_listing_and_with_the_next_push() -> None:
    rooms = Rooms(["a"], 10, total=False)  # never complete
    lifecycle: Any = None  # only what waits for the next one asks it
    lister = RoomLister(cast("Any", rooms), lifecycle, lambda event: None)
    for room in ("heard of", "unknown"):
        lister.doubt(room, unknown=True)
    lister.heard_of("heard of")
    assert (await lister.read()).doubted == {"unknown"}
    assert (await lister.read()).doubted == set()


@guarantee(29)
@given(
    st.integers(0, 30),
    st.integers(1, 7),
    st.lists(
        st.sampled_from(["keep", "keep", "first goes", "last goes", "one comes"]), max_size=12
    ),
)
def test_a_complete_listing_misses_no_room_that_was_there_all_the_time(
    count: int, page: int, steps: list[str]
) -> None:
    names = [f"r{n}" for n in range(count)]
    rooms, stayed = Rooms(names, page), set(names)
    fresh = iter(range(1000, 2000))

    def change(step: str) -> Callable[[list[str]], object]:
        def act(current: list[str]) -> None:
            if step == "one comes":
                current.insert(0, f"r{next(fresh)}")
            elif step != "keep" and current:
                stayed.discard(current.pop(0 if step == "first goes" else -1))

        return act

    rooms.changes = [change(step) for step in steps]

    async def check() -> None:
        listing = await listed(rooms)
        if listing.complete:
            assert set(listing.rooms) >= stayed

    trio.run(check)

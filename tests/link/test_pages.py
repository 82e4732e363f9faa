"""The walk over pages: whatever they are, it ends, asks for none twice, and keeps its pace."""

from __future__ import annotations

import logging
import sys
from itertools import count

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from band_trio.link.rest.pages import FREE_PAGES, MAX_PAGES, PAGE_SECONDS, PageWalk
from band_trio.protocol.rest import ChatRoom, Page
from tests.marks import case, guarantee
from tests.support.for_each import for_each

MOST = 12

names = st.sampled_from("abcdefgh")


@st.composite
def pages(draw: st.DrawFn) -> Page[ChatRoom]:
    """Return a page of any kind."""
    return Page(
        [ChatRoom(each) for each in draw(st.lists(names, max_size=3))],
        next_cursor=draw(st.none() | names | st.uuids().map(str)),
        total_pages=draw(st.sampled_from([-1, 0, 1, 3, 10**12])),
        dropped=draw(st.sampled_from([0, 0, 1])),
        cut=draw(st.booleans()),
    )


@guarantee(88)
@case("C70")
@given(st.lists(pages(), min_size=MOST, max_size=MOST), st.none() | names, st.booleans())
def test_any_walk_ends_and_asks_for_no_page_twice(
    answers: list[Page[ChatRoom]], start: str | None, numbered: bool
) -> None:
    walk, asked = PageWalk("a list", start, most=MOST), list[str | int | None]()
    while not walk.ended:
        asked.append(walk.number if numbered else walk.cursor)
        page = answers[len(asked) - 1]
        if numbered:
            walk.follow_number(page)
        else:
            walk.follow(page)

    assert len(set(asked)) == len(asked) <= MOST
    last = answers[len(asked) - 1]
    at_the_end = len(asked) >= last.total_pages if numbered else last.next_cursor is None
    assert walk.complete is (at_the_end and (numbered or not last.cut))
    if not at_the_end and len(asked) < MOST and (last.items or last.dropped):
        before = answers[: len(asked) - 1]
        again = (last.items or numbered) and last.items in [page.items for page in before]
        assert again or (not numbered and last.next_cursor in asked), "nothing else ends a walk"


@guarantee(88)
@case("C70")
@for_each("length", [1, 2, 3, 40])
def test_a_cursor_that_goes_round_is_followed_once(length: int) -> None:
    walk, asked = PageWalk("a list"), 0
    while not walk.ended:
        walk.follow(Page([ChatRoom(f"r{asked}")], next_cursor=str(asked % length)))
        asked += 1
    assert (asked, walk.complete) == (length + 1, False)


@guarantee(88)
@case("C70")
def test_an_empty_page_that_claims_more_is_taken_for_the_last() -> None:
    """One whose rows cannot be read is not empty."""
    by_cursor, by_number = PageWalk("a list"), PageWalk("a list")
    by_cursor.follow(Page([], next_cursor="a", dropped=1))
    by_number.follow_number(Page([], total_pages=10**12, dropped=1))
    assert (by_cursor.ended, by_number.ended) == (False, False)
    by_cursor.follow(Page([], next_cursor="b"))
    by_number.follow_number(Page([], total_pages=10**12))
    assert (by_cursor.ended, by_cursor.complete, by_cursor.cursor) == (True, False, "a")
    assert (by_number.ended, by_number.complete, by_number.number) == (True, False, 2)


@guarantee(88)
@case("C70")
def test_numbered_pages_of_which_nothing_can_be_read_end_at_the_second() -> None:
    walk, asked = PageWalk("a list"), 0
    while not walk.ended:
        walk.follow_number(Page([], total_pages=10**12, dropped=1))
        asked += 1
    assert (asked, walk.complete) == (2, False)


@guarantee(88)
@case("C70")
def test_fresh_cursors_to_the_same_rows_lead_nowhere() -> None:
    walk, fresh = PageWalk("a list"), count()
    while not walk.ended:
        walk.follow(Page([ChatRoom("r")], next_cursor=str(next(fresh))))
    assert (next(fresh), walk.complete) == (2, False)


@guarantee(77, 88)
def test_a_walk_without_end_is_bounded_in_pages_and_memory(
    caplog: pytest.LogCaptureFixture,
) -> None:
    walk, asked = PageWalk("the list of room r1"), 0
    with caplog.at_level(logging.WARNING, "band_trio.link"):
        while not walk.ended:
            walk.follow(Page([ChatRoom(f"r{asked}")], next_cursor=f"{asked:04000}"))
            asked += 1
    assert (asked, walk.complete) == (MAX_PAGES, False)
    kept = sys.getsizeof(walk._seen) + sum(map(sys.getsizeof, walk._seen))
    assert kept < 2 * 1024 * 1024
    assert [record.getMessage() for record in caplog.records] == [
        "page 10000 of the list of room r1 is taken for its last: no more are read"
    ]


@guarantee(88)
@case("C70")
async def test_after_a_hundred_pages_a_walk_is_paced(
    autojump_clock: trio.testing.MockClock,
) -> None:
    walk = PageWalk("a list")
    began = trio.current_time()
    for number in range(FREE_PAGES + 40):
        await walk.pace()
        walk.follow(Page([ChatRoom(f"r{number}")], next_cursor=str(number)))
        if number == FREE_PAGES - 1:
            assert trio.current_time() == began
    assert trio.current_time() - began == pytest.approx(40 * PAGE_SECONDS)

    await walk.pace()
    await trio.sleep(1)  # the platform is slow
    before = trio.current_time()
    await walk.pace()
    assert trio.current_time() == before, "waiting for the answer was pace enough"

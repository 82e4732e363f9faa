"""Where the ends of rooms are: what a search for a lost post begins with."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from band_trio.errors import BandApiError
from band_trio.link.rest import sent
from band_trio.link.rest.sent import SentPosts
from band_trio.protocol.rest import ChatMessage, Page
from tests.marks import guarantee
from tests.support.for_each import for_each

_AT = datetime(2026, 1, 1, tzinfo=UTC)


def row(number: int) -> ChatMessage:
    return ChatMessage(
        f"m{number}", f"{number}", "text", "me", "Agent", inserted_at=_AT + timedelta(number)
    )


class Room:
    """Pages of a list, by a cursor that names the first row of the next page."""

    def __init__(self, rows: int, limit: int) -> None:
        self.rows, self.limit = [row(number) for number in range(rows)], limit
        self.asked: list[str | None] = []

    async def read(self, room_id: str, cursor: str | None) -> Page[ChatMessage]:
        await trio.lowlevel.checkpoint()
        self.asked.append(cursor)
        if cursor == "stale":
            raise BandApiError(422, "validation_error", "the cursor is invalid")
        start = int(cursor or 0)
        end = start + self.limit
        following = str(end) if end < len(self.rows) else None
        return Page(self.rows[start:end], following)


def noting(room: Room, posts: SentPosts) -> sent.ReadContext:
    async def read(room_id: str, cursor: str | None) -> Page[ChatMessage]:
        page = await room.read(room_id, cursor)
        posts.note_page(room_id, cursor, page)
        return page

    return read


@guarantee(83)
@for_each(
    ("behind", "wanted", "found"),
    [
        (None, {"3", "7"}, "m3"),
        ("m1", {"3", "7"}, "m3"),
        ("m3", {"3", "7"}, "m7"),
        ("m5", {"3", "7"}, "m7"),
        ("m7", {"3", "7"}, None),
        ("gone", {"3", "7"}, "m3"),
    ],
)
async def test_what_stands_before_a_known_post_is_another_one(
    behind: str | None,
    wanted: set[str],
    found: str | None,
    autojump_clock: trio.testing.MockClock,
) -> None:
    room, posts = Room(10, 4), SentPosts()
    got = await posts.find(room.read, "r", lambda each: each.content in wanted, behind)
    assert (got and got.id) == found


@guarantee(83)
async def test_a_later_look_at_the_beginning_does_not_forget_the_end(
    autojump_clock: trio.testing.MockClock,
) -> None:
    room, posts = Room(10, 4), SentPosts()
    read = noting(room, posts)
    for cursor in (None, "4", "8", None):
        await read("r", cursor)
    room.rows += [row(number) for number in range(10, 14)]
    room.asked.clear()
    found = await posts.find(read, "r", lambda each: each.content == "13", None)
    assert found is not None
    assert room.asked == ["8", "12"]


@guarantee(83)
async def test_a_cursor_that_is_refused_is_not_used_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    room, posts = Room(10, 4), SentPosts()
    posts.note_page("r", None, Page([row(3)], "stale"))
    read = noting(room, posts)
    assert await posts.find(read, "r", lambda each: each.content == "2", None) is not None
    assert room.asked == ["stale", None, "4", "8"]


@guarantee(77, 83)
@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans()), max_size=60))
def test_the_rooms_that_are_known_are_bounded_and_the_most_recent_ones(
    steps: list[tuple[str, bool]],
) -> None:
    posts, most = SentPosts(), 3
    recent: dict[str, str | None] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sent, "ROOMS", most)
        for number, (room, is_post) in enumerate(steps):
            last = recent.pop(room, None)
            recent[room] = f"{number}" if is_post else last
            recent = dict(list(recent.items())[-most:])
            if is_post:
                posts.note_post(room, f"{number}")
            else:
                posts.note_page(room, None, Page([row(number)]))
            assert {each: posts.last_post(each) for each in "abcdef"} == {
                each: recent.get(each) for each in "abcdef"
            }

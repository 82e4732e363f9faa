"""The history walk against a naive model: newest N strictly before the trigger, in list order."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from band_trio import SessionConfig
from band_trio.errors import BandApiError, BandConnectionError
from band_trio.protocol.rest import ChatMessage, Page
from band_trio.runtime.turn.briefing import Briefing
from band_trio.runtime.turn.history import HistoryWalk, SaidSince
from band_trio.tools.ledger import Ledger
from tests.marks import case, guarantee
from tests.runtime.rows import ME, row
from tests.support.for_each import for_each


class Context:
    """A room's context, oldest first, in pages by cursor; reads fail on demand."""

    def __init__(self, rows: Sequence[ChatMessage], page: int) -> None:
        self.rows = list(rows)
        self.page = page
        self.fails: list[bool] = []
        self.reads: list[str | None] = []

    async def read(self, cursor: str | None) -> Page[ChatMessage]:
        await trio.lowlevel.checkpoint()
        self.reads.append(cursor)
        if self.fails and self.fails.pop(0):
            raise BandConnectionError("cut")
        start = int(cursor or 0)
        end = start + self.page
        return Page(self.rows[start:end], str(end) if end < len(self.rows) else None)


def naive(rows: Sequence[ChatMessage], trigger: ChatMessage, size: int) -> list[str]:
    """Return what a turn should see, from the whole list."""
    ids = [each.id for each in rows]
    if trigger.id in ids:
        before = ids[: ids.index(trigger.id)]
    else:
        place = (trigger.inserted_at, trigger.id)
        before = [r.id for r in rows if (r.inserted_at, r.id) < place]
    return before[-size:]


async def load(walk: HistoryWalk, trigger: ChatMessage, context: Context) -> list[str]:
    for _ in range(len(context.fails) + 1):
        try:
            return [each.id for each in await walk.before(trigger, context.read)]
        except BandConnectionError:
            continue
    raise AssertionError("every read failed")


def rows_of(count: int) -> list[ChatMessage]:
    return [row(f"m{n:03}", n) for n in range(count)]


@guarantee(63)
@for_each("page", [1, 7, 100, 1000])
async def test_the_newest_before_the_trigger_without_gap_or_double(
    page: int, autojump_clock: trio.testing.MockClock
) -> None:
    rows = rows_of(250)
    walk, context = HistoryWalk(100), Context(rows, page)
    assert await load(walk, rows[249], context) == [f"m{n:03}" for n in range(149, 249)]


@guarantee(63)
async def test_the_walk_stops_at_the_trigger() -> None:
    rows = rows_of(50)
    context = Context(rows, 10)
    assert await load(HistoryWalk(100), rows[14], context) == [f"m{n:03}" for n in range(14)]
    assert context.reads == [None, "10"]


@guarantee(63)
@case("C37")
async def test_a_trigger_that_is_not_listed_is_cut_by_its_time() -> None:
    rows = rows_of(50)
    trigger = rows.pop(20)
    assert await load(HistoryWalk(5), trigger, Context(rows, 10)) == [
        f"m{n:03}" for n in range(15, 20)
    ]


@guarantee(64)
async def test_a_retry_of_the_trigger_reads_nothing_again() -> None:
    rows = rows_of(30)
    walk, context = HistoryWalk(100), Context(rows, 10)
    first = await load(walk, rows[25], context)
    read = len(context.reads)
    assert await load(walk, rows[25], context) == first
    assert len(context.reads) == read


async def test_a_load_that_failed_goes_on_from_the_page_it_reached() -> None:
    rows = rows_of(40)
    walk, context = HistoryWalk(100), Context(rows, 10)
    context.fails = [False, False, True]
    with pytest.raises(BandConnectionError):
        await walk.before(rows[35], context.read)
    assert [each.id for each in await walk.before(rows[35], context.read)] == [
        each.id for each in rows[:35]
    ]
    assert context.reads == [None, "10", "20", "20", "30"]


async def test_the_next_trigger_goes_on_where_the_last_one_was() -> None:
    rows = rows_of(40)
    walk, context = HistoryWalk(100), Context(rows, 10)
    await load(walk, rows[15], context)
    assert await load(walk, rows[33], context) == [each.id for each in rows[:33]]
    assert context.reads == [None, "10", "10", "20", "30"]


@guarantee(63)
async def test_a_trigger_from_before_the_last_one_sees_nothing_of_the_future() -> None:
    rows = rows_of(40)
    walk, context = HistoryWalk(5), Context(rows, 10)
    await load(walk, rows[33], context)
    assert await load(walk, rows[12], context) == [f"m{n:03}" for n in range(7, 12)]


@guarantee(63)
async def test_after_a_trigger_that_was_not_listed_there_is_no_gap() -> None:
    rows = rows_of(40)
    gone = rows.pop(5)
    walk, context = HistoryWalk(100), Context(rows, 10)
    assert await load(walk, gone, context) == [each.id for each in rows[:5]]
    assert await load(walk, rows[33], context) == [each.id for each in rows[:33]]


@guarantee(63, 88)
@case("C70")
async def test_pages_that_go_round_give_what_was_reached_and_each_load_the_same() -> None:
    rows = rows_of(6)
    pages = {None: (0, "a"), "a": (2, "b"), "b": (4, "a")}
    reads: list[str | None] = []

    async def read(cursor: str | None) -> Page[ChatMessage]:
        await trio.lowlevel.checkpoint()
        reads.append(cursor)
        start, following = pages[cursor]
        return Page(rows[start : start + 2], following)

    walk = HistoryWalk(100)
    for trigger in (row("later", 50), row("later still", 60)):
        assert await walk.before(trigger, read) == rows
        assert await walk.before(trigger, read) == rows, "a retry reads nothing"
    assert reads == [None, "a", "b"] * 2


@guarantee(64, 87)
@case("C69")
async def test_a_page_without_the_way_on_is_a_read_that_failed() -> None:
    rows = rows_of(4)
    pages = [Page(rows[:2], None, cut=True), Page(rows[:2], "2"), Page(rows[2:], None, cut=True)]

    async def read(cursor: str | None) -> Page[ChatMessage]:
        await trio.lowlevel.checkpoint()
        return pages.pop(0)

    walk = HistoryWalk(100)
    with pytest.raises(BandApiError, match="unreadable_answer: the cursor of the next page"):
        await walk.before(rows[3], read)
    assert await walk.before(rows[3], read) == rows[:3], "nothing twice, and no cursor was needed"


@st.composite
def walks(draw: st.DrawFn) -> tuple[list[ChatMessage], list[ChatMessage]]:
    """Return a list sorted by time, with ties, and triggers, some of them not in the list."""
    gaps = draw(st.lists(st.sampled_from([0, 0, 1, 5]), min_size=1, max_size=40))
    times, now = [], 0
    for gap in gaps:
        now += gap
        times.append(now)
    names = draw(st.permutations(range(len(times))))  # ids say nothing about the order
    everything = [row(f"m{n:03}", at) for n, at in zip(names, times, strict=True)]
    gone = draw(st.sets(st.sampled_from(range(len(everything))), max_size=5))
    listed = [each for n, each in enumerate(everything) if n not in gone]
    triggers = draw(st.lists(st.sampled_from(everything), min_size=1, max_size=5))
    return listed, triggers


@guarantee(63)
@given(
    walks(),
    st.integers(1, 12),
    st.integers(1, 15),
    st.lists(st.booleans(), max_size=8),
)
def test_against_the_naive_model(
    listed_and_triggers: tuple[list[ChatMessage], list[ChatMessage]],
    size: int,
    page: int,
    fails: list[bool],
) -> None:
    rows, triggers = listed_and_triggers
    walk, context = HistoryWalk(size), Context(rows, page)
    context.fails = list(fails)

    async def each_trigger() -> None:
        for trigger in triggers:
            assert await load(walk, trigger, context) == naive(rows, trigger, size)

    trio.run(each_trigger)


@guarantee(63)
@given(walks(), st.integers(1, 12), st.integers(1, 6), st.data())
def test_a_load_that_is_given_up_does_not_harm_the_next(
    listed_and_triggers: tuple[list[ChatMessage], list[ChatMessage]],
    size: int,
    page: int,
    data: st.DataObject,
) -> None:
    """The turn runs without; the next trigger, whichever it is, gets its own history."""
    rows, triggers = listed_and_triggers
    walk, context = HistoryWalk(size), Context(rows, page)

    async def each_trigger() -> None:
        for trigger in triggers:
            context.fails = data.draw(st.lists(st.booleans(), max_size=4))
            try:
                found = [each.id for each in await walk.before(trigger, context.read)]
            except BandConnectionError:
                continue
            assert found == naive(rows, trigger, size)

    trio.run(each_trigger)


# --------------------------------------------------------------------------- what was said since


def said_by(rows: Sequence[ChatMessage], trigger: ChatMessage, size: int) -> list[str]:
    """Return what we have said since, from the whole list."""
    ids = [each.id for each in rows]
    if trigger.id in ids:
        behind = rows[ids.index(trigger.id) + 1 :]
    else:
        place = (trigger.inserted_at, trigger.id)
        behind = [each for each in rows if (each.inserted_at, each.id) > place]
    return [each.id for each in behind if each.sender_id == ME][-size:]


def dialogue(count: int) -> list[ChatMessage]:
    """Return rows of which every third is ours."""
    return [row(f"m{n:03}", n, sender=ME if n % 3 == 2 else "user-1") for n in range(count)]


async def read_since(since: SaidSince, context: Context) -> list[str]:
    for _ in range(len(context.fails) + 1):
        try:
            return [each.id for each in await since.read(context.read)]
        except BandConnectionError:
            continue
    raise AssertionError("every read failed")


@guarantee(81)
async def test_what_we_said_since_begins_at_the_page_of_the_message() -> None:
    rows = dialogue(40)
    walk, context = HistoryWalk(5), Context(rows, 10)
    await load(walk, rows[15], context)
    context.reads.clear()
    since = SaidSince(rows[15], ME, 100, walk.place)
    assert await read_since(since, context) == said_by(rows, rows[15], 100)
    assert context.reads == ["10", "20", "30"]
    assert since.place == "10"


@guarantee(81)
async def test_of_very_much_the_newest_is_kept() -> None:
    rows = dialogue(40)
    since = SaidSince(rows[0], ME, 4, None)
    assert await read_since(since, Context(rows, 10)) == ["m029", "m032", "m035", "m038"]


@guarantee(81)
async def test_a_message_before_the_page_to_begin_with_is_found_all_the_same() -> None:
    rows = dialogue(40)
    since = SaidSince(rows[3], ME, 100, "20")
    context = Context(rows, 10)
    assert await read_since(since, context) == said_by(rows, rows[3], 100)
    assert context.reads == ["20", None, "10", "20", "30"]
    assert since.place is None


@guarantee(81)
async def test_a_load_that_failed_tells_how_far_it_has_come() -> None:
    rows = dialogue(40)
    context = Context(rows, 10)
    since = SaidSince(rows[25], ME, 100, None)
    context.fails = [False, False, True]
    with pytest.raises(BandConnectionError):
        await since.read(context.read)
    assert since.place == "10"
    context.fails = [True]
    dead = SaidSince(rows[25], ME, 100, "gone")
    with pytest.raises(BandConnectionError):
        await dead.read(context.read)
    assert dead.place is None


@guarantee(88)
async def test_pages_that_go_round_end_there_too() -> None:
    rows = dialogue(6)
    pages = {None: (0, "a"), "a": (3, "a")}

    async def read(cursor: str | None) -> Page[ChatMessage]:
        await trio.lowlevel.checkpoint()
        start, following = pages[cursor]
        return Page(rows[start : start + 3], following)

    found = await SaidSince(rows[0], ME, 100, None).read(read)
    assert [each.id for each in found] == ["m002", "m005"]


@guarantee(87)
async def test_a_page_without_the_way_on_fails_here_too() -> None:
    rows = dialogue(4)
    pages = [Page(rows, None, cut=True), Page(rows, None)]

    async def read(cursor: str | None) -> Page[ChatMessage]:
        await trio.lowlevel.checkpoint()
        return pages.pop(0)

    since = SaidSince(rows[0], ME, 100, None)
    with pytest.raises(BandApiError, match="the cursor of the next page"):
        await since.read(read)
    assert [each.id for each in await since.read(read)] == ["m002"]


@guarantee(81)
@given(walks(), st.data(), st.integers(1, 12), st.integers(1, 15))
def test_pages_of_the_list_against_the_naive_model(
    listed_and_triggers: tuple[list[ChatMessage], list[ChatMessage]],
    data: st.DataObject,
    size: int,
    page: int,
) -> None:
    """Whichever message, wherever the walk begins, and whatever fails on the way."""
    listed, triggers = listed_and_triggers
    ours = data.draw(st.sets(st.sampled_from(range(len(listed)))) if listed else st.just(set()))
    rows = [attrs.evolve(r, sender_id=ME) if n in ours else r for n, r in enumerate(listed)]
    context = Context(rows, page)
    place: str | None = None

    async def each_trigger() -> None:
        nonlocal place
        for trigger in triggers:
            context.fails = data.draw(st.lists(st.booleans(), max_size=4))
            since = SaidSince(trigger, ME, size, place)
            assert await read_since(since, context) == said_by(rows, trigger, size)
            place = since.place

    trio.run(each_trigger)


@guarantee(81)
async def test_each_load_of_a_room_begins_where_the_last_one_met_its_message() -> None:
    rows = dialogue(40)
    context = Context(rows, 10)

    async def get_context(room_id: str, cursor: str | None) -> Page[ChatMessage]:
        return await context.read(cursor)

    services: Any = SimpleNamespace(
        me=SimpleNamespace(id=ME), session=SessionConfig(), tracer=lambda event: None,
        rest=SimpleNamespace(get_context=get_context), hub=SimpleNamespace(room_id=None),
        app=SimpleNamespace(adapter=SimpleNamespace(features=None)),
    )  # fmt: skip
    briefing = Briefing("room", services)
    assert await briefing.load_history(rows[13]) is not None
    briefing.commit(briefing.context(Ledger(judged=False)))
    assert await briefing.load_history(rows[21]) == []
    context.reads.clear()
    for number in (21, 21, 3):
        found = await briefing.load_history(rows[number], 2)
        assert [item["id"] for item in found or ()] == said_by(rows, rows[number], 100)
    assert context.reads == ["10", "20", "30", "20", "30", "20", None, "10", "20", "30"]

"""The table of ids, the hints and the dirty flag."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from band_trio.bell import Bell
from band_trio.runtime.intake import Dirty, Intake
from band_trio.runtime.known import IdTable, Known, KnownMessage
from tests.runtime.rows import BEGAN, row

CAPACITY = {Known.RECENT: 128, Known.GIVEN_UP: 1000, Known.SET_ASIDE: 100, Known.REFUSED: 100}


def intake(capacity: int = 4) -> Intake:
    return Intake(Bell(), capacity)


# --------------------------------------------------------------------------- ids


@pytest.mark.parametrize("kind", list(Known))
def test_g22_a_kind_forgets_its_oldest_entry_and_no_other_kinds(kind: Known) -> None:
    table = IdTable()
    for other in Known:
        table.put(f"of {other}", KnownMessage(other))
    for n in range(CAPACITY[kind]):
        table.put(f"m{n}", KnownMessage(kind))

    assert table.get(f"of {kind}") is None
    assert [other for other in Known if table.get(f"of {other}") is None] == [kind]
    assert table.get("m0") is not None
    assert table.count(kind) == CAPACITY[kind]


def test_an_id_has_one_entry_whatever_becomes_of_it() -> None:
    table = IdTable()
    for kind in Known:
        table.put("m", KnownMessage(kind))
        assert [table.count(each) for each in Known] == [int(each is kind) for each in Known]


def test_ids_of_the_watermarks_instant_stay_and_go_when_it_moves_on() -> None:
    table, later = IdTable(), BEGAN + timedelta(seconds=1)
    for n in range(300):
        table.put(f"m{n}", KnownMessage(Known.RECENT, inserted_at=BEGAN), keep=BEGAN)
    assert table.count(Known.RECENT) == 300

    table.put("later", KnownMessage(Known.RECENT, inserted_at=later), keep=later)

    assert table.count(Known.RECENT) == 128
    assert table.get("later") is not None
    assert table.get("m299") is not None
    assert table.get("m0") is None


def test_one_old_id_of_the_watermarks_instant_does_not_keep_the_others() -> None:
    table = IdTable()
    table.put("newest", KnownMessage(Known.RECENT, inserted_at=BEGAN), keep=BEGAN)
    for n in range(1, 1000):
        older = BEGAN - timedelta(seconds=1000 - n)
        table.put(f"m{n}", KnownMessage(Known.RECENT, inserted_at=older), keep=BEGAN)

    assert table.get("newest") is not None
    assert table.count(Known.RECENT) == 128


def test_a_due_time_is_told_until_a_read_has_looked_for_it() -> None:
    table = IdTable()
    assert table.next_due(after=-math.inf) == math.inf
    table.put("a", KnownMessage(Known.SET_ASIDE, until=5.0))
    table.put("b", KnownMessage(Known.REFUSED, until=7.0))
    table.put("c", KnownMessage(Known.RECENT))

    assert table.next_due(after=0.0) == 5.0
    assert table.next_due(after=5.0) == 7.0
    assert table.next_due(after=7.0) == math.inf
    table.recheck_refused()
    assert table.next_due(after=5.0) == math.inf
    assert table.get("b") is None


# --------------------------------------------------------------------------- hints and the flag


async def test_hints_come_out_in_order_and_each_once() -> None:
    await trio.lowlevel.checkpoint()
    door = intake()
    for name in "abc":
        door.offer(row(name))
    assert door.waiting
    assert [hint.id for hint in iter(door.take, None)] == ["a", "b", "c"]
    assert not door.waiting


async def test_g30_a_hint_too_many_is_dropped_and_the_list_is_read_instead() -> None:
    await trio.lowlevel.checkpoint()
    door = intake(capacity=2)
    door.clear()
    door.offer(row("a"))
    door.offer(row("b"))
    before = door.dirty
    door.offer(row("c"))
    assert (before, door.dirty) == (Dirty.CLEAN, Dirty.CAUSED)
    assert [hint.id for hint in iter(door.take, None)] == ["a", "b"]


async def test_g31_marking_often_is_marking_once_and_the_stronger_cause_stays() -> None:
    await trio.lowlevel.checkpoint()
    door = intake()
    assert door.clear() is Dirty.SPECULATIVE  # a fresh room reads
    door.mark(Dirty.CAUSED)
    door.mark(Dirty.SPECULATIVE)
    assert door.clear() is Dirty.CAUSED
    assert door.clear() is Dirty.CLEAN


async def test_a_pass_notes_when_it_began(autojump_clock: trio.abc.Clock) -> None:
    door = intake()
    await trio.sleep(3)
    door.clear()
    assert door.read_at == trio.current_time()


async def test_dropping_hints_tells_whether_there_was_one() -> None:
    await trio.lowlevel.checkpoint()
    door = intake()
    assert not door.drop_hints()
    door.offer(row("a"))
    assert door.drop_hints()
    assert not door.waiting


async def test_a_hint_follows_the_watermark_or_asks_for_a_read() -> None:
    await trio.lowlevel.checkpoint()
    door = intake()
    assert not door.follows(row("any", 5))  # no watermark yet: nothing is known to be contiguous
    door.done(row("m", 5), Known.RECENT)
    assert door.follows(row("same instant", 5))
    assert door.follows(row("later", 6))
    assert not door.follows(row("earlier", 4))
    assert not door.follows(row("undated", None))


async def test_the_watermark_never_falls() -> None:
    await trio.lowlevel.checkpoint()
    door = intake()
    for at in (5, 3, None, 4):
        door.done(row(f"m{at}", at), Known.RECENT)
    assert door.watermark == BEGAN + timedelta(seconds=5)
    assert door.ids.count(Known.RECENT) == 4


async def test_stale_hints_make_way_and_those_that_may_run_stay_in_order() -> None:
    await trio.lowlevel.checkpoint()
    door = intake(capacity=5)
    for name, at in [("old", 1), ("new", 9), ("undated", None), ("newer", 10), ("oldest", 0)]:
        door.offer(row(name, at))
    door.drop_stale()  # without a watermark nothing is known to be stale
    assert door.waiting
    door.done(row("m", 5), Known.RECENT)
    door.drop_stale()
    assert [hint.id for hint in iter(door.take, None)] == ["new", "newer"]


@given(st.lists(st.sampled_from(["offer", "take", "mark", "clear"]), max_size=60))
def test_g30_every_hint_is_delivered_or_causes_a_read(steps: list[str]) -> None:
    door, given_, taken, covered = intake(3), 0, set(), -1
    for step in steps:
        if step == "offer":
            door.offer(row(str(given_)))
            given_ += 1
        elif step == "take" and (hint := door.take()) is not None:
            taken.add(int(hint.id))
        elif step == "mark":
            door.mark(Dirty.SPECULATIVE)
        elif step == "clear" and trio_free_clear(door):
            covered = given_  # a read from now on lists everything so far
    rest = {int(hint.id) for hint in iter(door.take, None)}
    lost = set(range(covered, given_)) - taken - rest if covered >= 0 else set()
    assert not lost or door.dirty


def trio_free_clear(door: Intake) -> bool:
    """`clear` outside a run, where there is no clock."""
    cause, door.dirty = door.dirty, Dirty.CLEAN
    return cause is not Dirty.CLEAN


@pytest.mark.slow
async def test_g31_c07_ten_thousand_hints_in_the_tick_of_a_poll(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The waiter's deadline and the hint come in one tick, in either order."""
    door, rounds = intake(), 10_000
    door.clear()
    taken: list[tuple[str, float]] = []
    polls = 0

    async def listen() -> None:
        nonlocal polls
        due = trio.current_time() + 1
        while len(taken) < rounds:
            hint = door.take()
            if hint is not None:
                taken.append((hint.id, trio.current_time()))
            elif trio.current_time() >= due:
                polls, due = polls + 1, due + 1
            else:
                await door.bell.wait_until(due)

    async with trio.open_nursery() as nursery:
        began = trio.current_time()
        nursery.start_soon(listen)
        for n in range(1, rounds + 1):
            await trio.sleep_until(began + n)
            door.offer(row(f"m{n}"))

    assert taken == [(f"m{n}", began + n) for n in range(1, rounds + 1)]
    assert polls in (rounds - 1, rounds)
    assert door.dirty is Dirty.CLEAN, "nobody asked for a read"

"""When a push runs at once, when the list is read instead, and which text runs."""

from __future__ import annotations

import math
from datetime import timedelta

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from band_trio.config.agent import SessionConfig
from band_trio.kit.token_bucket import TokenBucket
from band_trio.runtime.journal.answers import ClaimResult
from band_trio.runtime.journal.entries import CAPACITY, Phase
from band_trio.runtime.journal.reads import Dirty, Paced, Reads
from band_trio.runtime.journal.todo import Read, Run, Wait
from band_trio.runtime.journal.verdict import DONE
from tests.marks import case, guarantee
from tests.runtime.rows import BEGAN, row
from tests.runtime.units.journal_kit import FAILED, SESSION, Kit
from tests.support.for_each import for_each

NEW = 10.0
"""Seconds at which messages are inserted behind all that the list showed."""

# --------------------------------------------------------------------------- pushes


@guarantee(6)
def test_hints_run_in_order_and_each_once() -> None:
    kit = Kit()
    for name in "abca":
        kit.journal.pushed(row(name, NEW), kit.now)
    ran = []
    while isinstance(todo := kit.next(), Run):
        ran.append(todo.entry.id)
        kit.ends(todo.entry.row, DONE)
    assert ran == ["a", "b", "c"]


@guarantee(30)
def test_a_hint_too_many_is_dropped_and_the_list_is_read_instead() -> None:
    kit = Kit()
    for name in "abcd":
        kit.journal.pushed(row(name, NEW), kit.now)
    before = kit.dirty
    kit.journal.pushed(row("e", NEW), kit.now)
    assert (before, kit.dirty) == (Dirty.CLEAN, Dirty.CAUSED)
    assert list(kit.journal.entries.hints) == ["a", "b", "c", "d"]


@guarantee(30)
def test_more_hints_than_entries_are_never_kept() -> None:
    kit = Kit(attrs.evolve(SESSION, room_hints=10_000))
    for number in range(CAPACITY[Phase.LISTED]):
        kit.journal.pushed(row(f"{number}", NEW), kit.now)
    assert kit.dirty is Dirty.CAUSED
    assert all(entry.phase is Phase.LISTED for entry in kit.journal.entries.hints.values())


@guarantee(4)
def test_a_push_that_was_overtaken_asks_the_list_for_the_order() -> None:
    kit = Kit()
    kit.journal.pushed(row("second", NEW + 1), kit.now)
    assert kit.dirty is Dirty.CLEAN
    kit.journal.pushed(row("first", NEW), kit.now)
    assert kit.next() == Read(Dirty.CAUSED)


@guarantee(19)
def test_a_push_of_what_is_processed_is_dropped() -> None:
    kit = Kit()
    kit.journal.pushed(row("m", NEW, status="processed"), kit.now)
    assert kit.phase("m") is None
    assert kit.dirty is Dirty.CLEAN


@guarantee(5, 19)
@for_each(
    ("at", "is_new"),
    [(5, True), (6, True), (4, False), (None, False)],
    ids=["same instant", "later", "earlier", "undated"],
)
def test_a_hint_follows_the_watermark_or_asks_for_a_read(at: float | None, is_new: bool) -> None:
    kit = Kit()
    kit.ends(row("m", 5), DONE)
    kit.journal.pushed(row("n", at), kit.now)
    todo = kit.next()
    assert isinstance(todo, Run if is_new else Read)
    if not is_new:
        kit.journal.read_began(kit.now)
        assert not kit.journal.entries.hints, "it only asked for the read"


@pytest.mark.parametrize("handled", [DONE, FAILED], ids=["processed", "given up"])
def test_the_watermark_never_falls_and_follows_what_was_handled(handled: object) -> None:
    kit = Kit(attrs.evolve(SESSION, max_message_retries=1))
    for at in (5, 3, None, 4):
        kit.ends(row(f"m{at}", at), DONE if handled is DONE else FAILED)
    assert kit.journal.watermark == BEGAN + timedelta(seconds=5)


@guarantee(5)
def test_the_watermark_does_not_follow_what_waited_beside_the_order() -> None:
    kit = Kit()
    kit.claims(row("m", 50), ClaimResult.REFUSED)
    kit.now += 100
    kit.ends(row("m", 50), DONE)
    assert kit.journal.watermark == BEGAN + timedelta(seconds=1)


@guarantee(19)
def test_the_second_in_which_the_list_was_read_is_not_past() -> None:
    """The platform's clock shows whole seconds: what was handled in this one is not listed."""
    kit = Kit()
    kit.journal.pushed(row("m", 0.9), kit.now)
    assert kit.next() == Read(Dirty.CAUSED)
    other = Kit()
    other.journal.pushed(row("m", 1.0), other.now)
    assert isinstance(other.next(), Run)


@guarantee(5)
def test_without_the_platforms_clock_the_first_push_asks_the_list() -> None:
    kit = Kit()
    kit.journal.begin(kit.now, joined=True)
    kit.journal.watermark = None
    kit.journal.read_began(kit.now)
    kit.journal.read_ended(0, kit.now, None, found=False)
    kit.journal.pushed(row("m", NEW), kit.now)
    assert kit.next() == Read(Dirty.CAUSED)
    assert kit.read(row("m", NEW)) == [Run(kit.entry(row("m")))]
    kit.ends(row("m", NEW), DONE)
    assert kit.journal.watermark is not None


@case("C95")
@for_each("newer", [0, 1])
@for_each("dated", [True, False], ids=["dated", "undated"])
def test_the_newest_text_that_was_seen_runs(newer: int, dated: bool) -> None:
    """Pushed again, or listed, with another text while it waits."""
    rows = [
        attrs.evolve(row("m", NEW), content=f"{number}",
                     updated_at=BEGAN + timedelta(seconds=number == newer) if dated else None)
        for number in range(2)
    ]  # fmt: skip
    told, expected = [row("m", NEW), *rows], f"{newer}" if dated else "1"
    pushed, listed = Kit(), Kit()
    for each in told:
        pushed.journal.pushed(each, pushed.now)
    assert isinstance(todo := pushed.next(), Run)
    assert todo.entry.row.content == expected
    listed.journal.pushed(told[1], listed.now)
    assert isinstance(found := listed.listed(told[2]), Run)
    assert found.entry.row.content == expected


@case("C95")
def test_a_message_that_is_held_runs_with_the_text_it_has_by_then() -> None:
    kit = Kit()
    kit.ends(row("m"), FAILED)
    kit.journal.pushed(attrs.evolve(row("m"), content="edited"), kit.now)
    assert kit.wait_held().row.content == "edited"


@case("C95")
@for_each("result", [ClaimResult.REFUSED, ClaimResult.GONE])
def test_an_edit_that_comes_while_an_older_page_is_looked_through_is_what_runs(
    result: ClaimResult,
) -> None:
    """No row is kept of a message that was refused; a pushed edit is newer than the page."""
    kit = Kit()
    old = attrs.evolve(row("m", NEW), content="old", updated_at=BEGAN)
    kit.claims(old, result)
    kit.now += 1000
    edited = attrs.evolve(old, content="edited", updated_at=BEGAN + timedelta(seconds=1))
    kit.journal.pushed(edited, kit.now)
    assert isinstance(found := kit.listed(old), Run)
    assert found.entry.row.content == "edited"


# --------------------------------------------------------------------------- reads


@guarantee(31)
def test_asking_often_is_asking_once_and_the_stronger_cause_stays() -> None:
    kit = Kit()
    kit.journal.reads.ask(Dirty.CAUSED)
    kit.journal.reads.ask(Dirty.FIRST)
    asked = kit.dirty
    kit.journal.read_began(kit.now)
    assert (asked, kit.dirty) == (Dirty.CAUSED, Dirty.CLEAN)


@guarantee(30)
@given(st.lists(st.sampled_from(["push", "run", "read", "first"]), max_size=40))
def test_every_push_is_run_or_causes_a_read(steps: list[str]) -> None:
    kit, count, waiting = Kit(), 0, set[str]()
    for step in steps:
        if step == "push":
            kit.journal.pushed(row(f"{count}", NEW + count), kit.now)
            waiting.add(f"{count}")
            count += 1
        elif step == "run" and isinstance(todo := kit.next(), Run):
            kit.ends(todo.entry.row, DONE)
            waiting.discard(todo.entry.id)
        elif step == "read":
            kit.read()
            waiting &= kit.journal.entries.hints.keys()  # the others it would have listed
        elif step == "first":
            kit.journal.reads.ask(Dirty.FIRST)
    assert waiting <= kit.journal.entries.hints.keys() or kit.dirty


def test_a_room_waits_for_its_join_and_no_longer_than_two_seconds() -> None:
    kit = Kit()
    kit.journal.new_epoch(kit.now)
    assert kit.next() == Wait(kit.now + 2)
    kit.journal.reads.joined(kit.now)
    assert kit.next() == Read(Dirty.FIRST)


@guarantee(25)
def test_a_push_of_a_new_connection_does_not_run_before_the_read() -> None:
    kit = Kit()
    kit.journal.new_epoch(kit.now)
    kit.journal.reads.began(kit.now)  # abandoned, and nothing is dirty
    kit.journal.pushed(row("m", NEW), kit.now)
    assert kit.next() == Read(Dirty.CAUSED)


@guarantee(26)
def test_idle_reads_are_spread_then_rarer_and_frequent_again_after_work() -> None:
    session = SessionConfig(idle_resync_seconds=60, idle_resync_max_seconds=300)
    firsts = {Kit(session).journal.reads.poll.due(0) - 1000 for _ in range(20)}
    assert len(firsts) > 1
    assert all(0 <= first <= 60 for first in firsts)
    reads, waits = Kit(session).journal.reads, []
    for found in (False, False, False, False, True, False):
        reads.ended(0, 2000, found=found)
        waits.append(reads.poll.due(0) - 2000)
    ranges = [(60, 120), (120, 240), (240, 300), (300, 300), (60, 60), (60, 120)]
    for wait, (least, most) in zip(waits, ranges, strict=True):
        assert least <= wait <= most


@guarantee(32)
def test_a_room_that_polls_takes_one_place_and_keeps_it() -> None:
    bucket = TokenBucket(rate=1.0)
    poll, others = Paced(bucket), [Paced(bucket) for _ in range(3)]
    poll.set(1060)
    assert not poll.has_place(1000), "there is one when its time has come"
    for number, other in enumerate(others):
        other.set(1010)
        assert other.due(1010) == 1010 + number
    assert [poll.due(1000), poll.due(1060), poll.due(1060)] == [1060] * 3
    late = Paced(bucket)
    late.set(1050)
    assert late.has_place(1000), "no place is free by then: it need not wake to see that"
    late.hasten(1001)
    assert late.due(1055) == 1061
    reads = Reads(SESSION, late, Paced(bucket))
    reads.ended(0, 1002, found=True)
    assert late.due(1055) == 1061, "a place that was given back would be lost"
    reads.ended(0, 1061, found=True)
    assert not late.has_place(1061)


def test_next_due_is_told_until_a_read_has_looked_for_it() -> None:
    kit = Kit()
    entries = kit.journal.entries
    assert entries.next_due(-math.inf) == math.inf
    for name, until in (("a", 5.0), ("b", 7.0)):
        kit.claims(row(name), ClaimResult.REFUSED).until = until
    kit.ends(row("c"), DONE)
    assert [entries.next_due(after) for after in (0.0, 5.0, 7.0)] == [5.0, 7.0, math.inf]

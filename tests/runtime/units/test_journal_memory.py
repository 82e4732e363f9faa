"""What a journal remembers and for how long: bounds, verdicts, memberships; and all journals."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest
import trio.testing

from band_trio.runtime.journal.answers import ClaimOutcome, ClaimResult, MarkResult
from band_trio.runtime.journal.entries import CAPACITY, Entry, Phase
from band_trio.runtime.journal.reads import Dirty
from band_trio.runtime.journal.todo import Read, Run, Settle, Wait
from band_trio.runtime.journal.verdict import DONE, Verdict
from band_trio.runtime.room.journals import REMEMBERED, Journals
from tests.marks import guarantee
from tests.runtime.rows import ME, row
from tests.runtime.units.journal_kit import FAILED, SESSION, Kit, released
from tests.support.for_each import for_each

NEW = 10.0
"""Seconds at which messages are inserted behind all that the list showed."""

# --------------------------------------------------------------------------- bounds


@guarantee(22, 77)
@for_each("phase", [phase for phase in CAPACITY if phase is not Phase.ASIDE])
def test_a_phase_forgets_its_oldest_entry_and_no_other_phases(phase: Phase) -> None:
    kit = Kit(attrs.evolve(SESSION, max_message_retries=1))
    one_of_each: dict[Phase, Callable[[str], Entry]] = {
        Phase.LISTED: lambda name: kit.entry(row(name, NEW)),
        Phase.CONFIRMED: lambda name: kit.ends(row(name, NEW), DONE),
        Phase.GIVEN_UP: lambda name: kit.ends(row(name, NEW), FAILED),
        Phase.REFUSED: lambda name: kit.claims(row(name, NEW), ClaimResult.REFUSED),
        Phase.ASIDE: lambda name: kit.set_aside(row(name, NEW)),
    }
    for other, make in one_of_each.items():
        make(f"of {other}")
    for number in range(CAPACITY[phase]):
        one_of_each[phase](f"{number}")
    assert kit.phase(f"of {phase}") is None
    assert [other for other in one_of_each if kit.phase(f"of {other}") is None] == [phase]
    assert kit.phase("0") is phase
    assert kit.journal.entries.count(phase) == CAPACITY[phase]


@guarantee(14, 21)
def test_what_was_forgotten_is_not_taken_for_new() -> None:
    """Its push comes once more, and may even be as young as the watermark."""
    kit = Kit()
    for number in range(CAPACITY[Phase.CONFIRMED] + 1):
        kit.ends(row(f"{number}", NEW), DONE)
    assert kit.phase("0") is None
    kit.journal.pushed(row("0", NEW), kit.now)
    assert kit.next() == Read(Dirty.CAUSED)
    kit.read()
    kit.journal.pushed(row("new", NEW + 1), kit.now)
    assert isinstance(kit.next(), Run)


@guarantee(36)
def test_where_too_many_are_set_aside_the_next_one_holds_on() -> None:
    kit = Kit()
    for number in range(CAPACITY[Phase.ASIDE]):
        kit.set_aside(row(f"{number}"))
    kit.now = 1_000.0
    entry = kit.claims(row("m"), ClaimResult.LATER, told=5000.0)
    kit.now = entry.hold_until
    assert kit.next() == Wait(kit.journal.entries.next_due(kit.now))
    kit.now = kit.journal.entries.next_due(kit.now)
    kit.next()
    assert entry.phase is Phase.ASIDE
    assert kit.phase("0") is None, "its time had come: the list tells of it"


# --------------------------------------------------------------------------- verdicts


@guarantee(14)
@pytest.mark.parametrize("result", [MarkResult.REJECTED, MarkResult.NOT_FOUND])
def test_work_that_was_not_taken_in_is_marked_when_it_turns_up_and_not_run(
    result: MarkResult,
) -> None:
    kit = Kit()
    entry = kit.ends(row("m"), DONE, result)
    assert (entry.phase, entry.owed) == (Phase.REFUSED, True)
    assert kit.listed(row("m")) is None
    kit.now += 100
    assert kit.listed(row("m")) == Settle(entry)
    assert entry.mark is not None
    assert not entry.mark.claimed
    kit.marks(entry, MarkResult.ACCEPTED)
    assert (entry.phase, entry.owed) == (Phase.CONFIRMED, False)


@guarantee(14, 77)
def test_work_that_is_owed_is_forgotten_last() -> None:
    kit = Kit()
    kit.ends(row("owed"), DONE, MarkResult.REJECTED)
    for number in range(CAPACITY[Phase.REFUSED]):
        kit.claims(row(f"{number}"), ClaimResult.REFUSED)
    assert kit.phase("owed") is Phase.REFUSED
    for number in range(CAPACITY[Phase.REFUSED]):
        kit.ends(row(f"owed {number}"), DONE, MarkResult.REJECTED)
    assert kit.phase("owed") is None
    assert kit.journal.entries.count(Phase.REFUSED) == CAPACITY[Phase.REFUSED]


@guarantee(17)
@pytest.mark.parametrize("result", [ClaimResult.UNKNOWN, ClaimResult.REFUSED])
def test_a_message_that_was_called_off_before_its_claim_was_answered_does_not_run(
    result: ClaimResult,
) -> None:
    kit = Kit()
    entry = kit.choose(row("m"))
    kit.journal.claim_answered(entry, ClaimOutcome(result), kit.now, interrupted=True)
    assert entry.owed
    kit.now = entry.until
    todo = kit.listed(row("m")) if result is ClaimResult.REFUSED else kit.next()
    assert todo == Settle(entry)


@guarantee(13)
def test_a_verdict_waits_as_told_and_is_tried_at_once_after_a_play_or_a_new_connection() -> None:
    kit = Kit()
    entry = kit.ends(row("m"), DONE, None)
    assert kit.next() == Settle(entry)
    kit.marks(entry, MarkResult.UNCONFIRMED, told=7)
    mark = entry.mark
    assert mark is not None
    assert mark.due == kit.now + 7
    assert isinstance(kit.next(), Wait), "the settler makes the next tries"
    kit.marks(entry, MarkResult.STOPPED)
    assert mark.due >= kit.now + 60
    kit.journal.control("play", kit.now)
    assert mark.due == kit.now
    kit.marks(entry, MarkResult.BAD_TEXT, told=3)
    assert mark.plain
    kit.journal.new_epoch(kit.now)
    assert mark.due == kit.now + 3


@guarantee(11, 37)
def test_a_verdict_that_is_being_tried_elsewhere_is_not_tried_twice() -> None:
    kit = Kit()
    entry = kit.ends(row("m"), FAILED, None)
    assert entry.mark is not None
    entry.mark.kept = True
    assert isinstance(kit.next(), Wait)


# --------------------------------------------------------------------------- leaving


@guarantee(11, 14, 54)
def test_a_verdict_and_work_that_is_owed_outlive_the_membership() -> None:
    kit = Kit()
    owed = kit.ends(row("owed"), DONE, MarkResult.REJECTED)
    decided = kit.ends(row("decided"), DONE, MarkResult.UNCONFIRMED)
    kit.ends(row("failed"), FAILED, MarkResult.UNCONFIRMED)
    kit.ends(row("done"), DONE) if kit.journal.has_room else None
    kit.journal.left()
    assert {entry.id for entry in kit.journal.entries} == {"owed", "decided", "failed"}
    assert (kit.journal.held, kit.journal.watermark, kit.journal.unsettled) == (None, None, 2)
    for entry in kit.journal.entries.of(Phase.DECIDED):
        kit.marks(entry, MarkResult.ACCEPTED)
    assert list(kit.journal.entries) == [owed], "nothing of it reaches the next membership"
    assert decided.phase is None


@guarantee(14, 34)
@pytest.mark.parametrize(
    ("verdict", "phase"), [(DONE, Phase.CONFIRMED), (FAILED, Phase.ASIDE)], ids=["done", "failed"]
)
def test_a_verdict_that_is_confirmed_after_the_return_is_remembered(
    verdict: Verdict, phase: Phase
) -> None:
    """The list may have been read before it was."""
    kit = Kit()
    entry = kit.ends(row("m"), verdict, MarkResult.UNCONFIRMED)
    kit.journal.left()
    kit.journal.begin(kit.now, joined=False)
    kit.marks(entry, MarkResult.ACCEPTED)
    assert kit.phase("m") is phase
    assert kit.read(row("m", status="processing")) == [None]


@guarantee(54)
@for_each("phase", [Phase.LISTED, Phase.STOPPED, Phase.HELD, Phase.GIVEN_UP])
def test_leaving_forgets_the_rest(phase: Phase) -> None:
    kit = Kit(attrs.evolve(SESSION, max_message_retries=1 if phase is Phase.GIVEN_UP else 3))
    match phase:
        case Phase.LISTED:
            kit.journal.pushed(row("m", NEW), kit.now)
        case Phase.STOPPED:
            kit.ends(row("m"), released("stop"))
        case _:
            kit.ends(row("m"), FAILED)
    assert kit.phase("m") is phase
    kit.journal.left()
    assert list(kit.journal.entries) == []
    assert not kit.journal.entries.hints
    assert kit.journal.held is None


@guarantee(17)
def test_a_held_message_that_was_called_off_is_marked_in_the_next_membership() -> None:
    kit = Kit()
    entry = kit.choose(row("m"))
    unknown = ClaimOutcome(ClaimResult.UNKNOWN)
    kit.journal.claim_answered(entry, unknown, kit.now, interrupted=True)
    kit.journal.left()
    kit.journal.begin(kit.now, joined=False)
    assert kit.listed(row("m")) == Settle(entry)


@guarantee(45)
def test_a_child_that_broke_leaves_its_message_to_the_list() -> None:
    for claimed in (True, False):
        kit = Kit()
        entry = kit.runs(row("m")) if claimed else kit.choose(row("m"))
        kit.journal.begin(kit.now, joined=True)
        assert kit.next() == Read(Dirty.FIRST)
        assert kit.listed(row("m")) == Run(entry)
        assert kit.choose(row("m")).attempt == 1 + claimed


# --------------------------------------------------------------------------- all rooms


@guarantee(77)
async def test_controls_of_rooms_that_are_not_served_are_bounded() -> None:
    await trio.lowlevel.checkpoint()
    journals = Journals(ME, SESSION, 10.0)
    for number in range(REMEMBERED + 1):
        journals.control(f"{number}", "stop", f"c{number}")
        journals.control("1", "stop", "again")  # the most recent one is not forgotten
    assert not journals.of("0").controls.stopped
    assert journals.of("1").controls.stopped
    assert len(journals._all) <= REMEMBERED + 1


@guarantee(22, 77)
async def test_a_journal_that_is_of_no_use_goes_and_one_with_a_verdict_stays() -> None:
    await trio.lowlevel.checkpoint()
    journals = Journals(ME, SESSION, 10.0)
    empty, decided = journals.of("empty"), journals.of("decided")
    entry = decided.decided_before(row("m"), DONE, 0.0)
    for journal in (empty, decided):
        journal.left()
        journals.release(journal)
    assert journals.of("decided") is decided
    assert journals.of("empty") is not empty
    assert journals.unsettled() == 1
    for number in range(REMEMBERED + 5):
        journals.control(f"{number}", "stop", "c")
    assert journals.of("decided") is decided, "its verdict is not confirmed"
    decided.mark_answered(entry, MarkResult.ACCEPTED, 0.0)
    journals.release(decided)
    assert journals.of("decided") is not decided


@guarantee(48)
async def test_a_control_of_the_agent_is_where_the_rooms_of_the_first_listing_begin() -> None:
    await trio.lowlevel.checkpoint()
    journals = Journals(ME, SESSION, 10.0)
    journals.control_everywhere("stop", "c")
    assert journals.of("room").controls.stopped
    assert not journals.of("room").control("play", 0.0, "c"), "a copy"
    journals.listed()
    assert not journals.of("later").controls.stopped

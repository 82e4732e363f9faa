"""Which message may run, which waits, and what outcomes mean for those behind it."""

from __future__ import annotations

import math

import attrs
import pytest

from band_trio.protocol.rest import ChatMessage
from band_trio.runtime.journal.answers import ClaimOutcome, ClaimResult, MarkResult
from band_trio.runtime.journal.entries import MOVES, Entries, Entry, Move, Phase
from band_trio.runtime.journal.reads import Dirty
from band_trio.runtime.journal.todo import Probe, Run, Settle, Wait
from band_trio.runtime.journal.verdict import DONE, NOT_ACCEPTED, OFFER_BASE, OFFER_CAP, Fate
from tests.marks import guarantee
from tests.runtime.rows import ME, row
from tests.runtime.units.journal_kit import FAILED, SESSION, Kit, released
from tests.support.for_each import for_each


@guarantee(19, 23, 34)
@for_each(
    ("message", "work", "actionable", "runs"),
    [
        (row("m"), True, True, True),
        (row("m", kind="thought"), False, False, False),
        (row("m", sender=ME), False, False, False),
        (row("m", mentions=("other",)), False, False, False),
        (row("m", mentions=()), False, False, False),
        (row("m", status="processed"), True, False, False),
        (row("m", status="processing", attempts=["processing"]), True, True, True),
        (row("m", status="failed", attempts=["failed"] * 2), True, True, True),
        (row("m", status="failed", attempts=["failed"] * 3), True, True, False),
        (row("m", status="processing", attempts=["failed"] * 2 + ["processing"]), True, True, True),
        (row("m", status="failed", attempts=["success"] * 3 + ["failed"] * 2), True, True, True),
    ],
)
def test_what_is_work_and_what_may_run(
    message: ChatMessage, work: bool, actionable: bool, runs: bool
) -> None:
    kit = Kit()
    assert kit.journal.is_for_us(message) is work
    assert kit.journal.is_actionable(message) is actionable
    assert isinstance(kit.listed(message), Run) is runs
    used_up = actionable and not runs
    assert (kit.phase("m") is Phase.GIVEN_UP) is used_up  # told when that happened


@for_each("move", list(Move))
@for_each("before", [None, *Phase])
def test_a_move_that_is_not_in_the_table_is_refused(move: Move, before: Phase | None) -> None:
    entries, entry = Entries(), Entry("m")
    if before is not None:
        entries.move(entry, Move.SEE)
        entries.phases[before] = entries.phases.pop(Phase.LISTED)
        entry.phase = before
    if before in MOVES[move].before:
        entries.move(entry, move)
        assert entries.of(MOVES[move].after) == [entry]
        return
    with pytest.raises(RuntimeError, match=rf"message m is .*: it cannot {move}"):
        entries.move(entry, move)


@guarantee(21)
def test_what_is_known_does_not_run() -> None:
    kit = Kit()
    kit.ends(row("processed"), DONE)
    kit.ends(row("unsettled"), DONE, None)
    kit.claims(row("gone"), ClaimResult.GONE)
    kit.claims(row("refused"), ClaimResult.REFUSED)
    kit.ends(row("failed"), FAILED)
    for name in ("processed", "unsettled", "gone", "refused", "failed"):
        assert kit.journal.is_known(name, kit.now), name
        assert kit.listed(row(name)) is None, name
        kit.journal.pushed(row(name), kit.now)
        assert name not in kit.journal.entries.hints, name
    assert not kit.journal.is_known("new", kit.now)


@guarantee(4)
def test_a_room_with_too_many_unconfirmed_verdicts_runs_nothing_and_forgets_nothing() -> None:
    kit = Kit()
    first = kit.ends(row("a"), DONE, None)
    kit.marks(first, MarkResult.UNCONFIRMED)
    assert isinstance(kit.listed(row("m")), Run)
    second = kit.ends(row("b"), DONE, None)
    kit.marks(second, MarkResult.UNCONFIRMED)
    kit.journal.pushed(row("new"), kit.now)
    waits = kit.next(), kit.journal.free
    assert waits == (Wait(math.inf), False), "no row of the list is asked about"
    kit.marks(first, MarkResult.ACCEPTED)
    assert kit.journal.free
    assert isinstance(kit.listed(row("m")), Run)


def test_a_refused_message_may_run_when_its_time_has_come() -> None:
    kit = Kit()
    kit.claims(row("m"), ClaimResult.REFUSED)
    assert kit.journal.held is None
    due = kit.journal.entries.next_due(kit.now)
    assert due == kit.now + 100
    kit.now = due - 0.1
    assert kit.read(row("m")) == [None]
    kit.now = due
    kit.journal.pushed(row("m"), kit.now)  # not for the push's sake: the list knows
    assert not kit.journal.entries.hints
    assert isinstance(kit.listed(row("m")), Run)
    kit.read()  # a pass looks for it; it is not listed any more
    assert kit.journal.entries.next_due(kit.journal.reads.began_at) == math.inf


def test_a_new_connection_asks_for_refused_messages_again() -> None:
    kit = Kit()
    kit.claims(row("m"), ClaimResult.REFUSED)
    kit.journal.new_epoch(kit.now)
    assert kit.dirty is Dirty.FIRST
    assert isinstance(kit.listed(row("m")), Run)


# --------------------------------------------------------------------------- holding


@guarantee(36)
def test_a_failed_message_waits_for_its_back_off_and_is_given_up_at_its_budget() -> None:
    kit = Kit(attrs.evolve(SESSION, hold_seconds=1000))
    for base in (10, 20):
        entry = kit.ends(row("m"), FAILED)
        assert kit.journal.held is entry
        assert base / 2 <= kit.wait() <= base
        assert kit.journal.is_known("m", kit.now)
        assert isinstance(kit.next(), Wait)
        assert not kit.journal.chosen(entry, kit.now)
        assert kit.wait_held() is entry
        assert not kit.journal.is_known("m", kit.now), "an adapter may be offered it"
    kit.ends(row("m"), FAILED)
    assert kit.journal.held is None
    assert kit.phase("m") is Phase.GIVEN_UP


@guarantee(26, 34)
def test_an_attempt_that_was_opened_after_the_last_mark_is_marked_too() -> None:
    kit = Kit(attrs.evolve(SESSION, max_message_retries=1))
    kit.ends(row("ours"), FAILED)
    for name in ("ours", "earlier"):  # of this process, and of one before it
        late = row(name, status="processing", attempts=["failed", "processing"])
        todo = kit.listed(late)
        assert isinstance(todo, Settle), name
        assert todo.entry.mark is not None
        assert todo.entry.mark.verdict.fate is Fate.FAILED
        assert todo.entry.mark.claimed, "the platform has an attempt to settle"
        kit.journal.mark_answered(todo.entry, MarkResult.ACCEPTED, kit.now)
        assert kit.phase(name) is Phase.GIVEN_UP
        assert kit.listed(late) is None, "a list may lag behind the mark"
        kit.now += SESSION.refused_recheck_seconds
        assert isinstance(kit.listed(late), Settle), "or it was opened once more"
        kit.journal.mark_answered(todo.entry, MarkResult.REJECTED, kit.now)


@guarantee(19, 26)
def test_an_attempt_that_was_opened_after_a_success_is_marked_and_runs_nothing() -> None:
    kit = Kit()
    kit.ends(row("ours"), DONE)
    late = row("ours", status="processing", attempts=["success", "processing"])
    todo = kit.listed(late)
    assert isinstance(todo, Settle)
    assert todo.entry.mark is not None
    assert todo.entry.mark.verdict.fate is Fate.PROCESSED
    kit.journal.mark_answered(todo.entry, MarkResult.ACCEPTED, kit.now)
    assert kit.phase("ours") is Phase.CONFIRMED
    kit.now += SESSION.refused_recheck_seconds
    again = kit.listed(late)
    assert isinstance(again, Settle)
    kit.journal.mark_answered(again.entry, MarkResult.REJECTED, kit.now)
    assert kit.phase("ours") is Phase.CONFIRMED, "the list lagged behind: nothing is owed"
    earlier = row("earlier", status="processing", attempts=["success", "processing"])
    todo = kit.listed(earlier)
    assert isinstance(todo, Settle), "it was done in an earlier membership or process"
    kit.journal.pushed(attrs.evolve(earlier, id="pushed"), kit.now)
    assert "pushed" not in kit.journal.entries.hints
    assert kit.dirty, "the list tells"


@guarantee(34)
def test_the_platforms_count_and_ours_are_one_budget() -> None:
    kit = Kit()
    kit.listed(row("listed", attempts=["failed", "failed"]))
    kit.ends(row("listed"), FAILED)
    assert kit.phase("listed") is Phase.GIVEN_UP
    entry = kit.ends(row("pushed"), FAILED)
    assert entry.spent == 1
    kit.listed(row("pushed", attempts=["failed"]))
    assert entry.spent == 1, "it is the same run"
    kit.listed(row("pushed", attempts=["failed", "failed"]))
    assert entry.spent == 2


@guarantee(34)
def test_a_push_of_a_message_without_runs_left_asks_the_list() -> None:
    kit = Kit()
    kit.journal.pushed(row("m", 10, attempts=["failed"] * 3), kit.now)
    assert not kit.journal.entries.hints
    assert kit.dirty is Dirty.CAUSED


@guarantee(34, 84)
@pytest.mark.parametrize("fate", [DONE, FAILED], ids=["done", "failed"])
def test_numbers_of_attempts_decide_nothing(fate: object) -> None:
    """Attempts that are under way are none that failed."""
    kit = Kit()
    many = row("m", status="processing", attempts=["processing"] * 9)
    assert isinstance(kit.listed(many), Run)
    entry = kit.ends(many, DONE if fate is DONE else FAILED)
    assert entry.spent == (fate is FAILED)
    assert entry.phase is (Phase.CONFIRMED if fate is DONE else Phase.HELD)


def test_a_retry_waits_until_the_mark_before_it_is_final() -> None:
    kit = Kit()
    entry = kit.ends(row("m"), FAILED, None)
    assert kit.next() == Settle(entry)
    kit.marks(entry, MarkResult.UNCONFIRMED)
    kit.now += kit.wait()
    assert isinstance(kit.next(), Wait)
    kit.marks(entry, MarkResult.REJECTED)
    assert kit.next() == Run(entry)


@guarantee(27)
def test_the_time_in_which_a_message_holds_others_is_counted_over_all_its_waits() -> None:
    kit = Kit(attrs.evolve(SESSION, max_message_retries=99))
    waited, runs = 0.0, 0
    kit.ends(row("m"), FAILED)
    while (held := kit.journal.held) is not None:
        assert waited + held.hold_until - kit.now == pytest.approx(30)
        if held.until > held.hold_until:
            waited += held.hold_until - kit.now
            kit.now = held.hold_until
            kit.next()
            assert held.phase is Phase.ASIDE
        else:
            waited += kit.wait()
            kit.wait_held()
            runs += 1
            entry = kit.runs(row("m"))
            kit.now += 50  # the run itself does not count
            kit.journal.turn_ended(entry, FAILED, kit.now)
            kit.marks(entry, MarkResult.ACCEPTED)
    assert waited == pytest.approx(30)
    assert runs >= 1


@guarantee(27)
@pytest.mark.parametrize("settled", [True, False], ids=["settled", "its mark is under way"])
def test_a_message_that_was_set_aside_lets_others_run_and_holds_nobody_again(
    settled: bool,
) -> None:
    kit = Kit(attrs.evolve(SESSION, retry_base_seconds=60, hold_seconds=5, max_message_retries=9))
    entry = kit.ends(row("m"), FAILED, MarkResult.ACCEPTED if settled else MarkResult.UNCONFIRMED)
    assert isinstance(kit.next(), Wait | Settle)
    kit.now += 5
    kit.next()
    assert kit.journal.free
    assert kit.dirty is Dirty.CAUSED, "those behind it are looked for"
    if not settled:
        kit.marks(entry, MarkResult.ACCEPTED)
    assert kit.read(row("m"), row("behind")) == [None, Run(kit.entry(row("behind")))]
    kit.now = kit.journal.entries.next_due(kit.now)
    assert kit.listed(row("m")) == Run(entry)
    kit.ends(row("m"), FAILED)
    assert (entry.spent, entry.phase) == (2, Phase.ASIDE)
    assert entry.until > kit.now


@guarantee(18, 35)
@for_each("result", [ClaimResult.UNKNOWN, ClaimResult.LATER, ClaimResult.DENIED])
def test_an_unanswered_claim_is_held_by_back_off_and_told_wait_and_charged_nothing(
    result: ClaimResult,
) -> None:
    kit = Kit()
    entry = kit.entry(row("m"))
    for base, told in ((0.5, None), (1, None), (12, 12.0)):
        kit.claims(row("m"), result, told)
        assert kit.journal.held is entry
        assert (base / 2 <= kit.wait() <= base) if told is None else kit.wait() == told
        kit.wait_held()
    assert (entry.spent, entry.runs, entry.attempt) == (0, 0, 1)


@guarantee(18)
def test_the_wait_for_an_answer_is_time_at_the_head_of_the_room() -> None:
    kit = Kit()
    entry = kit.choose(row("m"))
    kit.journal.claim_answered(entry, ClaimOutcome(ClaimResult.UNKNOWN, took=10.0), kit.now)
    assert entry.hold_until == kit.now + 20


@guarantee(35)
def test_a_message_that_is_not_accepted_waits_without_limit_and_is_not_charged() -> None:
    kit = Kit()
    entry = kit.entry(row("m"))
    for cap in (OFFER_BASE, 1, 2, 4, 8, OFFER_CAP, OFFER_CAP):
        kit.ends(row("m"), released(NOT_ACCEPTED))
        assert kit.journal.held is entry
        assert entry.hold_until == math.inf
        assert cap / 2 <= kit.wait() <= cap
        kit.wait_held()
    assert entry.spent == 0
    kit.ends(row("m"), FAILED)  # its time at the head begins only now
    assert entry.hold_until == kit.now + 30


def test_waits_of_one_held_message_are_not_those_of_the_next() -> None:
    kit = Kit()
    for _ in range(3):
        kit.claims(row("a"), ClaimResult.UNKNOWN)
        kit.wait_held()
    kit.ends(row("a"), DONE)
    entry = kit.claims(row("b"), ClaimResult.UNKNOWN)
    assert entry.tries == 1
    assert entry.hold_until == kit.now + 30


# --------------------------------------------------------------------------- controls


@guarantee(35, 49)
def test_a_stopped_message_runs_first_after_the_play() -> None:
    kit = Kit()
    entry = kit.ends(row("m"), released("stop"))
    kit.journal.control("stop", kit.now)
    assert isinstance(kit.next(), Wait)
    kit.journal.control("play", kit.now)
    assert kit.next() == Run(entry)
    kit.claims(row("m"), ClaimResult.STOPPED)  # a claim that comes too early
    assert kit.next() == Run(entry)
    assert (entry.spent, kit.journal.held) == (0, None)


@guarantee(35)
@for_each("reason", ["left", "shutdown", "superseded"])
def test_other_releases_leave_the_order_to_the_list(reason: str) -> None:
    kit = Kit()
    entry = kit.ends(row("m"), released(reason))
    assert (entry.phase, entry.spent) == (Phase.LISTED, 0)
    first = Kit().claims(row("m"), ClaimResult.STOPPED)
    assert first.phase is Phase.LISTED


@guarantee(50)
def test_nothing_is_chosen_while_the_room_is_stopped() -> None:
    kit = Kit()
    entry = kit.entry(row("m"))
    kit.journal.control("stop", kit.now)
    assert not kit.journal.chosen(entry, kit.now)
    assert kit.next() == Wait(kit.now + 60)
    kit.journal.pushed(row("n", 10), kit.now)  # it may have been resumed
    assert kit.next() == Probe()
    kit.journal.reads.probed(kit.now)
    assert kit.next() == Wait(kit.now + 60)
    kit.journal.new_epoch(kit.now)
    assert kit.next() == Probe()


@guarantee(24)
def test_a_control_acts_once() -> None:
    kit = Kit()
    assert kit.journal.control("stop", kit.now, "one")
    assert kit.journal.control("play", kit.now, "two")
    assert not kit.journal.control("stop", kit.now, "one")
    assert not kit.journal.controls.stopped


# --------------------------------------------------------------------------- runs before


@guarantee(81)
@for_each(
    ("attempts", "crashes", "attempt"),
    [(None, 0, 1), (["failed"], 0, 2), (["processing"], 0, 2), (["failed", "processing"], 1, 3),
     (None, 2, 3)],
)  # fmt: skip
def test_a_run_counts_those_before_it(
    attempts: list[str] | None, crashes: int, attempt: int
) -> None:
    kit = Kit()
    kit.entry(row("m", attempts=attempts)).crashes = crashes
    assert kit.choose(row("m")).attempt == attempt


@guarantee(81)
def test_own_runs_count_and_live_attempts_of_our_own_do_not() -> None:
    kit = Kit(attrs.evolve(SESSION, max_message_retries=9))
    entry = kit.claims(row("m"), ClaimResult.UNKNOWN)  # it may have been taken in
    kit.listed(row("m", status="processing", attempts=["processing"]))
    for attempt, verdict in ((1, FAILED), (2, released("stop")), (3, FAILED)):
        if kit.journal.held is not None:
            kit.wait_held()
        kit.ends(row("m"), verdict)
        assert entry.attempt == attempt
        kit.listed(row("m", attempts=["failed", "processing"]))

"""Ends and verdicts: which end counts, and what becomes of the message."""

from __future__ import annotations

from band_trio.errors import InputNotAccepted, RoomClosingError
from band_trio.runtime.journal.judgement import ERROR_CHARS, Ending, Judgement
from band_trio.runtime.journal.verdict import Fate, Verdict
from band_trio.runtime.lifecycle import EndReason
from band_trio.runtime.turn.turn import later_end
from band_trio.tools.ledger import Ledger
from band_trio.types import TurnEffect
from tests.marks import guarantee
from tests.support.for_each import for_each

KEY = "band_a_secret_key_1234567890"


@for_each("new", list(EndReason))
def test_the_first_end_counts_whatever_it_is(new: EndReason) -> None:
    assert later_end(None, new) is new


@guarantee(41)
@for_each("before", list(EndReason))
@for_each("new", list(EndReason))
def test_the_last_interrupt_or_stop_counts_and_nothing_overrides_it(
    before: EndReason, new: EndReason
) -> None:
    deciding = {EndReason.INTERRUPT, EndReason.STOP}
    if new in deciding:
        assert later_end(before, new) is new
    elif before in deciding or before is not EndReason.TIMEOUT:
        assert later_end(before, new) is before


def turn(
    *effects: TurnEffect,
    ended_by: EndReason | None = None,
    error: BaseException | None = None,
    judged: bool = True,
    declined: bool = False,
    settled: bool = False,
    reported: bool = False,
    last: bool = False,
) -> Ending:
    ledger = Ledger(judged=judged)
    for effect in effects:
        ledger.record(effect)
    if settled:
        ledger.settle()
    if reported:
        ledger.note_reported()
    return Ending(ended_by, error, ledger, declined=declined, last=last)


def verdict(ended: Ending, *, reports: bool = True) -> Verdict:
    return Judgement((KEY,), 2.5, reports).verdict(ended)


@guarantee(67)
@for_each("effect", list(TurnEffect))
@for_each("judged", [True, False])
def test_a_turn_is_processed_exactly_when_it_did_its_work_or_is_not_judged(
    effect: TurnEffect, judged: bool
) -> None:
    ended = turn(effect, judged=judged)
    done = verdict(ended)
    works = effect is not TurnEffect.OBSERVE
    assert done.fate is (Fate.PROCESSED if works or not judged else Fate.FAILED)
    assert done.did_its_work is (works or not judged)


@guarantee(10, 67)
@for_each(
    ("ended", "fate", "reason", "text"),
    [
        (turn(), Fate.FAILED, "", "turn ended without a reply"),
        (turn(judged=False), Fate.PROCESSED, "", ""),
        (turn(settled=True), Fate.PROCESSED, "", ""),
        (turn(reported=True), Fate.PROCESSED, "", ""),
        (turn(declined=True), Fate.PROCESSED, "", ""),
        (turn(error=ValueError("no")), Fate.FAILED, "", "ValueError: no"),
        (turn(error=ValueError("no"), judged=False), Fate.FAILED, "", "ValueError: no"),
        (turn(error=ValueError("no"), reported=True), Fate.FAILED, "", "ValueError: no"),
        (turn(TurnEffect.REPLY, error=KeyError("k")), Fate.FAILED, "", "KeyError: 'k'"),
        (turn(error=InputNotAccepted("busy")), Fate.RELEASED, "not-accepted", ""),
        (turn(error=RoomClosingError("bye")), Fate.RELEASED, "not-accepted", ""),
        (
            turn(error=BaseExceptionGroup("g", [InputNotAccepted("a"), InputNotAccepted("b")])),
            Fate.RELEASED,
            "not-accepted",
            "",
        ),
        (
            turn(error=BaseExceptionGroup("g", [InputNotAccepted("a"), ValueError("b")])),
            Fate.FAILED,
            "",
            "InputNotAccepted: a; ValueError: b",
        ),
        (turn(ended_by=EndReason.INTERRUPT), Fate.PROCESSED, "", ""),
        (turn(ended_by=EndReason.INTERRUPT, error=ValueError("x")), Fate.PROCESSED, "", ""),
        (turn(TurnEffect.REPLY, ended_by=EndReason.STOP), Fate.RELEASED, "stop", ""),
        (turn(ended_by=EndReason.LEFT), Fate.RELEASED, "left", ""),
        (turn(ended_by=EndReason.SHUTDOWN), Fate.RELEASED, "shutdown", ""),
        (turn(ended_by=EndReason.SUPERSEDED), Fate.RELEASED, "superseded", ""),
        (
            turn(TurnEffect.REPLY, ended_by=EndReason.TIMEOUT),
            Fate.FAILED,
            "",
            "turn exceeded max_cycle_seconds (2.5 s)",
        ),
    ],
)
def test_the_fate_of_each_end(ended: Ending, fate: Fate, reason: str, text: str) -> None:
    done = verdict(ended)
    assert (done.fate, done.reason, done.error) == (fate, reason, text)
    if fate is Fate.FAILED:
        assert done.plain_error
    assert done.did_its_work is (fate is Fate.PROCESSED and ended.by is None and not ended.declined)


@guarantee(79)
def test_the_text_of_a_failure_is_masked_and_short() -> None:
    done = verdict(turn(error=ValueError(f"cannot use {KEY} " + "x" * 5000)))
    assert KEY not in done.error
    assert len(done.error) <= ERROR_CHARS
    assert done.plain_error == "ValueError"


@guarantee(37, 69)
@for_each("last", [True, False])
@for_each("reports", [True, False])
@for_each("reported", [True, False])
def test_the_room_is_told_of_the_last_failure_only_and_once(
    last: bool, reports: bool, reported: bool
) -> None:
    failed = turn(error=ValueError("secret words"), reported=reported, last=last)
    report = verdict(failed, reports=reports).report
    assert (report is not None) is (last and reports and not reported)
    assert report is None or "secret words" not in report.content


@guarantee(82)
def test_a_message_that_ended_the_process_is_failed_and_told_once() -> None:
    crashed = Judgement((KEY,), None, True).crashed(3)
    assert (crashed.fate, crashed.error[:6]) == (Fate.FAILED, "3 runs")
    assert crashed.report is not None
    assert Judgement((KEY,), None, False).crashed(3).report is None

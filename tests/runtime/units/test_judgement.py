"""Ends and verdicts: which end counts, and what becomes of the message."""

from __future__ import annotations

import pytest
import trio
from band_trio.runtime.record import Fate, Record

from band_trio.errors import InputNotAccepted, RoomClosingError
from band_trio.runtime.judgement import ERROR_CHARS, Judgement, did_its_work
from band_trio.runtime.lifecycle import EndReason
from band_trio.runtime.turn import ActiveTurn, later_end
from band_trio.tools.ledger import Ledger
from band_trio.types import TurnEffect
from tests.runtime.rows import row

KEY = "band_a_secret_key_1234567890"


@pytest.mark.parametrize("new", list(EndReason))
def test_the_first_end_counts_whatever_it_is(new: EndReason) -> None:
    assert later_end(None, new) is new


@pytest.mark.parametrize("before", list(EndReason))
@pytest.mark.parametrize("new", list(EndReason))
def test_g41_the_last_interrupt_or_stop_counts_and_nothing_overrides_it(
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
) -> ActiveTurn:
    ledger = Ledger(judged=judged)
    for effect in effects:
        ledger.record(effect)
    if settled:
        ledger.settle()
    if reported:
        ledger.note_reported()
    ended = ActiveTurn(row("m"), ledger)
    ended.ended_by, ended.error, ended.declined = ended_by, error, declined
    return ended


def record(ended: ActiveTurn) -> Record:
    return Judgement((KEY,), 2.5).record(ended, "room")


@pytest.mark.parametrize("effect", list(TurnEffect))
@pytest.mark.parametrize("judged", [True, False])
def test_g67_a_turn_is_processed_exactly_when_it_did_its_work_or_is_not_judged(
    effect: TurnEffect, judged: bool
) -> None:
    ended = turn(effect, judged=judged)
    done = record(ended)
    works = effect is not TurnEffect.OBSERVE
    assert done.fate is (Fate.PROCESSED if works or not judged else Fate.FAILED)
    assert did_its_work(ended, done) is (works or not judged)


@pytest.mark.parametrize(
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
def test_g10_g67_the_fate_of_each_end(
    ended: ActiveTurn, fate: Fate, reason: str, text: str
) -> None:
    done = record(ended)
    assert (done.fate, done.reason, done.error) == (fate, reason, text)
    assert (done.room_id, done.message_id) == ("room", "m")
    if fate is Fate.FAILED:
        assert done.plain_error
    assert did_its_work(ended, done) is (
        fate is Fate.PROCESSED and ended.ended_by is None and not ended.declined
    )


def test_g79_the_text_of_a_failure_is_masked_and_short() -> None:
    done = record(turn(error=ValueError(f"cannot use {KEY} " + "x" * 5000)))
    assert KEY not in done.error
    assert len(done.error) <= ERROR_CHARS
    assert done.plain_error == "ValueError"


async def test_a_claim_in_flight_is_left_to_its_answer_by_controls_only() -> None:
    await trio.lowlevel.checkpoint()
    for reason in EndReason:
        ended = turn()
        ended.end(reason)
        controls = reason in (EndReason.INTERRUPT, EndReason.STOP)
        assert ended.scope.cancel_called is not controls
        ended.claim_answered()
        ended.end(EndReason.STOP)
        assert ended.scope.cancel_called


async def test_g44_a_lone_leaf_is_unwrapped_and_cancellation_is_no_error() -> None:
    ended = turn()

    async def two() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            raise ValueError("mine")

    await ended.run(two)
    assert isinstance(ended.error, ValueError)
    assert ended.how == "raised"
    assert ended.ledger.closed

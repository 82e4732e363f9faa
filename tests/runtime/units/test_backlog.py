"""Which message may run, which waits, and what outcomes mean for those behind it."""

from __future__ import annotations

import math

import attrs
import pytest
import trio

from band_trio.bell import Bell
from band_trio.config import SessionConfig
from band_trio.protocol.rest import ChatMessage
from band_trio.runtime.backlog import Backlog, Cause
from band_trio.runtime.claim import ClaimOutcome, ClaimResult
from band_trio.runtime.cycle import CycleEnd
from band_trio.runtime.done import DoneMessages
from band_trio.runtime.intake import Dirty, Intake
from band_trio.runtime.known import Known
from band_trio.runtime.record import Fate, Record
from band_trio.trace import GivenUp, TraceEvent, Tracer
from tests.runtime.rows import ME, row

SESSION = SessionConfig(
    max_message_retries=3, retry_base_seconds=10, retry_cap_seconds=60, hold_seconds=30,
    refused_recheck_seconds=100, room_unsettled=2,
)  # fmt: skip


@attrs.define
class Box:
    """As much of an outbox as a backlog looks at."""

    ids: set[str] = attrs.field(factory=set)
    done: DoneMessages = attrs.field(factory=DoneMessages)

    def holds(self, room_id: str, message_id: str) -> bool:
        return message_id in self.ids

    def unsettled(self, room_id: str) -> int:
        return len(self.ids)


@attrs.define
class Kit:
    """A backlog with its surroundings."""

    session: SessionConfig = SESSION
    box: Box = attrs.field(factory=Box)
    seen: list[TraceEvent] = attrs.field(factory=list)
    intake: Intake = attrs.field(init=False)
    backlog: Backlog = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.intake = Intake(Bell(), 10)
        self.backlog = Backlog(
            "room", ME, self.session, self.intake,
            self.box,  # type: ignore[arg-type]
            Tracer(self.seen.append),
        )  # fmt: skip
        self.intake.clear()

    def ends(self, message: ChatMessage, fate: Fate, reason: str = "") -> None:
        record = Record("room", message.id, fate, reason, error="e")
        self.backlog.after(message, CycleEnd(ClaimOutcome(ClaimResult.CLAIMED), record))

    def claim(self, message: ChatMessage, result: ClaimResult, told: float | None = None) -> None:
        self.backlog.after(message, CycleEnd(ClaimOutcome(result, retry_after=told)))

    def wait(self) -> float:
        assert self.backlog.held is not None
        return self.backlog.held.due - trio.current_time()

    def limit(self) -> float:
        assert self.backlog.held is not None
        return self.backlog.held.limit

    async def run_held(self) -> ChatMessage:
        """Wait for the held message's time and take it."""
        await trio.sleep(self.wait())
        message = self.backlog.take_due()
        assert message is not None
        assert self.backlog.held is None
        return message


@pytest.mark.parametrize(
    ("message", "work", "actionable", "runnable"),
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
        (
            row("m", status="processing", attempts=["failed", "failed", "processing"]),
            True,
            True,
            True,
        ),
        (row("m", status="failed", attempts=["success"] * 3 + ["failed"] * 2), True, True, True),
    ],
)
async def test_g19_g23_g34_what_is_work_and_what_may_run(
    message: ChatMessage, work: bool, actionable: bool, runnable: bool
) -> None:
    await trio.lowlevel.checkpoint()
    kit = Kit()
    assert kit.backlog.is_for_us(message) is work
    assert kit.backlog.is_actionable(message) is actionable
    assert kit.backlog.is_runnable(message) is runnable
    used_up = actionable and not runnable
    assert kit.intake.ids.count(Known.GIVEN_UP) == used_up
    assert kit.seen == []  # noted in silence: it was told when that happened


async def test_g21_what_is_known_does_not_run(autojump_clock: trio.abc.Clock) -> None:
    await trio.lowlevel.checkpoint()
    kit = Kit()
    for fate in (Fate.PROCESSED, Fate.FAILED):
        kit.ends(row(fate.value), fate)
    kit.claim(row("gone"), ClaimResult.GONE)
    kit.claim(row("refused"), ClaimResult.REFUSED)
    kit.box.ids.add("unsettled")
    for name in ("processed", "failed", "gone", "refused", "unsettled"):
        assert kit.backlog.is_known(name), name
        assert not kit.backlog.is_runnable(row(name)), name
    assert not kit.backlog.is_known("new")


async def test_a_room_with_too_many_unconfirmed_records_runs_nothing() -> None:
    await trio.lowlevel.checkpoint()
    kit = Kit()
    kit.box.ids.add("a")
    assert kit.backlog.is_runnable(row("m"))
    kit.box.ids.add("b")
    assert not kit.backlog.is_runnable(row("m"))
    assert kit.intake.ids.get("m") is None


async def test_a_refused_message_may_run_when_its_time_has_come(
    autojump_clock: trio.abc.Clock,
) -> None:
    kit = Kit()
    kit.claim(row("m"), ClaimResult.REFUSED)
    assert kit.backlog.held is None
    due = kit.backlog.next_due()
    assert due == trio.current_time() + 100
    await trio.sleep(99.9)
    assert not kit.backlog.is_runnable(row("m"))
    await trio.sleep(0.1)
    assert kit.backlog.is_runnable(row("m"))
    assert kit.backlog.next_due() == due
    kit.intake.clear()  # a pass looks for it; it is not listed any more
    assert kit.backlog.next_due() == math.inf


# --------------------------------------------------------------------------- holding


async def test_g36_a_failed_message_waits_for_its_back_off_and_is_given_up_at_its_budget(
    autojump_clock: trio.abc.Clock,
) -> None:
    kit, message = Kit(attrs.evolve(SESSION, hold_seconds=1000)), row("m")
    for base in (10, 20):
        kit.ends(message, Fate.FAILED)
        assert base / 2 <= kit.wait() <= base
        assert kit.backlog.is_known("m")
        assert kit.backlog.take_due() is None
        assert await kit.run_held() is message
    kit.ends(message, Fate.FAILED)
    assert kit.backlog.held is None
    assert kit.seen == [GivenUp("room", "m")]
    assert kit.intake.ids.count(Known.GIVEN_UP) == 1


async def test_g34_the_platforms_count_and_ours_are_one_budget(
    autojump_clock: trio.abc.Clock,
) -> None:
    kit = Kit()
    kit.ends(row("listed", attempts=["failed", "failed"]), Fate.FAILED)
    assert kit.seen == [GivenUp("room", "listed")]
    kit.ends(row("pushed"), Fate.FAILED)
    assert kit.backlog.spent(row("pushed")) == 1
    await kit.run_held()
    assert kit.backlog.spent(row("pushed")) == 1
    assert kit.backlog.spent(row("pushed", attempts=["failed", "failed"])) == 2


async def test_a_retry_waits_until_the_mark_before_it_is_final(
    autojump_clock: trio.abc.Clock,
) -> None:
    kit = Kit()
    kit.ends(row("m"), Fate.FAILED)
    kit.box.ids.add("m")
    await trio.sleep(kit.wait())
    assert kit.backlog.take_due() is None
    kit.box.ids.clear()
    assert kit.backlog.take_due() is not None


async def test_g27_the_time_in_which_a_message_holds_others_is_counted_over_all_its_waits(
    autojump_clock: trio.abc.Clock,
) -> None:
    kit, message = Kit(attrs.evolve(SESSION, max_message_retries=99)), row("m")
    waited, runs = 0.0, 0
    kit.ends(message, Fate.FAILED)
    while kit.backlog.held is not None:
        limit = kit.backlog.held.limit
        assert waited + (limit - trio.current_time()) == pytest.approx(30)
        if kit.backlog.held.due > limit:
            waited += limit - trio.current_time()
            await trio.sleep_until(limit)
            assert kit.backlog.set_aside_late()
        else:
            waited += kit.wait()
            await kit.run_held()
            runs += 1
            await trio.sleep(50)  # the run itself does not count
            kit.ends(message, Fate.FAILED)
    assert waited == pytest.approx(30)
    assert runs >= 1


async def test_a_message_that_was_set_aside_lets_others_run_and_holds_nobody_again(
    autojump_clock: trio.abc.Clock,
) -> None:
    kit = Kit(attrs.evolve(SESSION, retry_base_seconds=60, hold_seconds=5, max_message_retries=9))
    kit.ends(row("m"), Fate.FAILED)
    assert not kit.backlog.set_aside_late()
    await trio.sleep(5)
    assert kit.backlog.set_aside_late()
    assert kit.intake.dirty is Dirty.CAUSED  # those behind it are looked for
    assert not kit.backlog.is_runnable(row("m"))
    assert kit.backlog.is_runnable(row("behind"))
    await trio.sleep_until(kit.backlog.next_due())
    assert kit.backlog.is_runnable(row("m"))
    assert kit.backlog.spent(row("m")) == 1
    kit.ends(row("m"), Fate.FAILED)
    assert kit.backlog.held is None
    assert kit.backlog.spent(row("m")) == 2
    assert kit.backlog.next_due() > trio.current_time()


@pytest.mark.parametrize("result", [ClaimResult.UNKNOWN, ClaimResult.LATER, ClaimResult.DENIED])
async def test_g18_an_unanswered_claim_is_held_by_back_off_and_told_wait_and_charged_nothing(
    result: ClaimResult, autojump_clock: trio.abc.Clock
) -> None:
    kit, message = Kit(), row("m")
    kit.claim(message, result)
    assert kit.backlog.held is not None
    assert kit.backlog.held.cause is Cause.UNCLAIMED
    assert 0.25 <= kit.wait() <= 0.5
    await kit.run_held()
    kit.claim(message, result)
    assert 0.5 <= kit.wait() <= 1
    await kit.run_held()
    kit.claim(message, result, told=12)
    assert kit.wait() == 12
    assert kit.backlog.spent(message) == 0


async def test_a_message_that_is_not_accepted_waits_without_limit(
    autojump_clock: trio.abc.Clock,
) -> None:
    kit, message = Kit(), row("m")
    for cap in (0.5, 1, 2, 4, 8, 10, 10):
        kit.ends(message, Fate.RELEASED, "not-accepted")
        assert kit.backlog.held is not None
        assert kit.backlog.held.limit == math.inf
        assert cap / 2 <= kit.wait() <= cap
        await kit.run_held()
    assert kit.backlog.spent(message) == 0
    kit.ends(message, Fate.FAILED)  # its time at the head begins only now
    assert kit.limit() == trio.current_time() + 30


async def test_g49_a_stopped_message_is_the_one_to_resume() -> None:
    await trio.lowlevel.checkpoint()
    message, ended, claimed = row("m"), Kit(), Kit()
    ended.ends(message, Fate.RELEASED, "stop")
    assert ended.backlog.resume is message
    claimed.claim(message, ClaimResult.STOPPED)
    assert claimed.backlog.resume is None  # the list serves it, in order
    assert ended.backlog.held is claimed.backlog.held is None
    for reason in ("left", "shutdown", "superseded"):
        other = Kit()
        other.ends(message, Fate.RELEASED, reason)
        assert other.backlog.resume is None


async def test_counts_of_one_held_message_are_not_those_of_the_next(
    autojump_clock: trio.abc.Clock,
) -> None:
    kit = Kit()
    for _ in range(3):
        kit.claim(row("a"), ClaimResult.UNKNOWN)
        await kit.run_held()
    kit.ends(row("a"), Fate.PROCESSED)
    kit.claim(row("b"), ClaimResult.UNKNOWN)
    assert kit.backlog.held is not None
    assert kit.backlog.held.tries == 1
    assert kit.backlog.held.limit == trio.current_time() + 30


async def test_g34_a_message_whose_budget_was_used_up_before_is_given_up_in_silence() -> None:
    await trio.lowlevel.checkpoint()
    kit = Kit()
    record = Record("room", "m", Fate.FAILED, error="given up before")
    end = CycleEnd(ClaimOutcome(ClaimResult.CLAIMED, 4), record, decided_before=True)
    kit.backlog.after(row("m"), end)
    assert kit.backlog.held is None
    assert kit.intake.ids.count(Known.GIVEN_UP) == 1
    assert kit.seen == []

"""Failed runs: budget, back-off, holding, setting aside, giving up, across restarts."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from band_trio import BandConfigError, InputNotAccepted, SessionConfig
from band_trio.runtime.journal import entries
from band_trio.trace import Claimed, GivenUp, Read, Recorded, Started
from tests.marks import case, guarantee
from tests.runtime.harness import Call, Stage, reply, stage
from tests.support.for_each import for_each

THREE = SessionConfig(max_message_retries=3, retry_base_seconds=4, hold_seconds=60)


async def fail(call: Call) -> None:  # noqa: ASYNC124 - a behaviour is async
    raise ValueError("no")


def starts(here: Stage, message_id: str) -> list[float]:
    """Return when the handler was started for a message."""
    return [
        when
        for when, event in here.trace
        if isinstance(event, Started) and event.message_id == message_id
    ]


async def errors_in(here: Stage, room: str) -> list[str]:
    rows = await here.band.user.messages(room)
    return [row["content"] for row in rows if row["message_type"] == "error"]


@guarantee(34)
@for_each("budget", [1, 2, 4])
async def test_a_message_is_run_to_failure_as_often_as_the_budget_says(
    budget: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage(fail) as here:
        room = await here.room()
        async with here.running(SessionConfig(max_message_retries=budget)):
            message = await here.say(room, "bad")
            await trio.sleep(1000)

        assert here.adapter.texts == ["bad"] * budget
        assert here.band.attempts(message, here.account) == ["failed"] * budget
        assert [event.message_id for event in here.seen(GivenUp)] == [message]
        assert len(await errors_in(here, room)) == 1


@guarantee(34)
async def test_a_restart_neither_runs_nor_reports_a_given_up_message_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(fail) as here:
        room = await here.room()
        async with here.running():
            bad = await here.say(room, "bad")
            await here.settled(bad, state="failed")
        here.adapter.behaviour = reply
        async with here.running():
            good = await here.say(room, "good")
            await here.settled(good)
            await trio.sleep(300)

        assert here.adapter.texts == ["bad", "good"]
        assert here.band.state(bad, here.account) == "failed"
        assert len(await errors_in(here, room)) == 1


@guarantee(34)
async def test_the_budget_is_counted_across_restarts(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(fail) as here:
        room = await here.room()
        message = await here.say(room, "bad")
        for _ in range(3):
            async with here.running(SessionConfig(max_message_retries=2, retry_base_seconds=30)):
                await trio.sleep(3)

        assert here.adapter.texts == ["bad", "bad"]
        assert here.band.attempts(message, here.account) == ["failed", "failed"]


@guarantee(36)
@case("C13")
async def test_runs_of_one_message_are_the_back_off_apart(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(fail) as here:
        room = await here.room()
        async with here.running(THREE):
            message = await here.say(room, "bad")
            await trio.sleep(100)
        first, second, third = starts(here, message)

        assert 2 <= second - first <= 4.1
        assert 4 <= third - second <= 8.1


@guarantee(27)
@case("C13")
async def test_a_failing_message_delays_its_room_until_it_is_given_up_and_others_not_at_all(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room, other = await here.room(), await here.room()
        here.adapter.on("bad")(fail)
        async with here.running(THREE):
            bad = await here.say(room, "bad")
            after = await here.say(room, "after")
            elsewhere = await here.say(other, "elsewhere")
            began = trio.current_time()
            await here.settled(elsewhere)
            assert trio.current_time() - began < 0.1
            await here.settled(after)

        assert len(starts(here, bad)) == 3
        assert starts(here, after)[0] >= starts(here, bad)[2]
        assert [call.text for call in here.adapter.calls if call.room_id == room] == [
            "bad", "bad", "bad", "after",
        ]  # fmt: skip


@guarantee(36)
async def test_after_the_hold_later_messages_run_and_the_set_aside_one_still_gets_its_run(
    autojump_clock: trio.testing.MockClock,
) -> None:
    patient = SessionConfig(
        max_message_retries=2, retry_base_seconds=100, retry_cap_seconds=100, hold_seconds=10
    )
    async with stage() as here:
        room = await here.room()
        here.adapter.on("bad")(fail)
        async with here.running(patient):
            bad = await here.say(room, "bad")
            after = await here.say(room, "after")
            began = trio.current_time()
            await here.settled(after)
            assert 10 <= trio.current_time() - began < 10.5
            await trio.sleep(200)

        first, second = starts(here, bad)
        assert 50 <= second - first <= 101
        assert here.adapter.texts == ["bad", "after", "bad"]


@guarantee(36)
async def test_more_messages_than_can_be_set_aside_are_held_and_keep_their_back_off(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(entries.CAPACITY, entries.Phase.ASIDE, 5)
    session = SessionConfig(
        max_message_retries=3, retry_base_seconds=1000, retry_cap_seconds=1000, hold_seconds=0.1
    )
    async with stage(fail) as here:
        room = await here.room()
        messages = [await here.say(room, f"{number}") for number in range(9)]
        async with here.running(session):
            await trio.sleep(400)
            assert [len(starts(here, each)) for each in messages] == [1] * 6 + [0] * 3
            await trio.sleep(6000)

        for message in messages:
            first, second, third = starts(here, message)
            assert min(second - first, third - second) >= 500


@guarantee(35)
async def test_released_and_interrupted_runs_are_not_charged(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()

        async def third_time_lucky(call: Call) -> None:
            if len(here.adapter.calls) < 3:
                await trio.sleep_forever()
            await reply(call)

        here.adapter.behaviour = third_time_lucky
        message = await here.say(room, "work")
        for _ in range(2):
            async with here.running(grace=0):
                await here.adapter.until_running()
        async with here.running():
            await here.settled(message)

        assert here.band.attempts(message, here.account) == ["success"]
        assert [event.kind for event in here.seen(Recorded)] == [
            "released:shutdown", "released:shutdown", "processed",
        ]  # fmt: skip


async def test_not_accepted_input_is_offered_again_with_back_off_and_never_charged(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()

        async def busy_at_first(call: Call) -> None:
            if len(here.adapter.calls) <= 6:
                raise InputNotAccepted
            await reply(call)

        here.adapter.behaviour = busy_at_first
        async with here.running():
            message = await here.say(room, "work")
            later = await here.say(room, "later")
            await here.settled(message, later)

        assert here.adapter.texts == ["work"] * 7 + ["later"]
        assert here.band.attempts(message, here.account) == ["success"]
        gaps = [
            b - a for a, b in zip(starts(here, message), starts(here, message)[1:], strict=False)
        ]
        assert all(0.25 <= gap <= 10.1 for gap in gaps)
        assert gaps[-1] > gaps[0]


@guarantee(38)
def test_a_budget_below_one_is_refused() -> None:
    with pytest.raises(BandConfigError, match="max_message_retries"):
        SessionConfig(max_message_retries=0)


@guarantee(18)
async def test_an_unanswered_claim_blocks_its_room_no_longer_than_the_hold(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running(SessionConfig(hold_seconds=20)):
            await trio.sleep(1)
            broken = here.band.faults.refuse(500, route="processing", times=None)
            stuck = await here.say(room, "stuck")
            await trio.sleep(1)
            broken.lift()
            here.band.faults.refuse(500, route="processing", times=None, message=stuck)
            after = await here.say(room, "after")
            began = trio.current_time()
            await here.settled(after)
            assert trio.current_time() - began < 21
            here.band.faults.clear()
            await here.settled(stuck)

        assert here.adapter.texts == ["after", "stuck"]


@guarantee(18)
async def test_claims_of_a_set_aside_message_that_hang_become_rare(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running(SessionConfig(hold_seconds=20)):
            await here.settled(await here.say(room, "before"))
            stuck = await here.say(room, "stuck")
            hangs = here.band.faults.hang(
                route="processing", commit=False, times=None, message=stuck
            )
            began = trio.current_time()
            await here.settled(await here.say(room, "after"))
            assert trio.current_time() - began <= 21  # the claims count too
            await trio.sleep(300)
            waits = []
            for number in range(100):
                began = trio.current_time()
                await here.settled(await here.say(room, f"{number}"))
                waits.append(trio.current_time() - began)
                await trio.sleep(7)
            assert sum(wait > 0.5 for wait in waits) <= 20
            hangs.lift()
            began = trio.current_time()
            await here.settled(stuck)
            assert trio.current_time() - began <= 120  # as long as an idle room waits


@guarantee(18)
@for_each(
    ("status", "answer"), [(409, "refused"), (422, "refused"), (403, "refused"), (404, "gone")]
)
async def test_a_definite_refusal_of_a_claim_does_not_block(
    status: int, answer: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running():
            await trio.sleep(1)
            here.band.faults.refuse(status, route="processing")
            refused = await here.say(room, "refused")
            after = await here.say(room, "after")
            began = trio.current_time()
            await here.settled(after)

            assert trio.current_time() - began < 0.5
            assert here.adapter.texts == ["after"]
            assert here.seen(Claimed)[0].answer == answer
            assert here.band.attempts(refused, here.account) == []
            if answer == "refused":
                await trio.sleep(1000)
                assert here.band.state(refused, here.account) == "processed"


@guarantee(1)
@case("C01")
async def test_one_bad_message_does_not_starve_its_room(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        here.adapter.on("bad")(fail)
        async with here.running(
            SessionConfig(idle_resync_seconds=1e7, idle_resync_max_seconds=1e7)
        ):
            bad = await here.say(room, "bad")
            await here.settled(bad, state="failed")
            here.band.faults.suppress(event="message_created", times=None)
            here.band.cut(here.account)
            later = [await here.say(room, "m2"), await here.say(room, "m3")]
            cut, before = trio.current_time(), len(here.band.log.requests("messages"))
            await here.settled(*later)
            await trio.sleep(5)
            assert trio.current_time() - cut < 10
            # One pass after the reconnect, and one after the join of the room's topic.
            assert len(here.band.log.requests("messages")) - before <= 3
            quiet = len(here.band.log.requests())
            await trio.sleep(1000)

            assert len(here.band.log.requests()) == quiet, "no read before the poll is due"
        assert here.adapter.texts == ["bad", "m2", "m3"]


@guarantee(31)
@case("C01")
async def test_after_a_pass_nothing_is_read_before_the_poll(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def fails(call: Call) -> None:
        await trio.lowlevel.checkpoint()
        raise ValueError("no")

    async with stage(fails) as here:
        room = await here.room()
        config = SessionConfig(idle_resync_seconds=100, idle_resync_max_seconds=200)
        async with here.running(config):
            await here.settled(await here.say(room, "bad"), state="failed")
            await trio.sleep(1000)
            reads = [e for e in here.seen(Read) if e.room_id == room and e.kind == "messages"]
            assert len(reads) <= 13, "it spins on the message that was given up"

"""Stopping: by one deadline, nothing new, and everything served again."""

from __future__ import annotations

import pytest
import trio
import trio.lowlevel
import trio.testing

from band_trio import SessionConfig, ShutdownReport
from band_trio.errors import TurnClosedError
from band_trio.localband.records import SocketRecord
from band_trio.trace import (
    Claimed,
    Ended,
    EpochBegan,
    Read,
    Recorded,
    RoomServed,
    ShutDown,
    Started,
)
from tests.marks import case, guarantee
from tests.runtime.harness import Behaviour, Call, reply
from tests.runtime.lifecycle_kit import (
    OVERHEAD,
    lasting,
    life,
    stopped,
)
from tests.runtime.views import hang
from tests.support.for_each import for_each


def working(seconds: float) -> Behaviour:
    async def work(call: Call) -> None:
        await trio.sleep(seconds)
        await reply(call)

    return work


# ------------------------------------------------------------------ the deadline


@guarantee(51)
async def test_an_idle_agent_stops_at_once(autojump_clock: trio.testing.MockClock) -> None:
    async with life() as here:
        for _ in range(5):
            await here.room()
        report = await stopped(here, here.agent(), grace=30)
        assert report == ShutdownReport(
            graceful=True, turns_finished=0, turns_cancelled=0, settles_pending=0,
            cleanup_errors=(), duration=0.0,
        )  # fmt: skip


@guarantee(35, 51, 52, 53)
@case("C50")
async def test_turns_of_all_rooms_are_cut_off_together_and_served_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life(hang) as here:
        rooms = [await here.room() for _ in range(20)]
        messages = [await here.say(room, f"m{n}") for n, room in enumerate(rooms)]
        report = await stopped(here, here.agent(), grace=5)

        assert (report.duration, report.graceful) == (5.0, False)
        assert (report.turns_cancelled, report.turns_finished) == (20, 0)
        assert report.cleanup_errors == ()
        assert {event.kind for event in here.seen(Recorded)} == {"released:shutdown"}
        assert {route for route, _ in here.writes()} == {"processing"}, "nothing but claims"
        assert sorted(here.adapter.cleaned) == sorted(rooms)
        for message in messages:
            assert here.band.attempts(message, here.account) == ["processing"], "not charged"

        here.adapter.behaviour = reply
        async with here.running():
            await here.settled(*messages)
        for message in messages:
            assert here.band.attempts(message, here.account) == ["success"], "the same attempt"


@guarantee(51)
async def test_the_grace_lets_turns_finish(autojump_clock: trio.testing.MockClock) -> None:
    async with life() as here:
        quick, slow = await here.room(), await here.room()
        here.adapter.on("quick")(working(12))
        here.adapter.on("slow")(hang)
        first, second = await here.say(quick, "quick"), await here.say(slow, "slow")
        report = await stopped(here, here.agent(), grace=7)

        assert (report.turns_finished, report.turns_cancelled, report.graceful) == (1, 1, False)
        assert here.band.state(first, here.account) == "processed"
        assert here.band.state(second, here.account) == "processing"
        assert report.duration == 7.0
        ends = [(event.message_id, event.how) for event in here.seen(Ended)]
        assert ends == [(first, "returned"), (second, "shutdown")]


@guarantee(51)
@case("C53")
@for_each("second", [0.0, 1.0, 25.0])
@for_each("phase", ["turn", "on_cleanup", "cleanup_all", "mark", "pending mark"])
async def test_a_second_stop_can_only_bring_the_end_forward(
    phase: str, second: float, autojump_clock: trio.testing.MockClock
) -> None:
    """Whatever the first stop is waiting for; one that allows more time changes nothing."""
    async with life() as here:
        room = await here.room()
        here.adapter.behaviour = hang if phase == "turn" else reply
        if phase in ("on_cleanup", "cleanup_all"):
            here.noted.hooks[phase] = trio.sleep_forever
        if phase == "mark":
            here.band.faults.hang(route="processed", times=None)
        elif phase == "pending mark":
            here.band.faults.refuse(503, route="processed", times=None)
        agent = here.agent(SessionConfig(hook_seconds=20, settle_seconds=20))
        reports: list[ShutdownReport] = []

        async def run() -> None:
            reports.append(await agent.run())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            await here.say(room, "m")
            await trio.sleep(10)
            began = trio.current_time()
            agent.stop(grace=20)
            await trio.sleep(2)
            assert not reports, "it waits for something"
            agent.stop(grace=second)
        took = trio.current_time() - began
        assert took <= min(2 + second, 20) + OVERHEAD
        assert took >= 2.0
        assert len(here.seen(ShutDown)) == 1


@guarantee(51)
@case("C51")
async def test_everything_hangs_at_once(autojump_clock: trio.testing.MockClock) -> None:
    """Marks, reports, hooks and the socket: each has a deadline, and the next part its turn."""
    async with life() as here:
        busy, marking = await here.room(), await here.room()
        here.adapter.on("busy")(hang)
        faults = here.band.faults
        faults.hang(route="processed", times=None)
        faults.hang(route="activity", times=None)
        for hook in ("on_cleanup", "cleanup_all"):
            here.noted.hooks[hook] = trio.sleep_forever
        closed: list[str] = []

        async def never() -> None:
            closed.append("began")
            await trio.sleep_forever()

        async def last() -> None:
            await trio.sleep(0.01)
            closed.append("ended")

        here.adapter.add_cleanup(last)  # registered first, runs last
        here.adapter.add_cleanup(never)
        await here.say(busy, "busy")
        agent = here.agent()
        reports: list[ShutdownReport] = []

        async def run() -> None:
            reports.append(await agent.run())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            await trio.sleep(5)
            pending = await here.say(marking, "m")
            await trio.sleep(1)
            here.band.stop_reading(here.account)
            began = trio.current_time()
            agent.stop(grace=1)
        assert trio.current_time() - began <= 1 + OVERHEAD
        (report,) = reports
        assert (report.graceful, report.settles_pending, report.turns_cancelled) == (False, 1, 1)
        assert len(report.cleanup_errors) == 4, "two rooms, the whole, and one that is registered"
        assert here.close_codes == [1000], "one close frame, although nobody answers"
        assert here.band.state(pending, here.account) == "processed", "taken, never answered"
        assert sorted(here.adapter.cleaned) == sorted([busy, marking]), "each hook was called"
        assert here.noted.notes[-2:] == ["cleaned", "served"]
        assert closed == ["began", "ended"], "a clean-up that hangs leaves the next one its time"


@guarantee(51)
async def test_a_slow_mark_leaves_the_clean_up_its_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        here.band.faults.hang(route="processed", times=None)
        for hook in ("on_cleanup", "cleanup_all"):
            here.noted.hooks[hook] = lasting(0.1)
        await here.say(await here.room(), "m")
        agent = here.agent(SessionConfig(settle_seconds=100))
        report = await stopped(here, agent, grace=0)
        assert report.cleanup_errors == ()
        assert (report.settles_pending, report.graceful) == (1, False)


@guarantee(51)
@case("C51")
async def test_a_silent_peer_gets_no_more_than_what_is_left_of_the_overhead(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        here.band.faults.hang(route="processed", times=None)
        room = await here.room()
        agent = here.agent()
        async with trio.open_nursery() as nursery:
            await nursery.start(agent.run)
            await here.say(room, "m")
            await trio.sleep(0.1)
            here.band.silence(here.account)
            agent.stop(grace=0)
            began = trio.current_time()
        assert trio.current_time() - began <= OVERHEAD


@guarantee(51)
@case("C51")
async def test_a_healthy_end_sends_one_close_frame_and_leaves_no_topics(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        await here.room()
        await stopped(here, here.agent(), grace=3)
        assert here.close_codes == [1000]
        assert "left" not in [row.what for row in here.band.log.of(SocketRecord)]


@guarantee(51)
async def test_a_stop_while_the_socket_is_down_waits_for_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        await here.room()
        agent = here.agent(reconnect_base_seconds=30)
        async with trio.open_nursery() as nursery:
            await nursery.start(agent.run)
            here.band.faults.refuse_upgrade(503, times=None)
            here.band.cut(here.account)
            await trio.sleep(3)
            assert not agent.is_connected
            began = trio.current_time()
            agent.stop()
        assert trio.current_time() == began


@guarantee(51)
@case("C53")
async def test_stop_from_a_handler_lets_that_handler_finish(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        room = await here.room()
        agent = here.agent()

        async def leave(call: Call) -> None:
            agent.stop(grace=5)
            agent.stop()
            await trio.sleep(1)
            await reply(call)

        here.adapter.behaviour = leave
        message = await here.say(room, "bye")
        report = await agent.run()
        assert (report.graceful, report.turns_finished, report.duration) == (True, 1, 1.0)
        assert here.band.state(message, here.account) == "processed"
        await here.assert_nothing_left()


@guarantee(51)
@case("C53")
async def test_stop_without_grace_from_a_handler_releases_its_message(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        room = await here.room()
        agent = here.agent()
        late: list[BaseException] = []

        async def leave(call: Call) -> None:
            agent.stop(grace=0)
            try:
                await trio.sleep(1)
            finally:
                try:
                    with trio.CancelScope(shield=True, deadline=trio.current_time() + 1):
                        await reply(call)
                except BaseException as exc:
                    late.append(exc)
                    raise

        here.adapter.behaviour = leave
        message = await here.say(room, "bye")
        report = await agent.run()
        assert (report.graceful, report.turns_cancelled) == (False, 1)
        assert here.band.state(message, here.account) == "processing"
        assert [event.kind for event in here.seen(Recorded)] == ["released:shutdown"]
        assert all(isinstance(exc, TurnClosedError) for exc in late)
        await here.assert_nothing_left()


# ------------------------------------------------------------------ nothing new


@guarantee(52)
async def test_after_stop_nothing_is_claimed_read_or_joined(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life(working(5)) as here:
        busy, idle = await here.room(), await here.room()
        agent = here.agent(SessionConfig(idle_resync_seconds=1, idle_resync_max_seconds=1))
        async with trio.open_nursery() as nursery:
            await nursery.start(agent.run)
            running = await here.say(busy, "m1")
            waiting = await here.say(busy, "m2")
            await trio.sleep(3)
            agent.stop(grace=20)
            at = trio.current_time()
            late = [await here.say(idle, "m3"), await here.say(await here.room(), "m4")]
            await trio.lowlevel.checkpoint()
            assert agent.is_connected, "the socket stays until the turns have ended"
            here.band.cut(here.account)  # the reconnect reads nothing either
        after = [event for when, event in here.trace if when > at]
        assert [each for each in after if isinstance(each, Claimed | Started | RoomServed)] == []
        assert [each for each in after if isinstance(each, Read)] == []
        assert here.band.state(running, here.account) == "processed"
        states = {here.band.state(each, here.account) for each in (waiting, *late)}
        assert states <= {"none", "delivered"}
        assert here.adapter.texts == ["m1"]
        await here.assert_nothing_left()


@guarantee(52)
@pytest.mark.parametrize("answered", [True, False], ids=["answered", "unanswered"])
async def test_a_claim_in_flight_starts_no_handler(
    answered: bool, autojump_clock: trio.testing.MockClock
) -> None:
    async with life() as here:
        room = await here.room()
        if answered:
            here.band.faults.delay(2, answer=True, route="processing")
        else:
            here.band.faults.hang(route="processing")
        agent = here.agent()
        async with trio.open_nursery() as nursery:
            await nursery.start(agent.run)
            message = await here.say(room, "m")
            await trio.sleep(1)
            agent.stop(grace=30)
            began = trio.current_time()
        assert here.adapter.calls == []
        assert here.band.state(message, here.account) == "processing"
        assert {route for route, _ in here.writes()} == {"processing"}
        assert trio.current_time() - began <= 10.0, "a claim has a bound of its own"
        here.band.faults.clear()
        async with here.running():
            await here.settled(message)
        assert here.band.attempts(message, here.account) == ["success"]


@guarantee(52)
@pytest.mark.parametrize("route", ["participants", "context"])
async def test_a_claimed_message_that_has_not_started_is_released(
    route: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with life() as here:
        room = await here.room()
        here.band.faults.delay(3, route=route)
        agent = here.agent()
        reports = []

        async def run() -> None:
            reports.append(await agent.run())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            message = await here.say(room, "m")
            await trio.sleep(1)
            assert here.band.state(message, here.account) == "processing"
            agent.stop(grace=30)
        assert here.adapter.calls == []
        assert [event.kind for event in here.seen(Recorded)] == ["released:shutdown"]
        assert here.band.attempts(message, here.account) == ["processing"]
        assert reports[0].graceful, "no turn was cancelled"


@guarantee(52)
async def test_a_stop_between_reconnects_reads_nothing_more(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life(working(10)) as here:
        room = await here.room()
        agent = here.agent()
        async with trio.open_nursery() as nursery:
            await nursery.start(agent.run)
            await here.say(room, "m")
            await trio.sleep(1)
            agent.stop(grace=30)
            at = trio.current_time()
            await trio.sleep(1)
            here.band.cut(here.account)
        after = [event for when, event in here.trace if when > at]
        assert [each for each in after if isinstance(each, EpochBegan)], "it reconnects"
        assert [each for each in after if isinstance(each, Read)] == []

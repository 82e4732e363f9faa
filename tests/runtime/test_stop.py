"""Stopping: by one deadline, nothing new, an honest report, and everything served again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
import trio.lowlevel
import trio.testing

from band_trio import Agent, SessionConfig, ShutdownReport
from band_trio.errors import TurnClosedError
from band_trio.localband.records import SocketRecord
from band_trio.trace import (
    Claimed,
    CleanedUp,
    Ended,
    EpochBegan,
    Marked,
    Read,
    Recorded,
    RoomServed,
    ShutDown,
    Started,
)
from tests.runtime.harness import Behaviour, Call, reply
from tests.runtime.lifecycle_kit import (
    LifeStage,
    by_caller,
    by_stop,
    lasting,
    life,
    raises,
    run_and_strike,
)

OVERHEAD = 2.0
"""`stop_overhead_seconds`."""


async def hang(call: Call) -> None:
    await trio.sleep_forever()


def working(seconds: float) -> Behaviour:
    async def work(call: Call) -> None:
        await trio.sleep(seconds)
        await reply(call)

    return work


async def stopped(here: LifeStage, agent: Agent, grace: float) -> ShutdownReport:
    """Run the agent until *grace* after a stop that comes at 10 s; check the time that it took."""
    reports: list[ShutdownReport] = []

    async def run() -> None:
        reports.append(await agent.run())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await trio.sleep(10)
        began = trio.current_time()
        agent.stop(grace=grace)
    took = trio.current_time() - began
    assert took <= grace + OVERHEAD
    assert reports[0].duration == pytest.approx(took)
    here.band.faults.clear()
    await here.assert_nothing_left()
    return reports[0]


# ------------------------------------------------------------------ the deadline


async def test_g51_an_idle_agent_stops_at_once(autojump_clock: trio.testing.MockClock) -> None:
    async with life() as here:
        for _ in range(5):
            await here.room()
        report = await stopped(here, here.agent(), grace=30)
        assert report == ShutdownReport(
            graceful=True, turns_finished=0, turns_cancelled=0, settles_pending=0,
            cleanup_errors=(), duration=0.0,
        )  # fmt: skip


async def test_g51_g53_turns_of_all_rooms_are_cut_off_together_and_served_again(
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


async def test_g51_the_grace_lets_turns_finish(autojump_clock: trio.testing.MockClock) -> None:
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


@pytest.mark.parametrize("second", [0.0, 1.0, 25.0])
@pytest.mark.parametrize("phase", ["turn", "on_cleanup", "cleanup_all", "mark", "pending mark"])
async def test_g51_a_second_stop_can_only_bring_the_end_forward(
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


async def test_g51_everything_hangs_at_once(autojump_clock: trio.testing.MockClock) -> None:
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
        async with trio.open_nursery() as nursery:
            await nursery.start(agent.run)
            await trio.sleep(5)
            pending = await here.say(marking, "m")
            await trio.sleep(1)
            here.band.stop_reading(here.account)
            began = trio.current_time()
            agent.stop(grace=1)
        assert trio.current_time() - began <= 1 + OVERHEAD
        assert here.band.state(pending, here.account) == "processed", "taken, never answered"
        assert sorted(here.adapter.cleaned) == sorted([busy, marking]), "each hook was called"
        assert here.noted.notes[-2:] == ["cleaned", "served"]
        assert closed == ["began", "ended"], "a clean-up that hangs leaves the next one its time"


async def test_g51_a_slow_mark_leaves_the_clean_up_its_time(
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


async def test_g51_a_healthy_end_sends_one_close_frame_and_leaves_no_topics(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        await here.room()
        await stopped(here, here.agent(), grace=3)
        assert here.close_codes == [1000]
        assert "left" not in [row.what for row in here.band.log.of(SocketRecord)]


async def test_g51_a_stop_while_the_socket_is_down_waits_for_nothing(
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


async def test_g51_stop_from_a_handler_lets_that_handler_finish(
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


async def test_g51_stop_without_grace_from_a_handler_releases_its_message(
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


async def test_g52_after_stop_nothing_is_claimed_read_or_joined(
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


@pytest.mark.parametrize("answered", [True, False], ids=["answered", "unanswered"])
async def test_g52_a_claim_in_flight_starts_no_handler(
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


@pytest.mark.parametrize("route", ["participants", "context"])
async def test_g52_a_claimed_message_that_has_not_started_is_released(
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


# ------------------------------------------------------------------ the report


async def test_g53_a_mark_that_is_not_confirmed_is_no_graceful_end(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        here.band.faults.refuse(503, route="processed", times=None)
        message = await here.say(await here.room(), "m")
        report = await stopped(here, here.agent(), grace=3)
        assert (report.settles_pending, report.graceful) == (1, False)
        assert report.turns_cancelled == 0
        # The next run finds it and runs it again: work done but not marked.
        async with here.running():
            await here.settled(message)


async def test_g53_a_mark_that_is_confirmed_in_the_grace_is_a_graceful_end(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        fault = here.band.faults.refuse(503, route="processed", times=None)
        message = await here.say(await here.room(), "m")
        agent = here.agent()
        reports = []

        async def run() -> None:
            reports.append(await agent.run())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            await trio.sleep(5)
            agent.stop(grace=30)
            await trio.sleep(5)
            assert not reports, "the outbox keeps trying"
            fault.lift()
        assert reports[0].graceful
        assert here.band.state(message, here.account) == "processed"
        assert here.seen(Marked)[-1].result == "accepted"
        assert reports[0].duration < 20.0, "and no longer"


async def test_g53_a_handler_that_cannot_be_ended_is_named_and_waited_for(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        room = await here.room()

        async def stubborn(call: Call) -> None:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 100):
                await trio.sleep_forever()

        here.adapter.behaviour = stubborn
        agent = here.agent()
        reports: list[ShutdownReport] = []

        async def run() -> None:
            reports.append(await agent.run())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            message = await here.say(room, "m")
            await trio.sleep(10)
            agent.stop(grace=1)
            await trio.sleep(50)
            assert not reports, "the lock is held until the last turn has ended"
        (report,) = reports
        assert not report.graceful
        assert (report.turns_cancelled, report.turns_finished) == (1, 0)
        assert any(room in each for each in report.cleanup_errors)
        assert here.band.state(message, here.account) == "processing"
        assert [event.kind for event in here.seen(Recorded)] == ["released:shutdown"]
        await here.assert_nothing_left()


async def test_g53_the_trace_says_the_same_as_the_report(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life(hang) as here:
        await here.say(await here.room(), "m")
        report = await stopped(here, here.agent(), grace=0)
        assert [event.graceful for event in here.seen(ShutDown)] == [report.graceful] == [False]


# ------------------------------------------------------------------ hooks


@pytest.mark.parametrize("hook", ["on_cleanup", "cleanup_all", "registered"])
@pytest.mark.parametrize("how", ["raises", "raises a group", "raises BaseException", "hangs"])
async def test_g56_a_clean_up_that_fails_is_in_the_report_and_nothing_else(
    hook: str, how: str, autojump_clock: trio.testing.MockClock
) -> None:
    class Odd(BaseException):
        pass

    bodies = {
        "raises": raises(ValueError("no")),
        "raises a group": raises(ExceptionGroup("many", [ValueError("a"), KeyError("b")])),
        "raises BaseException": raises(Odd()),
        "hangs": trio.sleep_forever,
    }
    async with life() as here:
        rooms = [await here.room(), await here.room()]
        if hook == "registered":
            here.adapter.add_cleanup(bodies[how])
        else:
            here.noted.hooks[hook] = bodies[how]
        message = await here.say(rooms[0], "m")
        report = await stopped(here, here.agent(), grace=0)

        assert report.graceful, "hooks do not count as turns"
        assert here.band.state(message, here.account) == "processed"
        assert len(report.cleanup_errors) == (2 if hook == "on_cleanup" else 1)
        name = "clean-up" if hook == "registered" else hook
        assert all(name in each for each in report.cleanup_errors)
        assert sorted(here.adapter.cleaned) == sorted(rooms)
        assert len(here.seen(CleanedUp)) == 2


async def test_g56_hooks_may_still_use_the_platform(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        room = await here.room()
        agent = here.agent()
        connected: list[bool] = []

        async def look() -> None:
            await trio.lowlevel.checkpoint()
            connected.append(agent.is_connected)

        for hook in ("on_cleanup", "cleanup_all"):
            here.noted.hooks[hook] = look
        await here.say(room, "m")
        report = await stopped(here, agent, grace=0)
        assert connected == [True, True]
        assert report.cleanup_errors == ()


# ------------------------------------------------------------------ cancelled


@pytest.mark.slow
@pytest.mark.parametrize("strike", [by_caller, by_stop])
async def test_g46_g10_a_run_that_is_cut_at_any_step_of_a_turn_leaves_nothing_and_loses_nothing(
    strike: Callable[[Agent, trio.CancelScope], None], autojump_clock: trio.testing.MockClock
) -> None:
    """Struck after each scheduler step of start, turn and settlement; then served again."""

    async def handler(call: Call) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 0.4)
            await reply(call)

    async with life(handler) as here:
        room = await here.room()
        step = 0
        while True:
            step += 4
            here.trace.clear()
            message = await here.say(room, f"m{step}")

            def end_later(agent: Agent, message: str = message) -> None:
                nursery.start_soon(end_when_settled, agent, message)

            async def end_when_settled(agent: Agent, message: str) -> None:
                await here.settled(message)
                agent.stop(grace=0)

            async with trio.open_nursery() as nursery:
                outcome = await run_and_strike(here.agent(), step, strike, when_up=end_later)
                nursery.cancel_scope.cancel()
            await here.assert_nothing_left()
            assert outcome.seconds <= OVERHEAD
            claims = [e.message_id for e in here.seen(Claimed) if e.answer == "claimed"]
            records = [e.message_id for e in here.seen(Recorded)]
            assert records == claims, "guarantee 10: one record for each claim"
            kinds = {event.kind for event in here.seen(Recorded)}
            assert kinds <= {"processed", "released:shutdown"}
            if not outcome.struck:
                break
            async with here.running():
                await here.settled(message)
            assert set(here.band.attempts(message, here.account)) == {"success"}
        assert step > 120, "the sweep saw the start, the turn and its settlement"
        assert not here.adapter.overlapped


async def test_g46_cancelling_run_is_a_stop_without_grace_and_goes_on_as_a_cancellation(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life(hang) as here:
        room = await here.room()
        message = await here.say(room, "m")
        with trio.move_on_after(5) as scope:
            await here.agent().run()
        assert scope.cancelled_caught
        assert [event.kind for event in here.seen(Recorded)] == ["released:shutdown"]
        assert here.adapter.cleaned == [room]
        assert "cleaned" in here.noted.notes
        assert here.band.state(message, here.account) == "processing"
        await here.assert_nothing_left()


async def test_g46_a_second_cancellation_does_not_cut_the_end_short(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        room = await here.room()
        here.noted.hooks["on_cleanup"] = lasting(1)
        agent = here.agent()
        began = trio.current_time()
        with trio.move_on_after(5), trio.move_on_after(4.5):
            await agent.run()
        assert trio.current_time() - began == 5.5
        (shut_down,) = here.seen(ShutDown)
        assert shut_down.graceful
        assert [event.room_id for event in here.seen(CleanedUp)] == [room]
        assert "cleaned" in here.noted.notes
        await here.assert_nothing_left()


async def test_g52_a_stop_between_reconnects_reads_nothing_more(
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

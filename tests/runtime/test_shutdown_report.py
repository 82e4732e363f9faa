"""What a run reports about its end, and hooks that fail while it ends."""

from __future__ import annotations

import trio
import trio.lowlevel
import trio.testing

from band_trio import (
    ShutdownReport,
)
from band_trio.localband.records import SocketRecord
from band_trio.tools.agent_tools import AgentTools
from band_trio.trace import (
    CleanedUp,
    Marked,
    Recorded,
    ShutDown,
)
from tests.marks import case, guarantee
from tests.runtime.harness import Call
from tests.runtime.lifecycle_kit import (
    life,
    raises,
    stopped,
)
from tests.runtime.views import hang
from tests.support.for_each import for_each

# ------------------------------------------------------------------ the report


@guarantee(53)
async def test_a_mark_that_is_not_confirmed_is_no_graceful_end(
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


@guarantee(53)
async def test_a_mark_that_is_confirmed_in_the_grace_is_a_graceful_end(
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


@guarantee(51, 53)
@case("C17")
async def test_a_handler_that_cannot_be_ended_is_named_and_waited_for(
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


@guarantee(53)
async def test_the_trace_says_the_same_as_the_report(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life(hang) as here:
        await here.say(await here.room(), "m")
        report = await stopped(here, here.agent(), grace=0)
        assert [event.graceful for event in here.seen(ShutDown)] == [report.graceful] == [False]


# ------------------------------------------------------------------ hooks


@guarantee(56)
@case("C57")
@for_each("hook", ["on_cleanup", "cleanup_all", "registered"])
@for_each("how", ["raises", "raises a group", "raises BaseException", "hangs"])
async def test_a_clean_up_that_fails_is_in_the_report_and_nothing_else(
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


@guarantee(56)
@case("C57")
async def test_hooks_may_still_use_the_platform(
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


@guarantee(56)
@case("C57")
async def test_clean_up_hooks_post_with_tools_of_no_turn(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        room = await here.room()
        posted_at: list[float] = []

        async def says_goodbye() -> None:
            await trio.sleep(0.2)
            tools = AgentTools(room, here.adapter.calls[0].tools.rest, agent_id=here.account.id)  # type: ignore[attr-defined]
            await tools.send_event("goodbye", "thought")
            posted_at.append(here.band.world.elapsed())

        for hook in ("on_cleanup", "cleanup_all"):
            here.noted.hooks[hook] = says_goodbye
        here.adapter.add_cleanup(says_goodbye)
        async with here.running(grace=0):
            await here.settled(await here.say(room, "hello"))
        rows = await here.band.user.messages(room)
        assert [row["content"] for row in rows if row["message_type"] == "thought"] == [
            "goodbye"
        ] * 3
        (ended,) = [row.at for row in here.band.log.of(SocketRecord) if row.what == "ended"]
        assert len(posted_at) == 3
        assert max(posted_at) <= ended, "the socket is closed after all hooks"
        assert here.reports[0].cleanup_errors == ()

"""Code that was told to end and does not: named in log, health and report while it goes on."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from band_trio import (
    AgentInput,
    DefaultPreprocessor,
    PlatformMessage,
    RoomContext,
    SessionConfig,
    ShutdownReport,
)
from band_trio.tools.protocol import AgentToolsProtocol
from tests.marks import case, guarantee
from tests.runtime.harness import Call, reply
from tests.runtime.lifecycle_kit import LifeStage, Noted, life, raises


async def shielded(*args: object) -> None:
    with trio.CancelScope(shield=True, deadline=trio.current_time() + 300):
        await trio.sleep_forever()


async def swallows(*args: object) -> None:
    try:
        await trio.sleep_forever()
    except trio.Cancelled:  # noqa: ASYNC103 - the case
        return  # noqa: ASYNC104 - the case


@guarantee(47)
@case("C17")
@pytest.mark.parametrize("indicator", [True, False])
@pytest.mark.parametrize("how", ["timeout", "interrupt", "interrupt, late"])
async def test_a_handler_that_goes_on_after_its_end_is_named(
    how: str,
    indicator: bool,
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with life() as here:
        here.adapter.on("bad")(shielded)
        room = await here.room()
        session = SessionConfig(
            max_cycle_seconds=2 if how == "timeout" else None, enable_working_state=indicator
        )
        async with here.running(session) as agent:
            message = await here.say(room, "bad")
            await trio.sleep(26 if "late" in how else 2)
            if "interrupt" in how:
                await here.band.user.interrupt(here.account)
            await trio.sleep(9)
            assert agent.health().stalled == ()
            await trio.sleep(2)
            assert agent.health().stalled == (room,)
            assert f"told to end ({how.split(',')[0]}) 10 s ago and still runs" in caplog.text
            await here.settled(message, state="failed" if how == "timeout" else "processed")
            assert agent.health().stalled == ()
            await here.settled(await here.say(room, "next"))


@guarantee(47)
async def test_a_turn_that_ends_when_it_is_told_to_is_not_named(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with life() as here:
        here.adapter.on("long")(swallows)
        room = await here.room()
        async with here.running() as agent:
            message = await here.say(room, "long")
            await trio.sleep(5)
            await here.band.user.interrupt(here.account)
            await here.settled(message)
            await trio.sleep(30)
            assert agent.health().stalled == ()
            assert "still runs" not in caplog.text


@guarantee(47)
async def test_a_preprocessor_that_goes_on_after_its_end_is_named(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Stuck(DefaultPreprocessor):
        async def process(self, ctx: RoomContext, event: Any, agent_id: str) -> AgentInput | None:
            await shielded()
            return None

    async with life() as here:
        room = await here.room()
        async with here.running(preprocessor=Stuck()) as agent:
            message = await here.say(room, "m")
            await trio.sleep(20)
            await here.band.user.interrupt(here.account)
            await trio.sleep(9)
            assert agent.health().stalled == ()
            await trio.sleep(2)
            assert agent.health().stalled == (room,)
            await here.settled(message)
            assert agent.health().stalled == ()


class Controls(Noted):
    async def try_handle_control(self, msg: PlatformMessage, tools: AgentToolsProtocol) -> bool:
        await self._do("try_handle_control")
        return False


async def provoke(here: LifeStage, hook: str, room: str) -> None:
    """Have a hook of a running agent called."""
    match hook:
        case "on_interrupt":
            await here.say(room, "slow")
            await trio.sleep(1)
            await here.band.user.interrupt(here.account)
        case "callback":
            await here.settled(await here.say(room, "m"))  # the roster is known from then on
            await here.band.user.add(room, here.band.register_agent("Other"))
        case "on_cleanup":
            await here.band.user.remove(room, here.account)
        case _:
            await here.say(room, "m")


@guarantee(48, 56)
@pytest.mark.parametrize("hook", ["on_interrupt", "callback", "on_cleanup", "try_handle_control"])
@pytest.mark.parametrize("how", [shielded, swallows])
async def test_a_hook_that_does_not_end_is_named(
    hook: str,
    how: Any,
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with life() as here:
        here.adapter = adapter = Controls() if hook == "try_handle_control" else Noted()
        adapter.hooks = {hook: how}

        @adapter.on("slow")
        async def slow(call: Call) -> None:
            await trio.sleep(5)

        room = await here.room()
        options: dict[str, Any] = {"on_participant_added": how} if hook == "callback" else {}
        async with here.running(**options) as agent:
            await trio.sleep(1)
            await provoke(here, hook, room)
            await trio.sleep(15)  # the longest bound is 10 s
            name = "on_participant_added" if hook == "callback" else hook
            told = "still runs" if how is shielded else "did not end in time"
            assert [name in each and told in each for each in agent.health().problems] == [True]
            assert told in caplog.text
            await trio.sleep(400)
        (report,) = here.reports
        assert len(report.cleanup_errors) == (0 if hook != "on_cleanup" else 1 + (how is shielded))


@guarantee(56)
@pytest.mark.parametrize("hook", ["cleanup_all", "serve", "on_started"])
async def test_what_holds_up_the_end_is_named_meanwhile(
    hook: str, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    class Serving(Noted):
        async def serve(
            self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
        ) -> None:
            task_status.started()
            await self._do("serve")

    async with life() as here:
        here.adapter = adapter = Serving()
        adapter.hooks = {hook: shielded}
        agent = here.agent()
        reports: list[ShutdownReport] = []

        async def run() -> None:
            reports.append(await agent.run())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            await trio.sleep(5)
            agent.stop(grace=0)
            await trio.sleep(5)
            assert not reports
            assert f"{hook} was told to end and still runs" in caplog.text
            assert any(hook in each for each in agent.health().problems)
        assert any(hook in each for each in reports[0].cleanup_errors)


@guarantee(56)
async def test_a_failure_of_another_hook_is_none_of_the_end(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life(reply) as here:
        here.noted.hooks = {"on_interrupt": raises(ValueError()), "on_cleanup": raises(KeyError())}
        room = await here.room()
        async with here.running(grace=0) as agent:
            await trio.sleep(2)
            await here.band.user.stop(room)
            await trio.sleep(2)
            assert ["ValueError" in each for each in agent.health().problems] == [True]
        assert ["KeyError" in each for each in here.reports[0].cleanup_errors] == [True]

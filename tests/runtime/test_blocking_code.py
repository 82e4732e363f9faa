"""Blocking code of the application: others go on meanwhile, and it is named."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import trio
import trio.testing

from band_trio import DefaultPreprocessor, SessionConfig
from band_trio.tools.custom import CustomTools
from tests.marks import case, guarantee
from tests.runtime.harness import Call, reply, stage


@guarantee(3, 51)
@case("C21")
@pytest.mark.slow
async def test_fifty_blocking_tools_hold_up_nobody() -> None:
    """Real threads and the real clock; heartbeats are due all the time."""
    go, late = threading.Event(), list[str]()
    running = 0

    def blocking() -> str:
        nonlocal running
        running += 1
        go.wait(10)
        return "late"

    async def uses_many(call: Call) -> None:
        if call.text == "hello":
            await reply(call)
            return
        call.tools.use_custom_tools(CustomTools.of([blocking]))

        async def use() -> None:
            late.append(await call.tools.execute_tool_call("blocking", {}))

        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(use)

    async with stage(uses_many) as here:
        rooms = [await here.room(), await here.room()]
        try:
            with trio.fail_after(9):
                async with here.running(
                    grace=0, heartbeat_seconds=0.1, dead_seconds=0.5, stop_overhead_seconds=0.5
                ) as agent:
                    message = await here.say(rooms[0], "block")
                    await here.adapter.until_running()
                    await trio.sleep(0.8)
                    assert agent.health().epoch == 1, "heartbeats went out in time"
                    assert running == 40 // 3, "as many as our own limiter lets one room have"
                    # trio's own threads, which everything else shares, are all free
                    assert trio.to_thread.current_default_thread_limiter().borrowed_tokens == 0
                    await here.settled(await here.say(rooms[1], "hello"))
                    stopping = time.perf_counter()
                assert time.perf_counter() - stopping < 3
        finally:
            go.set()
        await trio.sleep(0.05)
        assert late == []
        assert here.band.attempts(message, here.account) == ["processing"]


@guarantee(3)
@case("C21")
@pytest.mark.slow
async def test_a_sync_callback_that_blocks_holds_up_its_room_only() -> None:
    go = threading.Event()
    heard: list[str] = []

    def came(room_id: str, person: dict[str, Any]) -> None:
        go.wait(10)
        heard.append(person["name"])

    async with stage() as here:
        room, other = await here.room(), await here.room()
        guest = here.band.register_agent("Guest")
        try:
            with trio.fail_after(5):
                async with here.running(
                    SessionConfig(hook_seconds=5), on_participant_added=came, grace=0,
                    stop_overhead_seconds=0.3,
                ):  # fmt: skip
                    await here.settled(await here.say(room, "one"))
                    await trio.sleep(0.05)
                    await here.band.user.add(room, guest)
                    await trio.sleep(0.05)
                    await here.settled(await here.say(other, "two"))
                    assert heard == []
                    stopping = time.perf_counter()
                assert time.perf_counter() - stopping < 3
        finally:
            go.set()
        assert here.reports[0].graceful


@guarantee(51)
@case("C21")
async def test_a_handler_that_blocks_the_thread_is_named(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def blocks(call: Call) -> None:
        await trio.sleep(30)  # long, but it lets others run
        if call.text == "block":
            time.sleep(0.06)  # noqa: ASYNC251 - the case
        await reply(call)

    async with stage(blocks) as here:
        room = await here.room()
        async with here.running(SessionConfig(stall_seconds=0.05)):
            await here.settled(await here.say(room, "work"))
            assert "blocked" not in caplog.text
            message = await here.say(room, "block")
            await here.settled(message)

    (line,) = [
        record.getMessage()
        for record in caplog.records
        if "blocked" in record.msg and message in record.getMessage()
    ]
    assert room in line


def blocking() -> None:
    time.sleep(0.36)


@case("C94")
@pytest.mark.slow
@pytest.mark.parametrize("where", ["the turn's nursery", "a hook", "the preprocessor"])
async def test_code_that_blocks_the_thread_is_named_with_its_place(
    where: str, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def in_a_task() -> None:  # noqa: ASYNC124 - the case
        blocking()

    class Blocking(DefaultPreprocessor):
        async def process(self, ctx: Any, event: Any, agent_id: str) -> Any:
            if where == "the preprocessor":
                blocking()
            return await super().process(ctx, event, agent_id)

    async def starts(call: Call) -> None:
        if where == "the turn's nursery":
            call.tools.turn.nursery.start_soon(in_a_task)
        await reply(call)

    async def added(room_id: str, participant: Any) -> None:  # noqa: ASYNC124 - a callback
        blocking()

    async with stage(starts) as here:
        room = await here.room()
        options: dict[str, Any] = {"on_participant_added": added} if where == "a hook" else {}
        async with here.running(
            SessionConfig(stall_seconds=0.2), preprocessor=Blocking(), **options
        ) as agent:
            await here.settled(await here.say(room, "m"))
            await here.band.user.add(room, here.band.register_agent("Other"))
            await trio.sleep(1)
            place = f"{__file__}:{blocking.__code__.co_firstlineno + 1} in blocking"
            (problem,) = [each for each in agent.health().problems if "blocked" in each]
            assert "for 0.4 s" in problem
            assert place in problem
            assert room in problem
            (line,) = [each.getMessage() for each in caplog.records if "blocked" in each.msg]
            assert place in line
            assert room in line

"""Limiters of which one room's code cannot take everything."""

from __future__ import annotations

import threading
from contextlib import nullcontext

import pytest
import trio
import trio.testing

from band_trio import SessionConfig
from band_trio.kit.limiter import FairLimiter, work_of
from band_trio.tools.custom import CustomTools
from tests.marks import case, guarantee
from tests.runtime.harness import Call, Scripted, reply, stage


async def hold(limiter: FairLimiter, room: str | None, held: list[str | None]) -> None:
    with work_of(room) if room else nullcontext():
        await limiter.acquire_on_behalf_of(trio.lowlevel.current_task())
        held.append(room)
        try:
            await trio.sleep_forever()
        finally:
            limiter.release_on_behalf_of(trio.lowlevel.current_task())


async def held_by(limiter: FairLimiter, *rooms: str | None) -> list[str | None]:
    """Have each of *rooms* ask for a token, in order; return who got one."""
    held: list[str | None] = []
    async with trio.open_nursery() as nursery:
        for room in rooms:
            nursery.start_soon(hold, limiter, room, held)
            await trio.testing.wait_all_tasks_blocked()
        got = list(held)
        nursery.cancel_scope.cancel()
    return got


@guarantee(3)
async def test_a_room_holds_a_third() -> None:
    limiter = FairLimiter(9)
    assert await held_by(limiter, *"aaaaaa") == ["a"] * 3
    assert await held_by(limiter, *"aaaabbbbcccdd") == [*"aaabbbccc"]
    assert await held_by(limiter, *"aaaabbbb", *[None] * 5) == [*"aaabbb", *[None] * 3]
    assert await held_by(limiter, *[None] * 10) == [None] * 9
    assert await held_by(FairLimiter(1), "a", "b", None) == ["a"]


async def test_a_free_token_costs_no_step_of_the_scheduler() -> None:
    limiter, task = FairLimiter(3), trio.lowlevel.current_task()
    for room in (nullcontext(), work_of("a")):
        with room, trio.testing.assert_no_checkpoints():
            limiter.acquire_on_behalf_of_nowait(task)
            limiter.release_on_behalf_of(task)
        await held_by(limiter, "a")


@guarantee(77)
async def test_a_limiter_forgets_rooms_that_hold_nothing() -> None:
    limiter = FairLimiter(9)
    for n in range(100):
        await held_by(limiter, *[f"room {n}"] * 5)
    assert not limiter._rooms
    assert not limiter._held


async def test_a_token_goes_on_to_the_next_who_waits() -> None:
    limiter = FairLimiter(3)
    order: list[int] = []

    async def use(n: int) -> None:
        task = trio.lowlevel.current_task()
        with work_of("a"):
            await limiter.acquire_on_behalf_of(task)
            order.append(n)
            await trio.lowlevel.checkpoint()
            limiter.release_on_behalf_of(task)

    async with trio.open_nursery() as nursery:
        for n in range(20):
            nursery.start_soon(use, n)
    assert sorted(order) == list(range(20))
    assert not limiter._rooms


# --------------------------------------------------------------------------- in an agent


@guarantee(3)
async def test_tool_calls_of_two_rooms_delay_no_start_of_a_third(
    autojump_clock: trio.testing.MockClock,
) -> None:
    started: dict[str, float] = {}

    async def behave(call: Call) -> None:
        started[call.text] = trio.current_time()
        if call.text == "many":
            async with trio.open_nursery() as nursery:
                for _ in range(40):
                    nursery.start_soon(call.tools.execute_tool_call, "band_lookup_peers", {})
        await reply(call)

    async with stage(behave) as here, here.running():
        rooms = [await here.room() for _ in range(3)]
        await trio.sleep(5)
        here.band.faults.hang(route="peers", times=None)
        for room in rooms[:2]:
            await here.say(room, "many")
        await trio.sleep(1)
        sent = trio.current_time()
        await here.settled(await here.say(rooms[2], "one"))
        assert started["one"] - sent < 1


@guarantee(3)
@case("C21")
@pytest.mark.slow
async def test_hung_sync_tools_of_a_room_leave_threads_to_the_others() -> None:
    free, done = threading.Event(), trio.Event()

    def look_up(key: str) -> str:
        """Look something up."""
        if key == "dead":
            free.wait(30)
        return "found"

    async def behave(call: Call) -> None:
        if call.text == "dead":
            async with trio.open_nursery() as nursery:
                for _ in range(50):
                    nursery.start_soon(call.tools.execute_tool_call, "look_up", {"key": "dead"})
        await call.tools.execute_tool_call("look_up", {"key": "x"})
        await reply(call)
        done.set()

    async with stage() as here:
        here.adapter = Scripted(behave)
        here.adapter.custom_tools = CustomTools.of([look_up])
        async with here.running():
            try:
                await here.say(await here.room(), "dead")
                await trio.sleep(0.2)
                await here.say(await here.room(), "live")
                with trio.fail_after(5):
                    await done.wait()
            finally:
                free.set()


@guarantee(3)
@case("C21")
@pytest.mark.slow
async def test_hung_sync_callbacks_of_a_room_leave_threads_to_the_others() -> None:
    free, told = threading.Event(), threading.Event()
    async with stage() as here:
        bots = [here.band.register_agent(f"bot {n}") for n in range(17)]
        dead, live = await here.room(), await here.room()

        def added(room_id: str, person: object) -> None:
            if room_id == dead:
                free.wait(30)
            else:
                told.set()

        options = SessionConfig(hook_seconds=0.05)
        async with here.running(options, on_participant_added=added):
            try:
                for room in (dead, live):
                    await here.settled(await here.say(room, "first"))
                for bot in bots[:16]:
                    await here.band.user.add(dead, bot)
                await trio.sleep(16 * 0.05 + 0.5)
                await here.band.user.add(live, bots[16])
                with trio.fail_after(5):
                    while not told.is_set():  # noqa: ASYNC110 - a thread sets it
                        await trio.sleep(0.02)
            finally:
                free.set()

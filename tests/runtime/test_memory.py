"""What a run keeps: so much per room, so much per running turn, and nothing per message."""

from __future__ import annotations

import gc
from collections import Counter

import pytest
import trio
import trio.testing

from band_trio import SessionConfig
from band_trio.runtime.journal.control import REMEMBERED_IDS
from band_trio.trace import Controlled
from tests.marks import case, guarantee
from tests.runtime.harness import Stage, stage

PACKAGES = ("band_trio.runtime.", "band_trio.link.", "band_trio.tools.", "trio.")

KNOWN = "band_trio.runtime.journal.entries.Entry"


def ours() -> Counter[str]:
    """Count the living objects of the runtime and the link, by class."""
    gc.collect()
    names = (f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects())
    counts = Counter(name for name in names if name.startswith(PACKAGES))
    del counts["trio.CancelScope"]  # trio keeps up to 1000 expired deadlines before it looks
    return counts


def grown(before: Counter[str], after: Counter[str]) -> dict[str, int]:
    """Return what there is more of; a few objects of difference are chance."""
    return {name: n - before[name] for name, n in after.items() if n - before[name] > 10}


async def forget(here: Stage) -> None:
    """Drop what the test itself and the platform keep of the past."""
    here.trace.clear()
    here.adapter.calls.clear()
    here.band.log.clear()
    await trio.testing.wait_all_tasks_blocked()


@guarantee(77)
@case("C59")
@pytest.mark.slow
async def test_rooms_that_were_joined_and_left_leave_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here, here.running() as agent:

        async def come_and_go(number: int) -> None:
            for _ in range(number):
                room = await here.room()
                await here.settled(await here.say(room, "m"))
                here.band.signal(here.account, "interrupt", room_id=room)
                await here.band.user.remove(room, here.account)
            await trio.sleep(100)
            await forget(here)

        await come_and_go(5)
        before = ours()
        await come_and_go(20)
        assert grown(before, ours()) == {}
        assert agent.health().rooms == {}
        assert (agent.health().joined_topics, agent.health().pending_topics) == (2, ())


@guarantee(77)
@case("C59")
@pytest.mark.slow
async def test_messages_of_a_room_leave_a_constant(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Live, from the backlog, given up, and as floods of hints during a turn."""

    async with stage() as here:
        room = await here.room()

        @here.adapter.on("bad")
        async def fail(call: object) -> None:
            await trio.lowlevel.checkpoint()
            raise ValueError("no")

        session = SessionConfig(report_turn_failures_to_room=False)
        async with here.running(session):

            async def talk(number: int) -> None:
                for _ in range(number):
                    messages = [await here.say(room, "m") for _ in range(20)]
                    bad = await here.say(room, "bad")
                    await here.settled(*messages)
                    await here.settled(bad, state="failed")
                await trio.sleep(1)
                await forget(here)

            await talk(8)  # past the bounds: 128 recent ids, 64 hints
            before = ours()
            await talk(12)
            left = grown(before, ours())
            # Given-up ids are kept, up to 1000 per room; nothing else grows.
            assert left.pop(KNOWN, 0) <= 20
            assert left == {}


@guarantee(77)
@pytest.mark.slow
async def test_reconnects_leave_nothing(autojump_clock: trio.testing.MockClock) -> None:
    async with stage() as here:
        rooms = [await here.room() for _ in range(3)]
        async with here.running(reconnect_cap_seconds=1) as agent:

            async def cut(number: int) -> None:
                for _ in range(number):
                    here.band.cut(here.account)
                    await here.settled(*[await here.say(room, "m") for room in rooms])
                    await trio.sleep(5)
                await forget(here)

            await cut(12)
            before = ours()
            await cut(14)
            left = grown(before, ours())
            left.pop(KNOWN, None)  # recent ids are kept, up to 128 per room
            assert left == {}
            assert agent.health().epoch == 27


@guarantee(77)
@pytest.mark.slow
async def test_controls_of_unknown_rooms_are_bounded(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here, here.running() as agent:
        await trio.sleep(1)
        for number in range(1200):
            here.band.signal(here.account, "stop", room_id=f"room-{number}")
        await trio.testing.wait_all_tasks_blocked()
        assert agent._runtime is not None
        assert agent._runtime.parts is not None
        assert len(agent._runtime.parts.journals._all) == 1024
        assert agent.health().rooms == {}


@guarantee(77)
async def test_controls_of_a_room_leave_a_bounded_number_of_ids(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running() as agent:
            await trio.sleep(1)
            for _ in range(3 * REMEMBERED_IDS):
                here.band.signal(here.account, "interrupt", room_id=room)
            await trio.testing.wait_all_tasks_blocked()
            assert len(here.seen(Controlled)) == 3 * REMEMBERED_IDS
            assert agent._runtime is not None
            assert agent._runtime.parts is not None
            assert len(agent._runtime.parts.journals.of(room).controls._seen) == REMEMBERED_IDS


@guarantee(77)
@pytest.mark.slow
async def test_many_runs_of_one_agent_leave_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        agent = here.agent()

        async def run(number: int) -> None:
            for _ in range(number):
                async with agent:
                    await here.settled(await here.say(room, "m"))
            await forget(here)

        await run(3)
        before = ours()
        await run(12)
        assert grown(before, ours()) == {}

"""Topics that crash, requests that are cancelled in masses, marks behind bulk, polite ends."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from band_trio import SessionConfig
from band_trio.localband.records import SocketRecord
from band_trio.protocol.events import agent_control, agent_rooms, chat_room
from band_trio.trace import Marked, Recorded
from tests.runtime.harness import Call, Stage, reply, stage


def joins(here: Stage, topic: str) -> int:
    """Return how often a topic was joined."""
    rows = here.band.log.of(SocketRecord)
    return sum(row.what == "joined" and row.detail == topic for row in rows)


async def test_c40_g28_a_late_end_of_an_old_join_changes_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        topic = chat_room(room)
        async with here.running():
            await trio.sleep(1)
            here.band.send_frame(here.account, topic, "phx_error", {})
            await trio.sleep(5)
            assert joins(here, topic) == 2
            for event in ("phx_error", "phx_close"):
                here.band.send_frame(here.account, topic, event, {}, join_ref="1")
            await trio.sleep(60)
            assert joins(here, topic) == 2
            began = trio.current_time()
            await here.settled(await here.say(room, "hello"))
            assert trio.current_time() - began < 1, "it was found by a poll, not by its push"


async def test_c41_g25_g28_a_channel_crashes_while_the_socket_is_fine(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        rooms = [await here.room() for _ in range(3)]
        topics = [chat_room(room) for room in rooms]
        config = SessionConfig(idle_resync_seconds=5000, idle_resync_max_seconds=5000)
        async with here.running(config) as agent:
            await trio.sleep(1)
            here.band.faults.reject_join(topics[1])
            here.band.send_frame(here.account, topics[1], "phx_error", {})
            missed = [await here.say(rooms[1], f"missed {n}") for n in range(3)]
            began = trio.current_time()
            await here.settled(*missed)

            assert trio.current_time() - began < 10
            await trio.sleep(10)
            assert [joins(here, topic) for topic in topics] == [1, 2, 1]
            assert agent.health().epoch == 1
        assert here.adapter.texts == ["missed 0", "missed 1", "missed 2"]


async def test_c41_g28_g29_the_agents_own_topics_heal_too(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here, here.running() as agent:
        await trio.sleep(1)
        for topic in (agent_rooms(here.account.id), agent_control(here.account.id)):
            here.band.faults.reject_join(topic)
            here.band.send_frame(here.account, topic, "phx_close", {})
        room = await here.room()  # announced to nobody
        await here.settled(await here.say(room, "hello"))
        await trio.sleep(10)
        assert agent.health().pending_topics == ()
        assert agent.health().epoch == 1


@pytest.mark.slow
async def test_c47_g26_interrupts_in_masses_eat_no_request_slots(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        rooms = [await here.room() for _ in range(40)]
        async with here.running(rest_bulk=4, rest_priority=3, rest_pool=10):
            await trio.sleep(5)
            slow = [
                here.band.faults.delay(0.2, route=route, times=None, agent=here.account)
                for route in ("processing", "post_message")
            ]
            for _ in range(25):
                for room in rooms:
                    await here.say(room, "work")
                await trio.sleep(0.5)
                await here.band.user.interrupt(here.account)
            for rule in slow:
                rule.lift()
            await trio.sleep(100)
            began = trio.current_time()
            last = [await here.say(room, "last") for room in rooms]
            await here.settled(*last)
            assert trio.current_time() - began < 2


async def test_c48_g11_a_mark_does_not_wait_behind_bulk_reads(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def works(call: Call) -> None:
        if call.text == "work":
            await trio.sleep(10)
        await reply(call)

    async with stage(works) as here:
        rooms = [await here.room() for _ in range(200)]
        async with here.running():
            await trio.sleep(5)
            message = await here.say(rooms[0], "work")
            await here.adapter.until_running()
            await trio.sleep(9.5)
            for route in ("next", "messages", "participants", "context"):
                here.band.faults.delay(2, route=route, times=None, agent=here.account)
            here.band.cut(here.account)
            for room in rooms[1:]:
                await here.say(room, "hello")
            await here.settled(message)
            await trio.sleep(0.1)
            marked = [at for at, event in here.trace if isinstance(event, Marked)]
            recorded = [at for at, event in here.trace if isinstance(event, Recorded)]
            assert marked[0] - recorded[0] < 0.5


async def test_c50_g35_g52_g53_a_polite_end_charges_nothing_and_loses_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def hangs(call: Call) -> None:
        await trio.sleep_forever()

    async with stage(hangs) as here:
        room = await here.room()
        async with here.running(grace=5):
            message = await here.say(room, "work")
            await here.adapter.until_running()
        assert not here.reports[0].graceful
        assert here.band.attempts(message, here.account) == ["processing"]
        assert here.seen(Marked) == []

        here.adapter.behaviour = reply
        async with here.running():
            await here.settled(message)
        assert here.adapter.texts == ["work", "work"]
        assert here.band.attempts(message, here.account) == ["success"]

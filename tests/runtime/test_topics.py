"""Topics of rooms and of the agent: joined once, and again when they crash."""

from __future__ import annotations

from itertools import pairwise

import pytest
import trio
import trio.testing

from band_trio import SessionConfig
from band_trio.localband.records import SocketRecord
from band_trio.protocol.events import agent_control, agent_rooms, chat_room
from tests.marks import case, guarantee
from tests.runtime.harness import Stage, stage


def joins(here: Stage, topic: str) -> int:
    """Return how often a topic was joined."""
    rows = here.band.log.of(SocketRecord)
    return sum(row.what == "joined" and row.detail == topic for row in rows)


@guarantee(28)
@case("C40")
async def test_a_late_end_of_an_old_join_changes_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        topic = chat_room(room)

        def join_ref() -> str | None:
            session = here.band.session(here.account)
            assert session is not None
            return session.joined.get(topic)

        async with here.running():
            await trio.sleep(1)
            old = join_ref()
            here.band.send_frame(here.account, topic, "phx_error", {})
            await trio.sleep(5)
            assert joins(here, topic) == 2
            assert join_ref() != old
            for event in ("phx_error", "phx_close"):
                here.band.send_frame(here.account, topic, event, {}, join_ref=old)
            await trio.sleep(60)
            assert joins(here, topic) == 2
            began = trio.current_time()
            await here.settled(await here.say(room, "hello"))
            assert trio.current_time() - began < 1, "it was found by a poll, not by its push"

            here.band.send_frame(here.account, topic, "phx_error", {}, join_ref=join_ref())
            await trio.sleep(5)
            assert joins(here, topic) == 3, "the end of the current join is one"


@guarantee(25, 28)
@case("C41")
async def test_a_channel_crashes_while_the_socket_is_fine(
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


@guarantee(28, 29)
@case("C41")
async def test_the_agents_own_topics_heal_too(
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


@guarantee(29, 32)
@case("C42")
@pytest.mark.slow
async def test_many_rooms_at_the_start_are_joined_once_within_the_limits(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("band_trio.link.rest.rest.PAGE", 20)
    async with stage() as here:
        rooms = [await here.room() for _ in range(150)]
        faults = here.band.faults
        faults.delay(0.5, route="chats", times=None)
        faults.delay(0.2, answer=True, route="messages", times=None)
        faults.reject_join(chat_room(rooms[7]), times=4)
        unpolled = SessionConfig(idle_resync_seconds=1e6, idle_resync_max_seconds=1e6)
        agent = here.agent(unpolled, heartbeat_seconds=1, rest_bulk=10)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(agent.run)
            await here.band.until(lambda: len(here.band.log.requests("chats")) == 4)
            rooms.append(await here.room())
            await trio.sleep(30)
            assert agent.health().pending_topics == ()
            assert agent.health().rooms == {"idle": 151}
            agent.stop()

        assert [joins(here, chat_room(room)) for room in rooms] == [1] * 151
        asked = [row.at for row in here.band.log.requests("messages")]
        assert max(sum(at <= other < at + 0.199 for other in asked) for at in asked) <= 10
        beats = [row.at for row in here.band.log.of(SocketRecord) if row.what == "heartbeat"]
        assert len(beats) >= 29
        assert all(later - earlier < 1.1 for earlier, later in pairwise(beats))

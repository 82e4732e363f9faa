"""Topics that crash, requests that are cancelled in masses, marks behind bulk, polite ends."""

from __future__ import annotations

from itertools import pairwise

import pytest
import trio
import trio.testing

from band_trio import SessionConfig
from band_trio.localband.records import SocketRecord
from band_trio.protocol.events import agent_control, agent_rooms, chat_room
from band_trio.trace import Marked, Recorded
from tests.link.phoenix_peer import open_peer, until
from tests.marks import case, guarantee
from tests.runtime.harness import Call, Stage, reply, stage
from tests.runtime.views import payload


def joins(here: Stage, topic: str) -> int:
    """Return how often a topic was joined."""
    rows = here.band.log.of(SocketRecord)
    return sum(row.what == "joined" and row.detail == topic for row in rows)


@guarantee(11, 29)
@case("C43")
async def test_an_absurd_told_wait_costs_an_hour_not_years(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with stage() as here, here.running():
        room = await here.room()
        await here.settled(await here.say(room, "warm"))
        here.band.faults.refuse(429, retry_after=10**9, route="processed")
        here.band.faults.refuse(429, retry_after=10**9, route="chats")
        here.band.faults.suppress(event="room_added", times=1)
        message = await here.say(room, "M")
        here.band.cut(here.account)
        other = await here.say(await here.room(), "N")
        with trio.fail_after(2 * 3600):
            await here.settled(message, other)
        told = [m for m in caplog.messages if "taken for a mistake" in m]
        assert 1 <= len(told) <= 3


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


@guarantee(26)
@case("C47")
@pytest.mark.slow
async def test_interrupts_in_masses_eat_no_request_slots(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        rooms = [await here.room() for _ in range(40)]
        async with here.running(rest_bulk=4, rest_priority=3):
            await trio.sleep(5)
            slow = [
                here.band.faults.delay(0.2, route=route, times=None, agent=here.account)
                for route in ("processing", "post_message")
            ]
            for n in range(16):
                for room in rooms:
                    await here.say(room, "work")
                await trio.sleep(0.1 + n * 0.03)  # in the claim, in the post, behind both
                await here.band.user.interrupt(here.account)
            for rule in slow:
                rule.lift()
            await trio.sleep(100)
            began = trio.current_time()
            last = [await here.say(room, "last") for room in rooms]
            await here.settled(*last)
            assert trio.current_time() - began < 2


@guarantee(11)
@case("C48")
async def test_a_mark_does_not_wait_behind_bulk_reads(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def works(call: Call) -> None:
        if call.text == "work":
            await trio.sleep(10)
        await reply(call)

    async with stage(works) as here:
        rooms = [await here.room() for _ in range(80)]
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
            await until(lambda: len(here.seen(Recorded)) == 80, 300, every=1)
        assert {event.kind for event in here.seen(Recorded)} == {"processed"}


@guarantee(35, 52, 53)
@case("C50")
async def test_a_polite_end_charges_nothing_and_loses_nothing(
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


@guarantee(3, 80)
@case("C46")
async def test_pings_are_answered_while_a_room_is_slow_and_full(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The socket is a peer of its own, which can ping; requests go to the platform."""

    async def slow(call: Call) -> None:
        await trio.sleep(200)
        call.tools.turn.settle()

    async with stage(slow) as here, open_peer() as peer:
        room = await here.room()
        topic = chat_room(room)
        async with here.running(
            SessionConfig(room_hints=4), grace=0, open_stream=peer.open_stream
        ) as agent:
            await until(lambda: topic in peer.last.joined)
            copy = payload(here, await here.say(room, "slow"))
            await peer.last.push(topic, "message_created", copy)
            await here.adapter.until_running()
            began = trio.current_time()
            for n in range(500):
                await peer.last.push(topic, "message_created", {**copy, "id": f"m{n}"})
                if n % 100 == 0:
                    with trio.fail_after(1):
                        await peer.last.websocket.ping(str(n).encode())  # returns with the pong
            assert trio.current_time() - began < 1
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
        agent = here.agent(heartbeat_seconds=1, rest_bulk=10)
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

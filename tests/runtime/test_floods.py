"""Floods of pushes, of interrupts and of reads: what else there is to do is done in time."""

from __future__ import annotations

import gc

import pytest
import trio
import trio.testing

from band_trio import SessionConfig
from band_trio.protocol.events import agent_rooms, chat_room
from band_trio.protocol.rest import ChatMessage
from band_trio.trace import Marked, Recorded
from tests.link.phoenix_peer import open_peer, until
from tests.marks import case, guarantee
from tests.runtime.harness import Call, reply, stage
from tests.runtime.views import payload, push_again


def living_messages() -> int:
    gc.collect()
    return sum(type(each) is ChatMessage for each in gc.get_objects())


@guarantee(30, 77)
@case("C05")
async def test_a_burst_overflows_and_takes_nothing_with_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    release = trio.Event()

    async def first_waits(call: Call) -> None:
        if call.text == "m0":
            await release.wait()
        call.tools.turn.settle()

    living = living_messages()  # those that other tests keep
    async with stage(first_waits) as here:
        busy, stopped = await here.room(), await here.room()
        async with here.running() as agent:
            messages = [await here.say(busy, "m0")]
            await here.adapter.until_running()
            messages += [await here.say(busy, f"m{n}") for n in range(1, 400)]
            await here.band.user.stop(stopped)
            await trio.sleep(0.1)
            added = await here.room()
            here.band.cut(here.account)
            other = await here.say(added, "elsewhere")
            kept = await here.say(stopped, "later")
            await here.settled(other)
            await trio.sleep(5)
            assert agent.health().epoch == 2
            assert agent.health().rooms["stopped"] == 1
            assert living_messages() - living <= 64 + 10, "the hints of the room are bounded"
            release.set()
            await here.settled(messages[-1])

        assert [c.text for c in here.adapter.calls if c.room_id == busy] == [
            f"m{n}" for n in range(400)
        ]
        assert here.band.state(kept, here.account) != "processed"


@guarantee(3, 54, 80)
@case("C08")
@pytest.mark.parametrize("dies", ["at once", "slowly"])
async def test_a_dying_room_does_not_take_the_dispatcher_along(
    dies: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Its pushes meet a channel that is closed, or one that is full and that nobody reads."""

    async def stays(call: Call) -> None:
        if call.text != "stay":
            await reply(call)
            return
        try:
            await trio.sleep_forever()
        finally:
            if dies == "slowly":
                with trio.move_on_after(20, shield=True):
                    await trio.sleep(10)

    async with stage(stays) as here:
        dying, other = await here.room(), await here.room()
        async with here.running(SessionConfig(room_hints=4)) as agent:
            await here.say(dying, "stay")
            await here.adapter.until_running()
            # All are on their way when the room goes: before its removal, and behind it.
            copy = payload(here, await here.say(dying, "lost"))
            quiet = here.band.faults.suppress(event="room_removed")
            await here.band.user.remove(dying, here.account)
            quiet.lift()
            for n in range(1000):
                if n == 500:
                    here.band.send_frame(
                        here.account, agent_rooms(here.account.id), "room_removed", {"id": dying}
                    )
                push_again(here, dying, {**copy, "id": f"lost-{n}"})
            began = trio.current_time()
            message = await here.say(other, "hello")
            await here.settled(message)

            assert trio.current_time() - began < 1, "another room waited for the dying one"
            await trio.sleep(30)
            assert agent.health().epoch == 1
            assert agent.health().problems == ()
            assert agent.health().rooms == {"idle": 1}
        assert here.adapter.texts == ["stay", "hello"]


@guarantee(3, 80)
@case("C46")
@pytest.mark.slow
async def test_a_slow_handler_never_stops_the_reader(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def slow(call: Call) -> None:
        if call.text == "slow":
            await trio.sleep(200)
        call.tools.turn.settle()

    async with stage(slow) as here:
        room = await here.room()
        async with here.running() as agent:
            messages = [await here.say(room, "slow")]
            await here.adapter.until_running()
            messages += [await here.say(room, f"m{n}") for n in range(250)]
            await here.settled(messages[-1])

            assert agent.health().epoch == 1, "a heartbeat was taken for lost"


@guarantee(26)
@case("C47")
@pytest.mark.slow
async def test_interrupts_in_masses_eat_no_request_slots(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        rooms = [await here.room() for _ in range(30)]
        async with here.running(rest_bulk=4, rest_priority=3):
            await trio.sleep(5)
            slow = [
                here.band.faults.delay(0.2, route=route, times=None, agent=here.account)
                for route in ("processing", "post_message")
            ]
            for n in range(12):
                for room in rooms:
                    await here.say(room, "work")
                await trio.sleep(0.1 + n * 0.04)  # in the claim, in the post, behind both
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

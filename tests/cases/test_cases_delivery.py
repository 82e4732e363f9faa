"""Order, overflow and dying rooms."""

from __future__ import annotations

import gc
from collections import Counter

import pytest
import trio
import trio.testing

from band_trio import SessionConfig
from band_trio.protocol.events import agent_rooms
from band_trio.protocol.rest import ChatMessage
from band_trio.runtime.journal.todo import Run, Todo
from band_trio.runtime.membership.presence import RoomPresence
from band_trio.runtime.room.execution import ExecutionContext
from band_trio.trace import Read
from tests.marks import case, guarantee
from tests.runtime.harness import Call, Stage, reply, stage
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


@guarantee(45)
@case("C52")
async def test_a_room_that_breaks_is_started_again_and_loses_nothing(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stage() as here:
        room = await here.room()
        real, broken = ExecutionContext._do, [True, True]

        async def do(self: ExecutionContext, todo: Todo) -> None:
            if broken and isinstance(todo, Run):
                broken.pop()
                raise ZeroDivisionError("a bug")
            await real(self, todo)

        monkeypatch.setattr(ExecutionContext, "_do", do)
        async with here.running() as agent:
            await trio.sleep(1)
            await here.settled(await here.say(room, "hello"))
            assert "broke: ZeroDivisionError" in str(agent.health().problems)
        assert here.adapter.texts == ["hello"]
        assert here.adapter.cleaned == [room]


@guarantee(45)
@case("C52")
@pytest.mark.parametrize("part", ["dispatcher", "presence"])
async def test_any_other_part_that_breaks_ends_the_run(
    part: str, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object) -> None:
        raise ZeroDivisionError("a bug")

    async with stage() as here:
        room = await here.room()
        with pytest.raises(ZeroDivisionError):
            async with here.agent():
                await trio.sleep(1)
                if part == "dispatcher":
                    monkeypatch.setattr("band_trio.protocol.events.parse_event", broken)
                else:
                    monkeypatch.setattr(RoomPresence, "_reconcile", broken)
                await here.say(room, "hello")
                await here.room()
                await trio.sleep(60)


def objects_of_ours() -> int:
    """Return how many objects there are whose class is of the runtime or the link."""
    gc.collect()
    modules = Counter(str(type(each).__module__) for each in gc.get_objects())
    ours = ("band_trio.runtime", "band_trio.link", "band_trio.protocol")
    return sum(n for name, n in modules.items() if name.startswith(ours))


@guarantee(77)
@case("C59")
@pytest.mark.slow
async def test_what_is_kept_per_room_goes_with_the_room(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def visit(here: Stage, rooms: int) -> int:
        """Join, use and leave rooms; return how many objects are left."""
        for _ in range(rooms):
            room = await here.room()
            await here.settled(await here.say(room, "hello"))
            await here.band.user.delete_room(room)
            await trio.sleep(1)
        here.adapter.calls.clear()
        here.trace.clear()
        return objects_of_ours()

    async with stage(settle) as here, here.running():
        before = await visit(here, 10)
        assert await visit(here, 40) <= before + 2


@guarantee(77)
@case("C59")
@pytest.mark.slow
async def test_a_room_of_many_messages_keeps_a_bounded_number(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(settle) as here, here.running():
        room = await here.room()

        async def exchange(messages: int) -> int:
            for _ in range(messages):
                await here.settled(await here.say(room, "hello"))
            here.adapter.calls.clear()
            here.trace.clear()
            return objects_of_ours()

        before = await exchange(150)
        assert await exchange(300) <= before + 2


async def settle(call: Call) -> None:
    """Finish without a word."""
    await trio.lowlevel.checkpoint()
    call.tools.turn.settle()


@guarantee(31)
@case("C01")
async def test_after_a_pass_nothing_is_read_before_the_poll(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def fails(call: Call) -> None:
        await trio.lowlevel.checkpoint()
        raise ValueError("no")

    async with stage(fails) as here:
        room = await here.room()
        config = SessionConfig(idle_resync_seconds=100, idle_resync_max_seconds=200)
        async with here.running(config):
            await here.settled(await here.say(room, "bad"), state="failed")
            await trio.sleep(1000)
            reads = [e for e in here.seen(Read) if e.room_id == room and e.kind == "messages"]
            assert len(reads) <= 13, "it spins on the message that was given up"

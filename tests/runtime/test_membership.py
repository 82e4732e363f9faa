"""Rooms that go and come back: one child at a time, and nothing of an old one in a new."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from band_trio import SessionConfig
from band_trio.trace import Claimed, CleanedUp, Ended, Recorded, RoomServed, Started, TraceEvent
from tests.marks import case, guarantee
from tests.runtime.harness import Call, reply
from tests.runtime.lifecycle_kit import (
    LifeStage,
    lasting,
    life,
    raises,
)
from tests.runtime.views import hang
from tests.support.for_each import for_each

Withdraw = Callable[[LifeStage, str], Awaitable[None]]


async def removed(here: LifeStage, room: str) -> None:
    await here.band.user.remove(room, here.account)


async def deleted(here: LifeStage, room: str) -> None:
    await here.band.user.delete_room(room)


async def unlisted(here: LifeStage, room: str) -> None:
    """The push is lost; the listing after a reconnect does not have the room."""
    fault = here.band.faults.suppress(topic=f"agent_rooms:{here.account.id}", times=None)
    await here.band.user.remove(room, here.account)
    fault.lift()
    here.band.cut(here.account)


def story(here: LifeStage, *kinds: type[TraceEvent]) -> list[tuple[str, str]]:
    """Return the trace events of these kinds as their names with what tells them apart."""
    rows = []
    for _, event in here.trace:
        if isinstance(event, kinds):
            detail = getattr(event, "kind", getattr(event, "how", getattr(event, "answer", "")))
            rows.append((type(event).__name__, detail))
    return rows


# ------------------------------------------------------------------ leaving


@guarantee(54)
@case("C56")
@for_each("withdraw", [removed, deleted, unlisted])
async def test_leaving_ends_the_turn_writes_nothing_and_cleans_up_once(
    withdraw: Withdraw, autojump_clock: trio.testing.MockClock
) -> None:
    async with life(hang) as here:
        room, other = await here.room(), await here.room()
        async with here.running() as agent:
            await here.say(room, "m")
            await trio.sleep(1)
            writes = here.writes()
            await withdraw(here, room)
            await trio.sleep(10)

            assert story(here, Started, Ended, Recorded, CleanedUp) == [
                ("Started", ""), ("Ended", "left"), ("Recorded", "released:left"), ("CleanedUp", ""),
            ]  # fmt: skip
            assert here.adapter.cleaned == [room]
            assert here.writes() == writes, "no mark, no post, no further claim"
            assert agent.health().problems == (), "a 404 for a room that has gone is none"
            assert agent.health().rooms == {"idle": 1}
            assert not any(room in topic for topic in agent.health().pending_topics)
            here.adapter.behaviour = reply
            await here.settled(await here.say(other, "unharmed"))
        assert here.adapter.cleaned == [room, other], "not again at the end"


@guarantee(54)
async def test_an_idle_room_is_cleaned_up_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        room = await here.room()
        async with here.running():
            await here.settled(await here.say(room, "m"))
            await trio.sleep(1)
            at = trio.current_time()
            await removed(here, room)
            await trio.sleep(5)
            assert [when for when, e in here.trace if isinstance(e, CleanedUp)] == [at]
            await here.band.user.add(room, here.account)
            await here.settled(await here.say(room, "again"))
        assert [call.bootstrap for call in here.adapter.calls] == [True, True], "a fresh child"
        assert here.adapter.cleaned == [room, room]


@guarantee(54)
async def test_leaving_does_not_wait_for_a_read_or_a_claim(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        reading, claiming = await here.room(), await here.room()
        here.band.faults.hang(route="messages", room=reading, times=None)
        here.band.faults.hang(route="processing", room=claiming, times=None)
        async with here.running():
            await here.say(claiming, "m")
            await trio.sleep(1)
            at = trio.current_time()
            await removed(here, reading)
            await removed(here, claiming)
            await trio.sleep(5)
            cleaned = [when for when, event in here.trace if isinstance(event, CleanedUp)]
            assert cleaned == [at, at]
            assert here.adapter.calls == []


@guarantee(54)
@case("C57")
@pytest.mark.parametrize("how", ["raises", "hangs"])
async def test_a_clean_up_hook_that_fails_on_leaving_is_bounded_and_told(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with life() as here:
        room = await here.room()
        body = trio.sleep_forever if how == "hangs" else raises(ValueError("no"))
        here.noted.hooks["on_cleanup"] = body
        async with here.running(SessionConfig(hook_seconds=4)) as agent:
            await here.settled(await here.say(room, "one"))
            at = trio.current_time()
            await removed(here, room)
            await here.band.user.add(room, here.account)
            await here.settled(await here.say(room, "two"))
            assert trio.current_time() - at == (4.0 if how == "hangs" else 0.5)
            assert ["on_cleanup" in problem for problem in agent.health().problems] == [True]
            del here.noted.hooks["on_cleanup"]


@guarantee(54)
async def test_nothing_of_a_room_is_claimed_after_it_was_left(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        room = await here.room()
        async with here.running():
            await trio.sleep(1)
            await here.say(room, "m")  # pushed, and then the room is gone
            await removed(here, room)
            at = trio.current_time()
            await trio.sleep(200)
        assert [e for when, e in here.trace if isinstance(e, Claimed) and when > at] == []


# ------------------------------------------------------------------ coming back


@guarantee(54, 55)
@case("C02", "C56")
async def test_a_room_that_comes_back_gets_a_fresh_child_after_the_old_one_has_ended(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The old turn is slow to die; what happens meanwhile belongs to the new membership."""
    async with life() as here:
        room = await here.room()

        @here.adapter.on("slow")
        async def slow(call: Call) -> None:
            if len(here.adapter.calls) > 1:
                await reply(call)
                return
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 20):
                await trio.sleep_forever()

        async with here.running():
            first = await here.say(room, "slow")
            await trio.sleep(1)
            await removed(here, room)
            await trio.sleep(1)
            await here.band.user.add(room, here.account)
            second = await here.say(room, "second")
            await trio.sleep(1)
            assert len(here.adapter.calls) == 1, "the old turn has not ended"
            await here.settled(first, second)

        assert not here.adapter.overlapped
        assert here.adapter.texts == ["slow", "slow", "second"]
        assert [call.bootstrap for call in here.adapter.calls] == [True, True, False]
        assert story(here, RoomServed, Started, Ended, Recorded, CleanedUp) == [
            ("RoomServed", ""),
            ("Started", ""), ("Ended", "left"), ("Recorded", "released:left"), ("CleanedUp", ""),
            ("RoomServed", ""),
            ("Started", ""), ("Ended", "returned"), ("Recorded", "processed"),
            ("Started", ""), ("Ended", "returned"), ("Recorded", "processed"),
            ("CleanedUp", ""),
        ]  # fmt: skip
        assert here.band.attempts(first, here.account) == ["success"], "the same attempt"


@guarantee(55)
@pytest.mark.parametrize("mode", ["stop", "interrupt"])
async def test_a_control_for_the_new_membership_does_not_touch_the_old_turn(
    mode: Any, autojump_clock: trio.testing.MockClock
) -> None:
    async with life() as here:
        room = await here.room()

        @here.adapter.on("slow")
        async def slow(call: Call) -> None:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 20):
                await trio.sleep_forever()

        async with here.running() as agent:
            first = await here.say(room, "slow")
            await trio.sleep(1)
            await removed(here, room)
            await here.band.user.add(room, here.account)
            await trio.sleep(1)
            here.band.signal(here.account, mode, room_id=room)
            here.adapter.by_text["slow"] = reply
            await trio.sleep(25)
            assert [event.kind for event in here.seen(Recorded)][:1] == ["released:left"]
            assert here.adapter.interrupts == []
            if mode == "stop":  # it waits for its play: the new child has not claimed anything
                assert agent.health().rooms == {"stopped": 1}
                assert len(here.adapter.calls) == 1
                here.band.signal(here.account, "play", room_id=room)
            await here.settled(first)
        assert here.adapter.texts == ["slow", "slow"]


@guarantee(54)
@for_each("slow", [False, True], ids=["quick", "slow"])
@for_each("by", ["signal", "room"])
async def test_a_stop_of_the_old_membership_does_not_reach_the_next_one(
    by: str, slow: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """The same signal once more stops the new one: it has not seen it yet."""
    async with life() as here:
        room = await here.room()
        if slow:  # the new membership begins while the old child still ends
            here.noted.hooks["on_cleanup"] = lasting(3)
        async with here.running() as agent:
            await here.settled(await here.say(room, "one"))
            await trio.sleep(1)
            if by == "signal":
                here.band.signal(here.account, "stop", room_id=room, correlation_id="c-1")
            else:
                await here.band.user.stop(room)
            await trio.sleep(1)
            assert agent.health().rooms == {"stopped": 1}
            await removed(here, room)
            await here.band.user.add(room, here.account)
            message = await here.say(room, "two")
            await trio.sleep(4)
            assert here.band.state(message, here.account) == "processed"
            assert agent.health().rooms == {"idle": 1}
            here.band.signal(here.account, "stop", room_id=room, correlation_id="c-1")
            await trio.sleep(1)
            assert agent.health().rooms == {"stopped": 1}


@guarantee(55)
async def test_removed_and_added_in_one_moment_is_one_fresh_child(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        room = await here.room()
        async with here.running():
            await here.settled(await here.say(room, "one"))
            for _ in range(5):
                await removed(here, room)
                await here.band.user.add(room, here.account)
            await here.settled(await here.say(room, "two"))
            assert here.adapter.cleaned == [room] * (len(here.seen(RoomServed)) - 1)
        assert here.adapter.texts == ["one", "two"]
        assert not here.adapter.overlapped


@guarantee(55)
async def test_announced_twice_is_served_once(autojump_clock: trio.testing.MockClock) -> None:
    async with life() as here:
        here.band.faults.duplicate(topic=f"agent_rooms:{here.account.id}", times=None)
        async with here.running():
            room = await here.room()
            await here.settled(await here.say(room, "m"))
        assert len(here.seen(RoomServed)) == 1
        assert here.adapter.texts == ["m"]


async def test_a_room_that_is_added_and_removed_at_once_is_not_served_and_leaves_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here, here.running() as agent:
        here.band.faults.suppress(topic=f"agent_rooms:{here.account.id}", times=None)
        room = await here.room()
        await here.band.user.remove(room, here.account)
        presence = agent._runtime._presence  # type: ignore[union-attr]
        assert presence is not None
        presence.added(room, None)
        presence.removed(room)
        await trio.sleep(5)
        assert agent.health().rooms == {}
        assert story(here, RoomServed, CleanedUp) == []


@guarantee(28, 29, 54)
async def test_a_room_that_goes_and_comes_before_its_task_has_begun_is_served(
    autojump_clock: trio.testing.MockClock,
) -> None:
    session = SessionConfig(idle_resync_seconds=1e6, idle_resync_max_seconds=1e6)
    async with life() as here, here.running(session) as agent:
        here.band.faults.suppress(event="room_added")
        room = await here.room()
        presence = agent._runtime._presence  # type: ignore[union-attr]
        assert presence is not None
        presence.added(room, None)
        presence._reconcile()  # its task is there, and has not made a step
        presence.removed(room)
        presence.added(room, None)
        await trio.sleep(1)
        assert agent.health().rooms == {"idle": 1}
        assert story(here, RoomServed, CleanedUp) == [("RoomServed", "")]
        await here.settled(await here.say(room, "hello"))

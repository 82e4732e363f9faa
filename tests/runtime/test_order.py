"""Order, concurrency of rooms, and exactly one run per message, however it arrives."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest
import trio
import trio.testing

from band_trio import SessionConfig
from band_trio.localband import posting
from band_trio.localband.mentions import Mentioned
from band_trio.localband.world import World
from band_trio.protocol.phoenix import Frame
from band_trio.trace import Claimed, Recorded, RoomServed, Started
from tests.marks import case, guarantee
from tests.runtime.harness import Call, Stage, reply, stage
from tests.runtime.views import (
    claims,
    fail,
    hang,
    lasting,
    payload,
    push_again,
    reads,
    records,
    sent,
    started_at,
    starts,
)
from tests.support.for_each import for_each

QUIET = SessionConfig(idle_resync_seconds=1e7, idle_resync_max_seconds=1e7)
"""No poll comes into the way."""

# --------------------------------------------------------------------------- one after the other


@guarantee(1, 2)
async def test_calls_of_one_room_never_overlap_and_one_claim_is_held_at_a_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(lasting(1)) as here:
        room = await here.room()
        began = trio.current_time()
        async with here.running():
            messages = [await here.say(room, f"m{n}") for n in range(5)]
            await here.settled(*messages)

        assert here.adapter.texts == [f"m{n}" for n in range(5)]
        assert not here.adapter.overlapped
        assert [started_at(here, each) for each in messages] == [
            [pytest.approx(began + n)] for n in range(5)
        ]
        # A message is claimed only after the one before it has its record.
        order = [
            (e.message_id, type(e)) for _, e in here.trace if isinstance(e, Claimed | Recorded)
        ]
        assert order == [(m, what) for m in messages for what in (Claimed, Recorded)]


@guarantee(1)
@for_each("how", ["interrupt", "stop", "leave"])
async def test_a_turn_that_dies_slowly_holds_its_room_until_it_has_ended(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    async def dies_slowly(call: Call) -> None:
        if len(here.adapter.calls) > 1:
            await reply(call)
            return
        try:
            await trio.sleep_forever()
        finally:
            with trio.move_on_after(20, shield=True):
                await trio.sleep(7)

    async with stage(dies_slowly) as here:
        room = await here.room()
        async with here.running():
            first = await here.say(room, "m0")
            second = await here.say(room, "m1")
            await here.adapter.until_running()
            ended = trio.current_time()
            if how == "interrupt":
                await here.band.user.interrupt(here.account)
            elif how == "stop":
                await here.band.user.stop(room)
                await here.band.user.play(room)
            else:
                await here.band.user.remove(room, here.account)
                await here.band.user.add(room, here.account)
            await here.settled(first, second)

        assert not here.adapter.overlapped
        again = [] if how == "interrupt" else [first]
        assert starts(here) == [first, *again, second]
        assert started_at(here, (again or [second])[0])[-1] == pytest.approx(ended + 7)


@guarantee(4, 5)
@pytest.mark.parametrize(
    ("drifting", "count"), [(False, 130), (True, 250)], ids=["stable cursors", "drifting cursors"]
)
async def test_a_backlog_of_many_pages_runs_in_order_behind_what_cannot_run(
    drifting: bool, count: int, autojump_clock: trio.testing.MockClock
) -> None:
    """The head is not ours to run, so the list is paged; settling shifts drifting pages."""

    async def silent(call: Call) -> None:
        await call.tools.no_reply()

    async with stage(silent) as here:
        room = await here.room()
        here.band.world.drifting_cursors = drifting
        say_to_itself(here, room)
        messages = [await here.say(room, f"m{n}") for n in range(count)]
        quick = SessionConfig(enable_context_hydration=False, enable_working_state=False)
        async with here.running(quick):
            await here.settled(*messages)
        assert starts(here) == messages


# --------------------------------------------------------------------------- rooms beside each other


def slow_handler(here: Stage, room: str) -> None:
    here.adapter.on("slow")(hang)


def failing_handler(here: Stage, room: str) -> None:
    here.adapter.on("slow")(fail)


def slow(route: str) -> Callable[[Stage, str], None]:
    def break_it(here: Stage, room: str) -> None:
        here.band.faults.hang(route=route, room=room, times=None)

    break_it.__name__ = f"hanging_{route}"
    return break_it


def failing(route: str) -> Callable[[Stage, str], None]:
    def break_it(here: Stage, room: str) -> None:
        here.band.faults.refuse(500, route=route, room=room, times=None)

    break_it.__name__ = f"failing_{route}"
    return break_it


ROUTES = ["messages", "processing", "processed", "participants", "context", "activity"]


@guarantee(3)
@for_each(
    "breakage",
    [slow_handler, failing_handler, *map(slow, ROUTES), *map(failing, ROUTES)],
    ids=lambda breakage: breakage.__name__,
)
async def test_what_is_slow_or_broken_in_one_room_delays_no_other(
    breakage: Callable[[Stage, str], None], autojump_clock: trio.testing.MockClock
) -> None:
    async with stage() as here:
        bad, good = await here.room(), await here.room()
        breakage(here, bad)
        session = SessionConfig(history_seconds=300, roster_seconds=300)
        async with here.running(session, grace=0):
            await here.say(bad, "slow")
            await trio.sleep(1)
            for n in range(3):
                began = trio.current_time()
                message = await here.say(good, f"m{n}")
                await here.settled(message)
                assert started_at(here, message) == [pytest.approx(began)]
                assert trio.current_time() == pytest.approx(began)
            fresh, began = await here.room(), trio.current_time()
            message = await here.say(fresh, "in a room that starts meanwhile")
            await here.settled(message)
            assert trio.current_time() == pytest.approx(began)
            here.band.faults.clear()


@guarantee(3)
async def test_turns_of_many_rooms_run_at_the_same_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(lasting(5)) as here:
        rooms = [await here.room() for _ in range(30)]
        async with here.running():
            began = trio.current_time()
            messages = [await here.say(room, "go") for room in rooms]
            await here.settled(*messages)
            assert trio.current_time() == pytest.approx(began + 5)

        assert here.adapter.rooms_at_once == 30


@guarantee(1, 3)
@case("C04")
async def test_the_platforms_order_counts_not_the_order_of_readiness(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        one, other = await here.room(), await here.room()
        here.band.faults.delay(2, route="context", room=one)
        async with here.running():
            began = trio.current_time()
            first = await here.say(one, "m1")
            second = await here.say(one, "m2")
            third = await here.say(other, "m3")
            await here.settled(first, second, third)

        assert starts(here) == [third, first, second]
        assert started_at(here, third) == [pytest.approx(began)]
        assert started_at(here, first) == [pytest.approx(began + 2)]


# --------------------------------------------------------------------------- exactly once


@guarantee(6)
async def test_a_message_from_before_the_start_runs_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        message = await here.say(room, "early")
        async with here.running():
            await here.settled(message)
            await trio.sleep(300)
        assert starts(here) == [message]
        assert claims(here) == [(message, "claimed")]


@guarantee(6)
@pytest.mark.parametrize("answer", [True, False], ids=["answered before it", "answered with it"])
async def test_a_message_that_is_pushed_during_the_first_read_runs_once(
    answer: bool, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage() as here:
        room = await here.room()
        here.band.faults.delay(5, answer=answer, route="messages", times=1)
        async with here.running():
            await trio.sleep(2)
            message = await here.say(room, "meanwhile")
            await here.settled(message)
            await trio.sleep(300)
        assert starts(here) == [message]
        assert claims(here) == [(message, "claimed")]


@guarantee(6)
async def test_a_message_of_an_idle_room_is_claimed_without_a_read(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running(QUIET):
            await trio.sleep(1)  # the first read; what it lists is no measure of time
            await here.settled(await here.say(room, "first"))
            await trio.sleep(1)
            before = len(reads(here, room))
            messages = [await here.say(room, f"m{n}") for n in range(10)]
            await here.settled(*messages)
            assert not {"next", "messages"} & set(reads(here, room)[before:])

        assert starts(here)[1:] == messages


@guarantee(6, 21)
@case("C02")
async def test_a_room_that_is_announced_twice_runs_its_message_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(lasting(3)) as here:
        async with here.running():
            here.band.faults.duplicate(3, event="room_added", times=None)
            room = await here.room()
            message = await here.say(room, "hello")
            await here.adapter.until_running()
            push_again(here, room, payload(here, message))
            await here.settled(message)
            await trio.sleep(300)
        assert starts(here) == [message]
        assert len(here.seen(RoomServed)) == 1


@guarantee(6)
@case("C02")
async def test_a_room_that_is_left_and_entered_again_never_runs_twice_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(lasting(3)) as here:
        room = await here.room()
        async with here.running():
            message = await here.say(room, "hello")
            await here.adapter.until_running()
            await here.band.user.remove(room, here.account)
            await here.band.user.add(room, here.account)
            await here.settled(message)
            await trio.sleep(300)

        assert records(here) == [(message, "released:left"), (message, "processed")]
        assert not here.adapter.overlapped


@guarantee(6, 21)
@case("C03")
async def test_no_double_and_no_gap_between_backlog_and_pushes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(lasting(1)) as here:
        room = await here.room()
        messages = [await here.say(room, f"m{n}") for n in range(1, 9)]
        guest = here.band.register_agent("Guest")
        async with here.running():
            await here.adapter.until_running()
            push_again(here, room, payload(here, messages[5]))
            await here.band.user.add(room, guest)
            for message in messages[6:]:
                push_again(here, room, payload(here, message))
            messages += [await here.say(room, f"m{n}") for n in range(9, 11)]
            await here.settled(*messages)
            await trio.sleep(60)
            push_again(here, room, payload(here, messages[2]))
            await trio.sleep(60)

        assert starts(here) == messages
        assert len(sent(here, "processing", messages[2])) == 1
        told = [call.text for call in here.adapter.calls if "Guest" in str(call.participants_msg)]
        assert told == ["m2"]  # the first turn that begins after the guest came


@guarantee(6)
@case("C07")
async def test_a_hint_in_the_tick_of_the_poll_is_neither_lost_nor_doubled(
    autojump_clock: trio.testing.MockClock,
) -> None:
    quiet = SessionConfig(idle_resync_seconds=10, idle_resync_max_seconds=10)
    async with stage() as here:
        room = await here.room()
        async with here.running(quiet):
            await here.settled(await here.say(room, "first"))
            messages = []
            for n in range(40):
                await read_once_more(here, room)
                before = len(reads(here, room))
                # The next poll is due in exactly the idle time; the push arrives in that tick.
                await trio.sleep(10)
                messages.append(await here.say(room, f"m{n}"))
                await here.settled(messages[-1])
                await trio.sleep(1)
                meanwhile = reads(here, room)[before:]
                assert meanwhile.count("messages") <= 2  # the poll, and what the hint asks for
            assert starts(here)[1:] == messages
            assert [answer for _, answer in claims(here)] == ["claimed"] * 41


async def read_once_more(here: Stage, room: str) -> None:
    """Wait for the next read of a room's list."""
    before = len(reads(here, room))
    await here.band.until(lambda: len(reads(here, room)) > before)


# --------------------------------------------------------------------------- copies


@guarantee(21)
@for_each("copies", [2, 5, 200])
async def test_copies_of_a_push_cause_one_turn(
    copies: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage(lasting(1)) as here:
        room = await here.room()
        async with here.running():
            await here.settled(await here.say(room, "first"))
            here.band.faults.duplicate(copies, event="message_created", times=None)
            messages = [await here.say(room, f"m{n}") for n in range(3)]
            await here.settled(*messages)
            await trio.sleep(200)
        assert starts(here)[1:] == messages
        assert [m for m, _ in claims(here)][1:] == messages


@guarantee(19, 21)
@pytest.mark.parametrize("later", [1, 140])
async def test_an_old_copy_is_not_claimed_however_many_came_after_it(
    later: int, autojump_clock: trio.testing.MockClock
) -> None:
    """The copy shows the message as it was when it was pushed first: not yet processed."""
    async with stage() as here:
        room = await here.room()
        async with here.running():
            old = await here.say(room, "old")
            copy = payload(here, old)
            await here.settled(old)
            await here.settled(*[await here.say(room, f"m{n}") for n in range(later)])
            for _ in range(3):
                push_again(here, room, copy)
                await trio.sleep(5)
        assert starts(here).count(old) == 1
        assert len(sent(here, "processing", old)) == 1


@guarantee(19)
async def test_a_processed_message_is_not_claimed_by_a_process_that_never_saw_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running():
            old = await here.say(room, "old")
            await here.settled(old)
        async with here.running():
            await trio.sleep(5)
            push_again(here, room, payload(here, old))  # says that it is processed
            await trio.sleep(5)
            await here.settled(await here.say(room, "new"))
            stale = payload(here, old)
            stale["metadata"] = {**stale["metadata"], "delivery_status": {}}
            push_again(here, room, stale)  # does not say so, but is older than what was done
            await trio.sleep(5)
        assert starts(here).count(old) == 1
        assert len(sent(here, "processing", old)) == 1


@guarantee(21)
async def test_a_copy_that_overtakes_and_one_that_lags_cause_one_turn(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running():
            await here.settled(await here.say(room, "first"))
            held = here.band.faults.hold(event="message_created")
            messages = [await here.say(room, f"m{n}") for n in range(4)]
            here.band.faults.pushes.remove(held)
            messages.append(await here.say(room, "m4"))  # overtakes all of them
            await trio.sleep(1)
            held.release(reverse=True)
            await here.settled(*messages)
            await trio.sleep(5)
            for message in messages:
                push_again(here, room, payload(here, message))
            await trio.sleep(200)
        assert sorted(starts(here)[1:]) == sorted(messages)
        assert len(claims(here)) == len(messages) + 1


@guarantee(21)
async def test_stale_copies_together_cause_one_pass(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running(QUIET):
            await trio.sleep(1)  # the first read; what it lists is no measure of time
            await here.settled(await here.say(room, "first"))
            old = [await here.say(room, f"old{n}") for n in range(40)]
            copies = [payload(here, message) for message in old]
            await here.settled(*old)
            await here.settled(*[await here.say(room, f"m{n}") for n in range(140)])
            await trio.sleep(5)
            before = len(reads(here, room))
            here.band.faults.delay(1, route="messages", times=None)  # all arrive during one read
            for copy in copies:
                push_again(here, room, copy)
            await trio.sleep(20)
            assert reads(here, room)[before:] == ["messages", "messages"]
        assert len(claims(here)) == 181


@guarantee(19, 21)
async def test_messages_of_one_instant_are_told_apart_by_their_ids(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All carry the watermark's time stamp, more of them than are remembered otherwise."""
    async with stage() as here:
        room = await here.room()
        async with here.running():
            await here.settled(await here.say(room, "first"))
            stamp = here.band.world.stamp()
            monkeypatch.setattr(World, "stamp", lambda _: stamp)
            messages = [await here.say(room, f"m{n}") for n in range(140)]
            copies = [payload(here, message) for message in messages]
            await here.settled(*messages)
            for copy in copies[::-1]:
                push_again(here, room, copy)
            await trio.sleep(5)
        assert starts(here)[1:] == messages
        assert len(claims(here)) == 141


# --------------------------------------------------------------------------- our own messages


def say_to_itself(here: Stage, room_id: str) -> str:
    """Post a message of the agent that mentions the agent, as another process of it might."""
    world = here.band.world
    agent, room = world.parties[here.account.id], world.rooms[room_id]
    mention = Mentioned(agent, "mention", None)
    return posting._append(world, room, agent, "note to self", "text", [mention], {}).id


@guarantee(23)
@case("C06")
async def test_own_messages_are_never_handled_and_do_not_stop_the_drain(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        own = [say_to_itself(here, room) for _ in range(3)]
        waiting = await here.say(room, "behind them")
        async with here.running(QUIET):
            await here.settled(waiting)
            own.append(say_to_itself(here, room))  # pushed to us, at the head of the list
            await here.settled(await here.say(room, "after them"))
            await trio.sleep(5)
            before = len(reads(here, room))
            await trio.sleep(200)
            assert len(reads(here, room)) - before <= 2  # it does not go round in circles

        assert here.adapter.texts == ["behind them", "after them"]
        assert not {message for message, _ in claims(here)} & set(own)
        history = here.adapter.calls[0].history.raw
        assert [(row["id"], row["role"]) for row in history] == [
            (each, "assistant") for each in own[:3]
        ]


@guarantee(23)
@case("C06")
async def test_an_echo_of_our_reply_is_not_handled(
    autojump_clock: trio.testing.MockClock,
) -> None:
    def as_ours(frame: Frame) -> Frame:
        return attrs.evolve(frame, payload={**frame.payload, "sender_id": here.account.id})

    async with stage() as here:
        room = await here.room()
        async with here.running(QUIET):
            await here.settled(await here.say(room, "first"))
            await trio.sleep(1)
            before = reads(here, room)
            here.band.faults.alter(as_ours, event="message_created")
            await here.say(room, "echo")
            await trio.sleep(1)
            assert here.adapter.texts == ["first"]
            assert reads(here, room) == before  # as pushed it is ours: not even a hint


async def test_the_attempt_in_the_trace_counts_failed_runs(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(fail) as here:
        room = await here.room()
        async with here.running(SessionConfig(max_message_retries=3, retry_base_seconds=1)):
            await here.say(room, "bad")
            await trio.sleep(60)
        assert [event.attempt for event in here.seen(Started)] == [1, 2, 3]

"""Interrupt, stop and play against turns in every state, pushed, copied, observed or missed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
import trio
import trio.testing

from band_trio import RoomExecutionStoppedError, SessionConfig
from band_trio.localband.fault_rules import PushFacts, RequestFault
from band_trio.localband.faults import error_reply
from band_trio.trace import Controlled, Recorded
from tests.marks import case, guarantee
from tests.runtime.harness import Call, Scripted, Stage, reply, stage
from tests.runtime.views import fail, hang, sent


def records(here: Stage) -> list[str]:
    return [event.kind for event in here.seen(Recorded)]


def is_control(facts: PushFacts) -> bool:
    return facts.frame.event == "agent.control"


@guarantee(17)
async def test_an_interrupted_message_is_processed_and_never_runs_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(hang) as here:
        room = await here.room()
        async with here.running():
            first = await here.say(room, "first")
            await here.adapter.until_running()
            await here.band.user.interrupt(here.account)
            await here.settled(first)
            here.adapter.behaviour = reply
            second = await here.say(room, "second")
            await here.settled(second)
            await trio.sleep(300)

        assert here.adapter.texts == ["first", "second"]
        assert records(here) == ["processed", "processed"]
        assert here.adapter.interrupts == [(room, "interrupt")]


@guarantee(17)
async def test_a_stopped_message_stays_processing_and_uncharged(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(hang) as here:
        room = await here.room()
        async with here.running():
            message = await here.say(room, "work")
            await here.adapter.until_running()
            await here.band.user.stop(room)
            await trio.sleep(600)

            assert here.band.state(message, here.account) == "processing"
            assert here.band.attempts(message, here.account) == ["processing"]
        assert records(here) == ["released:stop"]
        assert here.adapter.texts == ["work"]
        assert here.adapter.interrupts == [(room, "stop")]


@guarantee(35, 49)
@case("C15")
async def test_stop_then_play_runs_the_stopped_message_first(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(hang) as here:
        room = await here.room()
        async with here.running():
            messages = [await here.say(room, f"m{n}") for n in range(3)]
            await here.adapter.until_running()
            for _ in range(3):
                await here.band.user.stop(room)
                await trio.sleep(5)
                await here.band.user.play(room)
                await here.adapter.until_running()
            here.adapter.behaviour = reply
            await here.band.user.stop(room)
            await trio.sleep(5)
            await here.band.user.play(room)
            await here.settled(*messages)

        assert here.adapter.texts == ["m0"] * 5 + ["m1", "m2"]
        assert records(here) == ["released:stop"] * 4 + ["processed"] * 3
        assert here.band.attempts(messages[0], here.account) == ["success"], "nothing is charged"


@guarantee(49)
async def test_play_before_the_stopped_turn_has_ended_still_runs_it_first(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()

        async def dies_slowly(call: Call) -> None:
            if len(here.adapter.calls) > 1:
                await reply(call)
                return
            try:
                await trio.sleep_forever()
            finally:
                with trio.move_on_after(10, shield=True):
                    await trio.sleep(3)

        here.adapter.behaviour = dies_slowly
        async with here.running():
            messages = [await here.say(room, f"m{n}") for n in range(3)]
            await here.adapter.until_running()
            await here.band.user.stop(room)
            await here.band.user.play(room)
            await here.settled(*messages)

        assert here.adapter.texts == ["m0", "m0", "m1", "m2"]
        assert not here.adapter.overlapped


class Slow(Scripted):
    """Takes its time to hear of a stop."""

    async def on_interrupt(self, room_id: str, mode: str) -> None:
        await trio.sleep(4)


async def pushed_during_the_hook(here: Stage, room: str) -> None:
    await here.band.user.play(room)
    await trio.sleep(1)
    await here.band.user.stop(room)


async def seen_in_the_answer_to_the_claim(here: Stage, room: str) -> None:
    await trio.sleep(5)  # the hook is over
    here.band.faults.delay(0.5, route="processing", times=1)
    await here.band.user.play(room)
    await trio.sleep(0.25)
    here.band.faults.suppress(event="agent.control", times=1)
    await here.band.user.stop(room)


@guarantee(49)
@pytest.mark.parametrize("again", [pushed_during_the_hook, seen_in_the_answer_to_the_claim])
async def test_a_second_stop_before_the_stopped_message_runs_leaves_it_the_first(
    again: Callable[[Stage, str], Awaitable[None]], autojump_clock: trio.testing.MockClock
) -> None:
    """An older message, which was set aside, is due by then."""
    session = SessionConfig(
        max_message_retries=9, retry_base_seconds=20, retry_cap_seconds=20, hold_seconds=2
    )
    async with stage() as here:
        here.adapter = Slow()
        room = await here.room()
        here.adapter.on("older")(fail)
        here.adapter.on("stopped")(hang)
        async with here.running(session):
            await here.say(room, "older")
            await here.say(room, "stopped")
            await trio.sleep(5)
            assert here.adapter.texts == ["older", "stopped"]
            await here.band.user.stop(room)
            await trio.sleep(1)
            await again(here, room)
            await trio.sleep(30)
            assert here.adapter.texts == ["older", "stopped"]
            await here.band.user.play(room)
            await here.adapter.until_running()

        assert here.adapter.texts == ["older", "stopped", "stopped"]


@guarantee(50)
@case("C15")
async def test_nothing_is_claimed_while_stopped(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running():
            await trio.sleep(1)
            await here.band.user.stop(room)
            await here.say(room, "later")
            await trio.sleep(400)
            assert here.adapter.calls == []
            assert here.band.log.requests("processing") == []
            await here.band.user.play(room)
            await here.band.until(lambda: len(here.adapter.calls) == 1)


@guarantee(50)
async def test_a_missed_play_is_found_by_the_probe(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running(SessionConfig(stopped_resync_seconds=20)):
            await trio.sleep(1)
            await here.band.user.stop(room)
            message = await here.say(room, "later")
            await trio.sleep(1)
            here.band.faults.suppress(when=is_control)
            await here.band.user.play(room)
            resumed = trio.current_time()
            await here.settled(message)

        assert trio.current_time() - resumed <= 21


@guarantee(50)
async def test_a_missed_stop_is_seen_in_the_next_answer(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()

        async def late_reply(call: Call) -> None:
            await trio.sleep(5)
            await reply(call)

        here.adapter.behaviour = late_reply
        async with here.running(SessionConfig(enable_working_state=False)):
            message = await here.say(room, "work")
            await here.adapter.until_running()
            here.band.faults.suppress(when=is_control)
            await here.band.user.stop(room)
            await trio.sleep(60)
            assert records(here) == ["released:stop"]
            assert here.adapter.interrupts == [(room, "stop")]
            await here.band.user.play(room)
            await here.settled(message)

        assert records(here) == ["released:stop", "processed"]


@guarantee(50)
async def test_a_read_of_the_list_that_is_refused_as_stopped_is_a_stop(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running(SessionConfig(stopped_resync_seconds=20)) as agent:
            await here.settled(await here.say(room, "before"))
            text = "Agent execution is stopped"
            refused = here.band.faults.refuse(403, message_text=text, route="messages", times=None)
            here.band.cut(here.account)
            await trio.sleep(30)
            assert agent.health().rooms == {"stopped": 1}
            assert here.adapter.interrupts == [(room, "stop")]
            listings = len(sent(here, "chats"))
            await trio.sleep(300)
            assert len(sent(here, "chats")) == listings  # nobody doubts that the room is there
            refused.lift()
            await here.settled(await here.say(room, "after"))


@guarantee(50)
async def test_a_working_report_answered_with_false_is_a_stop(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(hang) as here:
        room = await here.room()
        async with here.running():
            await here.say(room, "work")
            await here.adapter.until_running()
            here.band.faults.suppress(when=is_control)
            await here.band.user.stop(room)
            await trio.sleep(4)

            assert records(here) == ["released:stop"]


@guarantee(50)
async def test_an_answer_that_says_stopped_from_before_the_play_stops_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def posts_to_the_end(call: Call) -> None:
        with trio.move_on_after(30, shield=True), suppress(RoomExecutionStoppedError):
            await reply(call)

    async with stage() as here:
        here.adapter.on("work")(posts_to_the_end)
        room = await here.room()
        async with here.running(SessionConfig(stopped_resync_seconds=1e6)) as agent:
            late = RequestFault(
                delay_answer=5, commit=False,
                answer=error_reply(403, None, "Agent execution is stopped", None, None),
            )  # fmt: skip
            here.band.faults.on_request(late, route="post_message")
            message = await here.say(room, "work")
            await here.adapter.until_running()
            await trio.sleep(1)
            await here.band.user.stop(room)
            await here.band.user.play(room)
            assert sent(here, "post_message")
            assert here.adapter.running
            await here.settled(message)
            await trio.sleep(1)
            assert agent.health().rooms == {"idle": 1}

        assert records(here) == ["released:stop", "processed"]


@guarantee(40)
@case("C15")
async def test_a_stop_during_the_claim_keeps_the_handler_from_starting(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running():
            await trio.sleep(1)
            here.band.faults.delay(2, answer=True, route="processing")
            message = await here.say(room, "work")
            await trio.sleep(1)
            await here.band.user.stop(room)
            await trio.sleep(30)
            assert here.adapter.calls == []
            assert here.band.state(message, here.account) == "processing"
            await here.band.user.play(room)
            await here.settled(message)

        assert records(here) == ["released:stop", "processed"]
        assert here.band.attempts(message, here.account) == ["success"]


@guarantee(40)
async def test_an_interrupt_during_the_claim_consumes_the_message(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running():
            await trio.sleep(1)
            here.band.faults.delay(2, answer=True, route="processing")
            message = await here.say(room, "work")
            await trio.sleep(1)
            await here.band.user.interrupt(here.account)
            await here.settled(message)

        assert here.adapter.calls == []
        assert records(here) == ["processed"]


@guarantee(39)
async def test_an_interrupt_between_turns_affects_no_later_turn(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running():
            await here.settled(await here.say(room, "a"))
            await here.band.user.interrupt(here.account)
            await trio.sleep(1)
            await here.settled(await here.say(room, "b"))

        assert records(here) == ["processed", "processed"]
        assert here.adapter.interrupts == []


@guarantee(41)
@pytest.mark.parametrize("last", ["interrupt", "stop"])
async def test_the_last_control_before_the_record_decides(
    last: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage() as here:
        room = await here.room()

        async def dies_slowly(call: Call) -> None:
            try:
                await trio.sleep_forever()
            finally:
                with trio.move_on_after(10, shield=True):
                    await trio.sleep(5)

        here.adapter.behaviour = dies_slowly
        async with here.running():
            await here.say(room, "work")
            await here.adapter.until_running()
            user = here.band.user
            if last == "stop":
                await user.interrupt(here.account)
                await user.stop(room)
            else:
                await user.stop(room)
                await user.interrupt(here.account)
            await trio.sleep(10)

        assert records(here) == ["processed" if last == "interrupt" else "released:stop"]


@guarantee(24)
async def test_a_copied_control_acts_once(autojump_clock: trio.testing.MockClock) -> None:
    async with stage(hang) as here:
        room = await here.room()
        async with here.running():
            messages = [await here.say(room, "a"), await here.say(room, "b")]
            await here.adapter.until_running()
            here.band.faults.duplicate(3, when=is_control)
            await here.band.user.interrupt(here.account)
            await here.settled(messages[0])
            await trio.sleep(5)
            assert [call.text for call in here.adapter.running] == ["b"]

        assert [event.applied for event in here.seen(Controlled)] == [True, False, False]


@guarantee(48)
async def test_an_agent_wide_interrupt_reaches_every_room_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(hang) as here:
        rooms = [await here.room() for _ in range(5)]

        async def hanging_hook(room_id: str, mode: str) -> None:
            await trio.sleep_forever()

        here.adapter.on_interrupt = hanging_hook  # type: ignore[method-assign]
        async with here.running():
            messages = [await here.say(room, "x") for room in rooms]
            await here.adapter.until_running(5)
            began = trio.current_time()
            await here.band.user.interrupt(here.account)
            await here.settled(*messages)

            assert trio.current_time() - began < 0.1


@guarantee(8)
async def test_a_control_does_not_wait_for_an_earlier_hook(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(hang) as here:
        room = await here.room()

        async def slow_hook(room_id: str, mode: str) -> None:
            await trio.sleep(4)

        here.adapter.on_interrupt = slow_hook  # type: ignore[method-assign]
        async with here.running():
            await here.say(room, "a")
            await here.adapter.until_running()
            await here.band.user.interrupt(here.account)
            await here.band.user.stop(room)
            await here.band.user.play(room)
            await trio.sleep(0.1)

        assert [event.mode for event in here.seen(Controlled)] == ["interrupt", "stop", "play"]


async def test_a_stop_from_before_the_start_holds_from_the_first_read(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        message = await here.say(room, "early")
        await here.band.user.stop(room)
        async with here.running():
            await trio.sleep(30)
            assert here.adapter.calls == []
            await here.band.user.play(room)
            await here.settled(message)


@guarantee(17)
@case("C15")
async def test_an_interrupt_whose_mark_fails_is_repeated_and_never_runs_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(hang) as here:
        room = await here.room()
        async with here.running():
            here.band.faults.refuse(500, route="processed", times=2)
            message = await here.say(room, "work")
            await here.adapter.until_running()
            await here.band.user.interrupt(here.account)
            await here.settled(message)
            await trio.sleep(200)
        assert here.adapter.texts == ["work"]


@guarantee(45)
async def test_a_stop_in_the_moment_in_which_a_room_ends_harms_nobody(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running() as agent:
            await here.settled(await here.say(room, "work"))
            presence = agent._runtime._presence  # type: ignore[union-attr]
            assert presence is not None
            child = presence.room(room)
            assert child is not None
            await here.band.user.remove(room, here.account)
            await trio.sleep(1)
            assert here.adapter.cleaned == [room]
            child.control("stop")  # its nursery is closed, and it is not taken out yet
        assert here.adapter.interrupts == []

"""Controls, cancellations, groups, threads and late calls."""

from __future__ import annotations

import asyncio
import threading
import time
from contextvars import ContextVar
from typing import Any

import pytest
import trio
import trio.testing

from band_trio import DefaultPreprocessor, SessionConfig, TurnClosedError
from band_trio.localband.records import ActivityRecord
from band_trio.trace import Ended, GivenUp, Recorded
from tests.marks import case, guarantee
from tests.runtime.harness import Call, Stage, reply, stage
from tests.support.for_each import for_each


def records(here: Stage) -> list[str]:
    return [event.kind for event in here.seen(Recorded)]


async def texts(here: Stage, room: str) -> list[str]:
    """Return what the agent said, without the mentions."""
    rows = await here.band.user.messages(room)
    return [
        row["content"].split(" ", 1)[-1]
        for row in rows
        if row["sender_id"] == here.account.id and row["message_type"] == "text"
    ]


@guarantee(27, 36)
@case("C13")
async def test_retries_are_spaced_and_the_next_message_waits(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def fails(call: Call) -> None:
        await trio.sleep(0.001)
        if call.text == "bad":
            raise ValueError("no")
        await reply(call)

    async with stage(fails) as here:
        room, other = await here.room(), await here.room()
        config = SessionConfig(max_message_retries=3, retry_base_seconds=4)
        async with here.running(config):
            bad, good = await here.say(room, "bad"), await here.say(room, "good")
            began = trio.current_time()
            await here.settled(await here.say(other, "hello"))
            assert trio.current_time() - began < 1
            await here.settled(good)

        called = [call.text for call in here.adapter.calls if call.room_id == room]
        assert called == ["bad", "bad", "bad", "good"]
        ends = [at for at, e in here.trace if isinstance(e, Ended) and e.message_id == bad]
        assert ends[1] - ends[0] >= 2
        assert ends[2] - ends[1] >= 4
        assert [event.message_id for event in here.seen(GivenUp)] == [bad]


@guarantee(50)
@case("C15")
async def test_nothing_runs_over_many_polls_of_a_stopped_room(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running(SessionConfig(idle_resync_seconds=10, idle_resync_max_seconds=10)):
            await trio.sleep(1)
            await here.band.user.stop(room)
            await here.say(room, "later")
            await trio.sleep(60)
            assert here.adapter.calls == []
            assert here.band.log.requests("processing") == []


@guarantee(40)
@case("C15")
async def test_a_stop_while_the_claim_is_in_flight_starts_no_handler(
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
            await trio.sleep(20)
            assert here.adapter.calls == []
            assert here.band.state(message, here.account) == "processing"
            await here.band.user.play(room)
            await here.settled(message)
        assert here.adapter.texts == ["work"]
        assert here.band.attempts(message, here.account) == ["success"]


@guarantee(35, 49)
@case("C15")
async def test_stopped_three_times_it_runs_to_its_end_uncharged(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def works(call: Call) -> None:
        await trio.sleep(5)
        await reply(call)

    async with stage(works) as here:
        room = await here.room()
        async with here.running():
            message = await here.say(room, "work")
            for _ in range(3):
                await here.adapter.until_running()
                await trio.sleep(1)
                await here.band.user.stop(room)
                await trio.sleep(1)
                await here.band.user.play(room)
            await here.settled(message)
        assert records(here) == ["released:stop"] * 3 + ["processed"]
        assert here.band.attempts(message, here.account) == ["success"]


@guarantee(17)
@case("C15")
async def test_an_interrupt_whose_mark_fails_is_repeated_and_never_runs_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def hangs(call: Call) -> None:
        await trio.sleep_forever()

    async with stage(hangs) as here:
        room = await here.room()
        async with here.running():
            here.band.faults.refuse(500, route="processed", times=2)
            message = await here.say(room, "work")
            await here.adapter.until_running()
            await here.band.user.interrupt(here.account)
            await here.settled(message)
            await trio.sleep(200)
        assert here.adapter.texts == ["work"]


@guarantee(13, 71)
@case("C16")
@pytest.mark.parametrize("way", ["interrupt", "timeout"])
async def test_the_runtimes_writes_happen_in_a_cancelled_turn(
    way: str, autojump_clock: trio.testing.MockClock
) -> None:
    async def posts_while_it_dies(call: Call) -> None:
        try:
            await trio.sleep_forever()
        finally:
            await reply(call)  # noqa: ASYNC102 - raises again, as the turn is cancelled

    async with stage(posts_while_it_dies) as here:
        room = await here.room()
        async with here.running(SessionConfig(max_cycle_seconds=5)):
            message = await here.say(room, "work")
            await here.adapter.until_running()
            await trio.sleep(1)
            if way == "interrupt":
                await here.band.user.interrupt(here.account)
            state = "processed" if way == "interrupt" else "failed"
            await here.settled(message, state=state)
            await trio.sleep(5)
            delivery = here.band.world.messages[message].deliveries[here.account.id]

        assert await texts(here, room) == []
        activity = [row.working for row in here.band.log.of(ActivityRecord)]
        assert activity[0]
        assert not activity[-1], "it is still shown as working"
        error = delivery.attempts[-1].error
        assert error is None if way == "interrupt" else "max_cycle_seconds" in str(error)


@guarantee(41)
@case("C17")
async def test_a_tool_that_swallows_the_cancellation_is_interrupted_all_the_same(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def tool() -> str:
        try:
            await trio.sleep_forever()
        except BaseException:  # noqa: ASYNC103, BLE001 - what it is about
            return "err"  # noqa: ASYNC104

    async def uses_it(call: Call) -> None:
        for _ in range(3):
            await tool()
        await reply(call)

    async with stage(uses_it) as here:
        room = await here.room()
        async with here.running():
            message = await here.say(room, "work")
            await here.adapter.until_running()
            await here.band.user.interrupt(here.account)
            await here.settled(message)
        assert records(here) == ["processed"]
        assert await texts(here, room) == []


@guarantee(3, 51)
@case("C17")
async def test_a_handler_that_cannot_be_ended_holds_up_only_its_room(
    autojump_clock: trio.testing.MockClock,
) -> None:
    release = trio.Event()

    async def stubborn(call: Call) -> None:
        if call.text == "stubborn":
            with trio.CancelScope(shield=True):  # noqa: ASYNC102 - what it is about
                await release.wait()
        await reply(call)

    async with stage(stubborn) as here:
        room, other = await here.room(), await here.room()
        async with here.running(SessionConfig(stall_seconds=5), grace=0) as agent:
            await here.say(room, "stubborn")
            await here.adapter.until_running()
            await here.band.user.interrupt(here.account)
            await trio.sleep(6)
            assert agent.health().stalled == (room,)
            await here.settled(await here.say(other, "hello"))
            agent.stop(grace=0)
            await trio.sleep(10)
            release.set()
        assert f"room {room} could not be ended" in here.reports[0].cleanup_errors


class Odd(BaseException):
    """Neither an error nor a cancellation of ours."""


@guarantee(44)
@case("C18")
@for_each(
    ("error", "name"),
    [
        (ValueError("no"), "ValueError"),
        (ExceptionGroup("g", [ValueError("no")]), "ValueError"),
        (ExceptionGroup("g", [ValueError("no"), KeyError("k")]), "ValueError"),
        (asyncio.CancelledError(), "CancelledError"),
        (Odd("odd"), "Odd"),
    ],
)
async def test_the_text_names_the_users_error_and_only_that_turn_fails(
    error: BaseException, name: str, autojump_clock: trio.testing.MockClock
) -> None:
    async def raises(call: Call) -> None:
        if call.text == "bad":
            raise error
        await reply(call)

    async with stage(raises) as here:
        room = await here.room()
        async with here.running():
            bad, good = await here.say(room, "bad"), await here.say(room, "good")
            await here.settled(good)
            text = here.band.world.messages[bad].deliveries[here.account.id].attempts[0].error
        assert records(here) == ["failed", "processed"]
        assert name in str(text)
        assert "nursery" not in str(text).lower()


@guarantee(42)
@case("C19")
async def test_late_calls_of_an_old_turn_are_not_credited_to_the_next(
    autojump_clock: trio.testing.MockClock,
) -> None:
    late: list[BaseException] = []

    async with stage() as here, trio.open_nursery() as backend:
        room = await here.room()

        async def ignores_the_stop(call: Call) -> None:
            async def later() -> None:
                await trio.sleep(2)
                try:
                    await reply(call)
                except TurnClosedError as exc:
                    late.append(exc)

            if call.text == "first" and len(here.adapter.calls) == 1:
                backend.start_soon(later)
                await trio.sleep_forever()
            await trio.sleep(4)  # says nothing by itself

        here.adapter.behaviour = ignores_the_stop
        async with here.running():
            message = await here.say(room, "first")
            await here.adapter.until_running()
            await here.band.user.stop(room)
            await trio.sleep(0.5)
            await here.band.user.play(room)
            await here.settled(message, state="failed")
        assert len(late) == 1
        assert await texts(here, room) == []
        assert records(here) == ["released:stop", "failed"]


@guarantee(47)
@case("C20")
async def test_a_stuck_handler_fails_and_the_next_message_runs(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def stuck(call: Call) -> None:
        if call.text == "stuck":
            await trio.sleep_forever()
        await reply(call)

    async with stage(stuck) as here:
        room = await here.room()
        async with here.running(SessionConfig(max_cycle_seconds=2)):
            began = trio.current_time()
            first, second = await here.say(room, "stuck"), await here.say(room, "next")
            await here.settled(second)
            assert 2 <= trio.current_time() - began < 3
            text = here.band.world.messages[first].deliveries[here.account.id].attempts[0].error
        assert "max_cycle_seconds (2 s)" in str(text)


@guarantee(42)
@case("C22")
@pytest.mark.slow
async def test_a_thread_that_calls_back_after_its_turn_is_refused() -> None:
    refused: list[BaseException] = []
    go, done = threading.Event(), threading.Event()

    def in_a_thread(call: Call) -> None:
        go.wait(5)
        for method in (lambda: reply(call), lambda: call.tools.get_participants()):
            try:
                trio.from_thread.run(method)
            except TurnClosedError as exc:
                refused.append(exc)
        done.set()

    async def starts_a_thread(call: Call) -> None:
        await trio.to_thread.run_sync(in_a_thread, call, abandon_on_cancel=True)

    async with stage(starts_a_thread) as here:
        room = await here.room()
        async with here.running():
            message = await here.say(room, "work")
            await here.adapter.until_running()
            await here.band.user.interrupt(here.account)
            await here.settled(message)
            calls = [len(here.band.log.requests(each)) for each in ("post_message", "participants")]
            go.set()
            await trio.to_thread.run_sync(done.wait, 5)
            assert len(refused) == 2
            after = [len(here.band.log.requests(each)) for each in ("post_message", "participants")]
            assert after == calls
        assert await texts(here, room) == []


@guarantee(3)
@case("C23")
async def test_rooms_share_no_state_of_turns(
    autojump_clock: trio.testing.MockClock,
) -> None:
    mine: ContextVar[str] = ContextVar("mine", default="nobody")
    leaked: list[str] = []

    async def two_at_once(call: Call) -> None:
        if mine.get() != "nobody":
            leaked.append(mine.get())
        mine.set(call.text)
        await trio.sleep(1)
        if call.text == "cancelled":
            await trio.sleep_forever()
        await call.tools.send_message(f"from {mine.get()}", mentions=[call.msg.sender_id])

    async with stage(two_at_once) as here:
        rooms = [await here.room() for _ in range(3)]
        async with here.running():
            await here.say(rooms[2], "cancelled")
            ids = [await here.say(room, f"room {n}") for n, room in enumerate(rooms[:2])]
            await here.adapter.until_running(3)
            await here.band.user.stop(rooms[2])
            await here.settled(*ids)
            ids = [await here.say(room, f"again {n}") for n, room in enumerate(rooms[:2])]
            await here.settled(*ids)
        for n, room in enumerate(rooms[:2]):
            assert await texts(here, room) == [f"from room {n}", f"from again {n}"]
        assert await texts(here, rooms[2]) == []
        assert leaked == []


@guarantee(10, 41)
@case("C24")
async def test_an_interrupt_in_the_tick_of_the_time_limit_decides(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def hangs(call: Call) -> None:
        await trio.sleep_forever()

    async with stage(hangs) as here:
        room = await here.room()
        async with here.running(SessionConfig(max_cycle_seconds=5)):
            message = await here.say(room, "work")
            await here.adapter.until_running()
            limit = trio.current_time() + 5
            await trio.sleep_until(limit)
            await here.band.user.interrupt(here.account)
            await trio.sleep(5)
            state: Any = here.band.state(message, here.account)
        assert len(records(here)) == 1
        assert records(here) == [state]


# --------------------------------------------------------------------------- the thread


def blocking() -> None:
    time.sleep(0.36)


@case("C94")
@pytest.mark.slow
@pytest.mark.parametrize("where", ["the turn's nursery", "a hook", "the preprocessor"])
async def test_code_that_blocks_the_thread_is_named_with_its_place(
    where: str, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def in_a_task() -> None:  # noqa: ASYNC124 - the case
        blocking()

    class Blocking(DefaultPreprocessor):
        async def process(self, ctx: Any, event: Any, agent_id: str) -> Any:
            if where == "the preprocessor":
                blocking()
            return await super().process(ctx, event, agent_id)

    async def starts(call: Call) -> None:
        if where == "the turn's nursery":
            call.tools.turn.nursery.start_soon(in_a_task)
        await reply(call)

    async def added(room_id: str, participant: Any) -> None:  # noqa: ASYNC124 - a callback
        blocking()

    async with stage(starts) as here:
        room = await here.room()
        options: dict[str, Any] = {"on_participant_added": added} if where == "a hook" else {}
        async with here.running(
            SessionConfig(stall_seconds=0.2), preprocessor=Blocking(), **options
        ) as agent:
            await here.settled(await here.say(room, "m"))
            await here.band.user.add(room, here.band.register_agent("Other"))
            await trio.sleep(1)
            place = f"{__file__}:{blocking.__code__.co_firstlineno + 1} in blocking"
            (problem,) = [each for each in agent.health().problems if "blocked" in each]
            assert "for 0.4 s" in problem
            assert place in problem
            assert room in problem
            (line,) = [each.getMessage() for each in caplog.records if "blocked" in each.msg]
            assert place in line
            assert room in line

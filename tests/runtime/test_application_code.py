"""What the application's code does in a turn: odd results, catching, cleaning up, late calls."""

from __future__ import annotations

import json
import threading
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from typing import Any, cast

import pytest
import trio
import trio.testing

from band_trio import SessionConfig, TurnClosedError
from band_trio.converters import AnthropicHistoryConverter, OpenAIHistoryConverter
from band_trio.localband.records import ActivityRecord
from band_trio.tools.custom import CustomTools
from band_trio.tools.narration import narrate_call, narrate_result
from band_trio.trace import Recorded
from tests.converters.kit import check_anthropic, check_openai
from tests.marks import case, guarantee
from tests.runtime.harness import Behaviour, Call, Stage, reply, stage
from tests.runtime.views import fail, hang, records
from tests.support.for_each import for_each

QUIET = SessionConfig(idle_resync_seconds=1e7, idle_resync_max_seconds=1e7)


async def rows(here: Stage, room: str, kind: str) -> list[str]:
    """Return the contents of what the agent has put into a room, of one kind."""
    everything = await here.band.user.messages(room)
    return [
        row["content"]
        for row in everything
        if row["sender_id"] == here.account.id and row["message_type"] == kind
    ]


def handing_back(result: object, *, replies: bool) -> Behaviour:
    """Return a handler as frameworks have them: errors are values, and come back as such."""

    async def handle(call: Call) -> object:
        if replies:
            await reply(call)
        await trio.sleep(1)
        return result

    return cast("Behaviour", handle)


@guarantee(67, 68)
@case("C12")
@for_each("replies", [False, True], ids=["nothing said", "replied"])
@for_each("result", [ValueError("no"), None, "Error: no"], ids=repr)
async def test_what_a_framework_hands_back_decides_nothing(
    result: object, replies: bool, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage(handing_back(result, replies=replies)) as here:
        room = await here.room()
        async with here.running(SessionConfig(max_message_retries=2, retry_base_seconds=1)):
            message = await here.say(room, "work")
            await trio.sleep(60)
            attempts = here.band.attempts(message, here.account)

        assert attempts == (["success"] if replies else ["failed", "failed"])
        assert len(await rows(here, room, "text")) == replies
        assert len(await rows(here, room, "error")) == (0 if replies else 1)


@case("C30", "C31")
async def test_what_a_model_gets_wrong_in_a_call_does_not_fail_its_turn(
    autojump_clock: trio.testing.MockClock,
) -> None:
    answers: list[Any] = []

    async def calls_badly(call: Call) -> None:
        to = [call.msg.sender_id]
        wrong: list[tuple[str, Any]] = [
            ("band_send_message", {"content": "x"}),
            ("band_send_message", {"content": "x", "mentions": None}),
            ("band_send_message", "no json"),
            ("band_send_message", {"content": "é" * 300_000, "mentions": to}),
            ("band_send_message", {"content": "   ", "mentions": to}),
            ("band_lookup_peers", {"page": "many"}),
            ("band_send_event", {"content": "   ", "message_type": "thought"}),
        ]
        for name, arguments in wrong:
            answers.append(await call.tools.execute_tool_call(name, arguments))
        await call.tools.send_event("t" * 20_000, "thought")
        args = json.dumps({"content": "good", "mentions": call.msg.sender_id, "extra": 1})
        await call.tools.execute_tool_call("band_send_message", args)

    async with stage(calls_badly) as here:
        room = await here.room()
        async with here.running(QUIET):
            await here.settled(await here.say(room, "work"))

        assert all(isinstance(answer, str) for answer in answers), answers
        assert "524,288" in answers[3], "it names the limit"
        assert [text.split(" ")[-1] for text in await rows(here, room, "text")] == ["good"]
        (thought,) = await rows(here, room, "thought")
        assert 16_000 < len(thought) <= 16_384


@guarantee(42)
@case("C17")
async def test_an_interrupt_while_a_tool_waits_leaves_no_result_and_no_post(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def slow() -> str:
        await trio.sleep_forever()
        raise AssertionError

    async def uses_it(call: Call) -> None:
        call.tools.use_custom_tools(CustomTools.of([slow]))
        await narrate_call(call.tools, "slow", {}, "c1")
        outcome = await call.tools.execute_tool_call_structured("slow", {}, call_id="c1")
        await narrate_result(call.tools, "slow", outcome.value, "c1", is_error=not outcome.ok)
        await reply(call)

    async with stage(uses_it) as here:
        room = await here.room()
        async with here.running(QUIET):
            message = await here.say(room, "work")
            await here.adapter.until_running()
            await trio.sleep(1)
            await here.band.user.interrupt(here.account)
            await here.settled(message)
            await trio.sleep(60)

        assert len(await rows(here, room, "tool_call")) == 1
        assert await rows(here, room, "tool_result") == []
        assert await rows(here, room, "text") == await rows(here, room, "error") == []
        assert records(here) == [(message, "processed")]


@guarantee(3, 51)
@case("C17")
@pytest.mark.slow
async def test_a_handler_that_catches_for_ever_is_named_and_delays_no_other_room(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It never sleeps again, so this test has the real clock."""
    over = False

    async def stubborn(call: Call) -> None:
        while call.text == "stubborn" and not over:
            try:
                await trio.sleep_forever()
            except trio.Cancelled:  # noqa: ASYNC103 - the case
                continue  # noqa: ASYNC104 - the case
        await reply(call)

    async with stage(stubborn) as here:
        room, other = await here.room(), await here.room()
        with trio.fail_after(5):
            async with here.running(
                SessionConfig(stall_seconds=0.05), stop_overhead_seconds=0.1
            ) as agent:
                await here.say(room, "stubborn")
                await here.adapter.until_running()
                await here.band.user.interrupt(here.account)
                await trio.sleep(0.1)
                assert agent.health().stalled == (room,)
                assert f"room {room}" in caplog.text
                await here.settled(await here.say(other, "hello"))
                agent.stop(grace=0)
                await trio.sleep(0.2)
                over = True
        assert f"room {room} could not be ended" in here.reports[0].cleanup_errors


@guarantee(41)
@case("C16")
@pytest.mark.parametrize("way", ["interrupt", "timeout"])
async def test_an_error_of_the_clean_up_is_not_what_is_reported(
    way: str, autojump_clock: trio.testing.MockClock
) -> None:
    async def breaks_while_it_dies(call: Call) -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise RuntimeError("while cleaning up")

    async with stage(breaks_while_it_dies) as here:
        room = await here.room()
        async with here.running(SessionConfig(max_cycle_seconds=5)):
            message = await here.say(room, "work")
            await here.adapter.until_running()
            await trio.sleep(1)
            if way == "interrupt":
                await here.band.user.interrupt(here.account)
            await here.settled(message, state="processed" if way == "interrupt" else "failed")
            error = here.band.world.messages[message].deliveries[here.account.id].attempts[-1].error

        assert "cleaning up" not in str(error)
        assert (error is None) is (way == "interrupt")


@guarantee(41)
@case("C24")
async def test_an_interrupt_behind_the_time_limit_still_decides(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The deadline has fired, the handler takes its time to die, the record is not written yet."""

    async def dies_slowly(call: Call) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.move_on_after(2, shield=True):
                await trio.sleep_forever()

    async with stage(dies_slowly) as here:
        room = await here.room()
        async with here.running(SessionConfig(max_cycle_seconds=5)):
            message = await here.say(room, "work")
            await here.adapter.until_running()
            await trio.sleep(6)
            await here.band.user.interrupt(here.account)
            await here.settled(message)
        assert records(here) == [(message, "processed")]
        assert await rows(here, room, "error") == []


@guarantee(44)
@case("C18")
async def test_an_error_beside_a_broken_connection_is_named(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class ConnectionClosed(Exception):
        pass

    async def fails_twice(call: Call) -> None:
        async def beside() -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise ConnectionClosed("1006")

        call.tools.turn.nursery.start_soon(beside)
        await trio.sleep(1)
        raise ValueError("the reason")

    async with stage(fails_twice) as here:
        room = await here.room()
        async with here.running(QUIET):
            message = await here.say(room, "work")
            await here.settled(message, state="failed")
            here.adapter.behaviour = reply
            await here.settled(await here.say(room, "next"))
            error = here.band.world.messages[message].deliveries[here.account.id].attempts[-1].error

        assert "ValueError: the reason" in str(error)
        assert "nursery" not in str(error).lower()
        assert "sub-exception" not in str(error)


@guarantee(42)
@case("C22")
@pytest.mark.slow
@pytest.mark.parametrize("end", ["interrupt", "stop"])
async def test_a_thread_that_calls_back_after_the_end_is_refused(end: str) -> None:
    refused: list[BaseException] = []
    go, done = threading.Event(), threading.Event()

    def in_a_thread(call: Call) -> None:
        go.wait(5)
        methods: list[Callable[[], Awaitable[Any]]] = [
            partial(reply, call), call.tools.get_participants, call.tools.lookup_peers,
        ]  # fmt: skip
        for method in methods:
            try:
                trio.from_thread.run(method)
            except TurnClosedError as exc:
                refused.append(exc)
        done.set()

    async def starts_a_thread(call: Call) -> None:
        await trio.to_thread.run_sync(in_a_thread, call, abandon_on_cancel=True)

    async with stage(starts_a_thread) as here:
        room = await here.room()
        async with here.running(grace=0) as agent:
            message = await here.say(room, "work")
            await here.adapter.until_running()
            if end == "interrupt":
                await here.band.user.interrupt(here.account)
                await here.settled(message)
                await call_back(go, done, here)
            else:
                agent.stop(grace=0)
        if end == "stop":
            await call_back(go, done, here)
        assert len(refused) == 3
        assert all("turn is over" in str(exc) for exc in refused)
        assert await rows(here, room, "text") == []


async def call_back(go: threading.Event, done: threading.Event, here: Stage) -> None:
    """Let the thread go on, and check that the platform hears nothing of it."""
    requests = len(here.band.log.requests("post_message")) + len(
        here.band.log.requests("participants")
    )
    go.set()
    assert await trio.to_thread.run_sync(done.wait, 5), "it hangs"
    after = len(here.band.log.requests("post_message")) + len(
        here.band.log.requests("participants")
    )
    assert after == requests


@guarantee(63)
@case("C38")
async def test_a_call_that_a_stop_cut_off_leaves_a_valid_history(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def looks(call: Call) -> None:
        await narrate_call(call.tools, "look", {"at": "it"}, "c1")
        await trio.sleep_forever()

    async with stage(looks) as here:
        room = await here.room()
        async with here.running(QUIET, grace=0):
            await here.say(room, "work")
            await here.adapter.until_running()
            await trio.sleep(1)
            await here.band.user.stop(room)
            await trio.sleep(1)
        await here.band.user.play(room)
        here.adapter.behaviour = reply
        here.adapter.on("work")(fail)  # it runs once more, and commits no context
        async with here.running(QUIET):
            await here.settled(await here.say(room, "go on"))

        raw = here.adapter.calls[-1].history.raw
        assert "tool_call" in [row["message_type"] for row in raw]
        assert "tool_result" not in [row["message_type"] for row in raw]
        for_openai = OpenAIHistoryConverter().convert(raw)
        for_anthropic = AnthropicHistoryConverter().convert(raw)
        check_openai(for_openai)
        check_anthropic(for_anthropic)
        assert "interrupted" in str(for_openai)
        assert "interrupted" in str(for_anthropic)


def kinds(here: Stage) -> list[str]:
    return [event.kind for event in here.seen(Recorded)]


async def texts(here: Stage, room: str) -> list[str]:
    """Return what the agent said, without the mentions."""
    rows = await here.band.user.messages(room)
    return [
        row["content"].split(" ", 1)[-1]
        for row in rows
        if row["sender_id"] == here.account.id and row["message_type"] == "text"
    ]


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
        assert kinds(here) == ["released:stop", "failed"]


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
    async with stage(hang) as here:
        room = await here.room()
        async with here.running(SessionConfig(max_cycle_seconds=5)):
            message = await here.say(room, "work")
            await here.adapter.until_running()
            limit = trio.current_time() + 5
            await trio.sleep_until(limit)
            await here.band.user.interrupt(here.account)
            await trio.sleep(5)
            state: Any = here.band.state(message, here.account)
        assert len(kinds(here)) == 1
        assert kinds(here) == [state]

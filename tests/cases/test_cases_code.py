"""What the application's code does: odd results, catching, blocking, threads, late calls."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, cast

import pytest
import trio
import trio.testing

from band_trio import SessionConfig, TurnClosedError
from band_trio.converters import AnthropicHistoryConverter, OpenAIHistoryConverter
from band_trio.tools.custom import CustomTools
from band_trio.tools.narration import narrate_call, narrate_result
from tests.converters.kit import check_anthropic, check_openai
from tests.marks import case, guarantee
from tests.runtime.harness import Behaviour, Call, Stage, reply, stage
from tests.runtime.views import fail, records
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


# --------------------------------------------------------------------------- odd results


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


# --------------------------------------------------------------------------- the cancellation


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


# --------------------------------------------------------------------------- threads


@guarantee(3, 51)
@case("C21")
@pytest.mark.slow
async def test_fifty_blocking_tools_hold_up_nobody() -> None:
    """Real threads and the real clock; heartbeats are due all the time."""
    go, late = threading.Event(), list[str]()
    running = 0

    def blocking() -> str:
        nonlocal running
        running += 1
        go.wait(10)
        return "late"

    async def uses_many(call: Call) -> None:
        if call.text == "hello":
            await reply(call)
            return
        call.tools.use_custom_tools(CustomTools.of([blocking]))

        async def use() -> None:
            late.append(await call.tools.execute_tool_call("blocking", {}))

        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(use)

    async with stage(uses_many) as here:
        rooms = [await here.room(), await here.room()]
        try:
            with trio.fail_after(9):
                async with here.running(
                    grace=0, heartbeat_seconds=0.1, dead_seconds=0.5, stop_overhead_seconds=0.5
                ) as agent:
                    message = await here.say(rooms[0], "block")
                    await here.adapter.until_running()
                    await trio.sleep(0.8)
                    assert agent.health().epoch == 1, "heartbeats went out in time"
                    assert running == 40 // 3, "as many as our own limiter lets one room have"
                    # trio's own threads, which everything else shares, are all free
                    assert trio.to_thread.current_default_thread_limiter().borrowed_tokens == 0
                    await here.settled(await here.say(rooms[1], "hello"))
                    stopping = time.perf_counter()
                assert time.perf_counter() - stopping < 3
        finally:
            go.set()
        await trio.sleep(0.05)
        assert late == []
        assert here.band.attempts(message, here.account) == ["processing"]


@guarantee(3)
@case("C21")
@pytest.mark.slow
async def test_a_sync_callback_that_blocks_holds_up_its_room_only() -> None:
    go = threading.Event()
    heard: list[str] = []

    def came(room_id: str, person: dict[str, Any]) -> None:
        go.wait(10)
        heard.append(person["name"])

    async with stage() as here:
        room, other = await here.room(), await here.room()
        guest = here.band.register_agent("Guest")
        try:
            with trio.fail_after(5):
                async with here.running(
                    SessionConfig(hook_seconds=5), on_participant_added=came, grace=0,
                    stop_overhead_seconds=0.3,
                ):  # fmt: skip
                    await here.settled(await here.say(room, "one"))
                    await trio.sleep(0.05)
                    await here.band.user.add(room, guest)
                    await trio.sleep(0.05)
                    await here.settled(await here.say(other, "two"))
                    assert heard == []
                    stopping = time.perf_counter()
                assert time.perf_counter() - stopping < 3
        finally:
            go.set()
        assert here.reports[0].graceful


@guarantee(51)
@case("C21")
async def test_a_handler_that_blocks_the_thread_is_named(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def blocks(call: Call) -> None:
        await trio.sleep(30)  # long, but it lets others run
        if call.text == "block":
            time.sleep(0.06)  # noqa: ASYNC251 - the case
        await reply(call)

    async with stage(blocks) as here:
        room = await here.room()
        async with here.running(SessionConfig(stall_seconds=0.05)):
            await here.settled(await here.say(room, "work"))
            assert "blocked" not in caplog.text
            message = await here.say(room, "block")
            await here.settled(message)

    (line,) = [
        record.getMessage()
        for record in caplog.records
        if "blocked" in record.msg and message in record.getMessage()
    ]
    assert room in line


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


# --------------------------------------------------------------------------- after a restart


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

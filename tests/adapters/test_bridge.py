"""`AsyncioAdapter`: a framework on asyncio sees a turn, uses the room's tools, and is judged alike."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal, get_type_hints

import attrs
import pydantic
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from band_trio import Agent
from band_trio.adapters.asyncio_host import AsyncioHost
from band_trio.adapters.bridge import AsyncioAdapter, AsyncioAdapterConfig
from band_trio.adapters.bridged import BridgedTurn, current_turn
from band_trio.adapters.prompts import repeat_notice
from band_trio.errors import (
    BandConfigError,
    InputNotAccepted,
    ProviderRunError,
    RoomExecutionStoppedError,
    TurnClosedError,
)
from band_trio.localband import open_local_band
from band_trio.testing import (
    FakeAgentTools,
    TurnResult,
    events_of_type,
    failure_reports,
    make_message,
    reported_failures,
    run_turn,
    serving,
)
from band_trio.types import TurnUsage
from tests.adapters.kit import make_tools
from tests.marks import case
from tests.support.for_each import for_each

Turn = BridgedTurn[str]
MARIA = ["u1"]


@attrs.frozen
class Bench:
    """An adapter that is open, and a room."""

    adapter: AsyncioAdapter[str]
    tools: FakeAgentTools

    @property
    def host(self) -> AsyncioHost:
        return self.adapter.host

    async def turn(self, content: str = "hello", **options: Any) -> TurnResult:
        """Run one turn with a message of Maria's."""
        with trio.fail_after(5):
            message = make_message(content, sender_id="u1")
            return await run_turn(self.adapter, message, self.tools, **options)

    async def tasks(self) -> int:
        """Return how many tasks the loop has besides the one that holds the lifespan."""

        async def count() -> int:  # noqa: ASYNC124 - the shape is given
            return len(asyncio.all_tasks()) - 2

        return await self.host.call(count)


@asynccontextmanager
async def bench(
    handler: Callable[[Turn], Awaitable[str | None]],
    config: AsyncioAdapterConfig | None = None,
    **options: Any,
) -> AsyncGenerator[Bench]:
    adapter = AsyncioAdapter[str](config, handler=handler, **options)
    async with serving(adapter, agent_name="Scribe", agent_description="notes"):
        yield Bench(adapter, make_tools(adapter))  # type: ignore[arg-type]


async def say(turn: Turn, content: str = "hi") -> None:
    await turn.tool("band_send_message")(content=content, mentions=MARIA)


# --------------------------------------------------------------------------- a turn


async def test_the_framework_is_given_the_turn() -> None:
    seen: list[Turn] = []

    async def handler(turn: Turn) -> None:
        seen.append(turn)
        await say(turn)

    history = [
        {"role": "user", "content": "before", "sender_name": "Maria", "message_type": "text"},
        {"role": "assistant", "content": "mine", "sender_name": "Scribe", "message_type": "text"},
    ]
    async with bench(handler) as room:
        result = await room.turn("hello", history=history, participants_msg="Maria is here.")

    assert result.record == "processed"
    room.tools.assert_message_sent(content="hi", mentions=MARIA, count=1)
    (turn,) = seen
    assert turn.history == "[Maria]: before\n[Scribe]: mine"
    assert turn.prompt == "[System]: Maria is here.\n\n[Maria]: hello"
    assert turn.is_session_bootstrap
    assert turn.system_prompt.startswith("You are Scribe, notes.")
    assert turn.replied


@case("C63")
async def test_the_framework_is_told_that_a_message_runs_again() -> None:
    seen: list[Turn] = []

    async def handler(turn: Turn) -> None:
        seen.append(turn)
        await turn.tool("band_no_reply")()

    mine = {"role": "assistant", "content": "It is 42.", "since_trigger": True}
    async with bench(handler) as room:
        await room.turn("one")
        await room.turn("two", history=[mine], attempt=2)

    first, again = seen
    assert (first.attempt, first.prompt) == (1, "[Maria]: one")
    assert (again.attempt, again.is_session_bootstrap) == (2, False)
    assert again.history.endswith("[Scribe]: It is 42.")
    assert again.prompt == f"[System]: {repeat_notice(2)}\n\n[Maria]: two"


async def test_tools_are_those_that_the_features_select() -> None:
    names: list[list[str]] = []

    async def double(value: int) -> int:
        """Double it."""
        await trio.lowlevel.checkpoint()
        return 2 * value

    async def handler(turn: Turn) -> None:
        names.append([tool.name for tool in turn.tools])
        with pytest.raises(KeyError):
            turn.tool("band_create_chatroom")
        assert await turn.tool("double")(value=4) == "8"
        await turn.settle()

    options: dict[str, Any] = {
        "include_tools": ["band_send_message", "band_no_reply"],
        "additional_tools": [double],
    }
    async with bench(handler, **options) as room:
        assert (await room.turn()).error is None
    assert names == [["band_send_message", "band_no_reply", "double"]]


async def test_a_tool_that_fails_tells_the_model_so() -> None:
    texts: list[str] = []

    async def handler(turn: Turn) -> None:
        send = turn.tool("band_send_message")
        texts.append(await send(content="x", mentions=["nobody"]))
        texts.append(await send(content="", mentions=MARIA))
        outcome = await send.call('{"content": "x", "mentions": ["@nobody"]}')
        assert not outcome.ok
        await say(turn)

    async with bench(handler) as room:
        assert (await room.turn()).record == "processed"
    assert "@maria" in texts[0]
    assert "can't be blank" in texts[1]
    assert room.tools.chat == ["hi"]


async def test_a_repeated_call_with_its_id_runs_once() -> None:
    async def handler(turn: Turn) -> None:
        send = turn.tool("band_send_message")
        args = {"content": "once", "mentions": MARIA}
        await asyncio.gather(*(send.call(args, call_id="c1") for _ in range(3)))
        await send.call(args, call_id="c1")

    async with bench(handler, emit=()) as room:
        await room.turn()
    assert room.tools.chat == ["once"]


async def test_parallel_calls_run_at_once() -> None:
    async def handler(turn: Turn) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(5):
                group.create_task(say(turn, f"m{number}"))

    async with bench(handler, emit=()) as room, room.tools.hold_message("m0") as hold:

        async def release() -> None:
            await hold.reached()
            await room.tools.until(lambda: len(room.tools.chat) == 4)
            hold.release()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(release)
            await room.turn()
    assert sorted(room.tools.chat) == ["m0", "m1", "m2", "m3", "m4"]


async def test_the_room_is_told_about_calls() -> None:
    async def handler(turn: Turn) -> None:
        await say(turn)

    async with bench(handler) as room:
        await room.turn()
    (call,) = events_of_type(room.tools, "tool_call")
    (result,) = events_of_type(room.tools, "tool_result")
    told, outcome = json.loads(call["content"]), json.loads(result["content"])
    assert told["name"] == "band_send_message"
    assert told["tool_call_id"] == outcome["tool_call_id"]
    assert outcome["is_error"] is False


async def test_usage_is_posted_also_when_the_framework_fails() -> None:
    async def handler(turn: Turn) -> None:  # noqa: ASYNC124 - the shape is given
        turn.usage += TurnUsage(input_tokens=3, output_tokens=4)
        raise ValueError

    async with bench(handler) as room:
        await room.turn()
    (event,) = events_of_type(room.tools, "task")
    assert event["metadata"]["band_usage"]["output_tokens"] == 4


async def test_the_last_text_is_relayed_only_where_that_is_wanted() -> None:
    async def handler(turn: Turn) -> str:
        if turn.msg.content == "speak":
            await say(turn)
        return "plain"

    async with bench(handler) as room:
        assert (await room.turn()).record == "failed"
        assert room.tools.chat == []
    async with bench(handler, AsyncioAdapterConfig(relay_final_text=True)) as room:
        assert (await room.turn()).record == "processed"
        await room.turn("speak")
        assert room.tools.chat == ["plain", "hi"]


async def test_what_is_kept_of_a_room_is_dropped_with_it() -> None:
    seen: list[dict[str, Any]] = []

    async def handler(turn: Turn) -> None:
        seen.append(dict(turn.memory))
        turn.memory["said"] = [*turn.memory.get("said", ()), turn.msg.content]
        if turn.msg.content == "two":
            raise OwnError
        await turn.tool("band_no_reply")()

    async with bench(handler) as room:
        await room.turn("one")
        await room.turn("two", is_session_bootstrap=False)
        await room.turn("three", is_session_bootstrap=False)
        assert seen == [{}, {"said": ["one"]}, {"said": ["one", "two"]}]
        await room.turn("history again", is_session_bootstrap=True)
        assert seen[-1] == {}

        await room.adapter.on_cleanup("room-fake")
        assert room.adapter._rooms == {}
        await room.turn("new", is_session_bootstrap=False)
        assert seen[-1] == {}
        await room.adapter.cleanup_all()
        assert room.adapter._rooms == {}


async def test_code_that_rooms_share_finds_its_turn() -> None:
    async def shared_tool() -> str:
        await asyncio.sleep(0)
        return current_turn().room_id

    async def handler(turn: Turn) -> None:
        assert await asyncio.create_task(shared_tool()) == turn.room_id  # noqa: ASYNC300 - returned and awaited
        await turn.settle()

    async with bench(handler) as room:

        async def one(room_id: str) -> None:
            message = make_message("go", sender_id="u1", room_id=room_id)
            tools = FakeAgentTools(room_id=room_id)
            assert (await run_turn(room.adapter, message, tools)).record == "processed"

        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(one, f"r{number}")

        async def outside() -> None:  # noqa: ASYNC124 - the shape is given
            current_turn()

        with pytest.raises(TurnClosedError):
            await room.host.call(outside)


async def test_tools_as_functions_have_a_signature() -> None:
    functions: list[Callable[..., Any]] = []

    async def handler(turn: Turn) -> None:
        functions.extend(tool.as_function() for tool in turn.tools)
        await functions[0](content="by function", mentions=MARIA)

    async with bench(handler) as room:
        await room.turn()
    assert room.tools.chat == ["by function"]
    by_name = {function.__name__: function for function in functions}
    send = inspect.signature(by_name["band_send_message"])
    assert get_type_hints(by_name["band_send_message"])["mentions"] == list[str]
    assert send.parameters["content"].default is inspect.Parameter.empty
    event = inspect.signature(by_name["band_send_event"])
    kinds = get_type_hints(by_name["band_send_event"])["message_type"]
    assert kinds == Literal["thought", "error", "task"]
    assert event.parameters["metadata"].default is None
    assert "Args:\n    content: " in str(by_name["band_send_event"].__doc__)
    assert inspect.iscoroutinefunction(by_name["band_no_reply"])


class Mail(pydantic.BaseModel):
    """Send mail."""

    sender: str = pydantic.Field(alias="from", description="Who.")
    other: str = pydantic.Field(alias="from_", default="nobody")
    copies: int = pydantic.Field(alias="x-copies", default=1)
    first: int = pydantic.Field(alias="1st", default=0)


async def test_arguments_with_names_that_python_has_not_are_renamed() -> None:
    said: list[str] = []

    async def send(mail: Mail) -> str:  # noqa: ASYNC124 - the shape is given
        return f"{mail.sender} {mail.other} {mail.copies} {mail.first}"

    async def handler(turn: Turn) -> None:
        function = turn.tool("mail").as_function()
        names = list(inspect.signature(function).parameters)
        assert names == ["from__", "from_", "x_copies", "arg_1st"]
        assert "from__: Who." in str(function.__doc__)
        said.append(await function(from__="me", from_="you", x_copies=2, arg_1st=3))
        said.append(await function(from__="me"))
        await turn.settle()

    async with bench(handler, additional_tools=[(Mail, send)]) as room:
        assert (await room.turn()).error is None
    assert said == ["me you 2 3", "me nobody 1 0"]


# --------------------------------------------------------------------------- failures


class OwnError(Exception):
    pass


async def test_an_error_of_the_framework_fails_the_turn_bare() -> None:
    async def handler(turn: Turn) -> None:  # noqa: ASYNC124 - the shape is given
        raise OwnError("a secret prompt")

    config = AsyncioAdapterConfig(provider="langgraph")
    async with bench(handler, config) as room:
        result = await room.turn()
    assert isinstance(result.error, OwnError)
    assert result.record == "failed"
    assert result.failure is None  # the room has been told
    ((provider, text),) = failure_reports(room.tools)
    assert provider == "langgraph"
    assert "secret" not in text


@case("C12")
async def test_an_error_after_the_reply_fails_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def handler(turn: Turn) -> None:
        await say(turn, "The answer is 42.")
        raise OwnError("after all")

    async with bench(handler) as room:
        result = await room.turn()

    assert (result.record, result.error) == ("processed", None)
    assert reported_failures(room.tools) == []
    assert "failed after the reply: OwnError: after all" in caplog.text


async def test_what_keeps_the_message_keeps_it_after_a_reply_too() -> None:
    async def handler(turn: Turn) -> None:
        await say(turn)
        raise InputNotAccepted("not now")

    async with bench(handler) as room:
        assert (await room.turn()).record == "not-accepted"


async def test_a_handler_that_returns_no_text_is_told_so() -> None:
    async def handler(turn: Turn) -> Any:  # noqa: ASYNC124 - the shape is given
        return {"output": "hi"}

    async with bench(handler, AsyncioAdapterConfig(relay_final_text=True)) as room:
        result = await room.turn()

    assert isinstance(result.error, TypeError)
    assert "must return text or None, not dict" in str(result.error)
    assert [failure["detail"] for failure in reported_failures(room.tools)] == ["TypeError"]


@for_each("usage", [{"input_tokens": 3}, None, "many", TurnUsage("x")])  # type: ignore[arg-type]
async def test_a_bad_usage_fails_nothing(usage: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def handler(turn: Turn) -> None:
        await turn.tool("band_no_reply")()
        turn.usage = usage

    async with bench(handler, emit="usage") as room:
        assert (await room.turn()).record == "processed"
    assert "usage was not posted" in caplog.text


async def test_a_framework_that_cancels_itself_is_a_failed_turn() -> None:
    async def handler(turn: Turn) -> None:  # noqa: ASYNC124 - the shape is given
        raise asyncio.CancelledError

    async with bench(handler) as room:
        result = await room.turn()
        assert (await room.turn()).record == "failed"  # and the next one runs
    assert isinstance(result.error, ProviderRunError)
    assert events_of_type(room.tools, "error")[0]["metadata"]["failure"]["code"] == "cancelled"


@for_each("error", [InputNotAccepted("busy"), RoomExecutionStoppedError("r")])
async def test_what_is_no_failure_is_not_reported(error: Exception) -> None:
    async def handler(turn: Turn) -> None:  # noqa: ASYNC124 - the shape is given
        raise error

    async with bench(handler) as room:
        assert (await room.turn()).error is error
    assert failure_reports(room.tools) == []


def test_a_handler_is_needed() -> None:
    with pytest.raises(BandConfigError, match="needs a handler"):
        AsyncioAdapter()
    with pytest.raises(BandConfigError, match="cancel_seconds"):
        AsyncioAdapterConfig(cancel_seconds=-1)
    with pytest.raises(BandConfigError, match="no option"):
        AsyncioAdapterConfig.from_mapping({"relay": True})


async def test_a_turn_before_it_is_open_is_an_error() -> None:
    adapter = AsyncioAdapter[str](handler=say)
    result = await run_turn(adapter, make_message("x"), FakeAgentTools())
    assert isinstance(result.error, RuntimeError)
    assert "not open" in str(result.error)


# --------------------------------------------------------------------------- cancellation


async def test_a_cancelled_turn_ends_its_task_and_its_tools() -> None:
    log: list[str] = []

    async def handler(turn: Turn) -> None:
        try:
            await say(turn, "held")
        finally:
            log.append("framework")

    async with bench(handler, emit=()) as room, room.tools.hold_message("held") as hold:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(room.turn)
            await hold.reached()
            nursery.cancel_scope.cancel()
        assert log == ["framework"]
        assert await room.tasks() == 0
    assert room.tools.chat == []


async def test_a_framework_that_goes_on_after_its_turn_is_refused() -> None:
    errors: list[str] = []
    left: list[asyncio.Task[None]] = []
    over = asyncio.Event()

    async def later(turn: Turn) -> None:
        await over.wait()
        for attempt in (say(turn, "late"), turn.settle()):
            try:
                await attempt
            except TurnClosedError:
                errors.append("refused")

    async def handler(turn: Turn) -> None:
        left.append(asyncio.create_task(later(turn)))
        await turn.tool("band_no_reply")()

    async def go_on() -> None:
        over.set()
        await asyncio.wait(left)

    async with bench(handler) as room:
        assert (await room.turn()).record == "processed"
        await room.host.call(go_on)
    assert errors == ["refused", "refused"]
    assert room.tools.chat == []


@pytest.mark.slow
@given(moment=st.floats(0, 0.01), parallel=st.integers(1, 3), grace=st.just(2.0))
def test_cancelled_at_any_moment_the_next_turn_runs(
    moment: float, parallel: int, grace: float
) -> None:
    async def handler(turn: Turn) -> None:
        if turn.msg.content == "next":
            await say(turn, "next")
            return
        for number in range(4):
            await asyncio.gather(*(say(turn, f"{number}{i}") for i in range(parallel)))
            await asyncio.sleep(0.0005)

    async def main() -> None:
        async with bench(handler, AsyncioAdapterConfig(cancel_seconds=grace)) as room:
            with trio.move_on_after(moment):
                await room.turn()
            said = list(room.tools.posts)
            assert await room.tasks() == 0
            await trio.sleep(0.002)
            assert room.tools.posts == said
            assert (await room.turn("next")).record == "processed"

    trio.run(main)


@pytest.mark.slow
async def test_200_turns_leak_nothing() -> None:
    kept: weakref.WeakSet[Turn] = weakref.WeakSet()

    async def handler(turn: Turn) -> None:
        kept.add(turn)
        await say(turn, turn.msg.content)
        if turn.msg.content == "held":
            await asyncio.sleep(10)

    async with bench(handler, emit=()) as room:
        for number in range(200):
            with trio.move_on_after(0.005):
                await room.turn("held" if number % 10 == 0 else "x")
        assert await room.tasks() == 0
        gc.collect()
        assert len(kept) <= 1  # the last one may still be in a frame


# --------------------------------------------------------------------------- life


async def test_the_lifespan_is_entered_and_left_on_the_loop_in_one_task() -> None:
    log: list[Any] = []

    @asynccontextmanager
    async def lifespan() -> AsyncGenerator[str]:
        log.append(asyncio.current_task())
        try:
            yield "client"
        finally:
            await asyncio.sleep(0.001)  # noqa: ASYNC102 - asyncio has no shields
            log.append(asyncio.current_task())

    async def handler(turn: Turn) -> None:
        log.append(turn.state)
        await turn.settle()

    async with bench(handler, lifespan=lifespan) as room:
        await room.turn()
    assert log[1] == "client"
    assert log[0] is log[2]
    with pytest.raises(RuntimeError, match="not open"):
        _ = room.host


async def test_an_error_of_the_lifespan_comes_out_of_the_start() -> None:
    log: list[int] | None = []

    @asynccontextmanager
    async def lifespan() -> AsyncGenerator[None]:
        if log is not None:
            raise OwnError("no key")
        yield

    adapter = AsyncioAdapter[str](handler=say, lifespan=lifespan)
    with pytest.RaisesGroup(pytest.RaisesExc(OwnError)):
        async with trio.open_nursery() as nursery:  # noqa: ASYNC112 - what makes the group
            await nursery.start(adapter.serve)


class Counting(AsyncioAdapter[str]):
    """A framework with a memory per room."""

    def __init__(self) -> None:
        super().__init__()
        self.rooms: dict[str, int] = {}

    async def handle(self, turn: Turn) -> None:
        count = self.rooms[turn.room_id] = self.rooms.get(turn.room_id, 0) + 1
        await turn.tool("band_send_message")(content=f"{count}", mentions=[turn.msg.sender_id])

    async def on_cleanup(self, room_id: str) -> None:
        await super().on_cleanup(room_id)
        await self.host.call(self._forget, room_id)

    async def _forget(self, room_id: str) -> None:
        self.rooms.pop(room_id, None)


@pytest.mark.slow
async def test_a_whole_agent_on_a_platform() -> None:
    adapter = Counting()
    with trio.fail_after(10):
        async with open_local_band(memory=True) as band:
            account = band.register_agent("Scribe")
            async with Agent.create(
                adapter=adapter, **band.connection(account, single_instance=False)
            ):
                rooms = [await band.user.create_room(members=[account]) for _ in range(3)]
                sent = [
                    await band.user.send(room, "go", mentions=[account])
                    for _ in range(2)
                    for room in rooms
                ]
                await band.until(
                    lambda: all(band.state(each, account) == "processed" for each in sent)
                )
                assert sorted(adapter.rooms.values()) == [2, 2, 2]
                await band.user.remove(rooms[0], account)
                while len(adapter.rooms) == 3:  # noqa: ASYNC110 - the other thread's memory
                    await trio.sleep(0.002)
    assert adapter.rooms == {}

"""Running one turn and judging it as the runtime does."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from band_trio.adapters import SimpleAdapter
from band_trio.contract import AgentInput
from band_trio.errors import BandConfigError, InputNotAccepted, TurnClosedError
from band_trio.testing import MISSING_REPLY_FAILURE, FakeAgentTools, make_message, run_turn
from band_trio.tools.failures import TURN_FAILURE, AgentFailure
from band_trio.types import Capability


@attrs.define(eq=False)
class Bare:
    """The least an adapter is."""

    work: Any
    judges_turns: bool = True

    async def on_event(self, inp: AgentInput) -> None:
        await self.work(inp)

    async def on_cleanup(self, room_id: str) -> None: ...

    async def on_started(self, agent_name: str, agent_description: str) -> None: ...


async def _nothing(inp: AgentInput) -> None: ...


async def test_a_turn_that_does_nothing_has_failed() -> None:
    result = await run_turn(Bare(_nothing), make_message("x"), FakeAgentTools())

    assert (result.record, result.failure) == ("failed", MISSING_REPLY_FAILURE)


async def test_turns_that_are_not_judged_succeed_by_returning() -> None:
    hub = make_message("x", sender_type="System", sender_id="contact-events")

    for adapter, message in ((Bare(_nothing, judges_turns=False), make_message("x")),
                             (Bare(_nothing), hub)):  # fmt: skip
        assert (await run_turn(adapter, message, FakeAgentTools())).record == "processed"


async def test_errors_are_in_the_result() -> None:
    async def group(inp: AgentInput) -> None:  # noqa: ASYNC124 - the shape is given
        raise ExceptionGroup("g", [KeyError("x")])

    async def report_and_raise(inp: AgentInput) -> None:
        await inp.tools.send_failure(AgentFailure("acme", "broke"))
        raise ValueError("y")

    async def refuse(inp: AgentInput) -> None:  # noqa: ASYNC124 - the shape is given
        raise InputNotAccepted

    async def foreign(inp: AgentInput) -> None:  # noqa: ASYNC124 - the shape is given
        raise BaseException("foreign")

    first = await run_turn(Bare(group), make_message("x"), FakeAgentTools())
    second = await run_turn(Bare(report_and_raise), make_message("x"), FakeAgentTools())
    third = await run_turn(Bare(refuse), make_message("x"), FakeAgentTools())
    fourth = await run_turn(Bare(foreign), make_message("x"), FakeAgentTools())

    assert isinstance(first.error, KeyError)
    assert (first.record, first.failure) == ("failed", TURN_FAILURE)
    assert (second.record, second.failure) == ("failed", None)
    assert third.record == "not-accepted"
    assert fourth.record == "failed"


@pytest.mark.parametrize("ends", [KeyboardInterrupt, SystemExit])
async def test_the_end_of_the_program_comes_out(ends: type[BaseException]) -> None:
    async def end(inp: AgentInput) -> None:  # noqa: ASYNC124 - the shape is given
        raise ends

    with pytest.raises(ends):
        await run_turn(Bare(end), make_message("x"), FakeAgentTools())


async def test_the_turn_ends_with_its_nursery_and_is_closed_then(
    autojump_clock: MockClock,
) -> None:
    tools = FakeAgentTools()

    async def later() -> None:
        await trio.sleep(2)
        await tools.send_message("late", ["x"])

    async def work(inp: AgentInput) -> None:  # noqa: ASYNC124 - the shape is given
        inp.tools.turn.nursery.start_soon(later)

    result = await run_turn(Bare(work), make_message("x"), tools)

    assert result.record == "processed"
    assert tools.chat == ["late"]
    with pytest.raises(TurnClosedError):
        await tools.send_message("too late", ["x"])


async def test_an_attempt_is_what_the_turn_is_told() -> None:
    tools = FakeAgentTools()
    seen: list[tuple[int, int, bool]] = []

    async def work(inp: AgentInput) -> None:
        seen.append((inp.attempt, inp.tools.turn.attempt, inp.is_session_bootstrap))
        await inp.tools.no_reply()

    mine = [{"role": "assistant", "content": "x", "since_trigger": True}]
    adapter = Bare(work)
    await run_turn(adapter, make_message("a"), tools, attempt=2, history=mine)
    await run_turn(adapter, make_message("a"), tools, attempt=3, history=mine)
    await run_turn(adapter, make_message("b"), tools)

    assert seen == [(2, 2, True), (3, 3, False), (1, 1, False)]


async def test_the_same_tools_serve_several_turns() -> None:
    tools = FakeAgentTools()

    async def work(inp: AgentInput) -> None:
        await tools.execute_tool_call(
            "band_send_message", {"content": inp.msg.content, "mentions": ["x"]}, call_id="c1"
        )

    for text in ("a", "b"):
        assert (await run_turn(Bare(work), make_message(text), tools)).record == "processed"
    assert (await run_turn(Bare(_nothing), make_message("c"), tools)).record == "failed"

    assert tools.chat == ["a", "b"]


class Noting(SimpleAdapter[Any]):
    """Keeps what it is given; declines, unless it is told to fail."""

    SUPPORTED_CAPABILITIES = frozenset(Capability)

    def __init__(self, **features: Any) -> None:
        super().__init__(**features)
        self.seen: list[Any] = []

    async def on_message(self, msg: Any, tools: Any, *args: Any, **kwargs: Any) -> None:
        self.seen.append((kwargs["is_session_bootstrap"], msg.room_id, tools.room_id))
        self.offered = {schema["name"] for schema in tools.get_anthropic_tool_schemas()}
        self.excluded = await tools.execute_tool_call("band_create_chatroom", {})
        if msg.content == "fail":
            raise ValueError
        await tools.no_reply()


async def test_the_tools_offer_what_the_adapter_may_use() -> None:
    adapter = Noting(capabilities="memory", exclude_tools=["band_create_chatroom"])
    tools = FakeAgentTools()
    await run_turn(adapter, make_message("x"), tools)

    assert "band_get_memory" in adapter.offered
    assert "band_create_chatroom" not in adapter.offered
    assert adapter.excluded == "Unknown tool: band_create_chatroom"
    assert tools.features is None

    await run_turn(adapter, make_message("x"), FakeAgentTools(features=Noting().features))
    assert "band_get_memory" not in adapter.offered
    assert "band_create_chatroom" in adapter.offered


async def test_an_adapter_is_told_once_who_the_agent_is() -> None:
    class Started(Noting):
        async def on_started(self, agent_name: str, agent_description: str) -> None:
            self.seen.append(agent_name)

    adapter, named, tools = Started(), Noting(), FakeAgentTools()
    await named.on_started("Scribe", "")
    for each in (adapter, adapter, named):
        await run_turn(each, make_message("x"), tools)

    assert adapter.seen[0] == "Agent"
    assert "Agent" not in adapter.seen[1:]
    assert named.agent_name == "Scribe"


async def test_a_turn_is_the_first_until_one_was_completed() -> None:
    adapter, tools = Noting(), FakeAgentTools()
    for content in ("fail", "a", "b"):
        await run_turn(adapter, make_message(content), tools)
    await run_turn(adapter, make_message("c"), tools, history=[{"role": "user", "content": "x"}])
    await run_turn(adapter, make_message("d"), FakeAgentTools())
    await run_turn(adapter, make_message("e"), tools, is_session_bootstrap=True)
    again = Noting()
    await run_turn(again, make_message("f"), tools)

    assert [first for first, *_ in adapter.seen] == [True, True, False, True, True, True]
    assert [first for first, *_ in again.seen] == [True]


async def test_a_message_and_its_tools_are_in_one_room() -> None:
    adapter, ours, anywhere = Noting(), FakeAgentTools(room_id="ours"), FakeAgentTools()
    await run_turn(adapter, make_message("a"), ours)
    for room_id in ("r1", "r2", "r1"):
        await run_turn(adapter, make_message("b", room_id=room_id), anywhere)

    assert adapter.seen == [
        (True, "ours", "ours"),
        (True, "r1", "r1"),
        (True, "r2", "r2"),
        (False, "r1", "r1"),
    ]
    with pytest.raises(BandConfigError, match="'theirs', the tools are in room 'ours'"):
        await run_turn(adapter, make_message("c", room_id="theirs"), ours)


async def test_cancelling_it_comes_out(autojump_clock: MockClock) -> None:
    async def hang(inp: AgentInput) -> None:
        await trio.sleep_forever()

    tools = FakeAgentTools()
    with trio.move_on_after(1) as scope:
        await run_turn(Bare(hang), make_message("x"), tools)

    assert scope.cancelled_caught
    assert tools.turn.closed


def test_messages_have_ids_of_their_own() -> None:
    first, second = make_message("a"), make_message("b", sender_name=None)

    assert first.id != second.id
    assert first.format_for_llm() == "[Maria]: a"
    assert second.format_for_llm() == "[User]: b"

"""Running one turn and judging it as the runtime does."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from band_trio.errors import InputNotAccepted, TurnClosedError
from band_trio.testing import MISSING_REPLY_FAILURE, FakeAgentTools, make_message, run_turn
from band_trio.tools.failures import TURN_FAILURE, AgentFailure
from band_trio.types import AgentInput


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

    with pytest.raises(BaseExceptionGroup) as caught:  # noqa: ASYNC401 - RaisesGroup is not typed for these
        await run_turn(Bare(end), make_message("x"), FakeAgentTools())

    assert caught.group_contains(ends)


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

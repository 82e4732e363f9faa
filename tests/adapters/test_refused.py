"""Requests that a provider refuses, and failures after the reply."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from band_trio.adapters.loop import REFUSED_RESULT
from band_trio.adapters.talk import Talk, is_refusal, may_pass_shorter
from band_trio.errors import ProviderRunError
from band_trio.testing import (
    ErrorTurn,
    RawTurn,
    ScriptTurn,
    TextTurn,
    ToolsTurn,
    ToolTurn,
    reported_failures,
)
from tests.adapters.kit import (
    KINDS,
    LOOK,
    NO_REPLY,
    Bench,
    Kind,
    bench,
    results,
    send,
    texts,
    without_prompt,
)
from tests.converters.kit import own, said
from tests.marks import case
from tests.support.for_each import for_each

EACH = for_each("kind", KINDS, ids=lambda kind: kind.name)
PAGE = 10_000


def page() -> str:
    """Read a page."""
    return "y" * PAGE


def only(limit: int) -> Callable[[dict[str, Any]], ScriptTurn]:
    """A model that reads a page in each turn, and takes requests of *limit* characters only."""

    def answer(request: dict[str, Any]) -> ScriptTurn:
        if len(json.dumps(request["messages"])) > limit:
            return ErrorTurn(status=413, message="prompt is too long")
        last = without_prompt(request)[-1]
        block = last["content"][-1]
        answered = (
            block["type"] == "tool_result" if isinstance(block, dict) else last["role"] == "tool"
        )
        return NO_REPLY if answered else ToolTurn("page")

    return answer


# --------------------------------------------------------------------------- too long


@EACH
async def test_what_is_too_long_is_asked_again_without_its_oldest(
    kind: Kind, caplog: pytest.LogCaptureFixture
) -> None:
    options: dict[str, Any] = {"additional_tools": [page], "emit": ()}
    async with bench(kind, only(4 * PAGE), **options) as b:
        for number in range(6):
            with caplog.at_level(logging.WARNING):
                caplog.clear()
                assert (await b.turn(f"number {number}")).record == "processed"
            assert len(caplog.records) <= 1
            assert texts(b.last)[-1][1].endswith(f"[Maria]: number {number}")
        assert "number 0" not in str(b.last)
        asked = len(b.model.requests)
        await b.turn("one more")
        assert len(b.model.requests) <= asked + 4  # what was left out stays out
        assert reported_failures(b.tools) == []


@EACH
async def test_a_turn_that_is_too_long_alone_fails_and_leaves_the_room_as_it_was(
    kind: Kind,
) -> None:
    def book() -> str:
        """Read a book."""
        return "y" * 3 * PAGE

    def answer(request: dict[str, Any]) -> ScriptTurn:
        if len(json.dumps(request["messages"])) > 2 * PAGE:
            return ErrorTurn(status=400)
        return ToolTurn("book") if "read" in texts(without_prompt(request))[-1][1] else NO_REPLY

    async with bench(kind, answer, additional_tools=[book]) as b:
        await b.turn("hello")
        assert (await b.turn("read it")).record == "failed"
        assert len(reported_failures(b.tools)) == 1
        assert (await b.turn("and now")).record == "processed"

        assert texts(b.last)[0] == ("user", "[Maria]: hello")
        assert "read it" not in str(b.last)


@EACH
async def test_a_request_that_is_always_refused_is_not_repeated_for_long(kind: Kind) -> None:
    history = [each(f"m{n}") for n in range(100) for each in (said, own)]
    async with bench(kind, lambda _: ErrorTurn(status=400)) as b:
        result = await b.turn("now", history=history, is_session_bootstrap=True)

        assert result.record == "failed"
        assert 2 < len(b.model.requests) <= 10
        assert texts(b.last) == [("user", "[Maria]: now")]
        assert len(b.adapter.room_messages("room-fake")) == 198  # what was trimmed for its number


@EACH
async def test_other_failures_are_not_asked_again(kind: Kind) -> None:
    async with bench(kind, [NO_REPLY, ErrorTurn(status=401)]) as b:
        await b.turn()
        assert (await b.turn()).record == "failed"
        assert len(b.model.requests) == 2


@EACH
async def test_texts_that_were_joined_can_be_left_out(kind: Kind) -> None:
    """Of others alone the history is one message, and the newest text is part of it."""

    def answer(request: dict[str, Any]) -> ScriptTurn:
        return ErrorTurn(status=413) if "too much" in str(request["messages"]) else NO_REPLY

    async with bench(kind, answer) as b:
        history = [said("too much"), said("of it")]
        result = await b.turn("now", history=history, is_session_bootstrap=True)

        assert result.record == "processed"
        assert texts(b.last) == [("user", "[Maria]: now")]


@given(st.lists(st.booleans(), min_size=1, max_size=200), st.booleans())
def test_halving_comes_to_an_end(starts: list[bool], joined: bool) -> None:
    """Whatever can be first: about half goes in each step, and the turn itself stays."""
    starts[0] = True
    before = list(range(len(starts)))
    older = len(before) - joined
    own = 1000
    messages = [*before[:older], 999 if joined else own, 1001, 1002]
    talk = Talk(before, messages, own, older)
    steps = 0
    while shorter := talk.halved(lambda each: each if each > 900 or starts[each] else None):
        assert shorter.older <= talk.older // 2
        assert shorter.messages[-2:] == [1001, 1002]
        assert shorter.messages[: shorter.older] == shorter.before[: shorter.older]
        talk, steps = shorter, steps + 1
    assert talk.messages == [own, 1001, 1002]
    assert talk.before == []
    assert steps <= 9


def test_what_is_a_refusal() -> None:
    class StatusError(Exception):
        def __init__(self, status_code: object) -> None:
            self.status_code = status_code

    refused = [
        s
        for s in (200, 400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, None, "400")
        if is_refusal(StatusError(s))
    ]
    assert refused == [400, 403, 404, 413, 422, None, "400"]
    assert is_refusal(RuntimeError("cannot build the request"))


def test_what_says_nothing_of_a_request() -> None:
    assert not is_refusal(ProviderRunError("empty_answer", None))
    assert not is_refusal(OSError("reset"))
    assert is_refusal(TypeError("no iterable"))
    assert not may_pass_shorter(TypeError("no iterable"))
    assert may_pass_shorter(ValueError("cannot build the request"))
    with pytest.raises(ValueError, match="Expecting value") as unreadable:
        json.loads("nope")
    assert not is_refusal(unreadable.value)
    for cause in (OSError("reset"), unreadable.value):
        wrapped = RuntimeError("failed")
        wrapped.__cause__ = RuntimeError("of the SDK")
        wrapped.__cause__.__cause__ = cause
        assert not is_refusal(wrapped)


def _poisoned(b: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let *b* fail on this side whenever a request holds the word POISON."""
    ask = b.adapter.ask

    async def checked(system: str, messages: Sequence[Any], tools: list[dict[str, Any]]) -> Any:
        if "POISON" in str(messages):
            raise RuntimeError("cannot build the request")
        return await ask(system, messages, tools)

    monkeypatch.setattr(b.adapter, "ask", checked)


@EACH
async def test_what_no_request_can_be_built_of_is_forgotten(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    def poison() -> str:
        """Return what cannot be sent."""
        return "POISON"

    script = [NO_REPLY, ToolTurn("poison"), NO_REPLY]
    async with bench(kind, script, additional_tools=[poison]) as b:
        _poisoned(b, monkeypatch)
        await b.turn("before")
        assert (await b.turn("try")).record == "failed"
        assert (await b.turn("next")).record == "processed"
        assert "before" in str(b.last)


@EACH
async def test_a_history_that_no_request_can_be_built_of_is_left_out(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench(kind, [NO_REPLY]) as b:
        _poisoned(b, monkeypatch)
        history = [said("POISON"), own("x"), said("y"), own("z")]
        result = await b.turn("now", history=history, is_session_bootstrap=True)
        assert result.record == "processed"
        assert texts(b.last)[-1] == ("user", "[Maria]: now")


# --------------------------------------------------------------------------- what is kept


@EACH
async def test_a_failed_turn_is_known_in_the_next(kind: Kind) -> None:
    calls = ToolsTurn((send("Started."), LOOK))
    async with bench(kind, [calls, ErrorTurn(status=500), NO_REPLY]) as b:
        b.tools.tool_errors["band_send_message"] = ValueError("x")
        assert (await b.turn("WRITE")).record == "failed"
        b.tools.tool_errors.clear()
        await b.turn("shorter")

        assert "WRITE" in str(b.last)
        assert "Started." in str(b.last)
        assert len(results(b.last)) == 2


@EACH
async def test_a_refused_turn_that_is_run_again_begins_anew(kind: Kind) -> None:
    refused = [ErrorTurn(status=400)] * 2
    async with bench(kind, [NO_REPLY, LOOK, *refused, NO_REPLY]) as b:
        await b.turn("before")
        assert (await b.turn("work", id="m1")).record == "failed"
        await b.turn("work", id="m1", attempt=2)

        assert str(b.last).count("[Maria]: work") == 1
        assert len(results(b.last)) == 1  # of the first turn


# --------------------------------------------------------------------------- after the reply


@case("C12")
@EACH
@for_each(
    "turn", [ErrorTurn(status=503), ErrorTurn(status=400), RawTurn(b"nope"), LOOK, TextTurn("")]
)
async def test_a_provider_that_fails_after_the_reply_fails_nothing(
    kind: Kind, turn: ScriptTurn, caplog: pytest.LogCaptureFixture
) -> None:
    again = [turn] if isinstance(turn, ErrorTurn) and turn.status == 400 else []
    script = [NO_REPLY, send("The answer is 42."), turn, *again, NO_REPLY]
    caplog.clear()
    async with bench(kind, script, max_tool_rounds=1) as b:
        await b.turn("before")
        with caplog.at_level(logging.WARNING):
            result = await b.turn("what is it?")

        assert (result.record, result.error) == ("processed", None)
        assert reported_failures(b.tools) == []
        assert b.tools.chat == ["The answer is 42."]
        warned = [r for r in caplog.records if "failed after the reply" in r.getMessage()]
        assert len(warned) == (turn != TextTurn(""))
        assert (await b.turn("next")).record == "processed"
        assert "42" in str(b.last)


@EACH
async def test_a_result_that_is_refused_after_the_reply_is_left_out(kind: Kind) -> None:
    script = [send("It is 42."), LOOK, ErrorTurn(status=400), NO_REPLY]
    async with bench(kind, script) as b:
        assert (await b.turn("what is it?")).record == "processed"
        assert (await b.turn("again?")).record == "processed"

        assert "It is 42." in str(b.last)
        [posted, looked] = results(b.last)
        assert "left out" not in posted[0]
        assert looked == (REFUSED_RESULT, False)

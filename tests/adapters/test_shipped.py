"""The adapters that need no key."""

from __future__ import annotations

import re
from typing import Any

import pytest

from band_trio.adapters import EchoAdapter, RuleAdapter, call_tool
from band_trio.errors import BandApiError, BandConfigError, BandToolError, OutcomeUnknownError
from band_trio.testing import FakeAgentTools, make_message, run_turn

PEOPLE = [
    {"id": "me", "type": "Agent", "handle": "maria/echo"},
    {"id": "user-1", "handle": "maria"},
]


def _tools(**options: Any) -> FakeAgentTools:
    return FakeAgentTools(participants=PEOPLE, agent_id="me", **options)


async def test_the_echo_answers_through_a_tool_call() -> None:
    tools = _tools()

    result = await run_turn(EchoAdapter(), make_message("@maria/echo hello"), tools)

    assert result.record == "processed"
    assert result.replied
    assert tools.tool_calls == [
        {
            "tool_name": "band_send_message",
            "arguments": {"content": "You said: hello", "mentions": ["user-1"]},
        }
    ]
    tools.assert_message_sent(content="You said: hello", mentions=["@maria"], count=1)


async def test_the_echo_fails_its_turn_when_it_cannot_answer() -> None:
    tools = _tools(room_id="r")
    message = make_message("hi", sender_id="gone")

    result = await run_turn(EchoAdapter(), message, tools)

    assert result.record == "failed"
    assert isinstance(result.error, BandToolError)
    assert "Nobody in this room matches 'gone'" in str(result.error)


async def test_a_reply_of_unknown_fate_does_not_fail_the_turn() -> None:
    tools = _tools()
    tools.send_message_error = OutcomeUnknownError("cut")

    result = await run_turn(EchoAdapter(), make_message("hi"), tools)

    assert (result.record, result.replied) == ("processed", True)
    assert tools.messages_sent == []


async def test_rules_answer_by_pattern_and_the_first_wins() -> None:
    rules = RuleAdapter()

    @rules.on(r"^add (?P<a>\d+) (?P<b>\d+)$")
    async def add(msg: Any, tools: Any, match: re.Match[str]) -> str:  # noqa: ASYNC124 - the shape is given
        return str(int(match["a"]) + int(match["b"]))

    @rules.on("add")
    async def other(msg: Any, tools: Any, match: re.Match[str]) -> str:  # noqa: ASYNC124 - the shape is given
        return "what?"

    tools = _tools()
    for text in ("@maria/echo ADD 2 3", "please add"):
        assert (await run_turn(rules, make_message(text), tools)).record == "processed"

    assert tools.chat == ["5", "what?"]
    assert add.__name__ == "add"


async def test_a_rule_may_use_the_tools_itself() -> None:
    async def fetch(msg: Any, tools: Any, match: re.Match[str]) -> None:
        peers = await call_tool(tools, "band_lookup_peers", page_size=5)
        added = await call_tool(tools, "band_add_participant", identifier=peers["data"][0]["id"])
        await call_tool(tools, "band_send_message", content="help", mentions=[added["id"]])

    tools = _tools(peers=[{"id": "h", "handle": "x/helper"}])
    rules = RuleAdapter([(re.compile("fetch"), fetch)])

    result = await run_turn(rules, make_message("fetch help"), tools)

    assert result.record == "processed"
    assert [call["tool_name"] for call in tools.tool_calls] == [
        "band_lookup_peers", "band_add_participant", "band_send_message",
    ]  # fmt: skip
    tools.assert_message_sent(content="help", mentions=["x/helper"])


async def test_a_tool_that_fails_after_an_answer_raises() -> None:
    tools = _tools()
    tools.tool_errors["band_get_participants"] = BandApiError(503, "down", "down")
    await call_tool(tools, "band_send_message", content="hi", mentions=["maria"])

    with pytest.raises(BandToolError, match="503 down"):
        await call_tool(tools, "band_get_participants")


async def test_a_message_that_may_be_delivered_is_no_failure() -> None:
    tools = _tools()
    tools.send_message_error = OutcomeUnknownError("no answer")

    assert await call_tool(tools, "band_send_message", content="hi", mentions=["maria"]) is None
    assert tools.turn.replied
    with pytest.raises(BandToolError, match="do not send it again"):
        await call_tool(tools, "band_send_message", content="more", mentions=["maria"])


async def test_what_no_rule_matches_is_declined() -> None:
    tools = _tools()

    result = await run_turn(RuleAdapter(), make_message("hm"), tools)

    assert (result.record, result.replied) == ("processed", True)
    tools.assert_no_messages_sent()
    assert tools.tool_calls[0]["tool_name"] == "band_no_reply"


async def test_or_goes_to_the_fallback() -> None:
    async def fallback(msg: Any, tools: Any) -> str:  # noqa: ASYNC124 - the shape is given
        return f"sorry: {msg.content}"

    tools = _tools()
    await run_turn(RuleAdapter(fallback=fallback), make_message("hm"), tools)

    assert tools.chat == ["sorry: hm"]


async def test_an_error_in_a_rule_fails_the_turn() -> None:
    async def broken(msg: Any, tools: Any, match: re.Match[str]) -> str:  # noqa: ASYNC124 - the shape is given
        raise KeyError("x")

    result = await run_turn(RuleAdapter([("x", broken)]), make_message("x"), _tools())

    assert result.record == "failed"
    assert isinstance(result.error, KeyError)


def test_unusable_rules_are_refused() -> None:
    def sync(msg: Any, tools: Any, match: Any) -> str:
        return ""

    async def fine(msg: Any, tools: Any, match: Any) -> str:  # noqa: ASYNC124 - the shape is given
        return ""

    with pytest.raises(BandConfigError, match="sync must be an `async def`"):
        RuleAdapter([("x", sync)])  # type: ignore[list-item]
    with pytest.raises(BandConfigError, match="no regular expression"):
        RuleAdapter([("(", fine)])

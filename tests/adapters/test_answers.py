"""Odd answers of models: run as far as they can be, and sent back so that any API takes them."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from band_trio.adapters.loop import TOO_MANY_ROUNDS
from band_trio.adapters.replies import ModelReply, ToolRequest, clean_calls, sendable
from band_trio.errors import ProviderRunError
from band_trio.testing import (
    FakeAgentTools,
    RawTurn,
    RefusalTurn,
    TextTurn,
    ToolsTurn,
    ToolTurn,
    reported_failures,
)
from band_trio.testing.model_rules import broken_anthropic_rule
from tests.adapters.kit import KINDS, LOOK, NO_REPLY, Bench, Kind, bench, results, send, texts
from tests.support.for_each import for_each

EACH = for_each("kind", KINDS, ids=lambda kind: kind.name)
OPENAI, ANTHROPIC = KINDS[:2]


def calls_in(messages: list[dict[str, Any]]) -> list[tuple[str, str, Any]]:
    """Return id, name and arguments of each call in a request, in either API's form."""
    found: list[tuple[str, str, Any]] = []
    for message in messages:
        for call in message.get("tool_calls") or ():
            function = call["function"]
            found.append((call["id"], function["name"], json.loads(function["arguments"])))
        content = message["content"]
        found += [
            (block["id"], block["name"], block["input"])
            for block in (content if isinstance(content, list) else ())
            if block["type"] == "tool_use"
        ]
    return found


# --------------------------------------------------------------------------- characters


@EACH
async def test_half_a_character_in_an_answer(kind: Kind) -> None:
    args = {"content": "half \ud83d", "mentions": ["u1"], "\ud83d": ["\ud83d"]}
    odd = ToolTurn("no\ud83dpe", {})
    said = ToolsTurn((ToolTurn("band_send_message", args), odd), text="ok \ud83d")
    async with bench(kind, [said, TextTurn("done \ud83d")], relay_final_text=True) as b:
        result = await b.turn()

        assert (result.record, result.error) == ("processed", None)
        assert b.tools.chat == ["half \ufffd"]
        str(b.last).encode()
        assert ("assistant", "ok \ufffd") in texts(b.last)
        repr(b.adapter.room_messages("room-fake")).encode()


@EACH
async def test_half_a_character_in_results(kind: Kind) -> None:
    def listing() -> list[str]:
        """List the files."""
        return [os.fsdecode(b"caf\xe9.txt")]

    def broken() -> str:
        """Fail."""
        raise ValueError("no \ud83d")

    calls = ToolsTurn((ToolTurn("listing"), ToolTurn("broken")))
    options: dict[str, Any] = {"additional_tools": [listing, broken]}
    async with bench(kind, [calls, NO_REPLY], **options) as b:
        assert (await b.turn()).record == "processed"

        str(b.last).encode()
        assert "caf\ufffd.txt" in results(b.last)[0][0]
        assert "no \ufffd" in results(b.last)[1][0]


@EACH
async def test_numbers_that_json_has_not(kind: Kind) -> None:
    args = {
        "content": "thinking",
        "message_type": "thought",
        "metadata": {"x": [float("nan"), float("-inf"), 1.5]},
    }
    async with bench(kind, [ToolTurn("band_send_event", args), NO_REPLY]) as b:
        assert (await b.turn()).record == "processed"

        [(_, _, kept)] = calls_in(b.last)
        assert kept["metadata"] == {"x": ["nan", "-inf", 1.5]}


@EACH
async def test_pictures_that_cannot_be_read(kind: Kind) -> None:
    def shots() -> dict[str, Any]:
        """Take pictures."""
        data = [" iVBO\nRw0K ", "abc", "n\u00f6", "", "iVBORw0K!"]
        return {"content": [{"type": "image", "data": d, "mimeType": "image/png"} for d in data]}

    async with bench(kind, [ToolTurn("shots"), NO_REPLY], additional_tools=[shots]) as b:
        assert (await b.turn()).record == "processed"

        assert str(b.last).count("iVBORw0K") == 1
        assert "4 of them cannot be read." in results(b.last)[0][0]


@EACH
async def test_pictures_of_kinds_that_no_api_takes(kind: Kind) -> None:
    def shots() -> dict[str, Any]:
        """Take pictures."""
        kinds = ["image/svg+xml", "text/html", "image/jpg", "Image/PNG; q=1", 5]
        return {"content": [{"type": "image", "data": "AAAA", "mimeType": k} for k in kinds]}

    async with bench(kind, [ToolTurn("shots"), NO_REPLY], additional_tools=[shots]) as b:
        assert (await b.turn()).record == "processed"

        sent = json.dumps(b.last)
        assert sent.count("AAAA") == 2
        assert (sent.count("image/jpeg"), sent.count("image/png")) == (1, 1)
        assert "3 of them cannot be read." in results(b.last)[0][0]


def test_the_scripted_api_refuses_pictures_as_the_real_one_does() -> None:
    def request(media_type: str) -> dict[str, Any]:
        source = {"type": "base64", "media_type": media_type, "data": "AAAA"}
        image = {"type": "image", "source": source}
        use = {"type": "tool_use", "id": "1", "name": "x", "input": {}}
        result = {"type": "tool_result", "tool_use_id": "1", "content": [image]}
        turns = [("user", "hi"), ("assistant", [use]), ("user", [result])]
        messages = [{"role": role, "content": content} for role, content in turns]
        return {"max_tokens": 1, "messages": messages}

    assert broken_anthropic_rule(request("image/jpeg")) is None
    assert "media_type" in str(broken_anthropic_rule(request("image/jpg")))


# --------------------------------------------------------------------------- names and ids


@EACH
async def test_names_and_ids_that_no_api_takes_back(kind: Kind) -> None:
    same = ToolTurn("band_get_participants", id="call_0")
    script = [ToolsTurn((same, same, ToolTurn("a.b c", id="call_0"))), same, NO_REPLY]
    async with bench(kind, script) as b:
        assert (await b.turn()).record == "processed"

        names = [(call_id, name) for call_id, name, _ in calls_in(b.last)]
        assert names == [
            ("call_0", "band_get_participants"),
            ("call_0_2", "band_get_participants"),
            ("call_0_3", "a_b_c"),
            ("call_0_4", "band_get_participants"),
        ]
        assert "Unknown tool: a.b c" in results(b.last)[2][0]


def test_calls_are_cleaned_for_any_dialect() -> None:
    given: list[Any] = [(None, "x"), (7, "x"), (" ", "x"), ("call", "x"), ("fn.x:0", "x" * 99)]
    calls = clean_calls([ToolRequest(i, n, None) for i, n in given], ["call", "call_2"])

    assert [call.id for call in calls] == ["call_3", "call_4", "call_5", "call_6", "fn.x:0"]
    assert [call.args for call in calls] == [{}] * 5
    assert [len(sendable(call).name) for call in calls] == [1, 1, 1, 1, 64]


@for_each(
    ("args", "run", "kept"),
    [
        ('{"a": 1e999}', {"a": "inf"}, {"a": "inf"}),
        ({"a": "\ud83d"}, {"a": "\ufffd"}, {"a": "\ufffd"}),
        ("{no", "{no", {"arguments": "{no"}),
        ("\ud83d", "\ufffd", {"arguments": "\ufffd"}),
        ([float("nan")], ["nan"], {"arguments": '["nan"]'}),
        ("  ", {}, {}),
        (None, {}, {}),
        ('{"a":' * 5000 + "1" + "}" * 5000, None, None),
    ],
)  # fmt: skip
def test_arguments_become_an_object_when_they_are_sent_back(args: Any, run: Any, kept: Any) -> None:
    [call] = clean_calls([ToolRequest("1", "x", args)], ())

    assert run is None or call.args == run
    assert kept is None or sendable(call).args == kept
    json.dumps(sendable(call).args, allow_nan=False).encode()


def test_arguments_nested_too_deeply_are_no_crash() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = {"a": deep}

    [call] = clean_calls([ToolRequest("1", "x", deep)], ())

    assert sendable(call).args == {"arguments": "(nested too deeply)"}


@EACH
@for_each("depth", [90, 110, 260, 800])
async def test_arguments_nested_too_deeply_are_sent_back_as_a_text(kind: Kind, depth: int) -> None:
    deep = {"a": json.loads("[" * depth + "]" * depth)}
    call = ToolTurn("band_get_participants", json.dumps(deep) if kind.api == "openai" else deep)
    async with bench(kind, [call, NO_REPLY, NO_REPLY]) as b:
        assert (await b.turn()).record == "processed"
        assert (await b.turn("next")).record == "processed"

        [(_, _, args), _] = calls_in(b.last)
        assert args == (deep if depth < 100 else {"arguments": "(nested too deeply)"})


async def test_a_call_with_null_for_arguments() -> None:
    call = {"type": "tool_use", "id": "a", "name": "band_no_reply", "input": None}
    for kind in (ANTHROPIC, KINDS[3]):
        async with bench(kind, [_said(call), NO_REPLY]) as b:
            assert (await b.turn()).record == "processed"
            await b.turn()

            assert calls_in(b.last)[0] == ("a", "band_no_reply", {})


async def test_a_block_nested_too_deeply_fails_its_turn_alone() -> None:
    deep = {"query": json.loads("[" * 260 + "]" * 260)}
    block = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": deep}
    async with bench(ANTHROPIC, [_said(block), NO_REPLY]) as b:
        failed = await b.turn()
        assert isinstance(failed.error, ProviderRunError)
        assert (await b.turn("next")).record == "processed"


# --------------------------------------------------------------------------- servers like OpenAI's


def _completion(reason: str, **message: Any) -> RawTurn:
    choice = {"index": 0, "finish_reason": reason, "message": {"role": "assistant", **message}}
    body = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return RawTurn(json.dumps(body).encode())


async def test_arguments_as_an_object() -> None:
    function = {"name": "band_no_reply", "arguments": {"reason": "thanks"}}
    call = {"id": "c1", "type": "function", "function": function}
    answer = _completion("tool_calls", content=None, tool_calls=[call])
    async with bench(OPENAI, [answer, NO_REPLY]) as b:
        assert (await b.turn()).record == "processed"
        await b.turn()

        assert calls_in(b.last)[0] == ("c1", "band_no_reply", {"reason": "thanks"})


async def test_content_in_parts() -> None:
    parts = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "Good "},
        {"type": "text", "text": "day."},
    ]
    script = [_completion("stop", content=parts), NO_REPLY]
    async with bench(OPENAI, script, relay_final_text=True) as b:
        assert (await b.turn()).record == "processed"
        assert b.tools.chat == ["Good day."]
        await b.turn()

        assert b.last[1] == {"role": "assistant", "content": "Good day."}


# --------------------------------------------------------------------------- no whole answers

ADD = ToolTurn("band_add_participant", {"identifier": "p1"})


@EACH
async def test_a_refusal_is_not_relayed(kind: Kind) -> None:
    """Adding somebody completes the turn, so that the refusal is no failure of it."""
    async with bench(kind, [ADD, RefusalTurn("I refuse.")], relay_final_text=True) as b:
        peers = [{"id": "p1", "handle": "peer", "name": "P"}]
        b = Bench(b.adapter, b.model, FakeAgentTools(agent_id="me", peers=peers))
        result = await b.turn()

        assert (result.record, result.complete) == ("processed", True)
        b.tools.assert_no_messages_sent()


CUT_TEXT = {
    "openai": _completion("length", content="Once upon"),
    "anthropic": RawTurn(
        json.dumps(
            {
                "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
                "content": [{"type": "text", "text": "Once upon"}], "stop_reason": "max_tokens",
                "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
            }
        ).encode()
    ),
}  # fmt: skip


@EACH
async def test_a_text_that_is_cut_is_relayed_with_a_mark(kind: Kind) -> None:
    async with bench(kind, [CUT_TEXT[kind.api]], relay_final_text=True) as b:
        assert (await b.turn()).record == "processed"
        assert b.tools.chat == ["Once upon …"]


async def test_a_call_that_is_cut_does_not_run() -> None:
    function = {"name": "band_send_message", "arguments": '{"content": "a", "mentions": ["u1"]}'}
    calls = [{"id": i, "type": "function", "function": function} for i in ("1", "2")]
    answer = _completion("length", content=None, tool_calls=calls)
    async with bench(OPENAI, [answer, TextTurn("")]) as b:
        assert (await b.turn()).record == "processed"

        assert b.tools.chat == ["a"]
        assert "cut by the limit of tokens" in results(b.last)[1][0]


def test_nothing_but_a_cut_is_told_as_what_it_is() -> None:
    with pytest.raises(ProviderRunError, match="max_tokens"):
        ModelReply(None, " ", cut=True).check()
    assert ModelReply(None, " ", cut=True).final_text == ""


@EACH
async def test_too_many_rounds_leave_a_valid_room(kind: Kind) -> None:
    async with bench(kind, [LOOK, send("x"), NO_REPLY], max_tool_rounds=1) as b:
        await b.turn()
        assert [each["code"] for each in reported_failures(b.tools)] == [TOO_MANY_ROUNDS]
        await b.turn("next")

        assert "was not run" in results(b.last)[-1][0]
        b.tools.assert_no_messages_sent()


async def test_thinking_alone_is_not_kept() -> None:
    """The API refuses an assistant message that ends with it."""
    thinking = {"type": "thinking", "thinking": "hm", "signature": "abc"}
    hidden = {"type": "redacted_thinking", "data": "x"}
    text = {"type": "text", "text": "done"}
    for kind in (ANTHROPIC, KINDS[3]):
        script = [_said(thinking), send(), _said(thinking, hidden), _said(text, thinking), NO_REPLY]
        async with bench(kind, script) as b:
            assert (await b.turn()).record == "failed"
            assert (await b.turn()).record == "processed"
            await b.turn()
            await b.turn("last")

            assert '"thinking"' not in json.dumps(b.last)
            assert ("assistant", "done") in texts(b.last)


def _said(*content: dict[str, Any]) -> RawTurn:
    body = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content,
        "stop_reason": "end_turn", "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip
    return RawTurn(json.dumps(body).encode())

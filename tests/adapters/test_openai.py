"""What is OpenAI's own: odd servers, odd calls, pictures, options."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai import AsyncOpenAI

from band_trio.adapters.openai import OpenAIAdapter, OpenAIConfig
from band_trio.testing import serving
from band_trio.testing.scripted_model import RawTurn, ScriptedModel, TextTurn, ToolsTurn, ToolTurn
from band_trio.testing.scripted_openai import open_scripted_openai
from band_trio.types import ToolCallOutcome, TurnUsage
from tests.adapters.kit import KINDS, LOOK, NO_REPLY, Bench, bench, make_tools, results
from tests.support.for_each import for_each

OPENAI = KINDS[0]


@for_each("arguments", ["{not json", "[1]", "", '"x"', "7"])
async def test_arguments_that_are_no_object(arguments: str) -> None:
    """They are answered with an error, and are an object when they are sent back."""
    async with bench(OPENAI, [ToolTurn("band_lookup_peers", arguments), NO_REPLY]) as b:
        assert (await b.turn()).record == "processed"

        [(text, _)] = results(b.last)
        assert ("Invalid arguments for band_lookup_peers" in text) is (arguments != "")


async def test_ids_that_repeat_or_are_missing() -> None:
    twice = ToolTurn("band_get_participants", id="call_0")
    script = [ToolsTurn((twice, twice)), twice, ToolTurn("nope", id=""), NO_REPLY]
    async with bench(OPENAI, script) as b:
        assert (await b.turn()).record == "processed"

        ids = [call["id"] for m in b.last for call in m.get("tool_calls", ())]
        assert ids == ["call_0", "call_0_2", "call_0_3", "call"]
        assert len(b.tools.tool_calls) == 5


async def test_a_filtered_answer_is_a_refusal() -> None:
    choice = {
        "index": 0,
        "finish_reason": "content_filter",
        "message": {"role": "assistant", "content": "half an ans"},
    }
    body = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    async with bench(OPENAI, [RawTurn(json.dumps(body).encode())]) as b:
        assert str((await b.turn()).error) == "refused"


async def test_an_odd_name_of_a_tool_is_cleaned_when_sent_back() -> None:
    async with bench(OPENAI, [ToolTurn("functions.look up"), NO_REPLY]) as b:
        assert (await b.turn()).record == "processed"

        assert "Unknown tool: functions.look up" in str(b.last)
        assert b.last[1]["tool_calls"][0]["function"]["name"] == "functions_look_up"


async def test_options_of_the_request() -> None:
    options: dict[str, Any] = {"token_option": "max_tokens", "extra_body": {"temperature": 0}}
    async with bench(OPENAI, [NO_REPLY], max_tokens=9, **options) as b:
        await b.turn()

        request = b.model.requests[0]
        assert (request["max_tokens"], request["temperature"]) == (9, 0)
        assert "max_completion_tokens" not in request


async def test_cached_tokens_are_counted() -> None:
    model = ScriptedModel([NO_REPLY], usage=TurnUsage(10, 5, 4))
    async with open_scripted_openai(model) as server:
        adapter = OPENAI.make(server)
        async with serving(adapter):
            b = Bench(adapter, model, make_tools(adapter))
            await b.turn()

    usage = b.tools.events_sent[-1]["metadata"]["band_usage"]
    assert usage == TurnUsage(10, 5, 4).to_dict()


def test_pictures_follow_the_results() -> None:
    adapter = OpenAIAdapter(OpenAIConfig(model="m"))
    picture = {"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]}
    messages: list[dict[str, Any]] = []
    calls = [
        _request("1"),
        _request("2"),
    ]

    adapter.add_results(
        messages, calls, [ToolCallOutcome(picture, ok=True), ToolCallOutcome("x", ok=True)]
    )
    adapter.add_user_text(messages, "[Maria]: and?")

    assert [m["role"] for m in messages] == ["tool", "tool", "user"]
    assert messages[0]["content"] == "<1 image content block(s)>"
    title, shown, text = messages[2]["content"]
    assert title["text"].startswith("[System]: ")
    assert shown["image_url"]["url"] == "data:image/png;base64,AAAA"
    assert text["text"] == "[Maria]: and?"


async def test_a_turn_is_not_cut_at_its_pictures() -> None:
    def shot() -> dict[str, Any]:
        """Take a picture."""
        return {"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]}

    script = [ToolTurn("shot"), *5 * [LOOK], NO_REPLY, NO_REPLY]
    async with bench(OPENAI, script, additional_tools=[shot], max_history=4) as b:
        await b.turn("QUESTION")
        assert "QUESTION" in str(b.adapter.room_messages("room-fake"))
        await b.turn("next")
        assert "AAAA" not in str(b.last)


def test_a_text_after_pictures_can_be_first_without_them() -> None:
    adapter = OpenAIAdapter(OpenAIConfig(model="m"))
    picture = {"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]}
    messages: list[dict[str, Any]] = []
    adapter.add_results(messages, [_request("1")], [ToolCallOutcome(picture, ok=True)])

    assert adapter.as_first(messages[-1]) is None
    adapter.add_user_text(messages, "[Maria]: and?")
    text = {"type": "text", "text": "[Maria]: and?"}
    assert adapter.as_first(messages[-1]) == {"role": "user", "content": [text]}
    assert adapter.as_first({"role": "user", "content": "hi"}) == {"role": "user", "content": "hi"}


def _request(call_id: str) -> Any:
    from band_trio.adapters.replies import ToolRequest

    return ToolRequest(call_id, "band_read_room_file", "{}")


async def test_a_client_of_the_application_stays_open() -> None:
    async with open_scripted_openai(ScriptedModel([LOOK, TextTurn("x")])) as server:
        async with AsyncOpenAI(api_key=server.api_key, base_url=server.base_url) as client:
            adapter = OpenAIAdapter(OpenAIConfig(model="m"), client=client, emit=())
            await adapter.serve()
            await Bench(adapter, server.model, make_tools(adapter)).turn()

            assert len(server.model.requests) == 2
            assert not client.is_closed()


async def test_the_own_client_is_closed() -> None:
    async with bench(OPENAI) as b:
        assert isinstance(b.adapter, OpenAIAdapter)
        client = b.adapter._client
        assert client is not None
        assert not client.is_closed()
    assert client.is_closed()


async def test_a_server_of_ones_own_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    adapter = OpenAIAdapter(OpenAIConfig(model="m", base_url="http://127.0.0.1:1/v1"))
    async with serving(adapter):
        assert adapter._client is not None

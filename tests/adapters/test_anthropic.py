"""What is Anthropic's own: blocks that go back as they came, caching, pictures."""

from __future__ import annotations

import json
from typing import Any

from anthropic import AsyncAnthropic

from band_trio.adapters.anthropic import AnthropicAdapter, AnthropicConfig
from band_trio.adapters.replies import ToolRequest
from band_trio.testing import serving
from band_trio.testing.scripted_anthropic import open_scripted_anthropic
from band_trio.testing.scripted_model import RawTurn, ScriptedModel, TextTurn
from band_trio.types import ToolCallOutcome, TurnUsage
from tests.adapters.kit import KINDS, LOOK, NO_REPLY, Bench, bench, make_tools
from tests.support.for_each import for_each

ANTHROPIC = KINDS[1]


def _answer(*content: dict[str, Any], stop_reason: str = "tool_use") -> RawTurn:
    body = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content,
        "stop_reason": stop_reason, "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip
    return RawTurn(json.dumps(body).encode())


async def test_thinking_goes_back_with_its_signature() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "abc"}
    use = {"type": "tool_use", "id": "toolu_1", "name": "band_get_participants", "input": {}}
    blank = {"type": "text", "text": " "}
    async with bench(ANTHROPIC, [_answer(thinking, blank, use), NO_REPLY]) as b:
        assert (await b.turn()).record == "processed"

        assert b.last[1]["content"] == [thinking, use]


@for_each("reason", ["max_tokens", "model_context_window_exceeded"])
async def test_a_full_context_is_no_success(reason: str) -> None:
    answer = _answer({"type": "text", "text": ""}, stop_reason=reason)
    async with bench(ANTHROPIC, [answer]) as b:
        assert (await b.turn()).record == "failed"


@for_each("reason", ["max_tokens", "model_context_window_exceeded"])
async def test_a_text_is_relayed_with_a_mark_whatever_has_cut_it(reason: str) -> None:
    answer = _answer({"type": "text", "text": "Once upon"}, stop_reason=reason)
    async with bench(ANTHROPIC, [answer], relay_final_text=True) as b:
        await b.turn()
        assert b.tools.chat == ["Once upon …"]


@for_each("cached", [True, False])
async def test_the_prompt_may_be_cached(cached: bool) -> None:
    async with bench(ANTHROPIC, [NO_REPLY], cache_prompt=cached, extra_body={"top_k": 3}) as b:
        await b.turn()

        [system] = b.model.requests[0]["system"]
        assert ("cache_control" in system) is cached
        assert b.model.requests[0]["top_k"] == 3


async def test_an_empty_prompt_is_left_out() -> None:
    async with bench(ANTHROPIC, [NO_REPLY], system_prompt="") as b:
        assert (await b.turn()).record == "processed"
        assert "system" not in b.model.requests[0]


async def test_cached_tokens_are_counted() -> None:
    model = ScriptedModel([NO_REPLY], usage=TurnUsage(10, 5, 4, 3))
    async with open_scripted_anthropic(model) as server:
        adapter = ANTHROPIC.make(server)
        async with serving(adapter):
            b = Bench(adapter, model, make_tools(adapter))
            await b.turn()

    usage = b.tools.events_sent[-1]["metadata"]["band_usage"]
    assert usage == TurnUsage(10, 5, 4, 3).to_dict()


def test_pictures_are_pictures() -> None:
    adapter = AnthropicAdapter(AnthropicConfig(model="m"))
    picture = {"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]}
    messages: list[dict[str, Any]] = []

    adapter.add_results(
        messages,
        [ToolRequest("1", "band_read_room_file", {})],
        [ToolCallOutcome(picture, ok=True)],
    )

    [result] = messages[0]["content"]
    assert result["content"][1] == {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
    }


async def test_a_client_of_the_application_stays_open() -> None:
    async with open_scripted_anthropic(ScriptedModel([LOOK, TextTurn("x")])) as server:
        async with AsyncAnthropic(api_key=server.api_key, base_url=server.base_url) as client:
            adapter = AnthropicAdapter(AnthropicConfig(model="m"), client=client, emit=())
            await adapter.serve()
            await Bench(adapter, server.model, make_tools(adapter)).turn()

            assert len(server.model.requests) == 2
            assert not client.is_closed()


async def test_the_own_client_is_closed() -> None:
    async with bench(ANTHROPIC) as b:
        assert isinstance(b.adapter, AnthropicAdapter)
        client = b.adapter._client
        assert client is not None
        assert not client.is_closed()
    assert client.is_closed()

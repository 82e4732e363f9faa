"""A scripted model behind OpenAI's chat completions API, rules of its requests included."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from band_trio.testing.model_rules import broken_openai_rule
from band_trio.testing.scripted_http import ScriptedServer, Speech, calls_of, open_http, respond
from band_trio.testing.scripted_model import RefusalTurn, ScriptedModel, ScriptTurn, ToolTurn


@asynccontextmanager
async def open_scripted_openai(model: ScriptedModel) -> AsyncGenerator[ScriptedServer]:
    """Serve *model* at `base_url` + `/chat/completions` until the block ends.

    A request that breaks a documented rule, such as a tool call without its result, is answered
    with a 400 as the real API does, and listed in `model.violations`.
    """
    server = ScriptedServer(model, "")
    async with open_http(partial(respond, _SPEECH, model, server.api_key)) as port:
        yield ScriptedServer(model, f"http://127.0.0.1:{port}/v1")


def _success(model: ScriptedModel, turn: ScriptTurn, body: dict[str, Any]) -> dict[str, Any]:
    refused = isinstance(turn, RefusalTurn)
    calls = [_call(model, call) for call in calls_of(turn)]
    text: str = getattr(turn, "text", "")
    message: dict[str, Any] = {"role": "assistant", "content": None if refused else text or None}
    message["refusal"] = text if refused else None
    if calls:
        message["tool_calls"] = calls
    usage = model.usage
    return {
        "id": model.fresh_id("chatcmpl-"),
        "object": "chat.completion",
        "created": 1_735_689_600,
        "model": body["model"],
        "choices": [
            {
                "index": 0,
                "message": message,
                "finish_reason": "tool_calls" if calls else "stop",
                "logprobs": None,
            }
        ],
        "usage": {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "total_tokens": usage.total_tokens,
            "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        },
    }


def _call(model: ScriptedModel, call: ToolTurn) -> dict[str, Any]:
    arguments = call.args if isinstance(call.args, str) else json.dumps(call.args)
    call_id = model.fresh_id("call_") if call.id is None else call.id
    function = {"name": call.name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def _failure(status: int, message: str) -> dict[str, Any]:
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


_SPEECH: Final = Speech("/v1/chat/completions", broken_openai_rule, _success, _failure)

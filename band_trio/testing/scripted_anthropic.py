"""A scripted model behind Anthropic's messages API, rules of its requests included."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from band_trio.testing.model_rules import broken_anthropic_rule
from band_trio.testing.scripted_http import ScriptedServer, Speech, calls_of, open_http, respond
from band_trio.testing.scripted_model import RefusalTurn, ScriptedModel, ScriptTurn


@asynccontextmanager
async def open_scripted_anthropic(model: ScriptedModel) -> AsyncGenerator[ScriptedServer]:
    """Serve *model* at `base_url` + `/v1/messages` until the block ends.

    A request that breaks a documented rule, such as a tool call without its result, is answered
    with a 400 as the real API does, and listed in `model.violations`.
    """
    server = ScriptedServer(model, "")
    async with open_http(partial(respond, _SPEECH, model, server.api_key)) as port:
        yield ScriptedServer(model, f"http://127.0.0.1:{port}")


def _success(model: ScriptedModel, turn: ScriptTurn, body: dict[str, Any]) -> dict[str, Any]:
    calls = calls_of(turn)
    text: str = getattr(turn, "text", "")
    content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    for call in calls:
        call_id = model.fresh_id("toolu_") if call.id is None else call.id
        content.append({"type": "tool_use", "id": call_id, "name": call.name, "input": call.args})
    reason = "refusal" if isinstance(turn, RefusalTurn) else "tool_use" if calls else "end_turn"
    usage = model.usage
    return {
        "id": model.fresh_id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cache_read_input_tokens": usage.cache_read_tokens,
            "cache_creation_input_tokens": usage.cache_write_tokens,
        },
    }


_KINDS: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def _failure(status: int, message: str) -> dict[str, Any]:
    error = {"type": _KINDS.get(status, "api_error"), "message": message}
    return {"type": "error", "error": error}


_SPEECH: Final = Speech("/v1/messages", broken_anthropic_rule, _success, _failure)

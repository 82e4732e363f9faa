"""The messages of OpenAI's chat completions, and of everything that speaks the same."""

from __future__ import annotations

import json
from typing import Any

from band_trio.converters.exchanges import (
    AssistantText,
    Call,
    Exchange,
    Result,
    UserText,
    build_exchanges,
)
from band_trio.converters.plain import add_text
from band_trio.tools.results import is_failed_tool_output

OpenAIMessage = dict[str, Any]


class OpenAIHistoryConverter:
    """History for chat completions.

    Each assistant message with `tool_calls` is followed at once by one `tool` message for each
    of them. Adjacent texts of one role are one message, and the first is a user's.
    """

    def convert(self, raw: list[dict[str, Any]]) -> list[OpenAIMessage]:
        """Return the messages of *raw*, oldest first."""
        messages: list[OpenAIMessage] = []
        for entry in build_exchanges(raw):
            if isinstance(entry, UserText):
                add_text(messages, "user", entry.line)
            elif isinstance(entry, AssistantText):
                add_text(messages, "assistant", entry.text)
            else:
                _add_exchange(messages, entry)
        return messages


def _add_exchange(messages: list[OpenAIMessage], exchange: Exchange) -> None:
    calls = [_call(call) for call in exchange.calls]
    last = messages[-1] if messages else None
    if last is not None and last["role"] == "assistant" and "tool_calls" not in last:
        messages[-1] = {**last, "tool_calls": calls}
    else:
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
    for call, result in zip(exchange.calls, exchange.results, strict=True):
        messages.append(tool_message(call.id, result))


def _call(call: Call) -> dict[str, Any]:
    function = {"name": call.name, "arguments": json.dumps(call.args, ensure_ascii=False)}
    return {"id": call.id, "type": "function", "function": function}


def tool_message(call_id: str, result: Result) -> OpenAIMessage:
    """Return the message that answers one call. The format has no mark for failures: words say it."""
    failed = result.is_error and not is_failed_tool_output(result.output)
    content = f"Error: {result.output}" if failed else result.output
    return {"role": "tool", "tool_call_id": call_id, "content": content}

"""What the providers document about a request: the order of messages, calls and their results.

Stricter than the providers in one point: adjacent messages of one role are a broken rule in both
APIs, because many servers that speak them insist on turns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final

Body = dict[str, Any]

_IMAGES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class _BrokenRuleError(Exception):
    """Carries the rule out of the check."""


def broken_openai_rule(body: Body) -> str | None:
    """Return which rule of chat completions *body* breaks; None if it breaks none."""
    try:
        _check_tools(tool["function"]["name"] for tool in body.get("tools", ()))
        _need("tools" not in body or body["tools"], "tools must not be empty")
        _openai_messages(body["messages"])
    except _BrokenRuleError as exc:
        return str(exc)
    except (KeyError, TypeError, AttributeError) as exc:
        return f"malformed request: {type(exc).__name__} {exc}"
    return None


def broken_anthropic_rule(body: Body) -> str | None:
    """Return which rule of the messages API *body* breaks; None if it breaks none."""
    try:
        _check_tools(tool["name"] for tool in body.get("tools", ()))
        _need(isinstance(body.get("max_tokens"), int), "max_tokens is required")
        _anthropic_messages(body["messages"])
    except _BrokenRuleError as exc:
        return str(exc)
    except (KeyError, TypeError, AttributeError) as exc:
        return f"malformed request: {type(exc).__name__} {exc}"
    return None


def _need(holds: object, rule: str) -> None:
    if not holds:
        raise _BrokenRuleError(rule)


def _check_tools(names: Iterable[str]) -> None:
    given = list(names)
    _need(len(set(given)) == len(given), "tools: names must be unique")
    for name in given:
        _need(_NAME.fullmatch(name), f"tools: bad name {name!r}")


def _openai_messages(messages: list[Body]) -> None:
    turns = [message for message in messages if message["role"] not in ("system", "developer")]
    _need(turns and turns[0]["role"] == "user", "messages: the first must be the user's")
    waiting: list[str] = []
    before = ""
    for number, message in enumerate(turns):
        at, role = f"messages[{number}]", message["role"]
        if role == "tool":
            _need(
                message["tool_call_id"] in waiting,
                f"{at}: messages with role 'tool' must be a response to a preceding message with "
                "'tool_calls'",
            )
            waiting.remove(message["tool_call_id"])
            _need(isinstance(message["content"], str), f"{at}: content must be text")
        else:
            _need(
                not waiting,
                f"{at}: an assistant message with 'tool_calls' must be followed by tool messages "
                f"responding to each 'tool_call_id'; missing: {waiting}",
            )
            _need(role != before, f"{at}: adjacent messages of role {role!r}")
            calls = message.get("tool_calls") or []
            _need(calls or message["content"], f"{at}: empty content")
            waiting = _openai_calls(at, role, calls)
        before = role
    _need(not waiting, f"messages: no tool messages for {waiting}")


def _openai_calls(at: str, role: str, calls: list[Body]) -> list[str]:
    ids = [call["id"] for call in calls]
    _need(not calls or role == "assistant", f"{at}: only the assistant calls tools")
    _need(len(set(ids)) == len(ids) and all(ids), f"{at}: ids of tool calls must be unique")
    for call in calls:
        _need(_NAME.fullmatch(call["function"]["name"]), f"{at}: bad name of a tool")
        try:
            arguments = json.loads(call["function"]["arguments"])
        except ValueError:
            arguments = None
        _need(isinstance(arguments, dict), f"{at}: arguments must be a JSON object")
    return ids


def _anthropic_messages(messages: list[Body]) -> None:
    _need(messages, "messages: at least one message is required")
    waiting: list[str] = []
    used: set[str] = set()
    for number, message in enumerate(messages):
        at, role = f"messages.{number}", ("user", "assistant")[number % 2]
        _need(message["role"] == role, f"{at}: roles must alternate between user and assistant")
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        _need(blocks, f"{at}: all messages must have non-empty content")
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        leading = [block["type"] for block in blocks][: len(results)]
        _need(leading == ["tool_result"] * len(results), f"{at}: tool_result blocks come first")
        missing = sorted(set(waiting) - set(results))
        _need(
            not missing,
            f"{at}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(missing)}",
        )
        _need(sorted(results) == sorted(waiting), f"{at}: unexpected `tool_use_id` in tool_result")
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        _need(not used & set(waiting), f"{at}: `tool_use` ids must be unique")
        _need(len(set(waiting)) == len(waiting), f"{at}: `tool_use` ids must be unique")
        used |= set(waiting)
        for block in blocks:
            _anthropic_block(at, role, block)
    _need(not waiting, f"messages: `tool_use` without `tool_result`: {waiting}")


def _anthropic_block(at: str, role: str, block: Body) -> None:
    if block["type"] == "text":
        _need(block["text"].strip(), f"{at}: text content blocks must contain non-whitespace text")
    elif block["type"] == "tool_use":
        _need(role == "assistant", f"{at}: only the assistant uses tools")
        _need(_NAME.fullmatch(block["name"]), f"{at}: bad name of a tool")
        _need(isinstance(block["input"], dict), f"{at}: input must be an object")
    elif block["type"] == "tool_result":
        _need(role == "user", f"{at}: results are the user's")
        content = block.get("content") or ()
        for part in () if isinstance(content, str) else content:
            _anthropic_block(at, role, part)
    elif block["type"] == "image" and block["source"]["type"] == "base64":
        _need(
            block["source"]["media_type"] in _IMAGES,
            f"{at}: the media_type of an image must be one of {', '.join(_IMAGES)}",
        )

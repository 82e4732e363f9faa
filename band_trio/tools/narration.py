"""Tool calls told to the room: a `tool_call` event before, a `tool_result` event after each.

The content of both is JSON text that other readers rely on, so what is too long is shortened
inside its values and the text around them stays whole. Best effort: a call that nobody could be
told about is still a call.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

import trio

from band_trio.kit.hygiene import clip, redact_credentials_deep, without_surrogates
from band_trio.protocol.rest import EVENT_CHARS
from band_trio.tools.protocol import AgentToolsProtocol
from band_trio.tools.relay import send_event_safe
from band_trio.tools.results import (
    block_text,
    image_block_placeholder,
    is_mcp_content_result,
    redact_tool_call_args,
    serialize_tool_result,
    tool_result_text,
)
from band_trio.types import MessageType, ToolCallOutcome, ToolEventKey

_log: Final = logging.getLogger(__name__)

NARRATION_SECONDS: Final = 10.0
"""Longest time that telling the room about a call holds up the call itself."""

_UNSHOWN: Final = "arguments"
"""Key for arguments that are no object, or have too many parts to be shortened one by one."""
_MARKER: Final = "…"


async def execute_narrated(
    tools: AgentToolsProtocol, name: str, args: Any, *, shown_id: str, call_id: str | None = None
) -> ToolCallOutcome:
    """Run a tool by name, with an event before and one after; *shown_id* joins the two.

    With *call_id* a repeated call does not run again; see `execute_tool_call_structured`.
    """
    await narrate_call(tools, name, args, shown_id)
    outcome = await tools.execute_tool_call_structured(name, args, call_id=call_id)
    await narrate_result(tools, name, outcome.value, shown_id, is_error=not outcome.ok)
    return outcome


async def narrate_call(
    tools: AgentToolsProtocol, name: str, args: Any, call_id: str, *, log_level: int = logging.INFO
) -> bool:
    """Post the `tool_call` event of a call that is about to run; tell whether it was posted.

    *args* are the model's, as an object or as JSON text. File contents are replaced by their
    size, credentials masked. Never raises except for a stop and cancellation.
    """
    content = tool_call_content(name, args, call_id, secrets=_secrets(tools))
    return await _narrate(tools, content, MessageType.TOOL_CALL, log_level)


async def narrate_result(
    tools: AgentToolsProtocol,
    name: str,
    output: Any,
    call_id: str,
    *,
    is_error: bool = False,
    log_level: int = logging.INFO,
) -> bool:
    """Post the `tool_result` event of a call that has run; tell whether it was posted.

    *output* is its value (`ToolCallOutcome.value`); what is no text is shown as JSON, pictures
    as a placeholder. Never raises except for a stop and cancellation.
    """
    content = tool_result_content(name, output, call_id, is_error=is_error, secrets=_secrets(tools))
    return await _narrate(tools, content, MessageType.TOOL_RESULT, log_level)


async def _narrate(
    tools: AgentToolsProtocol,
    content: str,
    message_type: MessageType,
    log_level: int,
) -> bool:
    label = f"the {message_type} event"
    with trio.move_on_after(NARRATION_SECONDS):
        return await send_event_safe(
            tools, content, message_type, log_label=label, log_level=log_level
        )
    _log.log(log_level, "room %s: %s was given up: too slow", tools.room_id, label)
    return False


def _secrets(tools: AgentToolsProtocol) -> tuple[str, ...]:
    return tuple(getattr(getattr(tools, "rest", None), "secrets", ()))


# --------------------------------------------------------------------------- contents


def tool_call_content(
    name: str, args: Any, call_id: str, *, secrets: Iterable[str] = (), limit: int = EVENT_CHARS
) -> str:
    """Return the content of a `tool_call` event: JSON text of at most *limit* characters."""
    shown = _json_safe(_as_object(args))
    shown = redact_tool_call_args(name, shown if isinstance(shown, dict) else {_UNSHOWN: shown})
    event = {
        ToolEventKey.NAME.value: name,
        ToolEventKey.ARGS.value: shown,
        ToolEventKey.TOOL_CALL_ID.value: call_id,
    }
    return _fitted(event, ToolEventKey.ARGS.value, tuple(secrets), limit)


def tool_result_content(
    name: str,
    output: Any,
    call_id: str,
    *,
    is_error: bool,
    secrets: Iterable[str] = (),
    limit: int = EVENT_CHARS,
) -> str:
    """Return the content of a `tool_result` event: JSON text of at most *limit* characters."""
    event = {
        ToolEventKey.NAME.value: name,
        ToolEventKey.OUTPUT.value: output_text(output),
        ToolEventKey.TOOL_CALL_ID.value: call_id,
        ToolEventKey.IS_ERROR.value: is_error,
    }
    return _fitted(event, ToolEventKey.OUTPUT.value, tuple(secrets), limit)


def output_text(output: Any) -> str:
    """Return a result as events show it: text as it is, pictures as a placeholder, else JSON."""
    if not is_mcp_content_result(output):
        return tool_result_text(serialize_or_text(output))
    blocks = output["content"]
    texts = [block_text(block) for block in blocks if block["type"] != "image"]
    pictures = len(blocks) - len(texts)
    if pictures:
        texts.append(image_block_placeholder(pictures))
    return tool_result_text("\n".join(texts))


def serialize_or_text(value: Any) -> Any:
    """Return *value* as JSON-safe data; what cannot be taken apart stays as it is."""
    try:
        return serialize_tool_result(value)
    except (TypeError, ValueError, RecursionError):
        return value  # `tool_result_text` words it


def _as_object(args: Any) -> Any:
    if isinstance(args, str):
        try:
            return json.loads(args)
        except (ValueError, RecursionError):
            return args
    return {} if args is None else args


# --------------------------------------------------------------------------- fitting


def _json_safe(value: Any) -> Any:
    """Copy *value* as plain JSON, long texts already cut; text where that is not possible."""
    try:
        return _plain(value)
    except RecursionError:
        return clip(str(tool_result_text(value)), 2 * EVENT_CHARS, _MARKER)


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        # Masking and measuring a megabyte would be slow; twice the limit is cut again later.
        return without_surrogates(clip(value, 2 * EVENT_CHARS, _MARKER))
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):  # Python refuses to write thousands of digits
        return value if value.bit_length() < 1024 else clip(hex(value), EVENT_CHARS, _MARKER)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {without_surrogates(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return str(value)


def _fitted(event: dict[str, Any], part: str, secrets: tuple[str, ...], limit: int) -> str:
    """Encode *event*, the values in *part* shortened until it fits."""
    event = {key: _json_safe(value) for key, value in event.items()}
    as_it_is = event[part]
    if isinstance(as_it_is, dict) and len(_dumps(as_it_is)) > 4 * limit:
        as_it_is = {_UNSHOWN: clip(_dumps(as_it_is), 2 * limit, _MARKER)}
    as_it_is = redact_credentials_deep(as_it_is, secrets)
    for key in (ToolEventKey.NAME.value, ToolEventKey.TOOL_CALL_ID.value):
        event[key] = clip(event[key], limit // 8, _MARKER)
    event[part] = as_it_is
    if len(text := _dumps(event)) <= limit:
        return text
    fits, too_long = 0, limit
    best = {**event, part: {} if isinstance(as_it_is, dict) else ""}
    while too_long - fits > 1:  # the longest cut at which it fits
        middle = (fits + too_long) // 2
        shorter = {**event, part: _shortened(as_it_is, middle)}
        if len(_dumps(shorter)) <= limit:
            fits, best = middle, shorter
        else:
            too_long = middle
    if fits < _SMALLEST and isinstance(as_it_is, dict) and _UNSHOWN not in as_it_is:
        whole = {_UNSHOWN: clip(_dumps(as_it_is), 2 * limit, _MARKER)}
        return _fitted({**event, part: whole}, part, secrets, limit)
    return _dumps(best)


_SMALLEST: Final = 64
"""Values cut shorter than this say less than the beginning and the end of the whole."""


def _shortened(value: Any, limit: int) -> Any:
    if isinstance(value, str):
        return clip(value, limit, _MARKER)
    if isinstance(value, dict):
        return {key: _shortened(item, limit) for key, item in value.items()}
    if isinstance(value, list):
        return [_shortened(item, limit) for item in value]
    return value


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)

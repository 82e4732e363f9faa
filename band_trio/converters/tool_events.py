"""Tool events: the JSON text of `tool_call` and `tool_result` rows, written and read.

The keys are read by other programs (platform docs, Events). Reading is tolerant, because rooms
hold what other programs wrote.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, Final

import attrs

from band_trio.hygiene import clip, without_surrogates
from band_trio.protocol import codec
from band_trio.protocol.errors import RemoteProtocolError
from band_trio.protocol.rest import EVENT_CHARS
from band_trio.tools.results import (
    image_block_placeholder,
    is_mcp_content_result,
    redact_tool_call_args,
    tool_result_text,
)
from band_trio.types import ToolEventKey

_log: Final = logging.getLogger(__name__)

SHORTENED: Final = "… shortened …"
"""Stands in an event where a long text was cut; the echo of a message is found in spite of it."""

_MARKER: Final = f"\n{SHORTENED}\n"
_SHORTEST: Final = 64
_DEPTH: Final = 40
"""Deeper arguments are cut: the SDKs of the providers walk them by recursion."""


@attrs.frozen
class ToolCallEvent:
    """What a `tool_call` row says."""

    name: str
    args: dict[str, Any]
    tool_call_id: str


@attrs.frozen
class ToolResultEvent:
    """What a `tool_result` row says."""

    name: str
    output: str
    tool_call_id: str
    is_error: bool


# --------------------------------------------------------------------------- reading


def parse_tool_call(content: object) -> ToolCallEvent | None:
    """Read the content of a `tool_call` row; None, and a line in the log, if it is unusable."""
    row = _object(content, "tool_call")
    if row is None:
        return None
    args = row.get(ToolEventKey.ARGS)
    return ToolCallEvent(
        str(row[ToolEventKey.NAME]),
        _bounded(args, _DEPTH) if isinstance(args, dict) else {},
        str(row[ToolEventKey.TOOL_CALL_ID]),
    )


def parse_tool_result(content: object) -> ToolResultEvent | None:
    """Read the content of a `tool_result` row; None, and a line in the log, if it is unusable.

    An output that is no text becomes its JSON text.
    """
    row = _object(content, "tool_result")
    if row is None:
        return None
    return ToolResultEvent(
        str(row[ToolEventKey.NAME]),
        tool_result_text(row.get(ToolEventKey.OUTPUT, "")),
        str(row[ToolEventKey.TOOL_CALL_ID]),
        row.get(ToolEventKey.IS_ERROR) is True,
    )


def _object(content: object, kind: str) -> dict[str, Any] | None:
    try:
        row = codec.loads(content) if isinstance(content, str) else content
    except RemoteProtocolError as exc:
        _log.info("a %s event was skipped: %s", kind, exc)
        return None
    if not isinstance(row, dict):
        _log.info("a %s event was skipped: it is no object", kind)
        return None
    for key in (ToolEventKey.NAME, ToolEventKey.TOOL_CALL_ID):
        value = row.get(key)
        if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
            _log.info("a %s event was skipped: it has no %s", kind, key.value)
            return None
    return row


def _bounded(value: Any, depth: int) -> Any:
    """Copy a JSON value down to *depth* levels, without lone surrogates."""
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, Mapping):
        if depth == 0:
            return SHORTENED
        return {without_surrogates(str(k)): _bounded(v, depth - 1) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_bounded(v, depth - 1) for v in value] if depth else SHORTENED
    return value


# --------------------------------------------------------------------------- writing


def tool_call_content(name: str, args: Any, call_id: str) -> str:
    """Return the content of a `tool_call` row, within the platform's limit.

    Long texts are shortened inside *args*, so that the content stays JSON; the contents of files
    are left out. Arguments that are no object become an empty one.
    """
    shown = redact_tool_call_args(name, args) if isinstance(args, Mapping) else {}
    row = {ToolEventKey.NAME: name, ToolEventKey.ARGS: shown, ToolEventKey.TOOL_CALL_ID: call_id}
    return _fitted(row, ToolEventKey.ARGS)


def tool_result_content(name: str, output: Any, call_id: str, *, is_error: bool) -> str:
    """Return the content of a `tool_result` row, within the platform's limit.

    The output is text: JSON where it is none, a placeholder where it holds pictures.
    """
    row = {
        ToolEventKey.NAME: name,
        ToolEventKey.OUTPUT: event_output(output),
        ToolEventKey.TOOL_CALL_ID: call_id,
        ToolEventKey.IS_ERROR: is_error,
    }
    return _fitted(row, ToolEventKey.OUTPUT)


def event_output(output: Any) -> str:
    """Return a result as an event shows it: text, with a placeholder for pictures."""
    if not is_mcp_content_result(output):
        return tool_result_text(output)
    blocks = output["content"]
    kept = [block for block in blocks if not _is_image(block)]
    images = len(blocks) - len(kept)
    texts = [block["text"] for block in kept if isinstance(block, Mapping) and "text" in block]
    return "\n".join([*map(str, texts), *([image_block_placeholder(images)] if images else [])])


def _is_image(block: object) -> bool:
    return isinstance(block, Mapping) and block.get("type") == "image"


def _fitted(row: dict[ToolEventKey, Any], key: ToolEventKey) -> str:
    """Write *row* as JSON, texts under *key* shortened more and more until it fits."""
    plain = {k.value: v for k, v in row.items()}
    content, limit = _json(plain), EVENT_CHARS
    while len(content) > EVENT_CHARS and limit > _SHORTEST:
        limit //= 2
        content = _json({**plain, key.value: _shortened(row[key], limit)})
    if len(content) > EVENT_CHARS:  # very many short texts
        whole = clip(_json(row[key]), EVENT_CHARS // 4, _MARKER)
        content = _json({**plain, key.value: whole if key is ToolEventKey.OUTPUT else {}})
    return content


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return json.dumps(_bounded(value, _DEPTH), ensure_ascii=False, default=str)


def _shortened(value: Any, limit: int) -> Any:
    if isinstance(value, str):
        return clip(value, limit, _MARKER)
    if isinstance(value, Mapping):
        return {key: _shortened(item, limit) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_shortened(item, limit) for item in value]
    return value

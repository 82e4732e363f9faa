"""What a tool call gives back: JSON-safe values, capped texts, and errors worded for a model."""

from __future__ import annotations

import base64
import dataclasses
import json
import logging
from collections.abc import Iterable, Mapping
from datetime import date
from enum import Enum
from typing import Any, Final

import attrs

from band_trio import texts
from band_trio.errors import (
    API_ERROR_CHARS,
    BandApiError,
    BandConnectionError,
    BandError,
    BandToolError,
    OutcomeUnknownError,
)
from band_trio.kit.hygiene import SHORTENED, clean_text, clip, error_line, error_text
from band_trio.protocol.rest import Page
from band_trio.protocol.structure import unstructure
from band_trio.tools.definitions import BandTool
from band_trio.tools.refusals import refusal_advice

_log: Final = logging.getLogger(__name__)

RESULT_CHARS: Final = 50_000
"""Most characters of one result that a model sees."""
_FAILED: Final = ("error:", "error executing ", "invalid arguments for ", "unknown tool:")


def serialize_tool_result(value: Any) -> Any:
    """Return *value* as JSON-safe data; objects become dicts, bytes URL-safe base64."""
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, bytes | bytearray):
        return base64.urlsafe_b64encode(value).decode("ascii")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {key: serialize_tool_result(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [serialize_tool_result(item) for item in value]
    return _serialized_object(value)


def _serialized_object(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    if attrs.has(type(value)):
        fields = {field.name: getattr(value, field.name) for field in attrs.fields(type(value))}
        return serialize_tool_result(fields)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return serialize_tool_result({name: getattr(value, name) for name in names})
    return value


def json_safe_result(value: Any) -> Any:
    """Return what an unknown function gave back as plain JSON; text for what has no such form.

    Raises:
        BandToolError: there is no text of it either.
    """
    try:
        safe = serialize_tool_result(value)
        json.dumps(safe, check_circular=False)
    except (TypeError, ValueError, RecursionError):
        return clip(_written(value), RESULT_CHARS, SHORTENED)
    return safe


def without_nulls(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return *value* without null fields, at every level; nulls in lists stay."""
    return {key: _nulls_removed(item) for key, item in value.items() if item is not None}


def _nulls_removed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return without_nulls(value)
    if isinstance(value, list | tuple):
        return [_nulls_removed(item) for item in value]
    return value


def object_result(value: Any, known: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return an object of the platform without nulls; what is *known* of it where it is None,
    because the answer to its change was odd."""
    return without_nulls(known or {} if value is None else unstructure(value))


def page_result(page: Page[Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return a list as the platform wraps it: `data` and `metadata`, without nulls."""
    rows = [without_nulls(unstructure(row)) for row in page.items]
    return {"data": rows, "metadata": without_nulls(metadata)}


def page_metadata(page: Page[Any], number: int, size: int) -> dict[str, Any]:
    """Return what the platform tells about a page of a counted list."""
    return {
        "page": number,
        "page_size": size,
        "total_count": page.total_count,
        "total_pages": page.total_pages,
    }


def cursor_metadata(page: Page[Any], limit: int) -> dict[str, Any]:
    """Return what leads from one page of a list to the next."""
    return {
        "has_more": page.next_cursor is not None,
        "limit": limit,
        "next_cursor": page.next_cursor,
    }


def tool_result_text(value: Any, *, limit: int = RESULT_CHARS) -> str:
    """Return a result as the text a model reads, at most *limit* characters, head and tail kept."""
    try:
        return clip(_written(value), limit, SHORTENED)
    except BandToolError as exc:
        return f"Error: {exc}"


def _written(value: Any) -> str:
    """Return text as it is, anything else as JSON.

    Raises:
        BandToolError: JSON cannot hold it.
    """
    if isinstance(value, str):
        return value
    try:
        # A value that contains itself is found by its depth.
        return json.dumps(value, ensure_ascii=False, default=_described, check_circular=False)
    except RecursionError:
        raise BandToolError(texts.TOO_DEEP) from None
    except ValueError:
        raise BandToolError(texts.NUMBER_TOO_LONG) from None
    except TypeError:
        return _described(value)


def _described(value: Any) -> str:
    try:
        return str(serialize_tool_result(value))
    except (TypeError, ValueError, RecursionError):  # a model of a library that cannot be dumped
        return f"<{type(value).__name__}>"


def is_failed_tool_output(value: Any) -> bool:
    """Tell whether an output of unknown origin looks like a failure.

    Where the structured outcome is at hand, its `ok` is the better source.
    """
    if isinstance(value, Mapping):
        return value.get("ok") is False or _is_failed_mcp_result(value)
    return isinstance(value, str) and value.lstrip().lower().startswith(_FAILED)


def is_failed_result(value: Any) -> bool:
    """Tell whether what an unknown function gave back looks like a failure, in its JSON form."""
    try:
        value = serialize_tool_result(value)
    except (TypeError, ValueError, RecursionError):
        return is_failed_tool_output(value)  # there is no such form
    return is_failed_tool_output(value)


def redact_tool_call_args(name: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call as events may show them: file contents become their size."""
    shown = dict(args)
    content = shown.get("content")
    if name == BandTool.SEND_ROOM_FILE and isinstance(content, str):
        shown["content"] = f"<{len(content.encode('utf-8', 'replace'))} byte file content>"
    return shown


def image_block_placeholder(count: int) -> str:
    """Stand in for images in events."""
    return f"<{count} image content block(s)>"


_RESULT_KEYS: Final = frozenset(
    [
        *("content", "isError", "structuredContent", "_meta", "resultType"),
        *("is_error", "structured_content", "meta", "result_type"),  # as some libraries write them
    ]
)
_BLOCK_KEYS: Final = {
    "text": "text",
    "image": "data",
    "audio": "data",
    "resource": "resource",
    "resource_link": "uri",
}
"""Kinds of blocks, each with the key that it cannot be without."""


def is_mcp_content_result(value: Any) -> bool:
    """Tell whether a result is a list of content blocks as MCP has them, such as an image.

    A result that merely has something called `content` is none: it is data like any other.
    """
    if not isinstance(value, Mapping) or not value.keys() <= _RESULT_KEYS:
        return False
    blocks = value.get("content")
    return isinstance(blocks, list) and bool(blocks) and all(map(_is_block, blocks))


def _is_failed_mcp_result(value: Mapping[str, Any]) -> bool:
    """Tell whether a result says in the words of MCP that it failed; it may have no blocks."""
    said = value.get("isError") is True or value.get("is_error") is True
    return said and value.keys() <= _RESULT_KEYS and isinstance(value.get("content"), list)


def _is_block(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    needed = _BLOCK_KEYS.get(str(value.get("type")))
    return needed is not None and value.get(needed) is not None


def block_text(block: Mapping[str, Any]) -> str:
    """Return a content block that is no picture as text; sound becomes a placeholder."""
    if block["type"] == "text":
        return str(block["text"])
    if block["type"] == "audio":
        return "<audio content block>"
    held = block.get("resource")
    if isinstance(held, Mapping) and isinstance(held.get("text"), str):
        return str(held["text"])
    return tool_result_text({key: item for key, item in block.items() if item is not None})


def explain(name: str, exc: Exception, secrets: Iterable[str] = ()) -> str:
    """Word a failed call of the tool *name* for the model.

    Texts of `BandError`s are written for that; of anything else only the class is told, and the
    rest goes to the log.
    """
    if isinstance(exc, BandConnectionError):
        # Its own text names the URL, which is for the log of the operator.
        unknown = isinstance(exc, OutcomeUnknownError)
        problem = texts.CALL_MAY_HAVE_WORKED if unknown else texts.NOT_REACHED
    elif isinstance(exc, BandApiError):
        said = clean_text(str(exc), 4 * API_ERROR_CHARS, secrets).rstrip(".")
        advice = refusal_advice(name, exc.status)
        problem = f"{said}. {advice}" if advice else said
    elif isinstance(exc, BandError):
        problem = clean_text(str(exc), 4 * API_ERROR_CHARS, secrets)
    else:
        _log.error("the tool %s failed: %s", name, error_line(exc, secrets))
        problem = type(exc).__name__
    return texts.tool_failed(name, problem)


def explain_custom(name: str, exc: Exception, secrets: Iterable[str] = ()) -> str:
    """Word a failed call of a custom tool for the model: class and text of the error, cleaned."""
    if isinstance(exc, BandConnectionError):
        return explain(name, exc, secrets)
    return texts.tool_failed(name, error_text(exc, API_ERROR_CHARS, secrets))

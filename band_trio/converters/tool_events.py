"""Tool events as they stand in rooms: the JSON text of `tool_call` and `tool_result` rows, read.

Reading is tolerant, because rooms hold what other programs wrote (platform docs, Events).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

import attrs

from band_trio.kit.hygiene import without_surrogates
from band_trio.protocol import codec
from band_trio.protocol.errors import RemoteProtocolError
from band_trio.tools.results import tool_result_text
from band_trio.types import ToolEventKey

_log: Final = logging.getLogger(__name__)

SHORTENED: Final = "…"
"""Stands in an event where a long text was cut."""
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

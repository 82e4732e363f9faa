"""JSON at the boundary: orjson, and the standard library for what orjson refuses to read."""

from __future__ import annotations

import json
from typing import Any, Final

import orjson  # noqa: TID251 - this is the boundary

from band_trio.hygiene import without_surrogates
from band_trio.protocol.errors import RemoteProtocolError

MAX_DEPTH: Final = 200
"""Deeper nesting is refused: no frame of the platform comes near it."""


def loads(data: bytes | bytearray | str) -> Any:
    """Parse JSON. Lone surrogates become U+FFFD, NaN and infinities are refused.

    Raises:
        RemoteProtocolError: *data* is not JSON.
    """
    try:
        return orjson.loads(data)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        pass
    try:
        text = data if isinstance(data, str) else bytes(data).decode("utf-8", "replace")
        return _clean(json.loads(text, parse_constant=_refuse), MAX_DEPTH)
    except (ValueError, RecursionError) as exc:
        raise RemoteProtocolError(f"not JSON: {type(exc).__name__}") from None


def dumps(value: Any) -> bytes:
    """Write compact UTF-8 JSON; lone surrogates in any string become U+FFFD.

    Raises:
        TypeError: *value* holds something that JSON cannot express.
    """
    try:
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)
    except orjson.JSONEncodeError:
        # The usual reason is a lone surrogate, which costs a walk only when it happens.
        return orjson.dumps(_clean(value, MAX_DEPTH), option=orjson.OPT_NON_STR_KEYS)


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def _clean(value: Any, depth: int) -> Any:
    if depth == 0:
        raise ValueError("nested too deeply")
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, dict):
        return {_clean(k, depth - 1): _clean(v, depth - 1) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item, depth - 1) for item in value]
    return value

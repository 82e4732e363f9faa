"""JSON at the boundary: orjson, and the standard library for what orjson refuses to read."""

from __future__ import annotations

import json
import math
from typing import Any, Final

import orjson  # noqa: TID251 - this is the boundary

from band_trio.kit.hygiene import without_surrogates
from band_trio.protocol.errors import RemoteProtocolError

MAX_DEPTH: Final = 200
"""Deeper nesting is refused: no frame of the platform comes near it, and what was read must be
writable again."""
MAX_VALUES: Final = 250_000
"""Most values, counted by the characters in front of each; in prose a comma comes once in fifty."""
MAX_LENIENT_VALUES: Final = 20_000
"""The same for what orjson does not read: the standard library takes a hundred times as long."""
_WRITABLE_DEPTH: Final = 254
"""What orjson writes at most. Asking it is thirty times quicker than to look for oneself."""


def loads(data: bytes | bytearray | str) -> Any:
    """Parse JSON. Lone surrogates become U+FFFD; NaN, infinities and deep nesting are refused.

    Of equal keys the last one counts. Whole numbers beyond 64 bits become floats. So many values
    that reading them would stop the program, and fill its memory, are refused unread.

    Raises:
        RemoteProtocolError: *data* is not JSON.
    """
    nested = most = 0
    if len(data) > MAX_DEPTH:  # else there is no room for much of either
        nested, most = _count(data)
    if most > MAX_VALUES:
        raise RemoteProtocolError("not JSON that is read: too many values")
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as exc:
        if most > MAX_LENIENT_VALUES:
            raise RemoteProtocolError(f"not JSON: {type(exc).__name__}") from None
        value = _loads_leniently(data)
    if nested > MAX_DEPTH and _is_too_deep(value):
        raise RemoteProtocolError("not JSON: nested too deeply")
    return value


def _loads_leniently(data: bytes | bytearray | str) -> Any:
    try:
        text = data if isinstance(data, str) else bytes(data).decode("utf-8", "replace")
        value = json.loads(text, parse_constant=_refuse, parse_float=_real, parse_int=_whole)
        return _clean(value, MAX_DEPTH)
    except (ValueError, RecursionError) as exc:
        raise RemoteProtocolError(f"not JSON: {type(exc).__name__}") from None


def dumps(value: Any) -> bytes:
    """Write compact UTF-8 JSON; lone surrogates in any string become U+FFFD, NaN becomes null.

    Raises:
        TypeError: *value* holds something that JSON cannot express, or is nested too deeply.
    """
    try:
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)
    except orjson.JSONEncodeError:
        # The usual reason is a lone surrogate, which costs a walk only when it happens.
        try:
            value = _clean(value, MAX_DEPTH)
        except ValueError as exc:
            raise TypeError(str(exc)) from None
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def _real(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError("number out of range")
    return value


def _whole(digits: str) -> int | float:
    value = _real(digits)  # which also refuses digits without end
    whole = int(digits)
    return whole if -(2**63) <= whole < 2**64 else value


def _count(data: bytes | bytearray | str) -> tuple[int, int]:
    """Return how many lists and objects *data* has at most, and how many values; that costs next
    to nothing."""
    if isinstance(data, str):
        nested = data.count("[") + data.count("{")
        return nested, nested + data.count(",")
    nested = data.count(b"[") + data.count(b"{")
    return nested, nested + data.count(b",")


def _is_too_deep(value: Any) -> bool:
    """Tell whether *value* is nested deeper than `MAX_DEPTH`: wrapped, it cannot be written then."""
    for _ in range(_WRITABLE_DEPTH - MAX_DEPTH):
        value = [value]
    try:
        orjson.dumps(value)
    except orjson.JSONEncodeError:
        return True
    return False


def _clean(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return without_surrogates(value)
    if not isinstance(value, dict | list | tuple):
        return value
    if depth == 0:
        raise ValueError("nested too deeply")
    if isinstance(value, dict):
        return {_clean(k, depth - 1): _clean(v, depth - 1) for k, v in value.items()}
    return [_clean(item, depth - 1) for item in value]

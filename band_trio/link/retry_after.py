"""How long the platform asks to wait: in headers, or in the body (platform docs, Retry rules)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any

from band_trio.protocol.rest import ErrorBody


def read_retry_after(header: Callable[[str], str | None], body: Any) -> float | None:
    """Return the longest wait that an answer asks for, in seconds; None if it asks for none.

    *header* looks up a header by its lower-case name, *body* is the parsed JSON body.
    """
    asked = [
        parse_retry_after(header("retry-after"), header("date")),
        _plausible(ErrorBody.read(body).retry_after),
    ]
    known = [each for each in asked if each is not None]
    if known:
        return max(known)
    return _until(header("x-ratelimit-reset"))


def parse_retry_after(text: str | None, date: str | None = None) -> float | None:
    """Read a `Retry-After` header; return seconds from now, or None when it cannot be read.

    It holds seconds or an HTTP date. A date is compared with *date*, the `Date` of the same
    answer, so that a wrong clock of ours does no harm.
    """
    if not text:
        return None
    seconds = _number(text)
    if seconds is not None:
        return _plausible(seconds)
    when = _moment(text)
    if when is None:
        return None
    now = _moment(date) if date else None
    return max(0.0, when - (time.time() if now is None else now))


def _until(text: str | None) -> float | None:
    """Read `X-RateLimit-Reset`: a moment in unix seconds."""
    moment = _number(text) if text else None
    return None if moment is None else _plausible(max(0.0, moment - time.time()))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _moment(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None


def _plausible(seconds: float | None) -> float | None:
    return seconds if seconds is not None and math.isfinite(seconds) and seconds >= 0 else None

"""How long the platform asks to wait: in headers, or in the body (platform docs, Retry rules)."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

from band_trio.kit.logs import RepeatedLog
from band_trio.protocol.rest import ErrorBody

_repeated: Final = RepeatedLog(logging.getLogger(__name__))

LONGEST_SECONDS: Final = 3600.0
"""A longer wait is taken for a mistake of the server, and this one obeyed instead."""
_MOMENTS: Final = 1e8
"""`X-RateLimit-Reset` is a moment in unix seconds on some servers and a time to wait on others: a
number below this one is a wait, as the moment would lie in 1973."""


def read_retry_after(header: Callable[[str], str | None], body: Any) -> float | None:
    """Return the longest wait that an answer asks for, in seconds; None if it asks for none.

    *header* looks up a header by its lower-case name, *body* is the parsed JSON body. Read are
    `Retry-After`, its twin in milliseconds and the field of the body; without them the reset.
    """
    asked = [
        parse_retry_after(header("retry-after"), header("date")),
        _milliseconds(header("retry-after-ms")),
        believed(ErrorBody.read(body).retry_after),
    ]
    known = [each for each in asked if each is not None]
    if known:
        return max(known)
    return _until_reset(header("x-ratelimit-reset"), header("date"))


def parse_retry_after(text: str | None, date: str | None = None) -> float | None:
    """Read a `Retry-After` header; return seconds from now, or None when it cannot be read.

    It holds seconds or an HTTP date. A date is compared with *date*, the `Date` of the same
    answer, so that a wrong clock of ours does no harm.
    """
    if not text:
        return None
    seconds = _number(text)
    if seconds is not None:
        return believed(seconds)
    return _until(_moment(text), date)


def believed(seconds: float | None) -> float | None:
    """Return a told wait as it is obeyed: what cannot be is None, what is absurd is cut."""
    if seconds is None or not 0 <= seconds < math.inf:
        return None
    if seconds > LONGEST_SECONDS:
        _repeated.warning(
            "the platform asks to wait for more than %g s, which is taken for a mistake: "
            "no more than that is waited",
            LONGEST_SECONDS,
        )
    return min(seconds, LONGEST_SECONDS)


def _milliseconds(text: str | None) -> float | None:
    number = _number(text or "")
    return None if number is None else believed(number / 1000)


def _until_reset(text: str | None, date: str | None) -> float | None:
    number = _number(text or "")
    if number is None or number < _MOMENTS:
        return believed(number)
    return _until(number, date)


def _until(moment: float | None, date: str | None) -> float | None:
    """Return how long it is to *moment* (unix seconds), by the clock of the server if it said."""
    if moment is None:
        return None
    now = _moment(date) if date else None
    return believed(max(0.0, moment - (time.time() if now is None else now)))


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return None if math.isnan(number) else number


def _moment(text: str) -> float | None:
    read = read_date(text)
    return None if read is None else read.timestamp()


def read_date(text: str | None) -> datetime | None:
    """Read an HTTP date as UTC; without a zone, or with `-0000`, it is in UTC anyway."""
    if not text:
        return None
    try:
        read = parsedate_to_datetime(text)
        # What has no zone would be taken for the time of this machine.
        return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
    except (ValueError, OverflowError):
        return None

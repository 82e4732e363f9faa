"""How long the platform asks to wait."""

from __future__ import annotations

import time
from email.utils import formatdate

import pytest

from band_trio.link.retry_after import parse_retry_after, read_retry_after


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7.0),
        ("0", 0.0),
        (" 1.5 ", 1.5),
        ("-3", None),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("", None),
        (None, None),
        ("Wed, 99 Foo 2026", None),
    ],
)
def test_seconds(text: str | None, seconds: float | None) -> None:
    assert parse_retry_after(text) == seconds


def test_dates_are_compared_with_the_clock_of_the_server() -> None:
    date = "Wed, 21 Oct 2015 07:28:00 GMT"
    assert parse_retry_after("Wed, 21 Oct 2015 07:28:30 GMT", date) == 30
    assert parse_retry_after("Wed, 21 Oct 2015 07:27:00 GMT", date) == 0
    soon = parse_retry_after(formatdate(time.time() + 90, usegmt=True))
    assert soon is not None
    assert 85 < soon <= 91


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({}, None, None),
        ({}, {"error": "odd"}, None),
        ({}, {"error": {"retry_after": 12}}, 12),
        ({}, {"error": {"retry_after": "12"}}, 12),
        ({}, {"error": {"retry_after": -1}}, None),
        ({"retry-after": "3"}, {"error": {"retry_after": 12}}, 12),
        ({"retry-after": "30"}, {"error": {"retry_after": 12}}, 30),
        ({"x-ratelimit-reset": "1"}, None, 0),
        ({"x-ratelimit-reset": "odd"}, None, None),
        ({"retry-after": "3", "x-ratelimit-reset": "99999999999"}, None, 3),
    ],
)
def test_the_longest_of_header_and_body(
    headers: dict[str, str], body: object, seconds: float | None
) -> None:
    assert read_retry_after(headers.get, body) == seconds

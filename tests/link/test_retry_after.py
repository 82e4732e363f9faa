"""How long the platform asks to wait."""

from __future__ import annotations

import time
from email.utils import formatdate

import pytest

from band_trio.link.retry_after import (
    LONGEST_SECONDS,
    believed,
    parse_retry_after,
    read_retry_after,
)


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


def test_c49_the_reset_is_compared_with_the_clock_of_the_server_too() -> None:
    server = time.time() + 3600  # it is right, and this machine an hour behind
    date = formatdate(server, usegmt=True)
    headers = {"date": date, "x-ratelimit-reset": str(int(server) + 2)}
    assert read_retry_after(headers.get, None) == 2
    wait = read_retry_after({"x-ratelimit-reset": str(int(time.time()) + 9)}.get, None)
    assert wait is not None
    assert 6 < wait <= 9


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"retry-after": "1000000000"}, None),
        ({"retry-after": "Fri, 21 Oct 2095 07:28:00 GMT"}, None),
        ({"x-ratelimit-reset": "99999999999"}, None),
        ({}, {"error": {"retry_after": 10**300}}),
    ],
)
def test_c43_a_wait_beyond_an_hour_is_taken_for_a_mistake(
    headers: dict[str, str], body: object, caplog: pytest.LogCaptureFixture
) -> None:
    assert read_retry_after(headers.get, body) == LONGEST_SECONDS
    assert "taken for a mistake" in caplog.text


@pytest.mark.parametrize(
    ("told", "wait"),
    [
        *((None, None), (-5, None), (float("nan"), None), (float("inf"), None)),
        *((0, 0), (7, 7), (3600, 3600), (3601, 3600), (10**400, 3600)),
    ],
)
def test_waits_of_any_kind_are_believed_or_not(told: float | None, wait: float | None) -> None:
    assert believed(told) == wait


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

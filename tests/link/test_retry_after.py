"""How long the platform asks to wait."""

from __future__ import annotations

import time
from collections.abc import Generator
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from band_trio.link.net.retry_after import (
    LONGEST_SECONDS,
    believed,
    parse_retry_after,
    read_retry_after,
)
from tests.marks import case
from tests.support.for_each import for_each


@for_each(
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


@case("C49")
def test_the_reset_is_compared_with_the_clock_of_the_server_too() -> None:
    server = time.time() + 3600  # it is right, and this machine an hour behind
    date = formatdate(server, usegmt=True)
    headers = {"date": date, "x-ratelimit-reset": str(int(server) + 2)}
    assert read_retry_after(headers.get, None) == 2
    wait = read_retry_after({"x-ratelimit-reset": str(int(time.time()) + 9)}.get, None)
    assert wait is not None
    assert 6 < wait <= 9


@case("C43")
@for_each(
    ("headers", "body"),
    [
        ({"retry-after": "1000000000"}, None),
        ({"retry-after": "Fri, 21 Oct 2095 07:28:00 GMT"}, None),
        ({"x-ratelimit-reset": "99999999999"}, None),
        ({}, {"error": {"retry_after": 10**300}}),
    ],
)
def test_a_wait_beyond_an_hour_is_taken_for_a_mistake(
    headers: dict[str, str], body: object, caplog: pytest.LogCaptureFixture
) -> None:
    assert read_retry_after(headers.get, body) == LONGEST_SECONDS
    assert "taken for a mistake" in caplog.text


@for_each(
    ("told", "wait"),
    [
        *((None, None), (-5, None), (float("nan"), None), (float("inf"), None)),
        *((0, 0), (7, 7), (3600, 3600), (3601, 3600), (10**400, 3600)),
    ],
)
def test_waits_of_any_kind_are_believed_or_not(told: float | None, wait: float | None) -> None:
    assert believed(told) == wait


@for_each(
    ("headers", "body", "seconds"),
    [
        ({}, None, None),
        ({}, {"error": "odd"}, None),
        ({}, {"error": {"retry_after": 12}}, 12),
        ({}, {"error": {"retry_after": "12"}}, 12),
        ({}, {"error": {"retry_after": -1}}, None),
        ({"retry-after": "3"}, {"error": {"retry_after": 12}}, 12),
        ({"retry-after": "30"}, {"error": {"retry_after": 12}}, 30),
        ({"x-ratelimit-reset": "odd"}, None, None),
        ({"retry-after": "3", "x-ratelimit-reset": "99999999999"}, None, 3),
    ],
)
def test_the_longest_of_header_and_body(
    headers: dict[str, str], body: object, seconds: float | None
) -> None:
    assert read_retry_after(headers.get, body) == seconds


@case("C73")
@for_each(
    ("headers", "seconds"),
    [
        ({"x-ratelimit-reset": "30"}, 30),
        ({"x-ratelimit-reset": "0.5"}, 0.5),
        ({"x-ratelimit-reset": "99999999"}, LONGEST_SECONDS),  # a wait still, and too long
        ({"x-ratelimit-reset": "100000000"}, 0),  # a moment, long ago
        ({"x-ratelimit-reset": "-30"}, None),
        ({"x-ratelimit-reset": "nan"}, None),
        ({"x-ratelimit-reset": "inf"}, None),
        ({"x-ratelimit-reset": "1e300"}, LONGEST_SECONDS),
        ({"retry-after-ms": "2500"}, 2.5),
        ({"retry-after-ms": " 2500.5 "}, 2.5005),
        ({"retry-after-ms": "0"}, 0),
        ({"retry-after-ms": "-1"}, None),
        ({"retry-after-ms": "1e300"}, LONGEST_SECONDS),
        ({"retry-after-ms": "soon", "x-ratelimit-reset": "30"}, 30),
        ({"retry-after": "3", "retry-after-ms": "2500"}, 3),
        ({"retry-after": "2", "retry-after-ms": "2500"}, 2.5),
    ],
)
def test_waits_in_other_spellings(headers: dict[str, str], seconds: float | None) -> None:
    assert read_retry_after(headers.get, None) == seconds


@pytest.fixture
def new_york(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    assert time.timezone == 5 * 3600
    yield
    monkeypatch.undo()
    time.tzset()


@case("C73")
@for_each("zone", [" GMT", " -0000", " +0000", ""])
@for_each("date", ["Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 2015 07:28:00"])
@pytest.mark.usefixtures("new_york")
def test_dates_without_a_zone_are_utc(zone: str, date: str) -> None:
    asked = f"Wed, 21 Oct 2015 07:28:30{zone}"
    assert read_retry_after({"retry-after": asked, "date": date}.get, None) == 30


@case("C73")
@pytest.mark.usefixtures("new_york")
def test_a_date_without_a_zone_is_compared_with_our_clock() -> None:
    asked = formatdate(time.time() + 90)  # the standard library ends it with -0000
    assert asked.endswith("-0000")
    soon = parse_retry_after(asked)
    assert soon is not None
    assert 85 < soon <= 91


_DATES = st.tuples(
    st.sampled_from(["Wed, ", "", "wed,", "9"]),
    st.integers(-1, 99),
    st.sampled_from([" Oct ", "-Oct-", " Foo ", " "]),
    st.one_of(st.integers(0, 10_000), st.sampled_from([10**30, -1])),
    st.sampled_from([" 07:28:00", " 24:61:61", " 7", " 07:28:00:00", ""]),
    st.sampled_from(["", " GMT", " -0000", " EST", " +9999", " -99999999999", " Z"]),
).map(lambda parts: "".join(map(str, parts)))
_TEXTS = st.one_of(
    st.none(),
    st.text(max_size=30),
    _DATES,
    st.floats().map(str),
    st.integers().map(str),
    st.sampled_from(["9" * 5000, "1e400", "-0", "1_0", "\u0661", "nan", "-inf", "0x10"]),
)
_NAMES = ("retry-after", "retry-after-ms", "x-ratelimit-reset", "date")


@case("C73")
@given(
    st.fixed_dictionaries(dict.fromkeys(_NAMES, _TEXTS)),
    st.one_of(_TEXTS, st.integers(), st.floats(), st.just(10**400)),
)
def test_any_text_is_no_wait_or_one_within_an_hour(
    headers: dict[str, str | None], told: object
) -> None:
    for body in (None, {"error": {"retry_after": told}}):
        wait = read_retry_after(headers.get, body)
        assert wait is None or 0 <= wait <= LONGEST_SECONDS

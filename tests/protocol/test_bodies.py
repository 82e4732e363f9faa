"""Bodies of requests and answers: pages, errors, mentions, deliveries."""

from __future__ import annotations

import json
import logging
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from band_trio.errors import API_ERROR_CHARS, BandApiError
from band_trio.protocol.errors import RemoteProtocolError
from band_trio.protocol.rest import (
    ChatMessage,
    ChatRoom,
    Delivery,
    ErrorBody,
    Mention,
    Page,
    event_body,
    message_body,
)
from band_trio.protocol.structure import structure
from tests.marks import case, guarantee
from tests.protocol.strategies import json_values, objects, wild_values
from tests.support.for_each import for_each


def message(**more: Any) -> ChatMessage:
    return ChatMessage("m", "hi", "text", "u", "User", **more)


# --------------------------------------------------------------------------- errors


@given(json_values | st.fixed_dictionaries({"error": objects}))
def test_an_error_body_of_any_shape_is_read(body: Any) -> None:
    error = ErrorBody.read(body)
    text = str(BandApiError(500, error.code, error.message, details=error.problems()))

    assert len(text) <= API_ERROR_CHARS
    assert error.retry_after is None or error.retry_after >= 0
    assert all(isinstance(what, str) for many in error.problems().values() for what in many)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "code": wild_values,
            "message": wild_values,
            "request_id": wild_values,
            "details": wild_values,
            "retry_after": wild_values,
        },
    )
)
def test_bad_fields_of_an_error_do_not_cost_the_others(raw: dict[str, Any]) -> None:
    error = ErrorBody.read({"error": {"message": "no", **raw}})

    for name in ("code", "message", "request_id"):
        told = raw.get(name, "no" if name == "message" else None)
        assert getattr(error, name) == (told if isinstance(told, str) else None)
    assert error.details == (raw["details"] if isinstance(raw.get("details"), dict) else {})


@for_each(
    ("told", "seconds"),
    [
        (12, 12.0),
        (0, 0.0),
        (1.5, 1.5),
        ("12", 12.0),
        (" 7 ", 7.0),
        ("soon", None),
        ("\u00b2", None),
        ("9" * 5_000, None),
        ("nan", None),
        ("inf", None),
        (float("nan"), None),
        (10**400, None),
        (-3, None),
        ("-3", None),
        (True, None),
        (None, None),
        ([5], None),
    ],
)
def test_a_wait_is_a_number_of_seconds_or_nothing(told: object, seconds: float | None) -> None:
    assert ErrorBody.read({"error": {"retry_after": told}}).retry_after == seconds


@for_each("body", [None, "", [], {}, {"error": None}, {"error": "no"}, {"data": 1}])
def test_no_error_object_is_an_empty_error(body: object) -> None:
    assert ErrorBody.read(body) == ErrorBody()


def test_details_become_lists_of_text() -> None:
    error = ErrorBody.read({"error": {"details": {"/a": ["x", 1], "/b": "y", "/c": None}}})

    assert error.problems() == {"/a": ["x", "1"], "/b": ["y"], "/c": ["None"]}


@case("C60")
def test_an_error_is_cleaned_as_a_whole() -> None:
    key = "sesame open"
    words = f"not {key}\0 " + "x" * 5000
    many = {f"/{n}": ["bad"] * 50 for n in range(50)}
    raw = {"code": key, "message": words, "request_id": key, "details": {f"/{key}": words, **many}}
    error = ErrorBody.read({"error": raw}).cleaned([key])

    assert key not in str(error)
    assert "\0" not in str(error)
    assert (error.code, error.request_id) == ("[REDACTED]", "[REDACTED]")
    assert error.message is not None
    assert len(error.message) <= 300
    assert len(error.details) == 10
    assert max(len(what) for what in error.details.values()) == 5
    assert max(len(each) for what in error.details.values() for each in what) <= 300


# --------------------------------------------------------------------------- pages


@given(json_values | st.fixed_dictionaries({"data": json_values, "metadata": json_values}))
def test_a_page_of_any_shape_is_read_or_refused(body: Any) -> None:
    try:
        page = Page.read(body, ChatRoom)
    except RemoteProtocolError:
        assert not (isinstance(body, dict) and isinstance(body.get("data"), list))
        return
    assert all(isinstance(item, ChatRoom) for item in page.items)
    assert len(page.items) <= len(body["data"])
    assert page.next_cursor != ""


@for_each("body", [{}, {"data": None}, {"data": {}}, {"data": "abc"}, [], None])
def test_a_page_without_items_is_not_an_empty_page(body: object) -> None:
    with pytest.raises(RemoteProtocolError):
        Page.read(body, ChatRoom)

    assert Page.read({"data": []}, ChatRoom).items == []


def test_a_bad_row_is_dropped_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    rows = [{"id": "a"}, {"id": 5, "title": "SECRET"}, "SECRET", {"title": "x"}, {"id": "b"}]
    with caplog.at_level(logging.WARNING, "band_trio.protocol"):
        page = Page.read({"data": rows}, ChatRoom)

    assert [room.id for room in page.items] == ["a", "b"]
    assert len(caplog.records) == 3
    assert "SECRET" not in caplog.text


@guarantee(88)
@case("C69")
@for_each(
    ("metadata", "cursor", "cut"),
    [
        ({"has_more": True, "next_cursor": "c"}, "c", False),
        ({"next_cursor": "c" * 4096}, "c" * 4096, False),
        ({"has_more": None, "next_cursor": "c"}, "c", False),
        ({"has_more": False, "next_cursor": "c"}, None, False),
        ({"has_more": False, "next_cursor": "\0"}, None, False),
        ({"has_more": True, "next_cursor": None}, None, True),
        ({"has_more": True, "next_cursor": ""}, None, True),
        ({"has_more": True, "next_cursor": 5}, None, True),
        ({"next_cursor": 5}, None, True),
        ({"next_cursor": "c" * 4097}, None, True),
        ({"next_cursor": "c\nd"}, None, True),
        ({"next_cursor": "\ufffd"}, None, True),
        ({"next_cursor": ""}, None, False),
        ({}, None, False),
        (None, None, False),
        ([], None, False),
    ],
)
def test_the_cursor_says_whether_there_is_more(
    metadata: object, cursor: str | None, cut: bool
) -> None:
    page = Page.read({"data": [], "metadata": metadata}, ChatRoom)
    assert (page.next_cursor, page.cut) == (cursor, cut)


@guarantee(86, 88)
def test_a_page_has_bounded_rows(caplog: pytest.LogCaptureFixture) -> None:
    rows = [{"id": f"r{n}"} for n in range(100_000)]
    with caplog.at_level(logging.WARNING, "band_trio.protocol"):
        began = time.perf_counter()
        page = Page.read({"data": rows}, ChatRoom)
        took = time.perf_counter() - began

    assert [room.id for room in page.items] == [f"r{n}" for n in range(1000)]
    assert page.dropped == 99_000
    assert took < 0.1, "no step of the loop takes longer"
    assert "it has 100000" in caplog.text


@guarantee(86, 88)
def test_lists_inside_a_row_are_bounded() -> None:
    row = {"id": "m", "content": "", "message_type": "text", "sender_id": "u", "sender_type": "U"}
    assert len(structure({**row, "attachments": [{}] * 5000}, ChatMessage).attachments) == 1000
    entry = {"attempts": [{"status": "failed"}] * 5000}
    found = message(metadata={"delivery_status": {"a": entry}})
    assert found.delivery("a").spent == 1000


def test_offset_pages_are_counted() -> None:
    metadata = {"page": 2, "page_size": 100, "total_count": 250, "total_pages": 3}
    page = Page.read({"data": [{"id": "a"}], "metadata": metadata}, ChatRoom)

    assert (page.page, page.total_pages, page.total_count) == (2, 3, 250)


# --------------------------------------------------------------------------- messages


@for_each(
    ("metadata", "mentioned"),
    [
        ({"mentions": [{"id": "a"}]}, True),
        ({"mentions": [{"id": "b"}, {"id": "a", "kind": "mention"}]}, True),
        ({"mentions": [{"id": "a", "kind": None}]}, True),
        ({"mentions": [{"id": "a", "kind": "reference"}]}, False),
        ({"mentions": [{"id": "a", "kind": ["mention"]}]}, False),
        ({"mentions": [{"id": "b"}]}, False),
        ({"mentions": ["a", None, ["a"], {"kind": "mention"}]}, False),
        ({"mentions": {"id": "a"}}, False),
        ({"mentions": None}, False),
        ({}, False),
    ],
)
def test_only_mentions_count_as_mentions(metadata: dict[str, Any], mentioned: bool) -> None:
    assert message(metadata=metadata).mentions("a") is mentioned


@given(objects | st.fixed_dictionaries({"delivery_status": json_values}), json_values)
def test_metadata_of_any_shape_is_no_obstacle(metadata: dict[str, Any], entry: Any) -> None:
    metadata = {"mentions": [entry], "delivery_status": {"a": entry}, **metadata}
    found = message(metadata=metadata)

    found.mentions("a")
    assert isinstance(found.delivery("a"), Delivery)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "status": st.sampled_from(["delivered", None, 5]),
            "current_attempt": st.sampled_from([None, 1, True, 1.0, "1"]),
            "attempts": st.sampled_from([None, [], {}, "", 0, [{"status": "failed"}], [{}]]),
            "more": json_values,
        },
    )
)
def test_a_delivery_is_read_as_any_object_is(raw: dict[str, Any]) -> None:
    assert message(metadata={"delivery_status": {"a": raw}}).delivery("a") == structure(
        raw, Delivery
    )


def test_spent_attempts_are_those_that_failed() -> None:
    attempts = [{"status": s} for s in ("failed", "success", "failed", "success", "processing")]
    found = message(
        metadata={"delivery_status": {"a": {"status": "processing", "attempts": attempts}}}
    )

    assert found.delivery("a").spent == 2
    assert found.delivery("a").status == "processing"
    assert found.delivery("b") == Delivery()
    assert found.delivery("b").spent is None  # unknown, which is not the same as none
    assert message().delivery("a").spent is None


# --------------------------------------------------------------------------- requests


def test_a_message_names_only_what_is_known() -> None:
    body = message_body("hi", [Mention("a", "demo/a"), Mention("b"), Mention("c", "")])

    assert body == {
        "message": {
            "content": "hi",
            "mentions": [{"id": "a", "handle": "demo/a"}, {"id": "b"}, {"id": "c"}],
        }
    }
    assert message_body("hi", [], ["f1"])["message"]["attachment_ids"] == ["f1"]


def test_an_event_has_metadata_only_if_given() -> None:
    assert event_body("x", "thought", None) == {
        "event": {"content": "x", "message_type": "thought"}
    }
    assert event_body("x", "thought", {})["event"]["metadata"] == {}


def test_requests_hold_no_lone_surrogates() -> None:
    for body in (message_body("a\ud800", []), event_body("a\ud800", "thought", None)):
        assert "a\ufffd" in json.dumps(body, ensure_ascii=False)

"""The converter: exact about what is there, lenient about what may be missing."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from band_trio.protocol import codec
from band_trio.protocol.errors import RemoteProtocolError
from band_trio.protocol.rest import (
    AgentMe,
    Attempt,
    ChatMessage,
    ChatRoom,
    Delivery,
    MessageReceipt,
    Peer,
    Recipient,
)
from band_trio.protocol.structure import structure, timestamp_text, unstructure
from tests.marks import guarantee
from tests.protocol.strategies import Wrong, instances, json_values, raw_objects, read, wire_classes
from tests.support.for_each import for_each

WIRE = pytest.mark.parametrize("cls", wire_classes(), ids=lambda cls: cls.__name__)

MESSAGE = {
    "id": "m1",
    "content": "SECRET-CONTENT",
    "message_type": "text",
    "sender_id": "u1",
    "sender_type": "User",
}


@WIRE
@given(data=st.data())
def test_objects_survive_the_wire(cls: Any, data: st.DataObject) -> None:
    original = data.draw(instances(cls))

    assert structure(codec.loads(codec.dumps(unstructure(original))), cls) == original


@guarantee(78)
@WIRE
@settings(suppress_health_check=[HealthCheck.data_too_large, HealthCheck.too_slow])
@given(data=st.data())
def test_every_object_is_read_by_the_rules_or_refused(cls: Any, data: st.DataObject) -> None:
    raw = data.draw(raw_objects(cls))
    try:
        expected = read(cls, raw)
    except Wrong:
        with pytest.raises(RemoteProtocolError, match=f"^{cls.__name__}: "):
            structure(raw, cls)
    else:
        assert structure(raw, cls) == expected


@guarantee(78)
@given(st.sampled_from(wire_classes()), json_values)
def test_anything_else_is_one_error(cls: Any, raw: Any) -> None:
    try:
        value = structure(raw, cls)
    except RemoteProtocolError:
        return
    assert isinstance(raw, dict)
    assert all(f.default is not attrs.NOTHING or f.name in raw for f in attrs.fields(cls))
    assert isinstance(value, cls)


@WIRE
def test_null_and_absence_are_the_same_for_an_optional_field(cls: Any) -> None:
    required = {f.name for f in attrs.fields(cls) if f.default is attrs.NOTHING}
    least = {name: _least(cls, name) for name in required}
    with_nulls = {f.name: None for f in attrs.fields(cls)} | least

    assert structure(least, cls) == structure(with_nulls, cls)
    for name in required:
        with pytest.raises(RemoteProtocolError, match=name):
            structure({**least, name: None}, cls)
        with pytest.raises(RemoteProtocolError, match=f"required field missing @ .*{name}"):
            structure({k: v for k, v in least.items() if k != name}, cls)


def _least(cls: Any, name: str) -> Any:
    chosen = {"mode": "stop", "scope": "room", "data": []}
    return chosen.get(name, "x")


def test_a_bad_optional_field_is_dropped_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    raw = {**MESSAGE, "sender_name": 5, "metadata": ["SECRET"], "inserted_at": "SECRET", "x": 1}
    with caplog.at_level(logging.WARNING, "band_trio.protocol"):
        message = structure(raw, ChatMessage)

    assert message == structure(MESSAGE, ChatMessage)
    assert [record.getMessage() for record in caplog.records] == [
        "dropped ChatMessage.sender_name: TypeError",
        "dropped ChatMessage.inserted_at: ValueError",
        "dropped ChatMessage.metadata: TypeError",
    ]


def test_null_is_not_worth_a_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "band_trio.protocol"):
        structure({**MESSAGE, "sender_name": None, "metadata": None}, ChatMessage)

    assert caplog.records == []


def test_errors_name_every_field_and_no_value() -> None:
    raw = {**MESSAGE, "id": 5, "sender_type": ["SECRET"], "message_type": None}
    del raw["sender_id"]
    with pytest.raises(RemoteProtocolError) as caught:
        structure(raw, ChatMessage)

    text = str(caught.value)
    assert [name for name in MESSAGE if f"$.{name}" in text] == [
        "id",
        "message_type",
        "sender_id",
        "sender_type",
    ]
    assert "SECRET" not in text
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@for_each("tags", ["abc", {"a": 1}, 5, ["a", 1], [None]])
def test_only_a_list_is_a_list(tags: object) -> None:
    peer = structure({"id": "a", "name": "b", "type": "User", "tags": tags}, Peer)

    assert peer.tags is None


@for_each("odd", [True, 1.0, "1", [1]])
def test_only_a_whole_number_is_a_whole_number(odd: object) -> None:
    assert structure({"current_attempt": odd}, Delivery) == Delivery()
    assert structure({"current_attempt": 1}, Delivery) == Delivery(current_attempt=1)


def test_every_object_has_its_own_containers() -> None:
    one, two = structure(MESSAGE, ChatMessage), structure(MESSAGE, ChatMessage)
    one.metadata["x"] = 1
    one.attachments.append({})

    assert (two.metadata, two.attachments) == ({}, [])


@for_each(
    ("text", "when"),
    [
        ("2026-03-01T09:05:00.120000Z", datetime(2026, 3, 1, 9, 5, 0, 120_000, UTC)),
        ("2026-03-01T09:05:00Z", datetime(2026, 3, 1, 9, 5, tzinfo=UTC)),
        ("2026-03-01T09:05:00", datetime(2026, 3, 1, 9, 5, tzinfo=UTC)),
        ("2026-03-01T09:05:00+02:00", datetime(2026, 3, 1, 7, 5, tzinfo=UTC)),
        ("0001-01-01T00:00:00+10:00", None),  # before the first day of the calendar
        ("2026-13-01T00:00:00Z", None),
        ("soon", None),
        ("", None),
        ("\ud800", None),
        (1_772_355_900, None),
    ],
)
def test_times_are_utc_or_dropped(text: object, when: datetime | None) -> None:
    room = structure({"id": "r", "inserted_at": text}, ChatRoom)

    assert room.inserted_at == when
    assert when is None or (room.inserted_at is not None and room.inserted_at.tzinfo is UTC)


@for_each(
    ("when", "text"),
    [
        (datetime(2026, 3, 1, 9, 5, tzinfo=UTC), "2026-03-01T09:05:00.000000Z"),
        (
            datetime(2026, 3, 1, 9, 5, 0, 7, timezone(timedelta(hours=2))),
            "2026-03-01T07:05:00.000007Z",
        ),
        (datetime(200, 1, 1, tzinfo=UTC), "0200-01-01T00:00:00.000000Z"),
    ],
)
def test_times_are_written_as_the_platform_does(when: datetime, text: str) -> None:
    assert timestamp_text(when) == text
    assert unstructure(ChatRoom("r", inserted_at=when)) == {"id": "r", "inserted_at": text}


def test_null_fields_are_left_out_at_every_level_and_data_is_not_touched() -> None:
    receipt = MessageReceipt("m", recipients=[Recipient("a"), Recipient("b", name="B")])
    assert unstructure(receipt) == {
        "id": "m",
        "success": True,
        "recipients": [{"id": "a"}, {"id": "b", "name": "B"}],
    }
    assert unstructure(AgentMe("a", "n", feature_flags={"x": None}))["feature_flags"] == {"x": None}


def test_deeper_objects_follow_the_same_rules() -> None:
    raw = {"status": "failed", "attempts": [{"status": "failed", "attempt_number": "1", "new": 1}]}

    assert structure(raw, Delivery) == Delivery("failed", None, [Attempt("failed")])
    assert structure({"attempts": [{"attempt_number": 1}]}, Delivery) == Delivery()

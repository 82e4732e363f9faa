"""Pushes: which class a topic and an event make, and what is ignored or refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from band_trio.protocol import events
from band_trio.protocol.errors import RemoteProtocolError
from band_trio.protocol.events import (
    AgentControl,
    ParticipantAdded,
    RoomAdded,
    RoomDeleted,
    RoomRemoved,
    Supersede,
    parse_event,
    split_topic,
)
from band_trio.protocol.rest import ChatMessage
from tests.marks import case, guarantee
from tests.protocol.strategies import objects, raw_objects, texts
from tests.support.for_each import for_each

KNOWN = sorted(events.EVENTS)


@guarantee(78)
@given(st.data())
def test_a_known_event_is_read_or_refused(data: st.DataObject) -> None:
    kind, name = data.draw(st.sampled_from(KNOWN))
    payload = data.draw(raw_objects(events.EVENTS[kind, name]) | objects)
    try:
        event = parse_event(f"{kind}:x", name, payload)
    except RemoteProtocolError:
        return
    assert type(event) is events.EVENTS[kind, name]


@given(texts, texts, objects)
def test_unknown_events_are_ignored(topic: str, name: str, payload: dict[str, Any]) -> None:
    assert parse_event(topic, name, payload) is None


@for_each(
    ("topic", "name"),
    [
        ("chat_room:r", "message_updated"),
        ("chat_room:r", "room_added"),
        ("room_participants:r", "participant_updated"),
        ("agent_control:a", "message_created"),
        ("agent_rooms", "room_updated"),
    ],
)
def test_events_belong_to_their_topic(topic: str, name: str) -> None:
    assert parse_event(topic, name, {}) is None


def test_supersede_is_final_unless_it_clearly_says_otherwise() -> None:
    raw: dict[str, Any] = {"reason": "session.already_connected", "message": "taken over"}
    topic = events.agent_control("a1")

    assert parse_event(topic, "supersede", raw) == Supersede(
        "session.already_connected", "taken over"
    )
    odds: list[Any] = ["true", 1, None, [], {}]
    for odd in odds:
        event = parse_event(topic, "supersede", {**raw, "retryable": odd, "retry_after": "5"})
        assert isinstance(event, Supersede)
        assert event.retryable is False
        assert event.retry_after is None
    event = parse_event(topic, "supersede", {**raw, "retryable": True, "retry_after": 5})
    assert isinstance(event, Supersede)
    assert (event.retryable, event.retry_after) == (True, 5)


CONTROL: dict[str, Any] = {
    "type": "agent.control",
    "mode": "stop",
    "scope": "room",
    "agent_id": "7c0a",
    "execution_id": "e11c",
    "room_id": "5b1e",
    "reason": "user_requested",
    "correlation_id": "ctl-42",
}


def test_a_control_signal_is_read() -> None:
    assert parse_event("agent_control:7c0a", "agent.control", CONTROL) == AgentControl(
        "stop", "room", "7c0a", "ctl-42", "e11c", "5b1e", "agent.control", "user_requested"
    )


@for_each("field", ["mode", "scope"])
@for_each("value", ["STOP", "pause", "", None, 1, ["stop"], {"stop": 1}])
def test_a_control_signal_of_another_word_is_refused(field: str, value: object) -> None:
    with pytest.raises(RemoteProtocolError, match=field) as caught:
        parse_event("agent_control:7c0a", "agent.control", {**CONTROL, field: value})
    assert "pause" not in str(caught.value)


def test_room_events_need_only_an_id() -> None:
    times = {"inserted_at": None, "updated_at": 5}
    assert parse_event("agent_rooms:a", "room_added", {"id": "r", **times}) == RoomAdded("r")
    assert parse_event("agent_rooms:a", "room_removed", {"id": "r"}) == RoomRemoved("r")
    assert parse_event("room_participants:r", "room_deleted", {"id": "r"}) == RoomDeleted("r")


def test_a_participant_needs_name_and_type_to_come_and_only_an_id_to_go() -> None:
    raw = {"id": "p", "name": "Researcher", "type": "Agent", "is_remote": True}
    topic = events.room_participants("r")

    assert parse_event(topic, "participant_added", raw) == ParticipantAdded(
        "p", "Researcher", "Agent"
    )
    assert parse_event(topic, "participant_removed", {"id": "p"}) is not None
    with pytest.raises(RemoteProtocolError, match="name"):
        parse_event(topic, "participant_added", {"id": "p", "type": "Agent"})


@guarantee(87)
@case("C69")
@for_each(("kind", "name"), [each for each in KNOWN if each[0] != "agent_control"])
@for_each("odd", ["", "\0", "x" * 257], ids=["empty", "control", "long"])
def test_an_id_that_cannot_be_used_costs_its_event(kind: str, name: str, odd: str) -> None:
    raw = dict.fromkeys(
        ("content", "message_type", "sender_id", "sender_type", "name", "type", "status"), ""
    )

    assert parse_event(f"{kind}:x", name, {**raw, "id": "i"}) is not None
    with pytest.raises(RemoteProtocolError, match="1 to 256 printable characters expected") as no:
        parse_event(f"{kind}:x", name, {**raw, "id": odd})
    assert len(str(no.value)) < 100


@guarantee(87)
@case("C69")
@for_each("odd", ["", "\0", "x" * 257, 5, ["r"]])
def test_an_odd_room_never_makes_a_control_one_for_all_rooms(odd: object) -> None:
    with pytest.raises(RemoteProtocolError, match="room_id cannot be read"):
        parse_event(
            "agent_control:a", "agent.control", {**CONTROL, "scope": "agent", "room_id": odd}
        )
    event = parse_event("agent_control:a", "agent.control", {**CONTROL, "agent_id": "\0"})
    assert isinstance(event, AgentControl)
    assert (event.agent_id, event.room_id) == ("", "5b1e")


def test_a_pushed_message_has_the_class_of_a_listed_one() -> None:
    raw = {
        "id": "b7d2",
        "content": "@[[7c0a]] summarise the thread",
        "message_type": "text",
        "sender_id": "19aa",
        "sender_type": "User",
        "thread_id": None,
        "metadata": {"mentions": [{"id": "7c0a"}]},
    }
    event = parse_event(events.chat_room("5b1e"), "message_created", raw)

    assert isinstance(event, ChatMessage)
    assert event.mentions("7c0a")
    assert (event.attachments, event.chat_room_id) == ([], None)


@for_each(
    ("topic", "parts"),
    [
        (events.agent_control("a:b"), ("agent_control", "a:b")),
        (events.agent_rooms("a"), ("agent_rooms", "a")),
        (events.agent_contacts("a"), ("agent_contacts", "a")),
        (events.chat_room("r"), ("chat_room", "r")),
        (events.room_participants("r"), ("room_participants", "r")),
        ("phoenix", ("phoenix", "")),
    ],
)
def test_topics_are_kind_and_subject(topic: str, parts: tuple[str, str]) -> None:
    assert split_topic(topic) == parts

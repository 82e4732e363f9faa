"""What the platform pushes, per topic, as attrs classes (platform docs, Topics and events).

Required fields have no default; everything else is optional and tolerates null. The payload of
`message_created` is `band_trio.protocol.rest.ChatMessage`: pushes and lists share its shape.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, Literal

import attrs

from band_trio.kit.ids import Id, Reference
from band_trio.protocol.errors import RemoteProtocolError
from band_trio.protocol.rest import ChatMessage
from band_trio.protocol.structure import structure


def agent_control(agent_id: str) -> str:
    """Topic of supersede and control signals; joined first, as part of connecting."""
    return f"agent_control:{agent_id}"


def agent_rooms(agent_id: str) -> str:
    """Topic of the agent's own memberships."""
    return f"agent_rooms:{agent_id}"


def agent_contacts(agent_id: str) -> str:
    """Topic of contact events."""
    return f"agent_contacts:{agent_id}"


def chat_room(room_id: str) -> str:
    """Topic of a room's messages."""
    return f"chat_room:{room_id}"


def room_participants(room_id: str) -> str:
    """Topic of a room's roster."""
    return f"room_participants:{room_id}"


@attrs.frozen
class Supersede:
    """This connection has been replaced; the last event before the platform closes it."""

    reason: str
    message: str
    correlation_id: str | None = None
    retryable: bool = False
    """False ends the run; true means that reconnecting is welcome."""
    retry_after: int | None = None
    """Seconds."""
    target_socket_id: str | None = None


Mode = Literal["interrupt", "stop", "play"]


@attrs.frozen
class AgentControl:
    """Interrupt, stop or resume, for one room or for all."""

    mode: Mode
    scope: Literal["agent", "room"]
    agent_id: Reference
    correlation_id: Id
    """One per user action; copies carry the same."""
    execution_id: str | None = None
    room_id: Id | None = None
    """Set: that room only. Null with scope `agent`: all rooms. Null with scope `room`: nothing."""
    type: str = "agent.control"
    reason: str | None = None


@attrs.frozen
class RoomAdded:
    """The agent is in a room now, by being added or by creating it."""

    id: Id
    title: str | None = None
    task_id: str | None = None
    inserted_at: str | None = None
    updated_at: str | None = None


@attrs.frozen
class RoomRemoved:
    """The agent is no longer in a room."""

    id: Id
    title: str | None = None


@attrs.frozen
class RoomDeleted:
    """A room is gone for everybody."""

    id: Id


@attrs.frozen
class ParticipantAdded:
    """Somebody came into a room."""

    id: Id
    name: str
    type: str
    """`User` or `Agent`."""
    handle: str | None = None
    description: str | None = None


@attrs.frozen
class ParticipantRemoved:
    """Somebody left a room."""

    id: Id
    name: str = ""
    type: str = ""


@attrs.frozen
class ContactRequestReceived:
    """Somebody asks the agent to become a contact."""

    kind: ClassVar[str] = "contact_request_received"
    id: Id
    """Of the request; an answer names it."""
    status: str = "pending"
    inserted_at: str | None = None
    from_handle: str | None = None
    from_name: str | None = None
    message: str | None = None


@attrs.frozen
class ContactRequestUpdated:
    """A request that the agent received or sent has been answered or taken back."""

    kind: ClassVar[str] = "contact_request_updated"
    id: Id
    status: str
    """`approved`, `rejected`, `cancelled` or `expired`."""


@attrs.frozen
class ContactAdded:
    """Somebody has become a contact."""

    kind: ClassVar[str] = "contact_added"
    id: Id
    """Of the contact, not of the person."""
    type: str | None = None
    """`User` or `Agent`."""
    handle: str | None = None
    name: str | None = None
    description: str | None = None
    inserted_at: str | None = None


@attrs.frozen
class ContactRemoved:
    """Somebody is no contact any more."""

    kind: ClassVar[str] = "contact_removed"
    id: Id
    """Of the contact."""
    handle: str | None = None
    name: str | None = None
    """Both are not sent; they are filled in where the contact was known."""


ContactEvent = ContactRequestReceived | ContactRequestUpdated | ContactAdded | ContactRemoved
"""What may happen to the agent's contacts; `kind` names it as the platform does."""

Event = (
    Supersede
    | AgentControl
    | RoomAdded
    | RoomRemoved
    | RoomDeleted
    | ParticipantAdded
    | ParticipantRemoved
    | ContactEvent
    | ChatMessage
)

EVENTS: Final[dict[tuple[str, str], type[Any]]] = {
    ("agent_control", "supersede"): Supersede,
    ("agent_control", "agent.control"): AgentControl,
    ("agent_rooms", "room_added"): RoomAdded,
    ("agent_rooms", "room_removed"): RoomRemoved,
    ("chat_room", "message_created"): ChatMessage,
    ("room_participants", "participant_added"): ParticipantAdded,
    ("room_participants", "participant_removed"): ParticipantRemoved,
    ("room_participants", "room_deleted"): RoomDeleted,
    **{
        ("agent_contacts", cls.kind): cls
        for cls in (ContactRequestReceived, ContactRequestUpdated, ContactAdded, ContactRemoved)
    },
}


def split_topic(topic: str) -> tuple[str, str]:
    """Return the kind of a topic and the id behind the colon."""
    kind, _, subject = topic.partition(":")
    return kind, subject


def parse_event(topic: str, name: str, payload: dict[str, Any]) -> Event | None:
    """Read a push; None for an event that this client does not know, which is to be ignored.

    Raises:
        RemoteProtocolError: a known event lacks a required field, or has a wrong type there.
    """
    cls = EVENTS.get((split_topic(topic)[0], name))
    if cls is None:
        return None
    event: Event = structure(payload, cls)
    if isinstance(event, AgentControl) and event.room_id != payload.get("room_id"):
        # Dropped, as an odd optional field is, it would have meant all rooms.
        raise RemoteProtocolError(f"{name}: the room_id cannot be read")
    return event

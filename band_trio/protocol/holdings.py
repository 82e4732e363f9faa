"""What an agent has besides messages: contacts, memories, files, tasks and the board.

(Platform docs, Shared objects.) Only what identifies an object is required. Times that are only
passed on stay text.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import attrs

from band_trio.kit.ids import Id
from band_trio.protocol.rest import readable_rows
from band_trio.protocol.structure import structure

JsonObject = dict[str, Any]

_SENSES: Final = ("iconic", "echoic", "haptic")
_KNOWLEDGE: Final = ("episodic", "semantic", "procedural")

TYPES_OF_SYSTEM: Final = {"sensory": _SENSES, "working": _KNOWLEDGE, "long_term": _KNOWLEDGE}
"""System of a memory → types that it can hold (platform docs, Memories)."""


@attrs.frozen
class Contact:
    """Somebody that the agent knows beyond its rooms; *id* is that of the contact."""

    id: Id
    handle: str | None = None
    name: str | None = None
    type: str | None = None
    online: bool | None = None
    description: str | None = None
    tags: list[str] | None = None
    is_external: bool | None = None
    listed_in_directory: bool | None = None
    avatar_url: str | None = None
    inserted_at: str | None = None


@attrs.frozen
class ContactRequest:
    """A request between two parties: `from_…` where it was received, `to_…` where it was sent."""

    id: Id
    status: str | None = None
    message: str | None = None
    from_handle: str | None = None
    from_name: str | None = None
    to_handle: str | None = None
    to_name: str | None = None
    inserted_at: str | None = None


@attrs.frozen
class ContactRequests:
    """One page of requests in each direction."""

    received: list[ContactRequest] = attrs.field(factory=list)
    """Pending ones only."""
    sent: list[ContactRequest] = attrs.field(factory=list)
    metadata: JsonObject = attrs.field(factory=dict)

    @classmethod
    def read(cls, body: Any) -> ContactRequests:
        """Read `{"data": {"received": […], "sent": […]}, "metadata": {…}}`.

        Raises:
            RemoteProtocolError: there is no such object.
        """
        envelope = structure(body, _RequestsEnvelope)
        lists = structure(envelope.data, _RequestLists)
        return cls(
            readable_rows(lists.received, ContactRequest),
            readable_rows(lists.sent, ContactRequest),
            envelope.metadata,
        )


@attrs.frozen
class _RequestsEnvelope:
    data: JsonObject
    metadata: JsonObject = attrs.field(factory=dict)


@attrs.frozen
class _RequestLists:
    received: list[Any] = attrs.field(factory=list)
    sent: list[Any] = attrs.field(factory=list)


@attrs.frozen
class ContactStatus:
    """Answer to a change of a contact or a request."""

    id: Id | None = None
    status: str | None = None


@attrs.frozen
class Memory:
    """Something that was stored for later turns."""

    id: Id
    content: str | None = None
    system: str | None = None
    type: str | None = None
    segment: str | None = None
    scope: str | None = None
    status: str | None = None
    thought: str | None = None
    subject_id: str | None = None
    source_agent_id: str | None = None
    organization_id: str | None = None
    metadata: JsonObject | None = None
    inserted_at: str | None = None


@attrs.frozen
class Attachment:
    """A file that hangs on a message."""

    id: Id
    name: str = ""
    content_type: str = ""
    bytes: int = 0
    sha256: str | None = None
    """Lower-case hexadecimal."""
    has_thumb: bool | None = None
    expires_at: datetime | None = None
    """None: it is kept."""


@attrs.frozen
class Task:
    """A task on the board of a room."""

    id: Id
    number: int | None = None
    """Counted per room, never reused."""
    chat_room_id: str | None = None
    subject: str | None = None
    detail: str | None = None
    state: str | None = None
    """`active`, `cancelled`, `superseded` or `archived`."""
    overall_status: str | None = None
    assignments: list[JsonObject] = attrs.field(factory=list)
    created_by: JsonObject | None = None
    inserted_at: str | None = None
    updated_at: str | None = None
    superseded_by_id: str | None = None
    history: list[JsonObject] | None = None
    history_truncated: bool | None = None


@attrs.frozen
class TaskEvent:
    """Something that happened to a task."""

    event: str
    at: str | None = None
    actor: JsonObject | None = None
    payload: JsonObject = attrs.field(factory=dict)


@attrs.frozen
class Board:
    """The goal of a room; everything is None while none is set."""

    chat_room_id: str | None = None
    goal_title: str | None = None
    goal_summary: str | None = None
    created_by: JsonObject | None = None
    updated_by: JsonObject | None = None
    inserted_at: str | None = None
    updated_at: str | None = None
    history: list[JsonObject] | None = None
    history_truncated: bool | None = None

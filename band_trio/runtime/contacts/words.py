"""What rooms and the hub room are told of contacts. Names and messages are the people's own words."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from band_trio.kit.hygiene import clean_text
from band_trio.protocol.events import (
    ContactAdded,
    ContactEvent,
    ContactRemoved,
    ContactRequestReceived,
    ContactRequestUpdated,
)
from band_trio.protocol.rest import ChatMessage
from band_trio.types import (
    SYNTHETIC_CONTACT_EVENTS_SENDER_ID,
    SYNTHETIC_CONTACT_EVENTS_SENDER_NAME,
    SYNTHETIC_SENDER_TYPE,
)

NAME_CHARS: Final = 100
MESSAGE_CHARS: Final = 500
HUB_TITLE: Final = "Contacts"
"""Title by which the hub room is found again. Renamed, it is not: give `hub_task_id` then."""


def change_line(event: ContactEvent) -> str | None:
    """Return the line that rooms are told; None for what is no change of contacts."""
    match event:
        case ContactAdded(type=kind):
            who = _person(event.handle, event.name, kind)
            return f"{who} has become a contact of yours."
        case ContactRemoved():
            return f"{_person(event.handle, event.name)} is no contact of yours any more."
        case _:
            return None


def hub_text(event: ContactEvent) -> str:
    """Return the words of an event in the hub room."""
    match event:
        case ContactRequestReceived():
            who = _person(event.from_handle, event.from_name)
            text = f"Contact request from {who}. Request id: {event.id}."
            if event.message and event.message.strip():
                message = clean_text(event.message, MESSAGE_CHARS).replace('"', "'")
                text += f' Their message: "{message}"'
            return text
        case ContactRequestUpdated(id=request_id, status=status):
            return f"The contact request {request_id} is {clean_text(status, NAME_CHARS)} now."
        case ContactAdded(id=contact_id, type=kind):
            who = _person(event.handle, event.name, kind)
            return f"{who} has become a contact. Contact id: {contact_id}."
        case ContactRemoved(id=contact_id):
            who = _person(event.handle, event.name)
            return f"{who} is no contact any more. Contact id: {contact_id}."


def hub_metadata(event: ContactEvent) -> dict[str, Any]:
    """Return the metadata of an event in the hub room."""
    return {"contact_event_type": event.kind}


def hub_message(event: ContactEvent, room_id: str, now: datetime) -> ChatMessage:
    """Return the message that the hub room's turn is about; the platform knows nothing of it."""
    return ChatMessage(
        id=f"{event.kind}:{event.id}",
        content=hub_text(event),
        message_type="text",
        sender_id=SYNTHETIC_CONTACT_EVENTS_SENDER_ID,
        sender_type=SYNTHETIC_SENDER_TYPE,
        sender_name=SYNTHETIC_CONTACT_EVENTS_SENDER_NAME,
        chat_room_id=room_id,
        inserted_at=now,
        metadata=hub_metadata(event),
    )


def _person(handle: str | None, name: str | None, kind: str | None = None) -> str:
    parts = [f"@{clean_text(handle.removeprefix('@'), NAME_CHARS)}"] if handle else []
    parts += [clean_text(name, NAME_CHARS)] if name and name.strip() else []
    kinds = f" ({clean_text(kind, NAME_CHARS)})" if kind else ""
    return (" — ".join(parts) or "Somebody whose name is not known") + kinds

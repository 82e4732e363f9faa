"""The room in words: mentions readable, speakers labelled, participants listed.

Everything here is built from what participants wrote about themselves or said, so it must not be
able to pose as somebody else or as the platform.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, TypeVar

from band_trio import texts
from band_trio.protocol.rest import ChatMessage
from band_trio.protocol.structure import structure
from band_trio.types import MessageType, PlatformMessage, poses_as_platform, speaker_label

__all__ = [
    "SINCE_TRIGGER",
    "build_participants_message",
    "format_history_for_llm",
    "format_message_for_llm",
    "messages_before",
    "normalize_handle",
    "replace_uuid_mentions",
    "strip_leading_mentions",
    "to_platform_message",
]

SINCE_TRIGGER: Final = "since_trigger"
"""True in raw items of what the agent itself has said since the message of the turn."""

_UUID_MENTION: Final = re.compile(r"@\[\[([^\[\]\s]+)\]\]")
_LEADING: Final = re.compile(r"\s*(?:@\S+(?:\s+|$))+")
_FIRST: Final = re.compile(r"\s*@\S+(?:\s+|$)")
_DESCRIPTION_CHARS: Final = 200
_UNKNOWN: Final = "Unknown"

Person = Mapping[str, Any]
Row = TypeVar("Row", ChatMessage, Mapping[str, Any], dict[str, Any])


# --------------------------------------------------------------------------- mentions


def bare_handle(handle: object) -> str:
    """Return a handle without its `@`; empty for what is no text."""
    return handle.strip().lstrip("@") if isinstance(handle, str) else ""


def normalize_handle(handle: str) -> str:
    """Return a handle with exactly one leading `@`."""
    return "@" + bare_handle(handle)


def replace_uuid_mentions(content: str, participants: Iterable[Person]) -> str:
    """Rewrite `@[[uuid]]` to `@handle`, or to `@Name-With-Dashes`; unknown ids stay.

    Stored content holds such marks (platform docs, Mentions).
    """
    if "@[[" not in content:
        return content
    people = {str(person.get("id")): person for person in participants}

    def readable(match: re.Match[str]) -> str:
        person = people.get(match[1], {})
        handle = bare_handle(person.get("handle"))
        name = person.get("name")
        if handle:
            return f"@{handle}"
        if isinstance(name, str) and name.strip():
            return "@" + "-".join(speaker_label(name).split())
        return match[0]

    return _UUID_MENTION.sub(readable, content)


def strip_leading_mentions(content: str, *, only_first: bool = False) -> str:
    """Return *content* without the mentions that it begins with, or without the first of them."""
    run = (_FIRST if only_first else _LEADING).match(content)
    return content[run.end() :] if run else content


# --------------------------------------------------------------------------- messages


def to_platform_message(
    message: ChatMessage, *, room_id: str, participants: Sequence[Person] = ()
) -> PlatformMessage:
    """Return *message* as an adapter gets it: readable mentions, the sender's name of the roster."""
    return PlatformMessage(
        id=message.id,
        room_id=message.chat_room_id or room_id,
        content=replace_uuid_mentions(message.content, participants),
        sender_id=message.sender_id,
        sender_type=message.sender_type,
        sender_name=_sender_name(message, participants),
        message_type=message.message_type,
        metadata=_without_null(message.metadata),
        created_at=message.inserted_at or datetime.now(UTC),
    )


def format_message_for_llm(
    message: ChatMessage | Mapping[str, Any],
    *,
    agent_id: str,
    participants: Sequence[Person] | None = None,
) -> dict[str, Any]:
    """Return one raw history item, the form that history converters read.

    `role` is `assistant` exactly for what the agent itself sent, told by its id and never by a
    name. Tool events keep their content as it is: it is JSON.
    """
    row = _row(message)
    people = participants or ()
    tool_event = row.message_type in (MessageType.TOOL_CALL, MessageType.TOOL_RESULT)
    return {
        "role": "assistant" if row.sender_id == agent_id else "user",
        "content": row.content if tool_event else replace_uuid_mentions(row.content, people),
        "sender_name": _sender_name(row, people),
        "sender_type": row.sender_type,
        "sender_id": row.sender_id,
        "message_type": row.message_type or MessageType.TEXT.value,
        "metadata": _without_null(row.metadata),
        "id": row.id,
    }


def format_history_for_llm(
    messages: Iterable[ChatMessage | Mapping[str, Any]],
    *,
    agent_id: str,
    exclude_id: str | None = None,
    participants: Sequence[Person] | None = None,
) -> list[dict[str, Any]]:
    """Return *messages*, oldest first, as raw history items, without the one of *exclude_id*."""
    rows = (_row(message) for message in messages)
    return [
        format_message_for_llm(row, agent_id=agent_id, participants=participants)
        for row in rows
        if row.id != exclude_id
    ]


def messages_before(messages: Sequence[Row], message_id: str) -> list[Row]:
    """Return what stands before *message_id* in the list; all of it where the id is absent."""
    before: list[Row] = []
    for message in messages:
        if _id_of(message) == message_id:
            break
        before.append(message)
    return before


def _id_of(message: ChatMessage | Mapping[str, Any]) -> object:
    return message.id if isinstance(message, ChatMessage) else message.get("id")


def _row(message: ChatMessage | Mapping[str, Any]) -> ChatMessage:
    if isinstance(message, ChatMessage):
        return message
    defaults = {"id": "", "content": "", "sender_id": "", "sender_type": ""}
    return structure({**defaults, "message_type": MessageType.TEXT.value, **message}, ChatMessage)


_poses: Final = lru_cache(maxsize=256)(poses_as_platform)  # few names speak often


def _sender_name(message: ChatMessage, participants: Iterable[Person]) -> str | None:
    person = next((p for p in participants if p.get("id") == message.sender_id), {})
    name = person.get("name") or message.sender_name
    if isinstance(name, str) and (_poses if len(name) < 100 else poses_as_platform)(name):
        # The platform's own lines begin with that word; a participant must not look like it.
        handle = bare_handle(person.get("handle")) or message.sender_id
        return f"{name} (@{handle})"
    return name if isinstance(name, str) else None


def _without_null(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in metadata.items() if value is not None}


# --------------------------------------------------------------------------- participants


def build_participants_message(
    participants: Iterable[Person], *, agent_id: str | None = None
) -> str:
    """Describe who is in the room, for the model: one line each, the agent's own marked."""
    people = list(participants)
    lines = [texts.ROSTER_HEADING]
    if all(person.get("id") == agent_id for person in people):
        lines.append(texts.ROSTER_EMPTY)
    lines += [_participant_line(person, agent_id) for person in people]
    if any(_description(person) for person in people):
        lines.append(texts.ROSTER_OWN_WORDS)
    lines.append(texts.ROSTER_USE_HANDLES)
    return "\n".join(lines)


def _participant_line(person: Person, agent_id: str | None) -> str:
    handle = bare_handle(person.get("handle"))
    shown_handle = f"@{speaker_label(handle)}" if handle else _UNKNOWN
    name = speaker_label(str(person.get("name") or _UNKNOWN))
    kind = speaker_label(str(person.get("type") or _UNKNOWN))
    line = f"- {shown_handle} — {name} ({kind})"
    if agent_id is not None and person.get("id") == agent_id:
        line += " (you)"
    description = _description(person)
    return f'{line}: "{description}"' if description else line


def _description(person: Person) -> str:
    """Return a participant's description: one line, without quotes, capped."""
    raw = person.get("description")
    if not isinstance(raw, str):
        return ""
    # Only what can be shown is cleaned: a description may be very long.
    words = raw[: 4 * _DESCRIPTION_CHARS].replace('"', "'").split()
    clean = " ".join(speaker_label(word) for word in words if speaker_label(word) != _UNKNOWN)
    return clean if len(clean) <= _DESCRIPTION_CHARS else clean[: _DESCRIPTION_CHARS - 1] + "…"

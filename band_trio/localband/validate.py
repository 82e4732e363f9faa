"""Bodies and ids: what fits and what is a 422 (platform docs, Limits)."""

from __future__ import annotations

from typing import Any, Final

from band_trio.localband.paging import is_uuid
from band_trio.protocol import codec
from band_trio.protocol.rest import EVENT_CHARS, EVENT_METADATA_BYTES, MESSAGE_BYTES
from band_trio.stores.bodies import BLANK, NO_ENUM, section, text
from band_trio.stores.refusal import Refusal, invalid, word

MESSAGE_BODY_BYTES: Final = 8 * MESSAGE_BYTES
"""Room for a message whose content is escaped, six bytes for one, and what goes with it."""
TITLE_CHARS: Final = 120
EVENT_TYPES: Final = ("thought", "tool_call", "tool_result", "error", "task", "attention")
ATTENTION_KINDS: Final = ("question", "assumption", "failure", "review")
ACTIVITY_KINDS: Final = ("reasoning", "tool_call", "memory", "permission")
ATTACHMENTS: Final = 10


def known_or_uuid(pointer: str, value: str, missing: Refusal) -> Refusal:
    """Return *missing* for an id that could exist, else the 422 for what is no id at all."""
    return missing if is_uuid(value) else invalid(f"/{pointer}", "Invalid format. Expected :uuid")


def message_content(value: Any) -> str:
    """Check the content of a message: visible, at most 524 288 bytes.

    Raises:
        Refusal: 422.
    """
    content = text(value, "/message/content")
    # A string of n characters has at least n bytes and at most 4n: most need no encoding.
    if len(content) * 4 > MESSAGE_BYTES and len(content.encode("utf-8", "replace")) > MESSAGE_BYTES:
        raise invalid("/message/content", f"should be at most {MESSAGE_BYTES} byte(s)")
    return content


def attachment_ids(message: dict[str, Any]) -> list[str]:
    """Check `attachment_ids`; return each once.

    Raises:
        Refusal: 422.
    """
    ids, pointer = message.get("attachment_ids", []), "/message/attachment_ids"
    if not isinstance(ids, list) or not all(isinstance(each, str) for each in ids):
        raise invalid(pointer, "must be a list of ids")
    if len(ids) > ATTACHMENTS:
        raise invalid(pointer, f"should have at most {ATTACHMENTS} item(s)")
    return list(dict.fromkeys(ids))


def unknown_attachment() -> Refusal:
    """Return the answer to a message with a file that is not there."""
    return word("unknown_attachment", "/message/attachment_ids")


def event(body: Any) -> tuple[str, str, dict[str, Any]]:
    """Check an event; return content, type and metadata.

    Raises:
        Refusal: 422.
    """
    row = section(body, "event")
    content = text(row.get("content"), "/event/content")
    if len(content) > EVENT_CHARS:
        raise invalid("/event/content", f"should be at most {EVENT_CHARS} character(s)")
    kind = row.get("message_type")
    if kind not in EVENT_TYPES:
        raise invalid("/event/message_type", NO_ENUM)
    metadata = row.get("metadata")
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict):
        raise invalid("/event/metadata", "must be an object")
    if len(codec.dumps(metadata)) > EVENT_METADATA_BYTES:
        raise invalid("/event/metadata", f"should be at most {EVENT_METADATA_BYTES} byte(s)")
    if kind == "attention" and metadata.get("kind") not in ATTENTION_KINDS:
        raise invalid("/event/metadata/kind", NO_ENUM)
    # The platform alone mints delegations; what clients send under that name is dropped.
    return content, kind, {k: v for k, v in metadata.items() if k != "delegation"}


def checked_title(value: Any) -> str:
    """Check the title of a room: 1 to 120 characters after trimming, one line.

    Raises:
        Refusal: 422.
    """
    pointer = "/chat/title"
    if not isinstance(value, str):
        raise invalid(pointer, "must be a string")
    title = value.strip()
    if not title:
        raise invalid(pointer, BLANK)
    if len(title) > TITLE_CHARS:
        raise invalid(pointer, f"should be at most {TITLE_CHARS} character(s)")
    if any(char in title for char in "\n\r\0"):
        raise invalid(pointer, "must be one line")
    return title


def new_chat(body: Any) -> tuple[str | None, str | None]:
    """Check the body of a new room; return title and task id, None for the default.

    Raises:
        Refusal: 422.
    """
    chat = section(body, "chat")
    title = chat.get("title")
    if title is not None:
        title = checked_title(title) if title != "" else None
    task_id = chat.get("task_id")
    if task_id is not None and not (isinstance(task_id, str) and is_uuid(task_id)):
        raise invalid("/chat/task_id", "Invalid format. Expected :uuid")
    return title, task_id


def activity(body: Any) -> tuple[bool, str]:
    """Check a working report; return whether it works and at what.

    Raises:
        Refusal: 422.
    """
    working = body.get("working") if isinstance(body, dict) else None
    if not isinstance(working, bool):
        raise invalid("/working", "must be a boolean")
    detail = body.get("activity")
    if detail is None:
        return working, "reasoning"
    if not isinstance(detail, dict):
        raise invalid("/activity", "must be an object")
    if detail.get("kind") not in ACTIVITY_KINDS:
        raise invalid("/activity/kind", NO_ENUM)
    if not isinstance(detail.get("name"), str | None):
        raise invalid("/activity/name", "must be a string")
    return working, detail["kind"]

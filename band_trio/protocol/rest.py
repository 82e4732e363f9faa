"""Bodies of the REST interface as attrs classes (platform docs, Shared objects and Agent API).

Required fields have no default; everything else is optional and tolerates null.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Final, Generic, TypeVar

import attrs

from band_trio.kit.hygiene import clip, masked, without_surrogates
from band_trio.kit.ids import Cursor, Id, Reference
from band_trio.kit.logs import RepeatedLog
from band_trio.protocol.errors import RemoteProtocolError
from band_trio.protocol.structure import MOST_ITEMS, structure

_repeated: Final = RepeatedLog(logging.getLogger(__name__))

API: Final = "/api/v1/agent"
MESSAGE_BYTES: Final = 524_288
"""Most UTF-8 bytes of one message (platform docs, Limits)."""
EVENT_CHARS: Final = 16_384
"""Most characters of one event."""
EVENT_METADATA_BYTES: Final = 65_536
"""Most bytes of an event's metadata as JSON."""
WORDS_CHARS: Final = 300
"""Characters of the platform's own words that are passed on in an error or a log line."""
LOOKED_AT_CHARS: Final = 2000
"""Characters of such words that are looked at for secrets."""
MAX_PLACES: Final = 10
MAX_EACH: Final = 5
"""Places of a request, and problems of each, that an error passes on."""
PAGE: Final = 100
"""Largest page of rooms, messages and context."""

T = TypeVar("T")


@attrs.frozen
class AgentMe:
    """Who the key belongs to."""

    id: Id
    name: str
    handle: str | None = None
    owner_uuid: str | None = None
    description: str = ""
    feature_flags: dict[str, Any] | None = None


@attrs.frozen
class ChatRoom:
    """A room of the agent's listing."""

    id: Id
    title: str | None = None
    task_id: str | None = None
    inserted_at: datetime | None = None
    updated_at: datetime | None = None


@attrs.frozen
class Participant:
    """A member of a room."""

    id: Id
    type: str
    """`User` or `Agent`."""
    name: str | None = None
    handle: str | None = None
    description: str | None = None
    role: str | None = None
    status: str | None = None
    """Of the membership, not presence: active, inactive or blocked."""
    online: bool | None = None
    avatar_url: str | None = None


@attrs.frozen
class Peer:
    """Somebody who could be added to a room."""

    id: Id
    name: str
    type: str
    handle: str | None = None
    description: str | None = None
    is_contact: bool | None = None
    is_external: bool | None = None
    online: bool | None = None
    source: str | None = None
    tags: list[str] | None = None
    listed_in_directory: bool | None = None
    avatar_url: str | None = None


@attrs.frozen
class ChatMessage:
    """A row of a room: a message, or an event such as a thought; pushed and listed alike."""

    id: Id
    content: str
    message_type: str
    sender_id: Reference
    sender_type: str
    sender_name: str | None = None
    chat_room_id: Id | None = None
    inserted_at: datetime | None = None
    updated_at: datetime | None = None
    metadata: dict[str, Any] = attrs.field(factory=dict)
    attachments: list[dict[str, Any]] = attrs.field(factory=list)

    def mentions(self, agent_id: str) -> bool:
        """Tell whether a mention-kind mention names *agent_id*; references never count."""
        entries = self.metadata.get("mentions")
        return isinstance(entries, list) and any(
            isinstance(entry, dict)
            and entry.get("id") == agent_id
            and entry.get("kind", "mention") in ("mention", None)
            for entry in islice(entries, MOST_ITEMS)
        )

    def delivery(self, agent_id: str) -> Delivery:
        """Return the delivery object for *agent_id*; an empty one where there is none."""
        entries = self.metadata.get("delivery_status")
        raw = entries.get(agent_id) if isinstance(entries, dict) else None
        return Delivery.read(raw) if isinstance(raw, dict) else Delivery()


@attrs.frozen
class Attempt:
    """One run of a message, as the platform counts it."""

    status: str
    """`processing`, `success` or `failed`."""
    attempt_number: int | None = None


@attrs.frozen
class Delivery:
    """What the platform knows of one message for one recipient (platform docs, Delivery object)."""

    status: str | None = None
    """`delivered`, `processing`, `processed` or `failed`."""
    current_attempt: int | None = None
    attempts: list[Attempt] | None = None

    @classmethod
    def read(cls, raw: dict[str, Any]) -> Delivery:
        """Read the object of a row; by hand where no attempt is listed, as on most rows."""
        status, current, attempts = map(raw.get, ("status", "current_attempt", "attempts"))
        plain = type(status) is str and (current is None or type(current) is int)
        if plain and attempts in (None, []):
            return cls(status, current, attempts)
        return structure(raw, cls)

    @property
    def reopened(self) -> bool:
        """Whether there is a live attempt although an earlier one has succeeded: a claim that was
        carried out late opens a message again."""
        succeeded = any(attempt.status == "success" for attempt in self.attempts or ())
        return self.status == "processing" and succeeded

    @property
    def spent(self) -> int | None:
        """Attempts that failed; None where the platform does not list any."""
        if self.attempts is None:
            return None
        return sum(attempt.status == "failed" for attempt in self.attempts)


@attrs.frozen
class MarkReceipt:
    """Answer to a claim or a mark."""

    id: str = ""
    success: bool = True
    status: str | None = None
    attempt_number: int | None = None


@attrs.frozen
class Recipient:
    """Somebody a message was addressed to."""

    id: Id
    handle: str | None = None
    name: str | None = None


@attrs.frozen
class MessageReceipt:
    """Answer to a message that was posted; *id* is None when the answer was odd."""

    id: Id | None = None
    success: bool = True
    recipients: list[Recipient] = attrs.field(factory=list)


@attrs.frozen
class EventReceipt:
    """Answer to an event that was posted."""

    id: Id | None = None
    success: bool = True
    message_type: str | None = None


@attrs.frozen
class ErrorBody:
    """What the platform says when it says no."""

    code: str | None = None
    message: str | None = None
    request_id: str | None = None
    details: dict[str, Any] = attrs.field(factory=dict)
    retry_after: float | None = None

    @classmethod
    def read(cls, body: Any) -> ErrorBody:
        """Take the `error` object out of a body of any shape."""
        raw = body.get("error") if isinstance(body, dict) else None
        if not isinstance(raw, dict):
            return cls()
        return structure({**raw, "retry_after": _wait(raw.get("retry_after"))}, cls)

    def problems(self) -> dict[str, list[str]]:
        """Return the first of *details* as lists of text, whatever shape it came in."""
        return {
            str(where): [
                str(each) for each in islice(what if isinstance(what, list) else [what], MAX_EACH)
            ]
            for where, what in islice(self.details.items(), MAX_PLACES)
        }

    def cleaned(self, secrets: Iterable[str]) -> ErrorBody:
        """Return it without *secrets*, and not too much of it; who shows it cleans it."""

        def clean(text: str) -> str:
            # Masking takes long. What the first cut may tear, the second one leaves out.
            return masked(clip(text, LOOKED_AT_CHARS), WORDS_CHARS, secrets)

        return attrs.evolve(
            self,
            code=self.code and clean(self.code),
            message=self.message and clean(self.message),
            request_id=self.request_id and clean(self.request_id),
            details={
                clean(where): [clean(each) for each in many]
                for where, many in self.problems().items()
            },
        )


def _wait(told: Any) -> float | None:
    """Read whole or broken seconds, also as text; None for what is no wait."""
    if isinstance(told, bool) or not isinstance(told, str | int | float):
        return None
    try:
        seconds = float(told)
    except (ValueError, OverflowError):
        return None
    return seconds if 0 <= seconds < math.inf else None


@attrs.frozen
class Page(Generic[T]):
    """One page of a list: keyset lists have a cursor, offset lists a number of pages."""

    items: list[T]
    next_cursor: str | None = None
    """Of the page behind this one; None where there is none, or none that can be asked for."""
    page: int = 1
    total_pages: int = 1
    total_count: int | None = None
    dropped: int = 0
    """Items that could not be read: what is not on the page may be one of them."""
    cut: bool = False
    """Whether there is more, behind a cursor that is missing or cannot be read."""
    served_at: datetime | None = attrs.field(default=None, kw_only=True)
    """When the platform made the page, by its own clock, in whole seconds; None where it did not
    say, or was not asked."""

    @classmethod
    def read(cls, body: Any, kind: type[T]) -> Page[T]:
        """Read `{"data": […], "metadata": {…}}`; an item that is invalid is dropped and logged.

        Raises:
            RemoteProtocolError: there is no list of items. That is not the same as an empty one,
                which says that rooms or messages are gone.
        """
        envelope = structure(body, _Envelope)
        meta = structure(envelope.metadata, _PageMetadata)
        more = meta.has_more is not False
        claimed = meta.has_more is True or bool(envelope.metadata.get("next_cursor"))
        items = readable_rows(envelope.data, kind)
        return cls(
            items,
            meta.next_cursor if more else None,
            meta.page,
            meta.total_pages,
            meta.total_count,
            dropped=len(envelope.data) - len(items),
            cut=more and claimed and meta.next_cursor is None,
        )


@attrs.frozen
class _Envelope:
    data: list[Any]
    metadata: dict[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class _PageMetadata:
    has_more: bool | None = None
    next_cursor: Cursor | None = None
    page: int = 1
    total_pages: int = 1
    total_count: int | None = None


def readable_rows(rows: Sequence[Any], kind: type[T]) -> list[T]:
    """Return *rows* as *kind*; one that is invalid, or one too many, is dropped and logged."""
    readable = []
    if len(rows) > MOST_ITEMS:
        _repeated.warning("dropped rows of a list: it has %d, %d are read", len(rows), MOST_ITEMS)
    for row in islice(rows, MOST_ITEMS):
        try:
            readable.append(structure(row, kind))
        except RemoteProtocolError as exc:
            _repeated.warning("dropped a row of a list: %s", exc)
    return readable


# --------------------------------------------------------------------------- request bodies


@attrs.frozen
class Mention:
    """Somebody a message is addressed to; *handle* is left out when unknown."""

    id: str
    handle: str | None = None


def message_body(
    content: str, mentions: Sequence[Mention], attachment_ids: Sequence[str] = ()
) -> dict[str, Any]:
    """Body of `POST messages`."""
    message: dict[str, Any] = {
        "content": without_surrogates(content),
        "mentions": [{"id": m.id, **({"handle": m.handle} if m.handle else {})} for m in mentions],
    }
    if attachment_ids:
        message["attachment_ids"] = list(attachment_ids)
    return {"message": message}


def event_body(content: str, message_type: str, metadata: dict[str, Any] | None) -> dict[str, Any]:
    """Body of `POST events`."""
    event: dict[str, Any] = {
        "content": without_surrogates(content),
        "message_type": message_type,
    }
    if metadata is not None:
        event["metadata"] = metadata
    return {"event": event}

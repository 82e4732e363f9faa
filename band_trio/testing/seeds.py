"""Seeds of a fake room: dicts in a test, checked as the platform's own objects would be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import attrs

from band_trio.errors import BandConfigError
from band_trio.protocol.errors import RemoteProtocolError
from band_trio.protocol.holdings import (
    Attachment,
    Board,
    Contact,
    ContactRequest,
    Memory,
    Task,
)
from band_trio.protocol.rest import ChatMessage, Participant, Peer
from band_trio.protocol.structure import structure, timestamp_text

FAKE_TIME: Final = datetime(2025, 1, 1, tzinfo=UTC)
"""When everything in a fake room happens."""
FAKE_TIME_TEXT: Final = timestamp_text(FAKE_TIME)
FAKE_ACTOR: Final = "fake-agent"
"""Who works on tasks where no agent id is given."""
FAKE_ROOM: Final = "room-fake"
"""The room of a message or of tools that were given none."""

T = TypeVar("T", bound=attrs.AttrsInstance)
Seeds = Iterable[Mapping[str, Any]] | None


def read_participants(seeds: Seeds) -> list[Participant] | None:
    """Return participants from dicts with at least `id`.

    Raises:
        BandConfigError: a seed is unusable. So do the other functions here.
    """
    if seeds is None:
        return None
    defaults = {"type": "User", "role": "member", "status": "active"}
    return [_seed(seed, Participant, defaults) for seed in seeds]


def read_peers(seeds: Seeds) -> list[Peer]:
    """Return peers from dicts with at least `id`."""
    return [
        _seed(seed, Peer, {"type": "Agent", "name": _get(seed, "handle") or _get(seed, "id")})
        for seed in seeds or ()
    ]


def read_context(seeds: Seeds, *, start: int = 1) -> list[ChatMessage]:
    """Return messages from dicts with at least `content`."""
    common = {"message_type": "text", "sender_id": "user-1", "sender_type": "User"}
    return _numbered(seeds, ChatMessage, "context", common, start=start)


def read_contacts(seeds: Seeds) -> list[Contact]:
    """Return contacts from dicts with at least `handle`."""
    rows = _numbered(seeds, Contact, "contact", {"type": "User"})
    return [_with(row, "handle") for row in rows]


def read_requests(seeds: Seeds, direction: str) -> list[ContactRequest]:
    """Return requests from dicts with at least the other party's handle.

    *direction* is `from` for received ones, `to` for sent ones.
    """
    rows = _numbered(seeds, ContactRequest, f"request-{direction}", {"status": "pending"})
    return [_with(row, f"{direction}_handle") for row in rows]


def read_memories(seeds: Seeds) -> list[Memory]:
    """Return memories from dicts with at least `content`."""
    defaults = {
        "system": "long_term",
        "type": "semantic",
        "segment": "agent",
        "scope": "agent",
        "status": "active",
    }
    return [_with(row, "content") for row in _numbered(seeds, Memory, "memory", defaults)]


def read_files(seeds: Seeds) -> list[Attachment]:
    """Return files from dicts with at least `name`."""
    rows = _numbered(seeds, Attachment, "file", {"content_type": "text/plain"})
    return [_with(row, "name") for row in rows]


def read_tasks(seeds: Seeds) -> list[Task]:
    """Return tasks from dicts with at least `subject`; they are numbered from 1."""
    tasks = _numbered(seeds, Task, "task", {"state": "active", "overall_status": "pending"})
    numbered = [
        task if task.number is not None else attrs.evolve(task, number=number)
        for number, task in enumerate(tasks, 1)
    ]
    return [_with(task, "subject") for task in numbered]


def read_board(seed: Mapping[str, Any] | None) -> Board:
    """Return a board from a dict."""
    return _seed(seed or {}, Board, {})


# --------------------------------------------------------------------------- details


def _numbered(
    seeds: Seeds, kind: type[T], name: str, common: dict[str, Any], *, start: int = 1
) -> list[T]:
    dated = {"inserted_at": FAKE_TIME_TEXT} if "inserted_at" in attrs.fields_dict(kind) else {}
    return [
        _seed(seed, kind, {"id": f"{name}-{number}", **dated, **common})
        for number, seed in enumerate(seeds or (), start)
    ]


def _get(seed: object, key: str) -> Any:
    return seed.get(key) if isinstance(seed, Mapping) else None


def _with(row: T, name: str) -> T:
    if not getattr(row, name):
        raise BandConfigError(f"bad {type(row).__name__} seed: {name} is missing or no text")
    return row


def _seed(seed: Mapping[str, Any], kind: type[T], defaults: dict[str, Any]) -> T:
    names = [field.name for field in attrs.fields(kind)]
    try:
        if not isinstance(seed, Mapping):
            raise RemoteProtocolError(f"an object is needed, not {type(seed).__name__}")
        unknown = [key for key in seed if key not in names]
        if unknown:
            raise RemoteProtocolError(f"unknown fields {unknown}; known: {', '.join(names)}")
        return structure({**defaults, **seed}, kind)
    except RemoteProtocolError as exc:
        raise BandConfigError(f"bad {kind.__name__} seed {seed!r}: {exc}") from None

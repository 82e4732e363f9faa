"""Files of rooms: one record for the same bytes, kept for as long as the platform keeps them
(platform docs, Files)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import attrs

from band_trio.kit.hygiene import has_visible
from band_trio.protocol.structure import timestamp_text
from band_trio.stores.bodies import BLANK
from band_trio.stores.refusal import bad_request, invalid, not_found, too_large

FILE_BYTES: Final = 100_000_000
"""Largest file (platform docs, Limits)."""
NAME: Final = "x-file-name"
SHA256: Final = "x-file-sha256"
RANGE: Final = "range"

_NAME: Final = re.compile(r"[\x20-\x7e]{1,255}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_RANGE: Final = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
)
_CONTROLS: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
"""Bytes that no text has; ESC is in coloured logs."""


def content_type(content: bytes) -> str:
    """Return what the bytes are, whatever their sender says: by their first bytes, or text."""
    for magic, kind in _MAGIC:
        if content.startswith(magic):
            return kind
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    try:
        content.decode()
    except UnicodeDecodeError:
        return "application/octet-stream"
    return "application/octet-stream" if _CONTROLS.search(content) else "text/plain"


def byte_range(header: str | None, size: int) -> range | None:
    """Return the bytes that a `Range` header asks for.

    None is the whole file: there is no header, or one that means nothing here, such as several
    ranges. An empty range is one that begins behind the end, or has no length.
    """
    match = _RANGE.fullmatch((header or "").strip())
    if match is None or match[0] == "bytes=-":
        return None
    first, last = match.groups()
    if not first:
        return range(max(size - int(last), 0), size)
    if last and int(last) < int(first):
        return None
    return range(min(int(first), size), min(int(last) + 1, size) if last else size)


@attrs.define(eq=False, kw_only=True)
class File:
    """A file of a room."""

    id: str
    name: str
    content_type: str
    size: int
    """Bytes."""
    sha256: str | None
    """Lower-case hexadecimal; None where only the record is known, and so is *content*."""
    content: bytes | None = attrs.field(default=None, repr=False)
    has_thumb: bool | None = False
    expires_at: datetime | None = None
    """None: it is kept."""
    clock: Callable[[], datetime] = attrs.field(repr=False)

    @property
    def expired(self) -> bool:
        """Whether it is gone by now."""
        return self.expires_at is not None and self.expires_at <= self.clock()

    def render(self) -> dict[str, Any]:
        """Return the `Attachment`."""
        return {
            "id": self.id,
            "name": self.name,
            "content_type": self.content_type,
            "bytes": self.size,
            "sha256": self.sha256,
            "has_thumb": self.has_thumb,
            "expires_at": timestamp_text(self.expires_at) if self.expires_at else None,
        }


@attrs.define(eq=False)
class FileStore:
    """The files of all rooms."""

    new_id: Callable[[], str] = attrs.field(repr=False)
    clock: Callable[[], datetime] = attrs.field(repr=False)
    """The time, with a zone."""
    most_bytes: int = FILE_BYTES
    keep_seconds: float | None = None
    """How long a file is kept after its latest upload; None for ever."""
    rooms: dict[str, dict[str, File]] = attrs.field(factory=dict)
    """Room id → its files by id, oldest first."""

    def put(self, room_id: str, content: bytes, headers: Mapping[str, str]) -> File:
        """Take a file; the same bytes in the same room are the record that is there already.

        Raises:
            Refusal: 413, 400 a header is missing, 422 it is wrong or does not fit the bytes.
        """
        if len(content) > self.most_bytes:
            raise too_large(self.most_bytes)
        name = _header(headers, NAME, _NAME, "must be 1 to 255 printable ASCII characters")
        told = _header(headers, SHA256, _SHA256, "must be 64 lower-case hexadecimal digits")
        digest = hashlib.sha256(content).hexdigest()
        if told != digest:
            raise invalid(f"/{SHA256}", "does not match the body")
        self._drop_expired(room_id)
        files = self.rooms.setdefault(room_id, {})
        file = next((each for each in files.values() if each.sha256 == digest), None)
        if file is None:
            file = File(
                id=self.new_id(),
                name=name,
                content_type=content_type(content),
                size=len(content),
                sha256=digest,
                content=content,
                clock=self.clock,
            )
            files[file.id] = file
        if self.keep_seconds is not None:
            file.expires_at = self.clock() + timedelta(seconds=self.keep_seconds)
        return file

    def find(self, room_id: str, file_id: str) -> File:
        """Return a file of the room.

        Raises:
            Refusal: 404 unknown, of another room, or expired.
        """
        self._drop_expired(room_id)
        file = self.rooms.get(room_id, {}).get(file_id)
        if file is None:
            raise not_found("File")
        return file

    def forget(self, room_id: str) -> None:
        """Drop the files of a room."""
        self.rooms.pop(room_id, None)

    def _drop_expired(self, room_id: str) -> None:
        files = self.rooms.get(room_id, {})
        for file in [each for each in files.values() if each.expired]:
            del files[file.id]


def _header(headers: Mapping[str, str], name: str, form: re.Pattern[str], problem: str) -> str:
    value = headers.get(name)
    if value is None:
        raise bad_request(f"The header {name} is missing")
    if not has_visible(value):
        raise invalid(f"/{name}", BLANK)
    if not form.fullmatch(value):
        raise invalid(f"/{name}", problem)
    return value

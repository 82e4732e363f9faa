"""The files of one room (platform docs, Files): the same bytes are one record."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Final

import attrs

from band_trio.protocol.holdings import Attachment
from band_trio.stores.refusal import bad_request, invalid, not_found

FILE_BYTES: Final = 100 * 1024 * 1024
"""Largest file (platform docs, Limits)."""
_NAME: Final = re.compile(r"[\x20-\x7e]{1,255}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_RANGE: Final = re.compile(r"bytes=(\d*)-(\d*)")
_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
)


@attrs.define(eq=False)
class RoomFiles:
    """See the module."""

    _new_id: Callable[[], str]
    files: dict[str, Attachment] = attrs.field(factory=dict, init=False)
    contents: dict[str, bytes] = attrs.field(factory=dict, init=False, repr=False)

    def put(
        self, name: str | None, digest: str | None, declared: str, content: bytes
    ) -> Attachment:
        """Take a file in; the record of an earlier one with the same bytes is returned as it is.

        Raises:
            Refusal: 400, the digest is of other bytes; 422, a header does not fit.
        """
        if name is None or not _NAME.fullmatch(name) or not name.strip():
            raise invalid("/x-file-name", "must be 1 to 255 printable ASCII characters")
        if digest is None or not _DIGEST.fullmatch(digest):
            raise invalid("/x-file-sha256", "must be 64 lower-case hexadecimal digits")
        if not content:
            raise invalid("/body", "can't be blank")
        if hashlib.sha256(content).hexdigest() != digest:
            raise bad_request("x-file-sha256 is not the digest of the body")
        known = next((each for each in self.files.values() if each.sha256 == digest), None)
        if known is not None:
            return known
        kind = content_type(content, declared)
        file = Attachment(self._new_id(), name, kind, len(content), digest, has_thumb=False)
        self.files[file.id], self.contents[file.id] = file, content
        return file

    def find(self, file_id: str) -> Attachment:
        """Find a file.

        Raises:
            Refusal: 404, for whatever reason it is out of reach.
        """
        file = self.files.get(file_id)
        if file is None:
            raise not_found("File")
        return file


def content_type(content: bytes, declared: str = "") -> str:
    """Tell the type of a file from its bytes; *declared* counts among kinds of text only."""
    for magic, kind in _MAGIC:
        if content.startswith(magic):
            return kind
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return "application/octet-stream"
    if "\0" in text:
        return "application/octet-stream"
    plain = declared.partition(";")[0].strip().lower()
    return plain if plain.startswith("text/") or plain == "application/json" else "text/plain"


def part(header: str | None, size: int) -> range | None:
    """Return the bytes that a `Range` header asks for; None: all of them.

    Raises:
        ValueError: there is no such part (416).
    """
    found = _RANGE.fullmatch(header.strip()) if header else None
    if found is None or not any(found.groups()):
        return None  # one that cannot be read is ignored
    first, last = found.groups()
    if not first:
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1) if last else size
    if start >= end:
        raise ValueError(f"bytes {header} of {size}")
    return range(start, end)

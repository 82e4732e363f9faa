"""Files of a fake room: what they are is known, but they never have bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import attrs
import trio

from band_trio.errors import BandApiError
from band_trio.link.rest.attachments import AttachmentCache
from band_trio.protocol.holdings import Attachment


@attrs.define(eq=False, slots=False, kw_only=True)
class FakeFiles:
    """The routes of files."""

    files: list[Attachment] = attrs.field(factory=list)
    attachments: AttachmentCache = attrs.field(factory=AttachmentCache)
    on_change: Callable[[], None] = lambda: None

    async def put_file(self, room_id: str, name: str, content: bytes, /) -> Attachment | None:
        """Take a file; the same bytes are one record."""
        await trio.lowlevel.checkpoint()
        digest = hashlib.sha256(content).hexdigest()
        known = next((file for file in self.files if file.sha256 == digest), None)
        if known is not None:
            return known
        file_id = f"file-{len(self.files) + 1}"
        file = Attachment(file_id, name, "text/plain", len(content), digest, False)
        self.files.append(file)
        self.on_change()
        return file

    async def get_file(self, room_id: str, file_id: str, max_bytes: int, /) -> bytes:
        """Refuse: there are no bytes."""
        await trio.lowlevel.checkpoint()
        raise BandApiError(404, "not_found", "a fake file has no bytes")

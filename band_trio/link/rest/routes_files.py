"""Files of a room: upload and download (platform docs, Files). They hang on messages."""

from __future__ import annotations

import hashlib

import attrs

from band_trio.errors import BandApiError
from band_trio.link.rest.api import Api
from band_trio.link.rest.routes import UNREADABLE, read_written, room_path, segment
from band_trio.protocol.holdings import Attachment


@attrs.frozen
class FileRoutes:
    """Both calls may be repeated, and raise what `Api.repeat` raises."""

    api: Api

    async def put_file(self, room_id: str, name: str, content: bytes) -> Attachment | None:
        """Upload a text file; None when the answer does not say under which id.

        *name* is printable ASCII. The same bytes in the same room are one record, so repeating
        it does no harm.
        """
        headers = {
            "x-file-name": name,
            "x-file-sha256": hashlib.sha256(content).hexdigest(),
            "content-type": "text/plain",
        }
        path = f"{room_path(room_id)}/files"
        answer = await self.api.repeat("PUT", path, headers=headers, content=content)
        return read_written(answer, Attachment)

    async def get_file(self, room_id: str, file_id: str, max_bytes: int) -> bytes:
        """Return the bytes of a file; 404 when it is out of reach for whatever reason.

        One that is longer than *max_bytes* is not read to its end; the code is `UNREADABLE`.
        """
        path = f"{room_path(room_id)}/files/{segment(file_id)}"
        answer = await self.api.repeat("GET", path, raw=True, max_bytes=max_bytes)
        if not isinstance(answer.body, bytes):
            raise BandApiError(answer.status, UNREADABLE, answer.flaw)
        return answer.body

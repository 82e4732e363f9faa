"""Files of a fake room: the platform's own store; they can be described, not read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from itertools import count
from typing import Final

import attrs
import trio

from band_trio.errors import BandApiError
from band_trio.link.rest.attachments import AttachmentCache
from band_trio.protocol.holdings import Attachment
from band_trio.protocol.structure import structure
from band_trio.stores.files import NAME, SHA256, File, FileStore
from band_trio.stores.refusal import api_errors
from band_trio.testing.seeds import FAKE_TIME

_ROOM: Final = ""
"""There is one room, whatever its id is."""


@attrs.define(eq=False, slots=False, kw_only=True)
class FakeFiles:
    """The routes of files."""

    file_store: FileStore = attrs.field(factory=lambda: file_store(()))
    attachments: AttachmentCache = attrs.field(factory=AttachmentCache)
    on_change: Callable[[], None] = lambda: None

    async def put_file(self, room_id: str, name: str, content: bytes, /) -> Attachment | None:
        """Take a file; the same bytes are one record."""
        await trio.lowlevel.checkpoint()
        headers = {NAME: name, SHA256: hashlib.sha256(content).hexdigest()}
        with api_errors():
            file = self.file_store.put(_ROOM, content, headers)
        self.on_change()
        return structure(file.render(), Attachment)

    async def get_file(self, room_id: str, file_id: str, max_bytes: int, /) -> bytes:
        """Refuse: seeds have no bytes, so a test could only read what it has sent itself."""
        await trio.lowlevel.checkpoint()
        raise BandApiError(404, "not_found", "a fake file has no bytes")

    def all_files(self) -> list[Attachment]:
        """Return the files of the room."""
        files = self.file_store.rooms.get(_ROOM, {}).values()
        return [structure(file.render(), Attachment) for file in files]


def file_store(seeds: Iterable[Attachment]) -> FileStore:
    """Return a store with *seeds*, whose bytes are not known."""
    files: dict[str, File] = {}
    numbers = count(1)
    store = FileStore(lambda: f"file-{next(numbers)}", lambda: FAKE_TIME, rooms={_ROOM: files})
    for seed in seeds:
        next(numbers)
        fields = attrs.asdict(seed)
        size = fields.pop("bytes")
        files[seed.id] = File(**fields, size=size, clock=store.clock)
    return store

"""Files of a room: they hang on messages, so they are listed and found by reading those.

The docstrings and descriptions of the inputs are what a model reads.
"""

# ruff: noqa: RUF009 - `argument` declares an attrs field

from __future__ import annotations

import base64
import re
from itertools import islice
from typing import Any, Final

import attrs

from band_trio import texts
from band_trio.errors import (
    BandApiError,
    BandToolError,
    MessagePostError,
    OutcomeUnknownError,
)
from band_trio.kit.hygiene import has_visible, one_line, without_surrogates
from band_trio.link.rest.pages import PageWalk
from band_trio.protocol.errors import RemoteProtocolError
from band_trio.protocol.holdings import Attachment
from band_trio.protocol.rest import ChatMessage, Page
from band_trio.protocol.structure import MOST_ITEMS, structure, unstructure
from band_trio.tools.core import platform_tool
from band_trio.tools.definitions import ID, argument
from band_trio.tools.sending import Mentions, Sending
from band_trio.types import ToolCategory, TurnEffect

TEXT_BYTES: Final = 16_384
"""Largest text that is shown."""
IMAGE_BYTES: Final = 5 * 1024 * 1024
"""Largest picture that is shown."""
IMAGES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")
UPLOAD_BYTES: Final = 1_000_000
"""Largest text that is sent."""
_FILES: Final = ToolCategory.FILES
_FILENAME: Final = re.compile(r"[\x20-\x7e]{1,255}")


@attrs.frozen
class ListRoomFilesInput:
    """List the files shared in this room, oldest first. Where `next_cursor` is given there is
    more; a page can be empty and still not be the last."""

    cursor: str | None = argument("The `next_cursor` of the page before.", default=None)


@attrs.frozen
class ReadRoomFileInput:
    """Show a file that was shared in this room. Short text and pictures are shown, anything else
    is described."""

    file_id: str = argument("The id that band_list_room_files gives.", pattern=ID)


@attrs.frozen
class SendRoomFileInput:
    """Share a text file with the people you mention. It is posted as a message, so no further
    reply is needed."""

    content: str = argument("The text of the file, at most 1,000,000 bytes.")
    filename: str = argument("Its name, in plain ASCII, for example `notes.md`.", visible=True)
    caption: str = argument(
        "The message that comes with it; if left out, it names the file.", default=""
    )
    mentions: list[str] = argument(
        "Who should get it: exact participant ids or handles. Never yourself.",
        mentions=True,
        kw_only=True,
    )


class Files(Sending):
    """The tools about files. Errors of reads: see `band_trio.tools.contacts.Contacts`."""

    @platform_tool(ListRoomFilesInput, _FILES, TurnEffect.OBSERVE, room_bound=True)
    async def list_room_files(self, cursor: str | None = None) -> dict[str, Any]:
        """Return the files of one page of the room: `data`, and `next_cursor` if there is more."""
        with self._reading(self._deadline()):
            page = await self.rest.get_context(self.room_id, cursor)
        files = self._noted(page)
        result: dict[str, Any] = {"data": [unstructure(each) for each in files.values()]}
        if page.next_cursor is not None:
            result["next_cursor"] = page.next_cursor
        return result

    @platform_tool(ReadRoomFileInput, _FILES, TurnEffect.OBSERVE, room_bound=True)
    async def read_room_file(self, file_id: str) -> dict[str, Any]:
        """Return a file: `text`, or `content` with a picture, or a `description` of it.

        What is shown is decided before anything is downloaded: text up to `TEXT_BYTES`, pictures
        up to `IMAGE_BYTES`.

        Raises:
            BandToolError: there is no such file, or no file transfer; or as for any read.
        """
        deadline = self._deadline()
        with self._reading(deadline):
            found = await self._find_file(file_id)
        reason = not_shown(found.content_type, found.bytes)
        if reason is not None:
            return {**_header(found), "description": reason}
        with self._reading(deadline):
            content = await self._download(found)
        if media_type(found.content_type) in IMAGES:
            return _picture(found, content)
        return _text(found, content)

    @platform_tool(SendRoomFileInput, _FILES, TurnEffect.REPLY, room_bound=True)
    async def send_room_file(
        self, content: str, filename: str, caption: str = "", mentions: Mentions = None
    ) -> dict[str, Any]:
        """Share a text file as a message: `attachment` and `message_id`.

        A blank *caption* is replaced by one that names the file. All mentions are resolved before
        anything is uploaded.

        Raises:
            MentionError, MessagePostError, RoomExecutionStoppedError: as `send_message`.
            BandToolError: the name or the size is not possible, or the upload or the message
                failed; the text tells whether the file was uploaded.
            BandApiError: the platform refused the upload.
        """
        filename = one_line(filename)
        body = _checked(content, filename)
        deadline = self._deadline()
        people = await self._resolve(mentions, deadline)
        uploaded = await self._upload(filename, body, deadline)
        text = caption if has_visible(caption) else texts.file_caption(filename)
        try:
            receipt = await self._post_message(
                "message", text, people, (uploaded.id,), deadline, TurnEffect.REPLY
            )
        except MessagePostError as exc:
            detail = texts.file_uploaded_only(uploaded.id, exc.detail)
            raise MessagePostError(exc.kind, detail) from exc
        except (BandApiError, BandToolError) as exc:
            raise BandToolError(texts.file_uploaded_only(uploaded.id, _sentence(exc))) from exc
        return {"attachment": unstructure(uploaded), "message_id": receipt["id"]}

    # ----------------------------------------------------------------- finding

    def _noted(self, page: Page[ChatMessage]) -> dict[str, Attachment]:
        """Return the files on a page by id, without expired ones, and remember them."""
        cache, files = self.rest.attachments, {}
        attached = (raw for message in page.items for raw in message.attachments)
        for raw in islice(attached, MOST_ITEMS):
            try:
                found = structure(raw, Attachment)
            except RemoteProtocolError:
                continue  # a file without an id is out of reach
            if not cache.expired(found):
                files[found.id] = found
                cache.note(self.room_id, found)
        return files

    async def _find_file(self, file_id: str) -> Attachment:
        """Return what is known of a file, reading the room from its beginning if need be."""
        known = self.rest.attachments.find(self.room_id, file_id)
        walk = PageWalk(f"the context of room {self.room_id}")
        while known is None and not walk.ended:
            await walk.pace()
            page = await self.rest.get_context(self.room_id, walk.cursor)
            self.turn.check_open()
            known = self._noted(page).get(file_id)
            walk.follow(page)
        if known is None:
            raise BandToolError(texts.NO_SUCH_FILE if walk.complete else texts.FILE_NOT_MET)
        return known

    # ----------------------------------------------------------------- transfer

    async def _download(self, file: Attachment) -> bytes:
        # The size may be missing, which is 0: then as much as would be shown.
        most = file.bytes if file.bytes > 0 else shown_bytes(file.content_type)
        try:
            return await self.rest.get_file(self.room_id, file.id, most)
        except BandApiError as exc:
            if exc.status == 404:
                raise BandToolError(texts.NO_SUCH_FILE) from exc
            raise

    async def _upload(self, filename: str, body: bytes, deadline: float) -> Attachment:
        try:
            # An upload alone reaches nobody: a turn that is cut off here has said nothing.
            with self._writing(deadline, TurnEffect.OBSERVE, repeated=True):
                uploaded = await self.rest.put_file(self.room_id, filename, body)
        except OutcomeUnknownError as exc:
            raise BandToolError(texts.UPLOAD_UNKNOWN) from exc
        except BandApiError as exc:
            if exc.status == 404:
                raise BandToolError(texts.NO_SUCH_FILE) from exc
            raise
        if uploaded is None:
            raise BandToolError(texts.UPLOAD_WITHOUT_ID)
        self.rest.attachments.note(self.room_id, uploaded)
        return uploaded


# --------------------------------------------------------------------------- details


def media_type(content_type: str) -> str:
    """Return a content type without its parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def not_shown(content_type: str, size: int) -> str | None:
    """Say why a file of that kind and size is only described; None if it is shown."""
    kind = media_type(content_type)
    if not kind.startswith("text/") and kind not in IMAGES:
        return texts.file_kind_not_shown(kind)
    limit = shown_bytes(content_type)
    return texts.file_too_large_to_show(size, limit) if size > limit else None


def shown_bytes(content_type: str) -> int:
    """Return how large a file of that kind may be to be shown."""
    return IMAGE_BYTES if media_type(content_type) in IMAGES else TEXT_BYTES


def _header(file: Attachment) -> dict[str, Any]:
    return {"name": file.name, "content_type": file.content_type, "bytes": file.bytes}


def _picture(file: Attachment, content: bytes) -> dict[str, Any]:
    data = base64.b64encode(content).decode("ascii")
    block = {"type": "image", "data": data, "mimeType": media_type(file.content_type)}
    return {"content": [block]}


def _text(file: Attachment, content: bytes) -> dict[str, Any]:
    try:
        return {**_header(file), "text": content.decode()}
    except UnicodeDecodeError:
        shown = content.decode("utf-8", "replace")
        return {**_header(file), "text": shown, "description": texts.BROKEN_TEXT}


def _checked(content: str, filename: str) -> bytes:
    """Return the bytes of a file to send.

    Raises:
        BandToolError: name or size are not possible.
    """
    if not _FILENAME.fullmatch(filename):
        raise BandToolError(texts.BAD_FILENAME)
    body = without_surrogates(content).encode()
    if len(body) > UPLOAD_BYTES:
        raise BandToolError(texts.too_long("file", len(body), UPLOAD_BYTES, "bytes"))
    return body


def _sentence(exc: Exception) -> str:
    text = str(exc)
    return text if text.endswith(".") else f"{text}."

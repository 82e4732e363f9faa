"""The routes of the platform that an agent uses, typed."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final, TypeVar

import attrs

from band_trio.errors import BandApiError, OutcomeUnknownError, RoomExecutionStoppedError
from band_trio.link.rest.api import Answer, Api, Lane, RequestParts
from band_trio.link.rest.attachments import AttachmentCache
from band_trio.link.rest.exchange import too_long
from band_trio.link.rest.routes import (
    UNREADABLE,
    Route,
    given,
    message_path,
    query,
    read_head,
    read_object,
    read_page,
    read_written,
    room_path,
    says_stopped,
    segment,
)
from band_trio.link.rest.sent import IsIt, SentPosts
from band_trio.protocol.holdings import Attachment
from band_trio.protocol.rest import (
    API,
    PAGE,
    AgentMe,
    ChatMessage,
    ChatRoom,
    EventReceipt,
    Mention,
    MessageReceipt,
    Page,
    Participant,
    event_body,
    message_body,
)

REFUSAL_BYTES: Final = 16 * 1024
"""Room for a refusal, whatever was asked for."""

R = TypeVar("R")
Receipt = TypeVar("Receipt", MessageReceipt, EventReceipt)


@attrs.frozen
class RestClient:
    """Typed calls. Reads raise what `Api.repeat` raises, posts and other writes what `Api.post` does;
    calls with *within* make one try of so many seconds, return any answer, and raise what `Api.once`
    raises. Files hang on messages (platform docs, Files).

    An answer 200 whose body cannot be read is a `BandApiError` with code `unreadable_answer`
    where the body is what was asked for, and a success where something was written.
    """

    api: Api
    attachments: AttachmentCache = attrs.field(factory=AttachmentCache, eq=False, repr=False)
    """What is known of the files in the agent's rooms."""
    sent: SentPosts = attrs.field(factory=SentPosts, eq=False, repr=False)
    """Where in the agent's rooms a post would be found."""

    @property
    def call_seconds(self) -> float:
        """How long a whole call may take, its repetitions included."""
        return self.api.config.rest_call_seconds

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not appear in any text for a model or a room."""
        return self.api.secrets

    async def request(self, route: Route[R], /, **values: Any) -> R:
        """Make the request that *route* says; of its *values*, those that are None are left out.

        A POST raises what `Api.post` raises, everything else what `Api.repeat` raises.
        """
        path, rest = route.filled(values)
        if route.method == "GET":
            return route.read(await self.api.repeat("GET", path, params=query(**rest)))
        body: Any = given(**rest)
        if route.under:
            body = {route.under: body}
        parts: RequestParts = {"json": body} if body else {}
        send = self.api.post if route.method == "POST" else self.api.repeat
        return route.read(await send(route.method, path, **parts))

    # ----------------------------------------------------------------- the agent

    async def try_me(self) -> AgentMe:
        """Return who the key belongs to: one try, for a caller that has a patience of its own.

        Raises:
            BandApiError: any answer but 2xx.
            BandConnectionError: no answer.
        """
        return read_object(await self._read_once(f"{API}/me"), AgentMe)

    async def _read_once(self, path: str, params: Mapping[str, Any] | None = None) -> Answer:
        answer = await self.api.once("GET", path, params=params or {})
        if not answer.ok:
            raise self.api.refusal(answer)
        return answer

    async def key_is_refused(self) -> bool:
        """Ask once whether the platform refuses the key; anything but 401 and 403 is no.

        Raises:
            BandConnectionError: no answer.
        """
        return (await self.api.once("GET", f"{API}/me")).status in (401, 403)

    async def list_chats(self, page: int = 1, *, one_try: bool = False) -> Page[ChatRoom]:
        """Return one page of the agent's rooms, 100 each, from page 1.

        With *one_try* it fails as `try_me` does, for a caller that has a patience of its own.
        """
        params = query(page=page, page_size=PAGE)
        if one_try:
            return read_page(await self._read_once(f"{API}/chats", params), ChatRoom)
        return read_page(await self.api.repeat("GET", f"{API}/chats", params=params), ChatRoom)

    # ----------------------------------------------------------------- work

    async def get_next(self, room_id: str) -> Page[ChatMessage]:
        """Return the oldest message that is to be worked on, alone; an empty page if there is none.

        One try, which fails as `try_me` does: rooms count what they ask, and have a back-off.
        """
        answer = await self._read_once(f"{room_path(room_id)}/messages/next")
        return read_head(answer, ChatMessage)

    async def list_messages(
        self, room_id: str, cursor: str | None = None, limit: int = PAGE
    ) -> Page[ChatMessage]:
        """Return one page of what is not processed yet, oldest first, and when that was
        (`served_at`). One try, as `get_next`."""
        params = query(sort_order="asc", limit=limit, cursor=cursor)
        answer = await self._read_once(f"{room_path(room_id)}/messages", params)
        return attrs.evolve(read_page(answer, ChatMessage), served_at=answer.date)

    async def get_context(
        self, room_id: str, cursor: str | None = None, limit: int = PAGE
    ) -> Page[ChatMessage]:
        """Return one page of the room as the agent may see it, oldest first."""
        answer = await self.api.repeat(
            "GET", f"{room_path(room_id)}/context", params=query(limit=limit, cursor=cursor)
        )
        page = read_page(answer, ChatMessage)
        self.sent.note_page(room_id, cursor, page)
        return page

    # These three hand on what `Api.once` gives, to be awaited: each message takes this way twice.

    def claim(self, room_id: str, message_id: str, *, within: float) -> Awaitable[Answer]:
        """Say that the agent begins with a message."""
        path = f"{message_path(room_id, message_id)}/processing"  # raw: the status says all
        return self.api.once("POST", path, lane=Lane.PRIORITY, within=within, raw=True)

    def mark_processed(self, room_id: str, message_id: str, *, within: float) -> Awaitable[Answer]:
        """Say that a message is done."""
        path = f"{message_path(room_id, message_id)}/processed"
        return self.api.once("POST", path, lane=Lane.PRIORITY, within=within)

    def mark_failed(
        self, room_id: str, message_id: str, error: str, *, within: float
    ) -> Awaitable[Answer]:
        """Say that an attempt failed, and why."""
        path = f"{message_path(room_id, message_id)}/failed"
        body = {"error": error}
        return self.api.once("POST", path, lane=Lane.PRIORITY, within=within, json=body)

    async def report_activity(self, room_id: str, working: bool, *, within: float) -> Answer:
        """Say whether the agent is working."""
        return await self.api.once(
            "POST", f"{room_path(room_id)}/activity", json={"working": working}, within=within
        )

    # ----------------------------------------------------------------- participants

    async def list_participants(self, room_id: str) -> Page[Participant]:
        """Return everybody in the room, on one page."""
        answer = await self.api.repeat("GET", f"{room_path(room_id)}/participants")
        return read_page(answer, Participant)

    # ----------------------------------------------------------------- posts

    async def post_message(
        self,
        room_id: str,
        content: str,
        mentions: Sequence[Mention],
        attachment_ids: Sequence[str] = (),
        is_it: IsIt | None = None,
    ) -> MessageReceipt:
        """Post a message; a receipt without id when the answer cannot be read.

        Where the answer is missing the message is looked for with *is_it*; if it is found, the
        receipt has its id alone.

        Raises:
            RoomExecutionStoppedError: the agent is stopped in this room; nothing was posted.
        """
        body = message_body(content, mentions, attachment_ids)
        return await self._post(room_id, "messages", body, MessageReceipt, is_it)

    async def post_event(
        self,
        room_id: str,
        content: str,
        message_type: str,
        metadata: dict[str, Any] | None = None,
        is_it: IsIt | None = None,
    ) -> EventReceipt:
        """Post an event, such as a thought; as `post_message`.

        Raises:
            RoomExecutionStoppedError: the agent is stopped in this room; nothing was posted.
        """
        body = event_body(content, message_type, metadata)
        return await self._post(room_id, "events", body, EventReceipt, is_it)

    async def _post(
        self,
        room_id: str,
        kind: str,
        body: dict[str, Any],
        shape: type[Receipt],
        is_it: IsIt | None,
    ) -> Receipt:
        before = self.sent.last_post(room_id)
        try:
            answer = await self.api.post("POST", f"{room_path(room_id)}/{kind}", json=body)
        except BandApiError as exc:
            if says_stopped(exc.status, exc):
                raise RoomExecutionStoppedError(room_id) from exc
            raise
        except OutcomeUnknownError as exc:
            lost = exc
        else:
            receipt = read_written(answer, shape) or shape()
            self.sent.note_post(room_id, receipt.id)
            return receipt
        row = await self.sent.find(self.get_context, room_id, is_it, before) if is_it else None
        if row is None:
            raise lost
        self.sent.note_post(room_id, row.id)
        return shape(row.id)

    # ----------------------------------------------------------------- files

    async def put_file(self, room_id: str, name: str, content: bytes) -> Attachment | None:
        """Upload a text file; None when the answer does not say under which id.

        *name* is printable ASCII. It is repeated as a read is: the same bytes in the same room
        are one record.
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

        One that is longer than *max_bytes* is not handed on, or read beyond `REFUSAL_BYTES`; the code is
        `UNREADABLE`.
        """
        path = f"{room_path(room_id)}/files/{segment(file_id)}"
        limit = max(max_bytes, REFUSAL_BYTES)  # what is refused may be a file of three bytes
        answer = await self.api.repeat("GET", path, raw=True, max_bytes=limit)
        if not isinstance(answer.body, bytes):
            raise BandApiError(answer.status, UNREADABLE, answer.flaw)
        if len(answer.body) > max_bytes:
            flaw = f"the answer to GET {path} cannot be used: {too_long(max_bytes)}"
            raise BandApiError(answer.status, UNREADABLE, flaw)
        return answer.body

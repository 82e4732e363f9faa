"""The routes of the platform that an agent uses, typed."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Any, Final, TypeVar
from urllib.parse import quote

import attrs

from band_trio.errors import BandApiError, RoomExecutionStoppedError
from band_trio.link.api import Answer, Api, Lane
from band_trio.protocol.errors import RemoteProtocolError
from band_trio.protocol.rest import (
    API,
    PAGE,
    AgentMe,
    ChatMessage,
    ChatRoom,
    ErrorBody,
    EventReceipt,
    Mention,
    MessageReceipt,
    Page,
    Participant,
    Peer,
    event_body,
    message_body,
)
from band_trio.protocol.structure import structure

_log: Final = logging.getLogger(__name__)
_STOPPED: Final = re.compile(r"execution\b.*\bstopped", re.IGNORECASE | re.DOTALL)

T = TypeVar("T", bound=attrs.AttrsInstance)


def says_stopped(status: int, error: ErrorBody | BandApiError) -> bool:
    """Tell whether an answer says that the agent is stopped in the room (platform docs, Stop)."""
    if status != 403:
        return False
    return error.code == "execution_stopped" or bool(_STOPPED.search(error.message or ""))


@attrs.frozen
class RestClient:
    """Typed calls. Unless said otherwise they raise what `Api.repeat` raises.

    An answer 200 whose body cannot be read is a `BandApiError` with code `unreadable_answer`
    where the body is what was asked for, and a success where something was written.
    """

    api: Api

    @property
    def call_seconds(self) -> float:
        """How long a whole call may take, its repetitions included."""
        return self.api.config.rest_call_seconds

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not appear in any text for a model or a room."""
        return self.api.secrets

    # ----------------------------------------------------------------- the agent

    async def get_me(self) -> AgentMe:
        """Return who the key belongs to."""
        answer = await self.api.repeat("GET", f"{API}/me")
        return _read(answer, AgentMe)

    async def try_me(self) -> AgentMe:
        """Return who the key belongs to: one try, for a caller that has a patience of its own.

        Raises:
            BandApiError: any answer but 2xx.
            BandConnectionError: no answer.
        """
        answer = await self.api.once("GET", f"{API}/me")
        if not answer.ok:
            raise self.api.refusal(answer)
        return _read(answer, AgentMe)

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
        query = {"page": page, "page_size": PAGE}
        if not one_try:
            return _page(await self.api.repeat("GET", f"{API}/chats", params=query), ChatRoom)
        answer = await self.api.once("GET", f"{API}/chats", params=query)
        if not answer.ok:
            raise self.api.refusal(answer)
        return _page(answer, ChatRoom)

    async def create_chat(self, task_id: str | None = None) -> ChatRoom | None:
        """Create a room owned by the agent; None when the answer does not say which.

        Raises:
            As `Api.post`.
        """
        chat = {"task_id": task_id} if task_id else {}
        answer = await self.api.post("POST", f"{API}/chats", json={"chat": chat})
        return _written(answer, ChatRoom)

    async def list_peers(
        self, not_in_chat: str | None = None, page: int = 1, page_size: int = 50
    ) -> Page[Peer]:
        """Return one page of those who could be added to a room, pages from 1."""
        answer = await self.api.repeat(
            "GET",
            f"{API}/peers",
            params={"not_in_chat": not_in_chat, "page": page, "page_size": page_size},
        )
        return _page(answer, Peer)

    # ----------------------------------------------------------------- work

    async def get_next(self, room_id: str) -> ChatMessage | None:
        """Return the oldest message that is to be worked on; None when there is none."""
        answer = await self.api.repeat("GET", f"{_room(room_id)}/messages/next")
        return None if answer.status == 204 else _read(answer, ChatMessage)

    async def list_messages(
        self, room_id: str, cursor: str | None = None, limit: int = PAGE
    ) -> Page[ChatMessage]:
        """Return one page of what is not processed yet, oldest first."""
        answer = await self.api.repeat(
            "GET",
            f"{_room(room_id)}/messages",
            params={"sort_order": "asc", "limit": limit, "cursor": cursor},
        )
        return _page(answer, ChatMessage)

    async def get_context(
        self, room_id: str, cursor: str | None = None, limit: int = PAGE
    ) -> Page[ChatMessage]:
        """Return one page of the room as the agent may see it, oldest first."""
        answer = await self.api.repeat(
            "GET", f"{_room(room_id)}/context", params={"limit": limit, "cursor": cursor}
        )
        return _page(answer, ChatMessage)

    async def claim(self, room_id: str, message_id: str, *, within: float) -> Answer:
        """Say that the agent begins with a message: one try of *within* seconds, any answer.

        Raises:
            As `Api.once`.
        """
        return await self._mark(room_id, message_id, "processing", within)

    async def mark_processed(self, room_id: str, message_id: str, *, within: float) -> Answer:
        """Say that a message is done: one try of *within* seconds, any answer.

        Raises:
            As `Api.once`.
        """
        return await self._mark(room_id, message_id, "processed", within)

    async def mark_failed(
        self, room_id: str, message_id: str, error: str, *, within: float
    ) -> Answer:
        """Say that an attempt failed, and why: one try of *within* seconds, any answer.

        Raises:
            As `Api.once`.
        """
        return await self.api.once(
            "POST",
            f"{_message(room_id, message_id)}/failed",
            json={"error": error},
            lane=Lane.PRIORITY,
            within=within,
        )

    async def _mark(self, room_id: str, message_id: str, state: str, within: float) -> Answer:
        return await self.api.once(
            "POST",
            f"{_message(room_id, message_id)}/{state}",
            lane=Lane.PRIORITY,
            within=within,
        )

    async def report_activity(self, room_id: str, working: bool, *, within: float) -> Answer:
        """Say whether the agent is working: one try of *within* seconds, any answer.

        Raises:
            As `Api.once`.
        """
        return await self.api.once(
            "POST", f"{_room(room_id)}/activity", json={"working": working}, within=within
        )

    # ----------------------------------------------------------------- participants

    async def list_participants(self, room_id: str) -> list[Participant]:
        """Return everybody in the room."""
        answer = await self.api.repeat("GET", f"{_room(room_id)}/participants")
        return _page(answer, Participant).items

    async def add_participant(
        self, room_id: str, participant_id: str, role: str = "member"
    ) -> Participant | None:
        """Add somebody to the room; None when the answer does not say who it was.

        Raises:
            As `Api.post`; 409 when already present.
        """
        answer = await self.api.post(
            "POST",
            f"{_room(room_id)}/participants",
            json={"participant": {"participant_id": participant_id, "role": role}},
        )
        return _written(answer, Participant)

    async def remove_participant(self, room_id: str, participant_id: str) -> None:
        """Remove somebody from the room."""
        await self.api.repeat("DELETE", f"{_room(room_id)}/participants/{_segment(participant_id)}")

    # ----------------------------------------------------------------- posts

    async def post_message(
        self,
        room_id: str,
        content: str,
        mentions: Sequence[Mention],
        attachment_ids: Sequence[str] = (),
    ) -> MessageReceipt:
        """Post a message; a receipt without id when the answer cannot be read.

        Raises:
            As `Api.post`.
            RoomExecutionStoppedError: the agent is stopped in this room; nothing was posted.
        """
        body = message_body(content, mentions, attachment_ids)
        answer = await self._post(room_id, "messages", body)
        return _written(answer, MessageReceipt) or MessageReceipt()

    async def post_event(
        self,
        room_id: str,
        content: str,
        message_type: str,
        metadata: dict[str, Any] | None = None,
    ) -> EventReceipt:
        """Post an event, such as a thought; a receipt without id when the answer is unreadable.

        Raises:
            As `Api.post`.
            RoomExecutionStoppedError: the agent is stopped in this room; nothing was posted.
        """
        body = event_body(content, message_type, metadata)
        answer = await self._post(room_id, "events", body)
        return _written(answer, EventReceipt) or EventReceipt()

    async def _post(self, room_id: str, kind: str, body: dict[str, Any]) -> Answer:
        try:
            return await self.api.post("POST", f"{_room(room_id)}/{kind}", json=body)
        except BandApiError as exc:
            if says_stopped(exc.status, exc):
                raise RoomExecutionStoppedError(room_id) from exc
            raise


# --------------------------------------------------------------------------- details


def _room(room_id: str) -> str:
    return f"{API}/chats/{_segment(room_id)}"


def _message(room_id: str, message_id: str) -> str:
    return f"{_room(room_id)}/messages/{_segment(message_id)}"


def _segment(name: str) -> str:
    """Return an id as one segment of a path: ids are opaque text."""
    return quote(name, safe="") if name not in (".", "..") else name.replace(".", "%2E")


def _read(answer: Answer, kind: type[T]) -> T:
    try:
        return structure(answer.data, kind)
    except RemoteProtocolError as exc:
        raise _unreadable(answer, exc) from None


def _page(answer: Answer, kind: type[T]) -> Page[T]:
    try:
        return Page.read(answer.body, kind)
    except RemoteProtocolError as exc:
        raise _unreadable(answer, exc) from None


def _written(answer: Answer, kind: type[T]) -> T | None:
    """Read the answer to a write. Any 2xx is success, so an odd body is only logged."""
    try:
        return structure(answer.data, kind)
    except RemoteProtocolError as exc:
        _log.warning("a write succeeded with an odd answer (%d): %s", answer.status, exc)
        return None


def _unreadable(answer: Answer, exc: RemoteProtocolError) -> BandApiError:
    return BandApiError(answer.status, "unreadable_answer", str(exc))

"""What the tools need of the platform: `RestClient` has it, and a fake room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from band_trio.link.rest.attachments import AttachmentCache
from band_trio.link.rest.routes import Route
from band_trio.link.rest.sent import IsIt
from band_trio.protocol.holdings import Attachment
from band_trio.protocol.rest import (
    ChatMessage,
    EventReceipt,
    Mention,
    MessageReceipt,
    Page,
    Participant,
)

R = TypeVar("R")


class ToolRest(Protocol):
    """Any route; and by name what has a logic of its own: participants, posts and files."""

    @property
    def call_seconds(self) -> float: ...
    @property
    def secrets(self) -> tuple[str, ...]: ...
    @property
    def attachments(self) -> AttachmentCache: ...
    async def request(self, route: Route[R], /, **values: Any) -> R: ...
    async def put_file(self, room_id: str, name: str, content: bytes, /) -> Attachment | None: ...
    async def get_file(self, room_id: str, file_id: str, max_bytes: int, /) -> bytes: ...
    async def list_participants(self, room_id: str, /) -> Page[Participant]: ...
    async def get_context(
        self, room_id: str, cursor: str | None = None, limit: int = 100, /
    ) -> Page[ChatMessage]: ...
    async def post_message(
        self,
        room_id: str,
        content: str,
        mentions: Sequence[Mention],
        attachment_ids: Sequence[str] = (),
        is_it: IsIt | None = None,
        /,
    ) -> MessageReceipt: ...
    async def post_event(
        self,
        room_id: str,
        content: str,
        message_type: str,
        metadata: dict[str, Any] | None,
        is_it: IsIt | None = None,
        /,
    ) -> EventReceipt: ...

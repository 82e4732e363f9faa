"""What the tools need of the platform; `band_trio.link.rest.rest.RestClient` has it, a fake room too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from band_trio.link.rest.attachments import AttachmentCache
from band_trio.link.rest.sent import IsIt
from band_trio.protocol.holdings import (
    Attachment,
    Board,
    Contact,
    ContactRequests,
    ContactStatus,
    Memory,
    Task,
    TaskEvent,
)
from band_trio.protocol.rest import (
    ChatMessage,
    ChatRoom,
    EventReceipt,
    Mention,
    MessageReceipt,
    Page,
    Participant,
    Peer,
)


class ContactRest(Protocol):
    """The agent's contacts; not bound to a room."""

    @property
    def call_seconds(self) -> float: ...
    @property
    def secrets(self) -> tuple[str, ...]: ...
    async def list_contacts(self, page: int, page_size: int, /) -> Page[Contact]: ...
    async def add_contact(self, handle: str, message: str | None, /) -> ContactStatus | None: ...
    async def remove_contact(
        self, handle: str | None, contact_id: str | None, /
    ) -> ContactStatus | None: ...
    async def list_contact_requests(
        self, page: int, page_size: int, sent_status: str, /
    ) -> ContactRequests: ...
    async def respond_contact_request(
        self, action: str, handle: str | None, request_id: str | None, /
    ) -> ContactStatus | None: ...


class MemoryRest(Protocol):
    """What the agent keeps for later; not bound to a room."""

    async def list_memories(self, limit: int, /, **filters: str | None) -> Page[Memory]: ...
    async def store_memory(self, **memory: Any) -> Memory | None: ...
    async def get_memory(self, memory_id: str, /) -> Memory: ...
    async def supersede_memory(self, memory_id: str, /) -> Memory | None: ...
    async def archive_memory(self, memory_id: str, /) -> Memory | None: ...


class FileRest(Protocol):
    """Files of rooms."""

    @property
    def attachments(self) -> AttachmentCache: ...
    async def put_file(self, room_id: str, name: str, content: bytes, /) -> Attachment | None: ...
    async def get_file(self, room_id: str, file_id: str, max_bytes: int, /) -> bytes: ...


class TaskRest(Protocol):
    """Tasks and boards of rooms."""

    async def list_tasks(
        self, room_id: str, state: str | None, cursor: str | None, limit: int | None, /
    ) -> Page[Task]: ...
    async def create_task(
        self, room_id: str, subject: str, detail: str | None, supersedes_id: str | None, /
    ) -> Task | None: ...
    async def get_task(self, room_id: str, task: str, include: str | None, /) -> Task: ...
    async def update_task(
        self, room_id: str, task: str, /, **changes: str | None
    ) -> Task | None: ...
    async def get_task_history(
        self, room_id: str, task: str, cursor: str | None, limit: int | None, /
    ) -> Page[TaskEvent]: ...
    async def get_board(self, room_id: str, include: str | None, /) -> Board: ...
    async def set_board(self, room_id: str, /, **goal: str | None) -> Board | None: ...


class ToolRest(ContactRest, MemoryRest, FileRest, TaskRest, Protocol):
    """Everything, with rooms, participants and posts."""

    async def list_participants(self, room_id: str, /) -> Page[Participant]: ...
    async def add_participant(
        self, room_id: str, participant_id: str, role: str, /
    ) -> Participant | None: ...
    async def remove_participant(self, room_id: str, participant_id: str, /) -> None: ...
    async def list_peers(self, not_in_chat: str, page: int, page_size: int, /) -> Page[Peer]: ...
    async def create_chat(self, task_id: str | None = None, /) -> ChatRoom | None: ...
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

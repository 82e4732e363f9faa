"""The tools of one turn as adapters see them, whether real or fake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import attrs

from band_trio.features import AdapterFeatures
from band_trio.tools.custom import CustomTools
from band_trio.types import Capabilities, ToolCallOutcome, ToolFormat, TurnLedger


class AgentToolsProtocol(Protocol):
    """The tools of one turn in one room, real (`AgentTools`) or fake (`FakeAgentTools`)."""

    @property
    def room_id(self) -> str:
        """The room of the turn."""

    @property
    def agent_id(self) -> str | None:
        """The agent's id, where it is known."""

    @property
    def turn(self) -> TurnLedger:
        """The ledger of the turn: what was said and done, its nursery, its end."""

    @property
    def participants(self) -> list[dict[str, Any]]:
        """Who is in the room, as far as it is known: a copy."""

    @property
    def is_hub_room(self) -> bool:
        """Whether it is the room for contact events."""

    @property
    def features(self) -> AdapterFeatures | None:
        """What the adapter may use and shows; None outside of a turn."""

    async def send_message(
        self,
        content: str,
        mentions: Sequence[str | Mapping[str, Any]] | str | None = None,
        *,
        attachment_ids: Sequence[str] | None = None,
    ) -> dict[str, Any] | None: ...
    async def send_event(
        self, content: str, message_type: str, metadata: Mapping[str, Any] | None = None
    ) -> dict[str, Any] | None: ...
    async def no_reply(self, reason: str | None = None) -> dict[str, Any]: ...
    async def add_participant(self, identifier: str, role: str = "member") -> dict[str, Any]: ...
    async def remove_participant(self, identifier: str) -> dict[str, Any]: ...
    async def lookup_peers(self, page: int = 1, page_size: int = 50) -> dict[str, Any]: ...
    async def get_participants(self) -> list[dict[str, Any]]: ...
    async def create_chatroom(self, task_id: str | None = None) -> str: ...
    async def list_contacts(self, page: int = 1, page_size: int = 50) -> dict[str, Any]: ...
    async def add_contact(self, handle: str, message: str | None = None) -> dict[str, Any]: ...
    async def remove_contact(
        self, handle: str | None = None, contact_id: str | None = None
    ) -> dict[str, Any]: ...
    async def list_contact_requests(
        self, page: int = 1, page_size: int = 50, sent_status: str = "pending"
    ) -> dict[str, Any]: ...
    async def respond_contact_request(
        self, action: str, handle: str | None = None, request_id: str | None = None
    ) -> dict[str, Any]: ...
    async def list_memories(
        self,
        subject_id: str | None = None,
        scope: str | None = None,
        system: str | None = None,
        type: str | None = None,  # noqa: A002 - the platform's word
        segment: str | None = None,
        content_query: str | None = None,
        status: str | None = None,
        page_size: int = 50,
    ) -> dict[str, Any]: ...
    async def store_memory(
        self,
        content: str,
        system: str,
        type: str,  # noqa: A002 - the platform's word
        segment: str,
        thought: str,
        scope: str,
        subject_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]: ...
    async def get_memory(self, memory_id: str) -> dict[str, Any]: ...
    async def supersede_memory(self, memory_id: str) -> dict[str, Any]: ...
    async def archive_memory(self, memory_id: str) -> dict[str, Any]: ...
    async def list_room_files(self, cursor: str | None = None) -> dict[str, Any]: ...
    async def read_room_file(self, file_id: str) -> dict[str, Any]: ...
    async def send_room_file(
        self,
        content: str,
        filename: str,
        caption: str = "",
        mentions: Sequence[str | Mapping[str, Any]] | str | None = None,
    ) -> dict[str, Any]: ...
    async def list_tasks(
        self, state: str | None = None, cursor: str | None = None, limit: int | None = None
    ) -> dict[str, Any]: ...
    async def create_task(
        self, subject: str, detail: str | None = None, supersedes_id: str | None = None
    ) -> dict[str, Any]: ...
    async def get_task(self, id: str, include: str | None = None) -> dict[str, Any]: ...  # noqa: A002
    async def update_task(
        self,
        id: str,  # noqa: A002 - the platform's word
        status: str | None = None,
        active_form: str | None = None,
        comment: str | None = None,
        subject: str | None = None,
        detail: str | None = None,
        state: str | None = None,
    ) -> dict[str, Any]: ...
    async def get_task_history(
        self,
        id: str,  # noqa: A002 - the platform's word
        cursor: str | None = None,
        limit: int | None = None,
    ) -> dict[str, Any]: ...
    async def get_board(self, include: str | None = None) -> dict[str, Any]: ...
    async def set_board(
        self, goal_title: str | None = None, goal_summary: str | None = None
    ) -> dict[str, Any]: ...
    async def send_notice(
        self, content: str, mentions: Sequence[str | Mapping[str, Any]] | str
    ) -> dict[str, Any] | None: ...
    async def deliver_reply(
        self, content: str, mentions: Sequence[str | Mapping[str, Any]] | str
    ) -> dict[str, Any] | None: ...
    async def deliver_notice(
        self, content: str, mentions: Sequence[str | Mapping[str, Any]] | str
    ) -> dict[str, Any] | None: ...
    async def send_failure(self, failure: Any) -> dict[str, Any] | None: ...
    async def fetch_room_context(
        self, *, room_id: str | None = None, cursor: str | None = None, limit: int = 50
    ) -> dict[str, Any]: ...
    def available_mention_handles(self) -> list[str]: ...
    def use_custom_tools(self, tools: CustomTools) -> None: ...
    @property
    def tool_models(self) -> dict[str, type[attrs.AttrsInstance]]:
        """Argument classes of the tools that may be offered here, by name."""

    def get_openai_tool_schemas(
        self, *, capabilities: Capabilities = None
    ) -> list[dict[str, Any]]: ...
    def get_anthropic_tool_schemas(
        self, *, capabilities: Capabilities = None
    ) -> list[dict[str, Any]]: ...
    def get_tool_schemas(
        self,
        format: ToolFormat,  # noqa: A002 - the public word
        *,
        capabilities: Capabilities = None,
    ) -> list[dict[str, Any]]: ...
    async def execute_tool_call(
        self, name: str, args: Any, *, call_id: str | None = None
    ) -> Any: ...
    async def execute_tool_call_structured(
        self, name: str, args: Any, *, call_id: str | None = None
    ) -> ToolCallOutcome: ...

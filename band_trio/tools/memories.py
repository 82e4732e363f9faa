"""Memories: what an agent keeps for later turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from band_trio import texts
from band_trio.errors import BandApiError, BandToolError
from band_trio.protocol.holdings import Memory
from band_trio.protocol.structure import unstructure
from band_trio.tools.core import ToolCore, platform_tool
from band_trio.tools.definitions import BandTool
from band_trio.tools.memory_rules import check_scope, check_type
from band_trio.tools.results import cursor_metadata, page_result, without_nulls

NO_ORGANIZATION: Final = "org_scope_requires_organization"
"""The platform's code for knowledge shared with an organization that is not there."""


class Memories(ToolCore):
    """The tools about memories. Errors: see `band_trio.tools.contacts.Contacts`."""

    @platform_tool(BandTool.LIST_MEMORIES)
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
    ) -> dict[str, Any]:
        """Return the memories that match all filters: `data` and `metadata`."""
        with self._reading(self._deadline()):
            page = await self.rest.list_memories(
                page_size,
                subject_id=subject_id,
                scope=scope,
                system=system,
                type=type,
                segment=segment,
                content_query=content_query,
                status=status,
            )
        return page_result(page, cursor_metadata(page, page_size))

    @platform_tool(BandTool.STORE_MEMORY)
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
    ) -> dict[str, Any]:
        """Keep something; return it as stored.

        Besides the usual errors `BandToolError` where system and type, or scope and subject, do
        not fit; nothing is requested then.
        """
        try:
            check_type(system, type)
            check_scope(scope, subject_id)
        except ValueError as exc:
            raise BandToolError(f"{exc}.") from None
        memory = {
            "content": content,
            "system": system,
            "type": type,
            "segment": segment,
            "thought": thought,
            "scope": scope,
            "subject_id": subject_id,
            "metadata": dict(metadata) if metadata is not None else None,
        }
        try:
            with self._changing():
                stored = await self.rest.store_memory(**memory)
        except BandApiError as exc:
            if exc.status == 422 and exc.code == NO_ORGANIZATION:
                raise BandToolError(texts.NO_ORGANIZATION) from exc
            raise
        return _shown(stored, {**memory, "status": "active"})

    @platform_tool(BandTool.GET_MEMORY)
    async def get_memory(self, memory_id: str) -> dict[str, Any]:
        """Return one memory."""
        with self._reading(self._deadline()):
            return _shown(await self.rest.get_memory(memory_id), {})

    @platform_tool(BandTool.SUPERSEDE_MEMORY)
    async def supersede_memory(self, memory_id: str) -> dict[str, Any]:
        """Mark a memory as replaced; return it."""
        with self._changing():
            memory = await self.rest.supersede_memory(memory_id)
        return _shown(memory, {"id": memory_id, "status": "superseded"})

    @platform_tool(BandTool.ARCHIVE_MEMORY)
    async def archive_memory(self, memory_id: str) -> dict[str, Any]:
        """Put a memory away; return it."""
        with self._changing():
            memory = await self.rest.archive_memory(memory_id)
        return _shown(memory, {"id": memory_id, "status": "archived"})


def _shown(memory: Memory | None, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a model sees; where the answer was odd, what is *known* of it."""
    return without_nulls(unstructure(memory) if memory is not None else dict(known))

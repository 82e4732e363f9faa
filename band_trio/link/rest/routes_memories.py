"""What the agent keeps for later: search, store, read, replace, archive (platform docs, Memories)."""

from __future__ import annotations

from typing import Any, Final

import attrs

from band_trio.link.rest.routes import (
    Routes,
    given,
    query,
    read_object,
    read_page,
    read_written,
    segment,
)
from band_trio.protocol.holdings import Memory
from band_trio.protocol.rest import API, Page

_MEMORIES: Final = f"{API}/memories"


@attrs.frozen
class MemoryRoutes(Routes):
    """Reads raise what `Api.repeat` raises, everything else what `Api.post` raises."""

    async def list_memories(self, limit: int = 50, /, **filters: str | None) -> Page[Memory]:
        """Return the memories that match *filters*, at most *limit* (1 to 100).

        Filters: `subject_id`, `scope`, `system`, `type`, `segment`, `content_query`, `status`;
        None leaves one out.
        """
        params = query(**filters, limit=limit)
        return read_page(await self.api.repeat("GET", _MEMORIES, params=params), Memory)

    async def store_memory(self, **memory: Any) -> Memory | None:
        """Store a memory, given by its fields; None when the answer cannot be read."""
        answer = await self.api.post("POST", _MEMORIES, json={"memory": given(**memory)})
        return read_written(answer, Memory)

    async def get_memory(self, memory_id: str) -> Memory:
        """Return one memory."""
        answer = await self.api.repeat("GET", f"{_MEMORIES}/{segment(memory_id)}")
        return read_object(answer, Memory)

    async def supersede_memory(self, memory_id: str) -> Memory | None:
        """Mark a memory as replaced by newer knowledge; only its source agent may."""
        return await self._mark_memory(memory_id, "supersede")

    async def archive_memory(self, memory_id: str) -> Memory | None:
        """Put a memory away; only its source agent may."""
        return await self._mark_memory(memory_id, "archive")

    async def _mark_memory(self, memory_id: str, action: str) -> Memory | None:
        answer = await self.api.post("POST", f"{_MEMORIES}/{segment(memory_id)}/{action}")
        return read_written(answer, Memory)

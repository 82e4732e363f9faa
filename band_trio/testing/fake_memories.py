"""Memories of a fake room's agent."""

from __future__ import annotations

from typing import Any, Final

import attrs

from band_trio.errors import BandApiError
from band_trio.protocol.holdings import Memory
from band_trio.protocol.rest import Page
from band_trio.testing.seeds import FAKE_TIME_TEXT

_EXACT: Final = ("subject_id", "scope", "system", "type", "segment", "status")


@attrs.define(eq=False, slots=False, kw_only=True)
class FakeMemories:
    """The routes of memories."""

    memories: list[Memory] = attrs.field(factory=list)
    memory_source: str | None = None
    """The agent that stores them."""

    def list_memories(self, limit: int = 50, **filters: str | None) -> Page[Memory]:
        """Return the memories that match all filters; active ones unless a status is given."""
        wanted = {"status": "active", **{k: v for k, v in filters.items() if v is not None}}
        hits = [memory for memory in self.memories if _matches(memory, wanted)]
        return Page(hits[:limit])

    def store_memory(self, **memory: Any) -> Memory | None:
        """Keep a memory."""
        stored = Memory(
            id=f"memory-{len(self.memories) + 1}",
            status="active",
            source_agent_id=self.memory_source,
            inserted_at=FAKE_TIME_TEXT,
            **memory,
        )
        self.memories.append(stored)
        return stored

    def get_memory(self, memory_id: str) -> Memory:
        """Return one memory; 404 if unknown."""
        return self.memories[self._place(memory_id)]

    def supersede_memory(self, memory_id: str) -> Memory | None:
        """Mark a memory as replaced; 404 if unknown."""
        return self._mark(memory_id, "superseded")

    def archive_memory(self, memory_id: str) -> Memory | None:
        """Put a memory away; 404 if unknown."""
        return self._mark(memory_id, "archived")

    def _mark(self, memory_id: str, status: str) -> Memory:
        place = self._place(memory_id)
        self.memories[place] = attrs.evolve(self.memories[place], status=status)
        return self.memories[place]

    def _place(self, memory_id: str) -> int:
        for place, memory in enumerate(self.memories):
            if memory.id == memory_id:
                return place
        raise BandApiError(404, "not_found", "no such memory")


def _matches(memory: Memory, wanted: dict[str, str]) -> bool:
    query = wanted.get("content_query", "").casefold()
    return query in (memory.content or "").casefold() and all(
        wanted[name] in ("all", getattr(memory, name)) for name in _EXACT if name in wanted
    )

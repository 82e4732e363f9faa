"""Memories of a fake room's agent: the routes, over the platform's own store."""

from __future__ import annotations

from typing import Any

import attrs

from band_trio.protocol.holdings import Memory
from band_trio.protocol.rest import Page
from band_trio.stores.memories import MemoryStore, find, matching
from band_trio.stores.refusal import api_errors
from band_trio.testing.seeds import FAKE_TIME_TEXT


@attrs.define(eq=False, slots=False, kw_only=True)
class FakeMemories:
    """The routes of memories. Everything is seen: there is one agent."""

    memories: list[Memory] = attrs.field(factory=list)
    memory_source: str | None = None
    """The agent that stores them."""

    @property
    def _store(self) -> MemoryStore:
        number = len(self.memories) + 1
        return MemoryStore(lambda: f"memory-{number}", lambda: FAKE_TIME_TEXT, self.memories)

    def list_memories(self, limit: int = 50, **filters: str | None) -> Page[Memory]:
        """Return the memories that match all filters; active ones unless a status is given."""
        return Page(matching(self.memories, filters)[:limit])

    def store_memory(self, **memory: Any) -> Memory | None:
        """Keep a memory; 422 as on the platform, which here has an organization."""
        with api_errors():
            stored = self._store.store(self.memory_source or "", memory, organization=True)
        return self._store.put(attrs.evolve(stored, source_agent_id=self.memory_source))

    def get_memory(self, memory_id: str) -> Memory:
        """Return one memory; 404 if unknown."""
        with api_errors():
            return find(self.memories, memory_id)

    def supersede_memory(self, memory_id: str) -> Memory | None:
        """Mark a memory as replaced; 404 if unknown."""
        return self._retire(memory_id, "superseded")

    def archive_memory(self, memory_id: str) -> Memory | None:
        """Put a memory away; 404 if unknown."""
        return self._retire(memory_id, "archived")

    def _retire(self, memory_id: str, status: str) -> Memory:
        memory = self.get_memory(memory_id)
        with api_errors():
            return self._store.retire(memory, memory.source_agent_id or "", status)

"""Memories of a fake room's agent: the platform's own store behind the routes of the client."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import attrs

from band_trio.protocol.holdings import Memory
from band_trio.protocol.rest import Page
from band_trio.protocol.structure import structure
from band_trio.stores import memories
from band_trio.stores.memories import MemoryStore, Reader
from band_trio.stores.refusal import api_errors
from band_trio.testing.seeds import FAKE_TIME_TEXT

FAKE_OWNER: Final = "fake-owner"
"""Whose agent works in a fake room; it is of an organization."""
FAKE_ORGANIZATION: Final = "fake-organization"


@attrs.define(eq=False, slots=False, kw_only=True)
class FakeMemories:
    """The routes of memories. Errors are those of the platform."""

    memory_store: MemoryStore = attrs.field(factory=lambda: memory_store(()))
    memory_source: str | None = None
    """The agent that stores them."""

    @property
    def _reader(self) -> Reader:
        return _reader(self.memory_source)

    def list_memories(self, limit: int = 50, **filters: str | None) -> Page[Memory]:
        """Return the memories that match all filters; active ones unless a status is given."""
        given = {name: value for name, value in filters.items() if value is not None}
        return Page(
            [_shown(each) for each in self.memory_store.search(self._reader, given)[:limit]]
        )

    def store_memory(self, **memory: Any) -> Memory | None:
        """Keep a memory."""
        with api_errors():
            return _shown(self.memory_store.store(self._reader, {"memory": memory}))

    def get_memory(self, memory_id: str) -> Memory:
        """Return one memory."""
        with api_errors():
            return _shown(self.memory_store.find(self._reader, memory_id))

    def supersede_memory(self, memory_id: str) -> Memory | None:
        """Mark a memory as replaced."""
        return self._put_away(memory_id, "superseded")

    def archive_memory(self, memory_id: str) -> Memory | None:
        """Put a memory away."""
        return self._put_away(memory_id, "archived")

    def _put_away(self, memory_id: str, status: str) -> Memory:
        with api_errors():
            return _shown(self.memory_store.put_away(self._reader, memory_id, status))

    def all_memories(self) -> list[Memory]:
        """Return what is stored, in every status."""
        return [_shown(each) for each in self.memory_store.rows.values()]


def memory_store(seeds: Iterable[Memory], source: str | None = None) -> MemoryStore:
    """Return a store with *seeds*; those of no source are of the agent *source*."""
    store = MemoryStore(lambda: f"memory-{len(store.rows) + 1}", lambda: FAKE_TIME_TEXT)
    for seed in seeds:
        fields = attrs.asdict(seed)
        reader = _reader(fields.pop("source_agent_id") or source)
        del fields["organization_id"]
        store.add(reader, **fields)
    return store


def _reader(agent_id: str | None) -> Reader:
    return Reader(agent_id or "", FAKE_OWNER, FAKE_ORGANIZATION)


def _shown(memory: memories.Memory) -> Memory:
    return structure(memory.render(), Memory)

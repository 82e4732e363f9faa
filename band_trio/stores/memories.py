"""Memories of agents (platform docs, Memories): who may see them, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

import attrs

from band_trio.protocol.holdings import Memory
from band_trio.stores.refusal import Refusal, forbidden, invalid, not_found

SYSTEMS: Final = {
    "sensory": ("iconic", "echoic", "haptic"),
    "working": ("episodic", "semantic", "procedural"),
    "long_term": ("episodic", "semantic", "procedural"),
}
"""System → its types."""
SEGMENTS: Final = ("user", "agent", "tool", "guideline")
SCOPES: Final = ("agent", "subject", "organization")
STATUSES: Final = ("active", "superseded", "archived")
TEXT_CHARS: Final = 65_536
_EXACT: Final = ("subject_id", "scope", "system", "type", "segment")


@attrs.define(eq=False)
class MemoryStore:
    """All memories of a platform, oldest first."""

    _new_id: Callable[[], str]
    _stamp: Callable[[], str]
    memories: list[Memory] = attrs.field(factory=list)

    def store(self, source_id: str, given: dict[str, Any], *, organization: bool = False) -> Memory:
        """Keep a memory of an agent; *organization*: whether there is one to share it with.

        Raises:
            Refusal: 422.
        """
        values: dict[str, Any] = {
            name: given[name] for name in attrs.fields_dict(Memory) if name in given
        }
        _check(values)
        scope = values.get("scope") or ("subject" if values.get("subject_id") else "agent")
        if scope == "subject" and not values.get("subject_id"):
            raise invalid("/memory/subject_id", "can't be blank")
        if scope == "organization" and not organization:
            code = "org_scope_requires_organization"
            raise Refusal(422, code, "There is no organization", details={"/memory/scope": [code]})
        values |= {"scope": scope, "status": "active", "source_agent_id": source_id}
        memory = Memory(**{**values, "id": self._new_id(), "inserted_at": self._stamp()})
        self.memories.append(memory)
        return memory

    def seen_by(self, agent_id: str, siblings: Collection[str] = ()) -> list[Memory]:
        """Return what an agent may see: its own, and what it or its siblings keep about somebody."""
        family = {agent_id, *siblings}
        return [
            memory
            for memory in self.memories
            if memory.source_agent_id == agent_id
            or (memory.scope != "agent" and memory.source_agent_id in family)
            or memory.subject_id == agent_id
        ]

    def about(self, party_id: str) -> list[Memory]:
        """Return what is kept about somebody."""
        return [memory for memory in self.memories if memory.subject_id == party_id]

    def retire(self, memory: Memory, by: str, status: str) -> Memory:
        """Supersede or archive a memory; only who keeps it may.

        Raises:
            Refusal: 403.
        """
        if memory.source_agent_id not in (None, by):
            raise forbidden("Only the agent that stored a memory may change it")
        return self.put(attrs.evolve(memory, status=status))

    def put(self, memory: Memory) -> Memory:
        """Put the new state of a memory in the place of the old one."""
        places = [place for place, each in enumerate(self.memories) if each.id == memory.id]
        self.memories[places[0]] = memory
        return memory

    def delete(self, memory: Memory) -> None:
        """Drop a memory for good."""
        self.memories.remove(memory)


def find(memories: list[Memory], memory_id: str) -> Memory:
    """Find a memory among those that somebody may see.

    Raises:
        Refusal: 404.
    """
    for memory in memories:
        if memory.id == memory_id:
            return memory
    raise not_found("Memory")


def matching(memories: list[Memory], wanted: dict[str, str | None]) -> list[Memory]:
    """Return those that match all filters; active ones unless a status is given."""
    wanted = {name: value for name, value in wanted.items() if value is not None}
    query = (wanted.get("content_query") or "").casefold()
    status = wanted.get("status", "active")
    return [
        memory
        for memory in memories
        if status in ("all", memory.status)
        and query in (memory.content or "").casefold()
        and all(wanted[n] in ("all", getattr(memory, n)) for n in _EXACT if n in wanted)
    ]


def _check(values: dict[str, Any]) -> None:
    for name in ("content", "system", "type", "segment", "thought"):
        value = values.get(name)
        if not isinstance(value, str) or not value.strip():
            raise invalid(f"/memory/{name}", "can't be blank")
        if len(value) > TEXT_CHARS:
            raise invalid(f"/memory/{name}", f"should be at most {TEXT_CHARS} character(s)")
    types = SYSTEMS.get(values["system"])
    if types is None:
        raise invalid("/memory/system", "Invalid value for enum")
    if values["type"] not in types:
        raise invalid("/memory/type", f"must be one of {', '.join(types)}")
    if values["segment"] not in SEGMENTS:
        raise invalid("/memory/segment", "Invalid value for enum")
    if values.get("scope") not in (None, *SCOPES):
        raise invalid("/memory/scope", "Invalid value for enum")
    if not isinstance(values.get("subject_id"), str | None):
        raise invalid("/memory/subject_id", "must be a string")
    if not isinstance(values.get("metadata"), dict | None):
        raise invalid("/memory/metadata", "must be an object")

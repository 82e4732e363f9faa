"""Memories: what agents keep, who sees it, who may put it away (platform docs, Memories)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any, Final

import attrs

from band_trio.protocol.holdings import TYPES_OF_SYSTEM
from band_trio.stores.bodies import one_of, optional_object, section, text, words
from band_trio.stores.refusal import Refusal, forbidden, invalid, not_found

TYPES: Final = tuple(dict.fromkeys(chain.from_iterable(TYPES_OF_SYSTEM.values())))
SEGMENTS: Final = ("user", "agent", "tool", "guideline")
SCOPES: Final = ("agent", "subject", "organization")
STATUSES: Final = ("active", "superseded", "archived")
NO_ORGANIZATION: Final = "org_scope_requires_organization"

_EXACT: Final = ("subject_id", "system", "type", "segment")


@attrs.frozen
class Reader:
    """Whose eyes: a party, the person behind it, and the organization of that person."""

    id: str
    owner_id: str
    """For a person its own id."""
    organization_id: str | None = None


@attrs.define(eq=False, kw_only=True)
class Memory:
    """One memory."""

    id: str
    number: int
    """Rises with every memory of the store; never reused."""
    content: str
    system: str
    type: str
    segment: str
    scope: str
    thought: str | None
    source: Reader
    """The agent that stored it."""
    subject_id: str | None = None
    metadata: Mapping[str, Any] | None = None
    status: str = "active"
    inserted_at: str
    updated_at: str

    def visible_to(self, reader: Reader) -> bool:
        """Tell whether *reader* may see it.

        The source always does; what is about somebody the person behind the source, its agents,
        and whom it is about; what is an organization's, its members.
        """
        if reader.id == self.source.id:
            return True
        if self.scope == "subject":
            return reader.owner_id == self.source.owner_id or reader.id == self.subject_id
        common = self.source.organization_id
        return self.scope == "organization" and common == reader.organization_id

    def about(self, person_id: str) -> bool:
        """Tell whether a person may see and change it as being about them."""
        return self.scope == "subject" and self.subject_id == person_id

    def matches(self, filters: Mapping[str, Any]) -> bool:
        """Tell whether it fits all *filters*; active ones unless a status is given."""
        query = filters.get("content_query", "").casefold()
        return (
            filters.get("status", "active") in ("all", self.status)
            and filters.get("scope", "all") in ("all", self.scope)
            and query in self.content.casefold()
            and all(filters[n] == getattr(self, n) for n in _EXACT if n in filters)
        )

    def render(self) -> dict[str, Any]:
        """Return the `AgentMemory`."""
        row = {
            "id": self.id,
            "content": self.content,
            "system": self.system,
            "type": self.type,
            "segment": self.segment,
            "scope": self.scope,
            "status": self.status,
            "thought": self.thought,
            "subject_id": self.subject_id,
            "source_agent_id": self.source.id or None,
            "metadata": self.metadata,
            "inserted_at": self.inserted_at,
        }
        if self.scope == "organization":
            row["organization_id"] = self.source.organization_id
        return row


@attrs.define(eq=False)
class MemoryStore:
    """All memories of a platform."""

    new_id: Callable[[], str] = attrs.field(repr=False)
    now: Callable[[], str] = attrs.field(repr=False)
    """The time as it is written."""
    exists: Callable[[str], bool] = attrs.field(default=lambda _: True, repr=False)
    """Tells whether somebody has this id: whom a memory is about must exist."""
    rows: dict[str, Memory] = attrs.field(factory=dict)
    """By id, oldest first."""
    _stored: int = 0

    def store(self, source: Reader, body: Any) -> Memory:
        """Keep the memory of a body `{"memory": {…}}`.

        Raises:
            Refusal: 422.
        """
        return self.add(source, **self._checked(section(body, "memory"), source))

    def add(self, source: Reader, **fields: Any) -> Memory:
        """Keep a memory whose fields are known to be right; `id` and times may be among them."""
        self._stored += 1
        at = fields.get("inserted_at") or self.now()
        fields = {"id": None, **fields, "inserted_at": at, "updated_at": at}
        fields["id"] = fields["id"] or self.new_id()
        memory = Memory(number=self._stored, source=source, **fields)
        self.rows[memory.id] = memory
        return memory

    def _checked(self, row: Mapping[str, Any], source: Reader) -> dict[str, Any]:
        system = one_of(row.get("system"), "/memory/system", TYPES_OF_SYSTEM)
        kind = one_of(row.get("type"), "/memory/type", TYPES)
        if kind not in TYPES_OF_SYSTEM[system]:
            allowed = ", ".join(TYPES_OF_SYSTEM[system])
            raise invalid("/memory/type", f"must be one of {allowed} for system {system}")
        subject_id = row.get("subject_id")
        if subject_id is not None and not self.exists(words(subject_id, "/memory/subject_id")):
            raise invalid("/memory/subject_id", "does not exist")
        scope = row.get("scope")
        if scope is None:
            scope = "agent" if subject_id is None else "subject"
        return {
            "content": text(row.get("content"), "/memory/content"),
            "system": system,
            "type": kind,
            "segment": one_of(row.get("segment"), "/memory/segment", SEGMENTS),
            "thought": text(row.get("thought"), "/memory/thought"),
            "scope": _scope(scope, subject_id, source),
            "subject_id": subject_id,
            "metadata": optional_object(row.get("metadata"), "/memory/metadata"),
        }

    # ------------------------------------------------------------------ the agent's side

    def search(self, reader: Reader, filters: Mapping[str, Any]) -> list[Memory]:
        """Return what *reader* sees and *filters* fit, oldest first.

        Filters: `subject_id`, `scope`, `system`, `type`, `segment`, `content_query` (a part of the
        content in any case), `status`, and `memory_scope`: `me` for what the reader itself stored,
        `org` for what is the organization's.
        """
        rows = [m for m in self.rows.values() if m.visible_to(reader) and m.matches(filters)]
        match filters.get("memory_scope"):
            case "me":
                return [memory for memory in rows if memory.source.id == reader.id]
            case "org":
                return [memory for memory in rows if memory.scope == "organization"]
        return rows

    def find(self, reader: Reader, memory_id: str) -> Memory:
        """Return a memory, whatever its status.

        Raises:
            Refusal: 404 unknown or hidden.
        """
        memory = self.rows.get(memory_id)
        if memory is None or not memory.visible_to(reader):
            raise not_found("Memory")
        return memory

    def put_away(self, reader: Reader, memory_id: str, status: str) -> Memory:
        """Set a memory to `superseded` or `archived`; only its source may. Again is no error.

        Raises:
            Refusal: 404 unknown or hidden, 403 stored by another agent.
        """
        memory = self.find(reader, memory_id)
        if memory.source.id != reader.id:
            raise forbidden("Only the agent that stored a memory may change it")
        return self._mark(memory, status)

    def _mark(self, memory: Memory, status: str) -> Memory:
        if memory.status != status:
            memory.status, memory.updated_at = status, self.now()
        return memory

    # ------------------------------------------------------------------ the person's side

    def search_for_person(self, person: Reader, filters: Mapping[str, Any]) -> list[Memory]:
        """Return what is about a person and what is its organization's, oldest first.

        Filters as for agents, but `scope` is `about_me`, `organization`, `room` or `all`. A memory
        is of no room here, so `room` and any `chat_room_id` find none.
        """
        scope = filters.get("scope", "all")
        if scope == "room" or "chat_room_id" in filters:
            return []
        wanted = {"about_me": "subject"}.get(scope, scope)
        filters = {**filters, "scope": wanted}
        return [m for m in self.rows.values() if _seen_by(person, m) and m.matches(filters)]

    def find_for_person(self, person: Reader, memory_id: str) -> Memory:
        """Return a memory that a person may see.

        Raises:
            Refusal: 404 unknown or hidden.
        """
        memory = self.rows.get(memory_id)
        if memory is None or not _seen_by(person, memory):
            raise not_found("Memory")
        return memory

    def change_for_person(self, person: Reader, memory_id: str, status: str) -> Memory:
        """Set a memory about that person to `superseded` or `archived`, or to `active` again.

        Raises:
            Refusal: 404 unknown or hidden, 403 not about this person, 422 not archived.
        """
        memory = self._own(person, memory_id)
        if status == "active" and memory.status != "archived":
            raise invalid("/status", f"only an archived memory can be restored: {memory.status}")
        return self._mark(memory, status)

    def delete(self, person: Reader, memory_id: str) -> None:
        """Delete a memory about that person for good.

        Raises:
            Refusal: 404 unknown or hidden, 403 not about this person.
        """
        del self.rows[self._own(person, memory_id).id]

    def _own(self, person: Reader, memory_id: str) -> Memory:
        memory = self.find_for_person(person, memory_id)
        if not memory.about(person.id):
            raise forbidden("The memory is not about you")
        return memory


def _scope(value: Any, subject_id: str | None, source: Reader) -> str:
    scope = one_of(value, "/memory/scope", SCOPES)
    if scope == "subject" and subject_id is None:
        raise invalid("/memory/subject_id", "is needed with scope subject")
    if scope == "organization" and source.organization_id is None:
        problem = "there is no organization to share it with"
        raise Refusal(422, NO_ORGANIZATION, NO_ORGANIZATION, details={"/memory/scope": [problem]})
    return scope


def _seen_by(person: Reader, memory: Memory) -> bool:
    if memory.about(person.id):
        return True
    return memory.scope == "organization" and memory.visible_to(person)

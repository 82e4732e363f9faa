"""Memories: what an agent keeps for later turns (platform docs, Memories).

The docstrings and descriptions of the inputs are what a model reads.
"""

# ruff: noqa: RUF009 - `argument` declares an attrs field

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import attrs

from band_trio import texts
from band_trio.errors import BandApiError, BandToolError
from band_trio.link.rest.routes import Route, one, page_of, written
from band_trio.protocol.holdings import TYPES_OF_SYSTEM, Memory
from band_trio.tools.core import ToolCore, platform_tool
from band_trio.tools.definitions import ID, argument
from band_trio.tools.results import cursor_metadata, object_result, page_result
from band_trio.types import ToolCategory, TurnEffect

NO_ORGANIZATION: Final = "org_scope_requires_organization"
"""The platform's code for knowledge shared with an organization that is not there."""
_MEMORY, _OBSERVE, _ACT = ToolCategory.MEMORY, TurnEffect.OBSERVE, TurnEffect.ACT

# --------------------------------------------------------------------------- routes

LIST_MEMORIES: Final = Route("GET", "/memories", page_of(Memory))
STORE_MEMORY: Final = Route("POST", "/memories", written(Memory), under="memory")
GET_MEMORY: Final = Route("GET", "/memories/{memory_id}", one(Memory))
SUPERSEDE_MEMORY: Final = Route("POST", "/memories/{memory_id}/supersede", written(Memory))
ARCHIVE_MEMORY: Final = Route("POST", "/memories/{memory_id}/archive", written(Memory))

# --------------------------------------------------------------------------- inputs

System = Literal["sensory", "working", "long_term"]
MemoryType = Literal["iconic", "echoic", "haptic", "episodic", "semantic", "procedural"]
Segment = Literal["user", "agent", "tool", "guideline"]
StoreScope = Literal["agent", "subject", "organization"]
ListScope = Literal["agent", "subject", "organization", "all"]
MemoryStatus = Literal["active", "superseded", "archived", "all"]


@attrs.frozen
class ListMemoriesInput:
    """Search what you have stored in earlier turns. All filters are optional."""

    subject_id: str | None = argument(
        "Only memories about this person or agent, by id.", default=None
    )
    scope: ListScope | None = argument("Only memories of this scope.", default=None)
    system: System | None = argument("Only memories of this system.", default=None)
    type: MemoryType | None = argument("Only memories of this type.", default=None)
    segment: Segment | None = argument("Only memories of this segment.", default=None)
    content_query: str | None = argument("Words that the content contains.", default=None)
    status: MemoryStatus | None = argument(
        "Only memories in this state; active ones if left out.", default=None
    )
    page_size: int = argument("Most memories to return, 1 to 50.", default=50, low=1, high=50)


@attrs.frozen
class StoreMemoryInput:
    """Keep a fact, an event, a preference or a procedure for later turns. System `sensory` goes
    with the types iconic, echoic and haptic; `working` and `long_term` go with episodic, semantic
    and procedural."""

    content: str = argument("What to remember, complete in itself.", visible=True)
    system: System = argument("How long it lasts; usually long_term.")
    type: MemoryType = argument(
        "The kind of knowledge: semantic for facts, episodic for events, procedural for how-to."
    )
    segment: Segment = argument("What it is about: a user, you, a tool, or a rule to follow.")
    thought: str = argument("Why it is worth keeping.", visible=True)
    scope: StoreScope = argument(
        "Who it is for: agent (only you, the usual one), subject (about one person or agent), "
        "organization (shared)."
    )
    subject_id: str | None = argument(
        "With scope subject: the real id of that person or agent, never a handle.", default=None
    )
    metadata: dict[str, Any] | None = argument(
        "Structured data to keep with it; rarely needed.", default=None
    )

    def __attrs_post_init__(self) -> None:
        allowed = TYPES_OF_SYSTEM.get(self.system)
        if allowed is None:
            raise ValueError(texts.memory_system(self.system, list(TYPES_OF_SYSTEM)))
        if self.type not in allowed:
            raise ValueError(texts.memory_type(self.system, self.type, allowed))
        if self.scope == "subject" and not self.subject_id:
            raise ValueError(texts.SUBJECT_NEEDED)


@attrs.frozen
class GetMemoryInput:
    """Read one memory in full, with why it was kept and for whom."""

    memory_id: str = argument("The id of the memory.", pattern=ID)


@attrs.frozen
class SupersedeMemoryInput:
    """Mark a memory as replaced by newer knowledge. Store the newer knowledge as well."""

    memory_id: str = argument("The id of the memory that is out of date.", pattern=ID)


@attrs.frozen
class ArchiveMemoryInput:
    """Put away a memory that is no longer needed but should be kept."""

    memory_id: str = argument("The id of the memory.", pattern=ID)


# --------------------------------------------------------------------------- tools


class Memories(ToolCore):
    """The tools about memories. Errors: see `band_trio.tools.contacts.Contacts`."""

    @platform_tool(ListMemoriesInput, _MEMORY, _OBSERVE)
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
        page = await self._ask(
            LIST_MEMORIES, subject_id=subject_id, scope=scope, system=system, type=type,
            segment=segment, content_query=content_query, status=status, limit=page_size,
        )  # fmt: skip
        return page_result(page, cursor_metadata(page, page_size))

    @platform_tool(StoreMemoryInput, _MEMORY, _ACT)
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

        Besides the usual errors `InvalidToolArgumentsError` where system and type, or scope and
        subject, do not fit; nothing is requested then.
        """
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
            stored = await self._change(STORE_MEMORY, **memory)
        except BandApiError as exc:
            if exc.status == 422 and exc.code == NO_ORGANIZATION:
                raise BandToolError(texts.NO_ORGANIZATION) from exc
            raise
        return object_result(stored, {**memory, "status": "active"})

    @platform_tool(GetMemoryInput, _MEMORY, _OBSERVE)
    async def get_memory(self, memory_id: str) -> dict[str, Any]:
        """Return one memory."""
        return object_result(await self._ask(GET_MEMORY, memory_id=memory_id))

    @platform_tool(SupersedeMemoryInput, _MEMORY, _ACT)
    async def supersede_memory(self, memory_id: str) -> dict[str, Any]:
        """Mark a memory as replaced; return it."""
        memory = await self._change(SUPERSEDE_MEMORY, memory_id=memory_id)
        return object_result(memory, {"id": memory_id, "status": "superseded"})

    @platform_tool(ArchiveMemoryInput, _MEMORY, _ACT)
    async def archive_memory(self, memory_id: str) -> dict[str, Any]:
        """Put a memory away; return it."""
        memory = await self._change(ARCHIVE_MEMORY, memory_id=memory_id)
        return object_result(memory, {"id": memory_id, "status": "archived"})

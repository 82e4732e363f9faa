"""Arguments of the memory tools. The docstrings and descriptions are what a model reads."""

# ruff: noqa: RUF009 - `argument` declares an attrs field

from __future__ import annotations

from typing import Any, Literal

import attrs

from band_trio.tools.definitions import ID, argument
from band_trio.tools.memory_rules import check_scope, check_type

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
        check_type(self.system, self.type)
        check_scope(self.scope, self.subject_id)


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

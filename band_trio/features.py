"""What an agent may use and show, and what a tool call means: the enums and choices of adapters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Any, Self, TypedDict

import attrs

CustomToolDef = Callable[..., Any] | tuple[type, Callable[..., Any]]
"""A function, or a pair of the class of its one argument and the function."""


class _Combinable(StrEnum):
    """A string enum whose members combine with `|` into a frozenset of the same enum."""

    # The override is deliberate: `str` has no `|`, and a set is what callers mean.
    def __or__(self, other: Self | Iterable[Self]) -> frozenset[Self]:
        return frozenset([self]) | self._members(other)

    __ror__ = __or__

    def _members(self, other: object) -> frozenset[Self]:
        if isinstance(other, type(self)):
            return frozenset([other])
        if isinstance(other, frozenset | set) and all(isinstance(o, type(self)) for o in other):
            return frozenset(other)
        raise TypeError(f"cannot combine {type(self).__name__} with {other!r}")


class Capability(_Combinable):
    """What an agent may use beside the chat tools; each switches one category of tools on."""

    MEMORY = "memory"
    CONTACTS = "contacts"
    FILES = "files"
    TASKS = "tasks"


class Emit(_Combinable):
    """What an adapter posts to the room about its own work."""

    TOOL_CALLS = "tool_calls"
    """Each tool call and its result, as events."""
    THOUGHTS = "thoughts"
    """The model's reasoning, as thought events."""
    TASK_EVENTS = "task_events"
    """Progress and resume data of a backend."""
    USAGE = "usage"
    """Token usage, once per turn."""


class ToolCategory(StrEnum):
    """The group a tool belongs to; filters and capabilities act on groups."""

    CHAT = "chat"
    CONTACTS = "contacts"
    MEMORY = "memory"
    FILES = "files"
    TASKS = "tasks"


class TurnEffect(StrEnum):
    """What a successful tool call means for the judgement of its turn."""

    OBSERVE = "observe"
    """Looked, or left a note: does not complete a turn."""
    ACT = "act"
    """Changed something."""
    REPLY = "reply"
    """Said something to somebody."""
    DECLINE = "decline"
    """Decided that nothing needs to be said."""

    @property
    def did_work(self) -> bool:
        """Whether a turn with this effect is complete."""
        return self is not TurnEffect.OBSERVE


class MessageType(StrEnum):
    """Types of rows in a room; only `text` is ever work for an agent."""

    TEXT = "text"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    THOUGHT = "thought"
    ERROR = "error"
    TASK = "task"
    USAGE = "usage"


class ToolEventKey(StrEnum):
    """Keys of the JSON text in `tool_call` and `tool_result` events; other readers rely on them."""

    NAME = "name"
    ARGS = "args"
    OUTPUT = "output"
    TOOL_CALL_ID = "tool_call_id"
    IS_ERROR = "is_error"


@attrs.frozen
class AdapterFeatures:
    """What an adapter asked for, after negotiation with the platform."""

    capabilities: frozenset[Capability] = frozenset()
    emit: frozenset[Emit] = frozenset()
    include_tools: tuple[str, ...] | None = None
    exclude_tools: tuple[str, ...] | None = None
    include_categories: tuple[ToolCategory, ...] | None = None


class FeatureKwargs(TypedDict, total=False):
    """The keyword arguments by which an adapter chooses its features."""

    emit: Emit | str | Iterable[Emit | str]
    capabilities: Capability | str | Iterable[Capability | str]
    include_tools: Iterable[str] | None
    exclude_tools: Iterable[str] | None
    include_categories: Iterable[ToolCategory | str] | None


class AdapterKwargs(FeatureKwargs, total=False):
    """What an adapter passes on to `SimpleAdapter`: features, and the application's own tools."""

    additional_tools: Sequence[CustomToolDef]
    tool_timeout: float | None

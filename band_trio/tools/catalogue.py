"""The registry of tools, and who gets which: capabilities, the contact hub, and filters.

A tool is said once, in the file of its family: a route, a class for its arguments, and a method
of its name (without `band_`). It is offered in the order of `BandTool`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Final, TypeVar

import attrs

from band_trio.errors import BandConfigError
from band_trio.tools.contacts import Contacts
from band_trio.tools.core import tools_of
from band_trio.tools.definitions import (
    OLD_SEND_MESSAGE,
    BandTool,
    Surface,
    ToolDefinition,
    argument_of,
)
from band_trio.tools.docstrings import tool_description
from band_trio.tools.files import Files
from band_trio.tools.memories import Memories
from band_trio.tools.people import People
from band_trio.tools.sending import Sending
from band_trio.tools.tasks import Tasks
from band_trio.types import AdapterFeatures, Capabilities, Capability, ToolCategory, TurnEffect

E = TypeVar("E", bound=StrEnum)
T = TypeVar("T")


_ROWS: Final = {
    row.name: row for row in tools_of(Sending, People, Contacts, Memories, Files, Tasks)
}

TOOL_DEFINITIONS: Final[dict[str, ToolDefinition]] = {name.value: _ROWS[name] for name in BandTool}
"""All tools by name, in the order in which they are offered."""

TOOL_MODELS: Final[dict[str, type[attrs.AttrsInstance]]] = {
    row.name: row.input_model for row in TOOL_DEFINITIONS.values() if row.surface is Surface.AGENT
}
"""Argument classes of the agent tools by name."""


def checked_members(
    given: Iterable[str] | str | None, kind: type[E], option: str, *, called: str = ""
) -> tuple[E, ...]:
    """Return *given* as members of *kind*; a bare text is one of them.

    *called* is what a member is, where there are too many to list them in the error.

    Raises:
        BandConfigError: one is unknown, or *given* is nothing to choose from.
    """
    if not isinstance(given, Iterable | None):
        raise BandConfigError(f"{option} must be members of {kind.__name__}, not {given!r}.")
    known = [member.value for member in kind]
    names = (given,) if isinstance(given, str) else tuple(given or ())
    for name in names:
        if name not in known:
            what = f"no {called}" if called else f"unknown; there are {', '.join(known)}"
            raise BandConfigError.with_suggestion(
                f"{option}: {name!r} is {what}.", str(name), known, max_distance=4
            )
    return tuple(map(kind, names))


def iter_tool_definitions(
    *, surface: Surface = Surface.AGENT, capabilities: Capabilities = None
) -> list[ToolDefinition]:
    """Return the tools that *capabilities* open, in order; None opens the chat tools only.

    Raises:
        BandConfigError: a capability is unknown.
    """
    opened = checked_members(capabilities, Capability, "capabilities")
    return [
        row
        for row in TOOL_DEFINITIONS.values()
        if row.surface is surface and _is_open(row.category, opened)
    ]


def _is_open(category: ToolCategory | None, opened: Iterable[str]) -> bool:
    return category is None or category is ToolCategory.CHAT or category.value in opened


def withheld_tool_names(capabilities: Capabilities) -> frozenset[str]:
    """Return the names of agent tools that *capabilities* do not open."""
    offered = {row.name for row in iter_tool_definitions(capabilities=capabilities)}
    return frozenset(TOOL_MODELS) - offered


def get_band_tool_category(name: str) -> ToolCategory | None:
    """Return the category of the platform tool *name*; None for any other name."""
    row = TOOL_DEFINITIONS.get(name)
    return row.category if row else None


def turn_effect(name: str, *, custom_effects: dict[str, TurnEffect] | None = None) -> TurnEffect:
    """Return what a successful call of *name* means; platform names first, unknown = observe."""
    row = TOOL_DEFINITIONS.get(BandTool.SEND_MESSAGE if name == OLD_SEND_MESSAGE else name)
    if row is not None:
        return row.effect
    return (custom_effects or {}).get(name, TurnEffect.OBSERVE)


# --------------------------------------------------------------------------- filters


@lru_cache(maxsize=256)
def selected_tool_definitions(
    features: AdapterFeatures, *, is_hub_room: bool = False
) -> tuple[ToolDefinition, ...]:
    """Return the tools that an adapter with *features* offers; the hub room adds contacts."""
    capabilities = features.capabilities | (
        frozenset([Capability.CONTACTS]) if is_hub_room else frozenset()
    )
    rows = iter_tool_definitions(capabilities=capabilities)
    return tuple(
        filter_tool_schemas(
            rows,
            features,
            get_name=lambda row: row.name,
            get_category=lambda row: row.category,
        )
    )


def filter_tool_schemas(
    schemas: Sequence[T],
    features: AdapterFeatures,
    *,
    get_name: Callable[[T], str],
    get_category: Callable[[T], ToolCategory | None] | None = None,
) -> list[T]:
    """Narrow *schemas* by included categories, then included names, then excluded names.

    Filters act on platform tools only: what has another name always passes.
    """
    kept: list[T] = []
    for each in schemas:
        name = get_name(each)
        category = get_category(each) if get_category else get_band_tool_category(name)
        if name not in TOOL_DEFINITIONS or _passes(name, category, features):
            kept.append(each)
    return kept


def _passes(name: str, category: ToolCategory | None, features: AdapterFeatures) -> bool:
    if features.include_categories is not None and category not in features.include_categories:
        return False
    if features.include_tools is not None and name not in features.include_tools:
        return False
    return name not in (features.exclude_tools or ())


# --------------------------------------------------------------------------- for frameworks


def get_tool_description(name: str) -> str:
    """Return the description of a platform tool.

    Raises:
        KeyError: there is none of that name.
    """
    return tool_description(TOOL_DEFINITIONS[name].input_model)


def get_tool_docstring_with_args(name: str) -> str:
    """Return the description of a platform tool with its arguments, as a Google-style docstring."""
    model = TOOL_DEFINITIONS[name].input_model
    fields = attrs.fields(model)
    lines = [get_tool_description(name)]
    if fields:
        lines += ["", "Args:"]
        lines += [f"    {field.name}: {argument_of(field).description}" for field in fields]
    return "\n".join(lines)


def platform_args_schema(name: str) -> type[attrs.AttrsInstance]:
    """Return the argument class of a platform tool, for frameworks that read models."""
    return TOOL_MODELS[name]

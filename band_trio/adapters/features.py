"""Which features an adapter asks for: forgiving in form, strict about names."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final, TypeVar

from band_trio.config.keywords import unexpected_keyword
from band_trio.errors import BandConfigError
from band_trio.tools.catalogue import checked_members
from band_trio.tools.definitions import BandTool
from band_trio.types import AdapterFeatures, Capability, Emit, ToolCategory

E = TypeVar("E", Capability, Emit)
S = TypeVar("S", bound=StrEnum)

_KNOWN: Final = frozenset(
    ["emit", "capabilities", "include_tools", "exclude_tools", "include_categories"]
)


def resolve_features(
    adapter: type,
    given: dict[str, Any],
    *,
    emit: frozenset[Emit],
    capabilities: frozenset[Capability],
) -> AdapterFeatures:
    """Build the features of *adapter* from its keyword arguments.

    *emit* and *capabilities* are what the adapter supports. `emit` left out means all of it,
    `capabilities` left out means none. A bare string is one member.

    Raises:
        BandConfigError: a value is unknown or not supported; the text lists what is.
        TypeError: a keyword is unknown.
    """
    unknown = given.keys() - _KNOWN
    name = adapter.__name__
    if unknown:
        raise TypeError(unexpected_keyword(name, min(unknown), _KNOWN | _parameters(adapter)))

    def chosen(option: str, kind: type[S], called: str = "") -> tuple[S, ...] | None:
        names = given.get(option)
        if names is None:
            return None
        return checked_members(names, kind, f"{name}: {option}", called=called)

    return AdapterFeatures(
        capabilities=_supported(
            given.get("capabilities"), Capability, capabilities, f"{name}: capabilities"
        ),
        emit=_supported(given["emit"], Emit, emit, f"{name}: emit") if "emit" in given else emit,
        include_tools=chosen("include_tools", BandTool, "platform tool"),
        exclude_tools=chosen("exclude_tools", BandTool, "platform tool"),
        include_categories=chosen("include_categories", ToolCategory),
    )


def _parameters(adapter: type) -> set[str]:
    """Return the names that the constructors of *adapter* and of its bases take."""
    made_by = [vars(each)["__init__"] for each in adapter.__mro__ if "__init__" in vars(each)]
    names = {name for each in made_by for name in inspect.signature(each).parameters}
    return names - {"self", "args", "kwargs", "features"}


def _supported(
    given: Iterable[str] | str | None, kind: type[E], supported: frozenset[E], option: str
) -> frozenset[E]:
    members = frozenset(checked_members(given, kind, option))
    if refused := sorted(members - supported):
        can = ", ".join(sorted(supported)) or "none"
        raise BandConfigError(f"{option}: {', '.join(refused)} not supported; supported: {can}.")
    return members

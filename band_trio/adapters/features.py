"""Which features an adapter asks for: forgiving in form, strict about names."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, Final, TypeVar

from band_trio.errors import BandConfigError
from band_trio.keywords import unexpected_keyword
from band_trio.tools.catalogue import checked_categories, checked_tool_names
from band_trio.types import AdapterFeatures, Capability, Emit

E = TypeVar("E", Capability, Emit)

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
    include, exclude = given.get("include_tools"), given.get("exclude_tools")
    categories = given.get("include_categories")
    return AdapterFeatures(
        capabilities=_members(
            given.get("capabilities", ()), Capability, capabilities, f"{name}: capabilities"
        ),
        emit=_members(given["emit"], Emit, emit, f"{name}: emit") if "emit" in given else emit,
        include_tools=None
        if include is None
        else checked_tool_names(include, f"{name}: include_tools"),
        exclude_tools=None
        if exclude is None
        else checked_tool_names(exclude, f"{name}: exclude_tools"),
        include_categories=None
        if categories is None
        else checked_categories(categories, f"{name}: include_categories"),
    )


def _parameters(adapter: type) -> set[str]:
    """Return the names that the constructors of *adapter* and of its bases take."""
    made_by = [vars(each)["__init__"] for each in adapter.__mro__ if "__init__" in vars(each)]
    names = {name for each in made_by for name in inspect.signature(each).parameters}
    return names - {"self", "args", "kwargs", "features"}


def _members(value: Any, kind: type[E], supported: frozenset[E], option: str) -> frozenset[E]:
    if value is None:
        return frozenset()
    given: Iterable[Any] = (value,) if isinstance(value, str) else value
    if not isinstance(given, Iterable):
        raise BandConfigError(f"{option} must be members of {kind.__name__}, not {value!r}.")
    members = {_member(each, kind, option) for each in given}
    refused = sorted(members - supported)
    if refused:
        can = ", ".join(sorted(supported)) or "none"
        raise BandConfigError(f"{option}: {', '.join(refused)} not supported; supported: {can}.")
    return frozenset(members)


def _member(value: Any, kind: type[E], option: str) -> E:
    foreign = isinstance(value, Capability | Emit) and not isinstance(value, kind)
    if isinstance(value, str) and not foreign:
        try:
            return kind(value)
        except ValueError:
            pass  # named below, together with what would be possible
    names = [member.value for member in kind]
    raise BandConfigError.with_suggestion(
        f"{option}: {value!r} is unknown; there are {', '.join(names)}.", str(value), names
    )

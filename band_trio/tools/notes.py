"""What stands beside a type in `Annotated`: a description, and limits of the value.

Limits are those of annotated-types and of pydantic's `Field`; both are recognised by their
attributes and never imported.
"""

from __future__ import annotations

import dataclasses
import math
import operator
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import attrs


@attrs.frozen
class Notes:
    """What the notes beside one type say."""

    description: str = ""
    limits: dict[str, Any] = attrs.field(factory=dict)
    """Name of a limit, such as `ge`, → its bound."""


def read_notes(notes: Iterable[Any]) -> Notes:
    """Read the notes beside a type; those of libraries that are not for values are passed over.

    Raises:
        TypeError: one would be broken without notice, because its meaning is not known here.
    """
    description, limits = "", {}
    for note in notes:
        if isinstance(note, str):
            description = description or note
        elif is_field(note):
            held = read_notes(_of_field(note))
            description = description or str(note.description or "")
            limits.update(held.limits)
        elif isinstance(getattr(note, "documentation", None), str):
            description = description or note.documentation
        elif _LIBRARIES & {each.__module__.partition(".")[0] for each in type(note).__mro__}:
            limits.update(_limits(note))
    return Notes(description, limits)


def check_limits(value: Any, limits: Mapping[str, Any]) -> None:
    """Check that *value* is within *limits*; null is in any.

    Raises:
        ValueError: it is not.
    """
    for name, bound in limits.items() if value is not None else ():
        holds, wanted = _TESTS[name]
        if not holds(value, bound):
            raise ValueError(wanted.format(getattr(bound, "pattern", bound)))


def limits_schema(limits: Mapping[str, Any], kind: Any) -> dict[str, Any]:
    """Return *limits* in the words of JSON Schema, for a value of the type *kind*."""
    words = _KEYWORDS | _LENGTHS.get(str(kind), {})
    bounds = {words[name]: bound for name, bound in limits.items() if name in words}
    plain = {key: getattr(bound, "pattern", bound) for key, bound in bounds.items()}
    return {key: bound for key, bound in plain.items() if isinstance(bound, str | int | float)}


def is_field(note: Any) -> bool:
    """Tell whether a note, or a default, is what pydantic's `Field` returns."""
    return all(hasattr(note, name) for name in ("metadata", "is_required", "validation_alias"))


# --------------------------------------------------------------------------- details

_LIBRARIES: Final = frozenset({"annotated_types", "pydantic", "pydantic_core", "msgspec"})


def _is_multiple(value: Any, bound: Any) -> bool:
    """Tell whether *value* is a multiple of *bound*: 0.3 is one of 0.1, as a reader means it."""
    if isinstance(value, int) and isinstance(bound, int):
        return value % bound == 0
    try:
        number, step = float(value), float(bound)
        rest = math.remainder(number, step)
    except (ValueError, OverflowError):  # infinite, or beyond what a float holds
        return False
    return abs(rest) <= 1e-9 * abs(step) + sys.float_info.epsilon * abs(number)


_Test = tuple[Callable[[Any, Any], Any], str]
_TESTS: Final[dict[str, _Test]] = {
    "gt": (operator.gt, "must be more than {}"),
    "ge": (operator.ge, "must be at least {}"),
    "lt": (operator.lt, "must be less than {}"),
    "le": (operator.le, "must be at most {}"),
    "multiple_of": (_is_multiple, "must be a multiple of {}"),
    "min_length": (lambda value, bound: len(value) >= bound, "must have a length of at least {}"),
    "max_length": (lambda value, bound: len(value) <= bound, "must have a length of at most {}"),
    "pattern": (lambda value, bound: re.search(bound, value), "must match {}"),
}
_KEYWORDS: Final = {
    "gt": "exclusiveMinimum",
    "ge": "minimum",
    "lt": "exclusiveMaximum",
    "le": "maximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
}
_LENGTHS: Final = {
    "string": {"min_length": "minLength", "max_length": "maxLength"},
    "array": {"min_length": "minItems", "max_length": "maxItems"},
    "object": {"min_length": "minProperties", "max_length": "maxProperties"},
}


def _of_field(field: Any) -> list[Any]:
    """Return the notes that a `Field` holds."""
    for name in ("alias", "validation_alias", "default_factory", "discriminator"):
        if getattr(field, name, None) is not None:
            raise TypeError(f"Field({name}=…) has no meaning here")
    if not field.is_required():
        raise TypeError("Field(default=…) has no meaning here: give the default after `=`")
    return list(field.metadata)


def _limits(note: Any) -> dict[str, Any]:
    values = (
        {each.name: getattr(note, each.name) for each in dataclasses.fields(note)}
        if dataclasses.is_dataclass(note)
        else getattr(note, "__dict__", {"": note})
    )
    given = {name: each for name, each in values.items() if each is not None and each is not False}
    unknown = given.keys() - _TESTS.keys()
    if unknown or not values:
        raise TypeError(f"{note!r} cannot be kept here: use an arguments class of its library")
    return given

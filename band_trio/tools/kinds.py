"""What a type says of a value before one is converted to it."""

from __future__ import annotations

from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin


def may_be_null(kind: Any) -> bool:
    """Tell whether null is a value of the type *kind*."""
    origin = get_origin(kind)
    if origin is Annotated:
        return may_be_null(get_args(kind)[0])
    if origin in (Union, UnionType):
        return any(map(may_be_null, get_args(kind)))
    return kind in (Any, NoneType) or (origin is Literal and None in get_args(kind))


def distance(value: Any, kind: Any) -> int:
    """Tell how much of a repair *kind* is for *value*, to find the nearest of several kinds.

    0: it is of that kind as it is; 1: it may be read as that; 2: text would be split into a list.
    """
    origin = get_origin(kind)
    if origin is Annotated:
        return distance(value, get_args(kind)[0])
    if origin in (Union, UnionType):
        return min(distance(value, each) for each in get_args(kind))
    plain = origin or kind
    if plain is list and isinstance(value, str):
        return 2
    return 0 if plain is type(value) or _is_choice(value, kind) else 1


def _is_choice(value: Any, kind: Any) -> bool:
    """Tell whether *kind* is a list of choices with *value* among them; `True` is not 1."""
    choices: list[Any] = []
    if get_origin(kind) is Literal:
        choices = list(get_args(kind))
    elif isinstance(kind, type) and issubclass(kind, Enum):
        choices = [member.value for member in kind]
    return any(type(each) is type(value) and each == value for each in choices)

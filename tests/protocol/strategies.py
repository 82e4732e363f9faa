"""What the wire may carry: JSON values, instances of wire classes, and an oracle that reads them.

The oracle is written from the rules, one kind at a time, and shares no code with the converter.
"""

from __future__ import annotations

import inspect
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from types import ModuleType, NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import attrs
from hypothesis import strategies as st

from band_trio.kit.ids import Opaque
from band_trio.protocol import events, rest

texts: Final = st.text(max_size=8)
wild_texts: Final = st.text(st.characters(codec=None), max_size=8)
"""Lone surrogates included."""
opaque: Final = st.uuids().map(str) | st.text(
    st.characters(exclude_categories=["C", "Zl", "Zp"], exclude_characters="\ufffd\u00a0"),
    min_size=1,
    max_size=8,
).filter(str.isprintable)
"""What may be an id."""
odd_ids: Final = st.sampled_from(
    ["", "\0", "a\nb", "\x1b[31m", "a\u2028", "a\u200b", "\ufffd", "x" * 257, "x" * 70_000]
)
integers: Final = st.integers(-(2**63), 2**64 - 1)
floats: Final = st.floats(allow_nan=False, allow_infinity=False)


def _nested(leaves: st.SearchStrategy[Any], keys: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
        max_leaves=5,
    )


json_values: Final = _nested(st.none() | st.booleans() | integers | floats | texts, texts)
wild_values: Final = _nested(st.none() | st.booleans() | st.floats() | wild_texts, wild_texts)
objects: Final = st.dictionaries(texts, json_values, max_size=3)

_zones: Final = st.builds(
    timezone, st.integers(-14 * 60, 14 * 60).map(lambda minutes: timedelta(minutes=minutes))
)
times: Final = st.datetimes(
    datetime(1, 1, 2),
    datetime(9999, 12, 30),
    timezones=_zones,
)


def wire_classes() -> list[type]:
    """Return every class that is read from the wire; new ones are covered by being there."""
    built = {rest.Page, rest.Mention}  # built by us only, or read by a method of their own
    return [cls for module in (rest, events) for cls in _own(module) if cls not in built]


def _own(module: ModuleType) -> list[type]:
    return [
        cls
        for cls in vars(module).values()
        if inspect.isclass(cls) and attrs.has(cls) and cls.__module__ == module.__name__
    ]


def fields(cls: type) -> tuple[attrs.Attribute[Any], ...]:
    """Return the fields of a wire class with their types resolved."""
    resolved: Any = attrs.resolve_types(cls)
    return tuple(attrs.fields(resolved))


# --------------------------------------------------------------------------- instances


def instances(cls: type) -> st.SearchStrategy[Any]:
    """Draw a *cls* with any values its types allow, null included where it may be."""
    return st.builds(cls, **{field.name: values(field.type) for field in fields(cls)})


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Draw a Python value of *kind*."""
    plain: dict[Any, st.SearchStrategy[Any]] = {
        str: texts,
        int: integers,
        float: floats,
        bool: st.booleans(),
        datetime: times,
        Any: json_values,
        NoneType: st.none(),
    }
    if kind in plain:
        return plain[kind]
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return opaque
    if origin in (Union, UnionType):
        return st.one_of([values(arg) for arg in args])
    if origin is Literal:
        return st.sampled_from(args)
    if origin is list:
        return st.lists(values(args[0]), max_size=3)
    return objects if origin is dict else instances(kind)


# --------------------------------------------------------------------------- raw JSON, good and bad


def raw_objects(cls: type) -> st.SearchStrategy[dict[str, Any]]:
    """Draw JSON objects that resemble a *cls*: fields good, bad, null, missing; foreign fields."""
    known = {field.name: _raw_field(field) for field in fields(cls)}
    needed = {f.name for f in fields(cls) if f.default is attrs.NOTHING}
    good = st.fixed_dictionaries(
        {name: known[name] for name in known if name in needed},
        optional={name: known[name] for name in known if name not in needed},
    )
    gaps = st.sets(st.sampled_from(sorted(known)), max_size=1)
    return st.builds(
        lambda extra, raw, gap: {**extra, **{k: v for k, v in raw.items() if k not in gap}},
        objects,
        good,
        st.just(set[str]()) | gaps,
    )


def _raw_field(field: attrs.Attribute[Any]) -> st.SearchStrategy[Any]:
    good = raw_values(field.type)
    if field.default is attrs.NOTHING:
        return st.one_of(good, good, good, good, json_values)
    return st.one_of(good, good, st.none(), json_values, texts)


def raw_values(kind: Any) -> st.SearchStrategy[Any]:
    """Draw a JSON value of *kind*."""
    origin, args = get_origin(kind), get_args(kind)
    if kind is datetime:
        return times.map(datetime.isoformat) | st.sampled_from(
            ["2026-03-01T09:05:00.120000Z", "2026-03-01T09:05:00", "2026-03-01"]
        )
    if kind is float:
        return floats | st.integers(-(10**6), 10**6)
    if origin is Annotated:
        return st.one_of(opaque, opaque, opaque, opaque, texts, odd_ids)
    if origin in (Union, UnionType):
        return st.one_of([raw_values(arg) for arg in args])
    if origin is list:
        return st.lists(raw_values(args[0]), max_size=3)
    return raw_objects(kind) if attrs.has(kind) else values(kind)


# --------------------------------------------------------------------------- the oracle


class Wrong(Exception):
    """A value does not fit."""


def read(cls: type, raw: Any) -> Any:
    """Read *raw* by the rules: required fields must fit, others fall back to their default.

    Raises:
        Wrong: a required field is missing, null where that is not allowed, or does not fit.
    """
    if type(raw) is not dict:
        raise Wrong
    found = {}
    for field in fields(cls):
        if field.default is attrs.NOTHING:
            if field.name not in raw:
                raise Wrong
            found[field.name] = _fit(field.type, raw[field.name])
        elif raw.get(field.name) is not None:
            try:
                found[field.name] = _fit(field.type, raw[field.name])
            except Wrong:
                continue
    return cls(**found)


def _fit(kind: Any, value: Any) -> Any:
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        (kind,) = (arg for arg in args if arg is not NoneType)
        return None if value is None else _fit(kind, value)
    if origin is Annotated:
        return _opaque(_checked(value, lambda v: type(v) is str), args[1])
    if origin is Literal:
        return _checked(value, lambda v: isinstance(v, str) and v in args)
    if origin is list:
        return [_fit(args[0], item) for item in _checked(value, lambda v: type(v) is list)]
    if origin is dict:
        return _checked(value, lambda v: type(v) is dict)
    if attrs.has(kind):
        return read(kind, value)
    if kind is datetime:
        return _time(_checked(value, lambda v: type(v) is str))
    if kind is float:
        return float(_checked(value, lambda v: type(v) in (int, float)))
    return value if kind is Any else _checked(value, lambda v: type(v) is kind)


def _opaque(text: str, rule: Opaque) -> str:
    shown = all(char == " " or unicodedata.category(char)[0] not in "CZ" for char in text)
    if text and shown and "\ufffd" not in text and len(text) <= rule.most:
        return text
    if rule.stand_in is None:
        raise Wrong
    return rule.stand_in


def _checked(value: Any, fits: Callable[[Any], bool]) -> Any:
    if not fits(value):
        raise Wrong
    return value


def _time(text: str) -> datetime:
    try:
        when = datetime.fromisoformat(text)
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise Wrong from None

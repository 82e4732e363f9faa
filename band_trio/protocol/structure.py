"""The one converter from JSON values to wire classes.

Exact: `5` is no string and `"5"` is no number. Lenient where it can be: unknown fields are
ignored, and an optional field that is wrong or null is dropped and logged, never its object.
Ids and cursors are checked here, where they enter (`band_trio.kit.ids`), and lists inside an object
are cut, so that no object takes long.
"""

from __future__ import annotations

import logging
import re
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any, Final, Literal, TypeVar, get_args, get_origin

import attrs
import cattrs
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from band_trio.kit.ids import Opaque
from band_trio.kit.logs import RepeatedLog
from band_trio.protocol.errors import RemoteProtocolError

_repeated: Final = RepeatedLog(logging.getLogger(__name__))

T = TypeVar("T")

MOST_ITEMS: Final = 1000
"""Items of a list that are looked at; the platform itself stays below a hundred. Reading so many
keeps the program for some hundredths of a second."""


def structure(raw: Any, cls: type[T]) -> T:
    """Build a *cls* from the parsed JSON value *raw*.

    Raises:
        RemoteProtocolError: a required field is missing or has the wrong type.
    """
    if not isinstance(raw, dict):
        raise RemoteProtocolError(f"{cls.__name__}: an object is needed, not {type(raw).__name__}")
    try:
        return _converter.structure(raw, cls)
    except cattrs.ClassValidationError as exc:
        # Names and types only: values of the peer have no place in our logs.
        problems = "; ".join(cattrs.transform_error(exc, format_exception=_describe))
        raise RemoteProtocolError(f"{cls.__name__}: {problems}") from None


def _describe(exc: BaseException, kind: type | None) -> str:
    if _is_opaque(kind) and isinstance(exc, TypeError):
        return str(exc)
    return cattrs.v.format_exception(exc, kind)


def unstructure(value: attrs.AttrsInstance) -> dict[str, Any]:
    """Return the JSON form of a wire object, fields that are None left out at every level."""
    raw: dict[str, Any] = _converter.unstructure(value)
    return raw


def _exact(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{kind.__name__} expected, not {type(value).__name__}")
    return value


def _number(value: Any, _: type) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"number expected, not {type(value).__name__}")
    return float(value)


def _timestamp(value: Any, _: type) -> datetime:
    """Read ISO 8601 as UTC; a time without a zone is UTC (platform docs, REST conventions)."""
    parsed = datetime.fromisoformat(_exact(value, str))
    if parsed.tzinfo is None:
        return parsed.replace(tzinfo=UTC)
    return parsed if parsed.tzinfo is UTC else parsed.astimezone(UTC)


def _mapping(value: Any, _: type) -> dict[str, Any]:
    return dict(_exact(value, dict))


def _is_list(kind: Any) -> bool:
    return get_origin(kind) is list


def _is_choice(kind: Any) -> bool:
    return get_origin(kind) is Literal


def _choice(value: Any, kind: Any) -> Any:
    if not (isinstance(value, str) and value in get_args(kind)):
        raise ValueError("not one of the values allowed")  # without the value: it goes to the log
    return value


def _is_opaque(kind: Any) -> bool:
    return get_origin(kind) is Annotated


_PLAIN: Final = re.compile(r"[A-Za-z0-9-]{1,64}")


def _opaque(kind: Any) -> Any:
    rule: Opaque = get_args(kind)[1]

    def hook(value: Any, _: type) -> str:
        text: str = _exact(value, str)
        if _PLAIN.fullmatch(text):  # nearly all of them: UUIDs
            return text
        if rule.accepts(text):
            return text
        if rule.stand_in is None:
            raise TypeError(f"{rule} expected")
        return rule.stand_in

    return hook


def _build() -> cattrs.Converter:
    converter = cattrs.Converter()
    for kind in (str, int, bool):
        converter.register_structure_hook(kind, _exact)
    converter.register_structure_hook(float, _number)
    converter.register_structure_hook(datetime, _timestamp)
    converter.register_structure_hook_func(lambda t: t == dict[str, Any], _mapping)
    converter.register_structure_hook_func(_is_choice, _choice)
    converter.register_structure_hook_factory(_is_opaque, _opaque)
    converter.register_unstructure_hook(datetime, timestamp_text)

    def exact_list(kind: Any) -> Any:
        # cattrs takes any iterable: "abc" would become three items, an object its keys.
        (item,) = get_args(kind)
        if item is Any:
            return lambda value, _: list(_exact(value, list))
        each = converter.get_structure_hook(item)
        return lambda value, _: [
            each(part, item) for part in islice(_exact(value, list), MOST_ITEMS)
        ]

    def lenient(cls: Any) -> Any:
        fields = {
            field.name: override(struct_hook=_optional(converter, cls.__name__, field))
            for field in attrs.fields(attrs.resolve_types(cls))
            if field.default is not attrs.NOTHING
        }
        return make_dict_structure_fn(cls, converter, **fields)  # type: ignore[arg-type]

    def sparse(cls: Any) -> Any:
        write = make_dict_unstructure_fn(cls, converter)
        return lambda value: {name: part for name, part in write(value).items() if part is not None}

    converter.register_structure_hook_factory(_is_list, exact_list)
    converter.register_structure_hook_factory(attrs.has, lenient)
    converter.register_unstructure_hook_factory(attrs.has, sparse)
    return converter


def timestamp_text(when: datetime) -> str:
    """Write a time as the platform does: UTC, microseconds, `Z`."""
    # Not strftime: it writes early years without their zeros.
    return when.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _optional(converter: cattrs.Converter, owner: str, field: attrs.Attribute[Any]) -> Any:
    """Structure an optional field, or fall back to its default when it is null or wrong."""
    default: Any = field.default
    fallback = default.factory if hasattr(default, "factory") else lambda: default
    kind: Any = field.type
    read = converter.get_structure_hook(kind)

    def hook(value: Any, _: type) -> Any:
        if value is not None:
            try:
                return read(value, kind)
            except Exception as exc:  # noqa: BLE001 - the boundary: a bad optional field is dropped
                _repeated.warning(f"dropped {owner}.{field.name}: %s", type(exc).__name__)
        return fallback()

    return hook


_converter: Final = _build()

"""The one converter from JSON values to wire classes.

Exact: `5` is no string and `"5"` is no number. Lenient where it can be: unknown fields are
ignored, and an optional field that is wrong or null is dropped and logged, never its object.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import attrs
import cattrs
from cattrs.gen import make_dict_structure_fn, override

from band_trio.protocol.errors import RemoteProtocolError

_log: Final = logging.getLogger(__name__)

T = TypeVar("T")


def structure(raw: Any, cls: type[T]) -> T:
    """Build a *cls* from the parsed JSON value *raw*.

    Raises:
        RemoteProtocolError: a required field is missing or has the wrong type.
    """
    if not isinstance(raw, dict):
        raise RemoteProtocolError(f"{cls.__name__}: an object is needed, not {type(raw).__name__}")
    try:
        return _converter.structure(raw, cls)
    except (cattrs.BaseValidationError, ValueError, TypeError, KeyError) as exc:
        problems = (
            cattrs.transform_error(exc)
            if isinstance(exc, cattrs.BaseValidationError)
            else [str(exc)]
        )
        raise RemoteProtocolError(f"{cls.__name__}: {'; '.join(problems)}") from None


def unstructure(value: attrs.AttrsInstance) -> dict[str, Any]:
    """Return the JSON form of a wire object, fields that are None left out."""
    return {name: item for name, item in _converter.unstructure(value).items() if item is not None}


def _exact(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{kind.__name__} expected, not {type(value).__name__}")
    return value


def _number(value: Any, _: type) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"number expected, not {type(value).__name__}")
    return float(value)


def _timestamp(value: Any, _: type) -> datetime:
    """Read ISO 8601; a time without a zone is UTC (platform docs, REST conventions)."""
    parsed = datetime.fromisoformat(_exact(value, str))
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def _mapping(value: Any, _: type) -> dict[str, Any]:
    return dict(_exact(value, dict))


def _build() -> cattrs.Converter:
    converter = cattrs.Converter()
    for kind in (str, int, bool):
        converter.register_structure_hook(kind, _exact)
    converter.register_structure_hook(float, _number)
    converter.register_structure_hook(datetime, _timestamp)
    converter.register_structure_hook_func(lambda t: t == dict[str, Any], _mapping)
    converter.register_unstructure_hook(datetime, timestamp_text)

    def lenient(cls: type) -> Any:
        fields = {
            field.name: override(struct_hook=_optional(converter, cls.__name__, field))
            for field in attrs.fields(attrs.resolve_types(cls))
            if field.default is not attrs.NOTHING
        }
        return make_dict_structure_fn(cls, converter, **fields)  # type: ignore[arg-type]

    converter.register_structure_hook_factory(attrs.has, lenient)
    return converter


def timestamp_text(when: datetime) -> str:
    """Write a time as the platform does: UTC, microseconds, `Z`."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _optional(converter: cattrs.Converter, owner: str, field: attrs.Attribute[Any]) -> Any:
    """Structure an optional field, or fall back to its default when it is null or wrong."""

    default: Any = field.default
    fallback = default.factory if hasattr(default, "factory") else lambda: default

    def hook(value: Any, _: type) -> Any:
        if value is not None:
            try:
                return converter.structure(value, field.type)  # type: ignore[arg-type]
            except Exception as exc:  # noqa: BLE001 - the boundary: a bad optional field is dropped
                _log.warning("dropped %s.%s: %s", owner, field.name, type(exc).__name__)
        return fallback()

    return hook


_converter: Final = _build()

"""The fields of option classes, and the check of their values.

What may be checked of one field stands in its metadata: `kind`, `low`, `below`, and `none` where
None is a value.
"""

from __future__ import annotations

import math
from typing import Any, Final, TypeGuard

import attrs

from band_trio.errors import BandConfigError


def seconds(default: float, *, below: float = math.inf) -> Any:
    """A positive, finite number of seconds, strictly below *below*."""
    return attrs.field(default=default, metadata={"low": 0.0, "below": below, "kind": "number"})


def rate(default: float) -> Any:
    """A positive, finite number per second."""
    return seconds(default)


def optional_seconds() -> Any:
    """A positive, finite number, or None for unbounded."""
    return attrs.field(default=None, metadata={"low": 0.0, "kind": "number", "none": True})


def count(default: int, *, low: int = 1) -> Any:
    """A whole number, at least *low*."""
    return attrs.field(default=default, metadata={"low": low, "kind": "count"})


def switch(default: bool) -> Any:
    """True or False."""
    return attrs.field(default=default, metadata={"kind": "switch"})


def text(default: Any = attrs.NOTHING) -> Any:
    """A text; one without a default must not be blank."""
    return attrs.field(default=default, metadata={"kind": "text"})


def optional_text(*, shown: bool = True) -> Any:
    """A text or None; its value is left out of `repr` unless it is *shown*."""
    return attrs.field(default=None, repr=shown, metadata={"kind": "text", "none": True})


MAPPING: Final = {"kind": "mapping"}
"""Metadata of a field for more options by name."""
_KINDS: Final = {
    "switch": (bool, "must be True or False"),
    "text": (str, "must be text"),
    "mapping": (dict, "must be a mapping"),
}


def problem(field: attrs.Attribute[Any], value: object) -> str | None:
    """Say what is wrong with the value of an option; the value itself is not quoted."""
    meta = field.metadata
    if "kind" not in meta or (value is None and meta.get("none")):
        return None
    if meta["kind"] in _KINDS:
        kind, told = _KINDS[meta["kind"]]
        if not isinstance(value, kind):
            return told
        blank = isinstance(value, str) and field.default is attrs.NOTHING and not value.strip()
        return "must not be blank" if blank else None
    if meta["kind"] == "count":
        whole = isinstance(value, int) and not isinstance(value, bool)
        return None if whole and value >= meta["low"] else f"must be a whole number ≥ {meta['low']}"
    if not _is_finite(value):
        return f"must be a finite number{' of seconds' if field.name.endswith('_seconds') else ''}"
    if value <= meta["low"]:
        return f"must be greater than {meta['low']:g}"
    if value >= meta.get("below", math.inf):
        return f"must be less than {meta['below']:g}"
    return None


def _is_finite(value: object) -> TypeGuard[int | float]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond the range of floats
        return False


def raise_problems(instance: attrs.AttrsInstance, *more: str | None) -> None:
    """Raise one error that names every option that is wrong."""
    problems = [
        f"{field.name} {told}{_shown(field, getattr(instance, field.name))}"
        for field in attrs.fields(type(instance))
        if (told := problem(field, getattr(instance, field.name)))
    ]
    problems += [each for each in more if each]
    if problems:
        raise BandConfigError(f"{type(instance).__name__}: " + "; ".join(problems))


def _shown(field: attrs.Attribute[Any], value: object) -> str:
    if field.metadata["kind"] != "text":
        return f", not {value!r}"
    return "" if isinstance(value, str) else f", not {type(value).__name__}"  # it may be a key


def pair_problem(config: attrs.AttrsInstance, lower: str, upper: str, relation: str) -> str | None:
    """Compare two options that are each in range; one that is not is named already."""
    fields = attrs.fields_dict(type(config))
    low, high = getattr(config, lower), getattr(config, upper)
    if problem(fields[lower], low) or problem(fields[upper], high):
        return None
    broken = low >= high if relation == "be less than" else low > high
    return f"{lower} must {relation} {upper}, not {low!r} with {high!r}" if broken else None

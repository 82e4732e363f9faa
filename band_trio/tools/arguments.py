"""Arguments of a tool call: repaired where there is one reading, else refused with a reason.

Models send numbers as text, lists as JSON text and mentions as objects. What can only mean one
thing is taken as that; everything else becomes a text that tells the model what to change.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin

import attrs
import cattrs
from cattrs.gen import make_dict_structure_fn, override

from band_trio import texts
from band_trio.errors import InvalidToolArgumentsError
from band_trio.kit.hygiene import (
    clean_text,
    clip,
    has_visible,
    one_line,
    without_surrogates,
    without_surrogates_deep,
)
from band_trio.tools.definitions import (
    Argument,
    ClassField,
    class_fields,
    has_fields,
    is_pydantic,
)
from band_trio.tools.kinds import distance, may_be_null
from band_trio.tools.mentions import mention_text, split_mentions
from band_trio.tools.notes import check_limits, read_notes
from band_trio.tools.repair import parsed_json, repaired
from band_trio.tools.schemas import pydantic_schema

_log: Final = logging.getLogger(__name__)

M = TypeVar("M")

_PROBLEM_CHARS: Final = 2000
_PLAIN: Final = Argument("")
_WHOLE: Final = re.compile(r"\s*[+-]?\d{1,18}\s*")
_NUMBER: Final = re.compile(r"\s*[+-]?\d{1,18}(\.\d+)?([eE][+-]?\d{1,3})?\s*")


def validate_tool_arguments(name: str, model: type[M], args: Any) -> M:
    """Build the arguments *model* of the tool *name* from what a model sent.

    Raises:
        InvalidToolArgumentsError: something is missing or wrong; the text lists every problem.
    """
    try:
        instance: M = _object({} if args is None or args == "" else args, model)
    except (cattrs.BaseValidationError, ValueError, TypeError, RecursionError) as exc:
        raise InvalidToolArgumentsError(format_tool_validation_error(name, exc)) from None
    return instance


def format_tool_validation_error(name: str, exc: Exception) -> str:
    """Word a validation failure for the model: `Invalid arguments for <tool>: <path>: <text>; …`."""
    problems = [_describe(exc, None)]
    if isinstance(exc, cattrs.BaseValidationError):
        problems = [
            _reworded(text) for text in cattrs.transform_error(exc, format_exception=_describe)
        ]
    return texts.invalid_arguments(name, clip("; ".join(problems), _PROBLEM_CHARS))


def method_arguments(instance: attrs.AttrsInstance) -> dict[str, Any]:
    """Return the keyword arguments for the tool's method: defaults filled in, None left out."""
    values = ((f.name, getattr(instance, f.name)) for f in attrs.fields(type(instance)))
    return {name: value for name, value in values if value is not None}


def _describe(exc: BaseException, _: type | None) -> str:
    if isinstance(exc, RecursionError):
        return "is nested too deeply"
    return "is required" if isinstance(exc, KeyError) else str(exc)


def _reworded(problem: str) -> str:
    """Turn `text @ $.path` into `path: text`, the path left out when empty."""
    text, _, path = problem.rpartition(" @ $")
    path = path.lstrip(".")
    return f"{path}: {text}" if path else text


def given_object(args: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return the arguments of a call as an object; they may come as its JSON text, or not at all.

    Raises:
        TypeError: they are no object; the text lists the possible *names*.
    """
    return _as_object({} if args is None or args == "" else args, names)


def _as_object(value: Any, names: Iterable[str]) -> dict[str, Any]:
    if isinstance(value, str):
        parsed = parsed_json(value, dict)
        value = value if parsed is None else parsed
    if not isinstance(value, Mapping):
        raise TypeError(f"must be one JSON object (arguments: {', '.join(names) or 'none'})")
    return {str(key): item for key, item in value.items()}


def _as_fields(value: Any, cls: type) -> dict[str, Any]:
    """Return the values for the fields of *cls* by name, as far as they are given."""
    fields = class_fields(cls)
    values = _as_object(value, [field.name for field in fields])
    for field in fields:
        for alias in field.spec.aliases:
            if alias in values and field.name not in values:
                values[field.name] = values.pop(alias)
        if field.spec.mentions:
            values.setdefault(field.name, None)  # the tool's own answer says who can be mentioned
        # A null that cannot be meant, for something optional, means what leaving it out means.
        elif values.get(field.name, ...) is None and _is_optional(field):
            del values[field.name]
    unknown = values.keys() - {field.name for field in fields}
    if unknown:
        names = clean_text(", ".join(sorted(unknown)))
        _log.debug("%s: unknown arguments ignored: %s", cls.__name__, names)
    return values


def _is_optional(field: ClassField) -> bool:
    return field.default is not attrs.NOTHING and not may_be_null(field.kind)


# --------------------------------------------------------------------------- one value


def convert_value(value: Any, kind: Any, spec: Argument) -> Any:
    """Return *value* as *kind*, repaired if there is one reading, within the limits of *spec*.

    Raises:
        ValueError, TypeError: it cannot be read as that; the text says what is needed.
    """
    if spec.prefix and isinstance(value, int) and not isinstance(value, bool):
        value = str(value)  # the number of something
    result = _converted(value, kind, spec)
    if isinstance(result, str):
        result = result.strip().removeprefix(spec.prefix) if spec.prefix else result
        result = one_line(result) if spec.one_line else result
        _check_text(result, spec)
    elif isinstance(result, int | float) and not isinstance(result, bool):
        _check_bounds(result, spec)
    return result


def _converted(value: Any, kind: Any, spec: Argument) -> Any:
    origin = get_origin(kind)
    if origin is Annotated:
        inner, *notes = get_args(kind)
        result = _converted(value, inner, spec)
        check_limits(result, read_notes(notes).limits)
        return result
    if origin in (Union, UnionType):
        return _optional(value, kind, spec)
    if origin is Literal:
        return _choice(value, get_args(kind))
    if origin is list or kind is list:
        return _list(value, (get_args(kind) or (Any,))[0], spec)
    if origin is dict or kind is dict:
        return _mapping(value, *(get_args(kind) or (str, Any)))
    simple: Callable[[Any], Any] | None = _SIMPLE.get(kind)
    if simple is not None:
        return simple(value)
    return without_surrogates_deep(value) if kind is Any else _object(value, kind)


def _object(value: Any, kind: Any) -> Any:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _member(value, kind)
    if is_pydantic(kind):
        return _pydantic(value, kind)
    return _converter.structure(value, kind)


def _pydantic(value: Any, kind: Any) -> Any:
    schema = pydantic_schema(kind)
    if schema.get("type") == "object":
        value = _as_object(value, schema.get("properties", ()))
    try:
        return kind.model_validate(repaired(value, schema))
    except ValueError as exc:
        errors = getattr(exc, "errors", None)
        if not callable(errors):
            raise
        rows = errors(include_url=False, include_context=False, include_input=False)
        raise cattrs.ClassValidationError("", [_problem(row) for row in rows], kind) from None


def _problem(row: Mapping[str, Any]) -> ValueError:
    """Return one problem that pydantic found, at its path."""
    problem = ValueError(row["msg"])
    if row["loc"]:
        path = ".".join(map(str, row["loc"]))
        problem.add_note(cattrs.AttributeValidationNote("", path, None))
    return problem


def _optional(value: Any, kind: Any, spec: Argument) -> Any:
    kinds = [each for each in get_args(kind) if each is not NoneType]
    if value is None and len(kinds) < len(get_args(kind)):
        return None
    if len(kinds) == 1:
        return _converted(value, kinds[0], spec)
    for each in sorted(kinds, key=lambda kind: distance(value, kind)):  # as it is, if it may be
        try:
            return _converted(value, each, spec)
        except (ValueError, TypeError, cattrs.BaseValidationError):
            continue
    raise TypeError(f"is of no possible kind: {_shown(value)}")


def _member(value: Any, kind: type[Enum]) -> Enum:
    for member in kind:
        if value in (member, member.value):
            return member
    return cast(Enum, _choice(value, tuple(member.value for member in kind)))


def _time(value: Any) -> datetime:
    if isinstance(value, datetime):
        return value
    try:
        return datetime.fromisoformat(_text(value))
    except ValueError:
        raise ValueError(f"must be a time in ISO 8601, not {_shown(value)}") from None


def _day(value: Any) -> date:
    try:
        return date.fromisoformat(_text(value))
    except ValueError:
        raise ValueError(f"must be a date like 2025-01-31, not {_shown(value)}") from None


def _choice(value: Any, choices: tuple[Any, ...]) -> Any:
    if value in choices:
        return value
    raise ValueError(f"must be one of {', '.join(map(str, choices))}, not {_shown(value)}")


def _list(value: Any, item: Any, spec: Argument) -> list[Any]:
    if value is None and spec.mentions:
        value = []  # nobody; the tool's own answer then says who could be mentioned
    elif isinstance(value, str) and item is str:
        value = split_mentions(value) if value.strip() else []
    elif isinstance(value, str):
        parsed = parsed_json(value, list)
        value = value if parsed is None else parsed
    elif isinstance(value, Mapping) and spec.mentions:
        value = [value]
    if not isinstance(value, list | tuple):
        raise TypeError(f"must be a list, not {_shown(value)}")
    return _each(enumerate(value), lambda each: _item(each, item, spec))


def _each(pairs: Iterable[tuple[Any, Any]], convert: Callable[[Any], Any]) -> list[Any]:
    """Return what *convert* makes of each value; its key or index goes with a problem."""
    results, problems = [], []
    for key, value in pairs:
        try:
            results.append(convert(value))
        except (ValueError, TypeError, cattrs.BaseValidationError) as exc:
            exc.add_note(cattrs.IterableValidationNote("", key, None))
            problems.append(exc)
    if problems:
        raise cattrs.IterableValidationError("", problems, list)
    return results


def _item(value: Any, kind: Any, spec: Argument) -> Any:
    if spec.mentions and isinstance(value, Mapping):
        named = mention_text(value)
        if named is None:
            raise ValueError("an object in the list needs an id, a handle or a name")
        return named
    return _converted(value, kind, spec)


def _mapping(value: Any, key_kind: Any, kind: Any) -> dict[Any, Any]:
    if isinstance(value, str):
        parsed = parsed_json(value, dict)
        value = value if parsed is None else parsed
    if not isinstance(value, Mapping):
        raise TypeError(f"must be an object, not {_shown(value)}")
    named = {without_surrogates(str(key)): item for key, item in value.items()}
    keys = _each(zip(named, named, strict=True), lambda key: _converted(key, key_kind, _PLAIN))
    items = _each(named.items(), lambda item: _converted(item, kind, _PLAIN))
    return dict(zip(keys, items, strict=True))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"must be text, not {_shown(value)}")
    return without_surrogates(value)


def _whole(value: Any) -> int:
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"must be a whole number, not {_shown(value)}")
    return value


def _number(value: Any) -> float:
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"must be a number, not {_shown(value)}")
    return value


def _truth(value: Any) -> bool:
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    if not isinstance(value, bool):
        raise TypeError(f"must be true or false, not {_shown(value)}")
    return value


_SIMPLE: Final[dict[Any, Callable[[Any], Any]]] = {
    str: _text,
    int: _whole,
    float: _number,
    bool: _truth,
    datetime: _time,
    date: _day,
}


def _check_text(value: str, spec: Argument) -> None:
    if spec.visible and not has_visible(value):
        raise ValueError(texts.CANNOT_BE_BLANK)
    if spec.pattern is not None and not re.fullmatch(spec.pattern, value):
        raise ValueError(f"has characters that are not possible here: {_shown(value)}")
    if spec.longest is not None and len(value) > spec.longest:
        raise ValueError(f"must have at most {spec.longest} characters, not {len(value)}")


def _check_bounds(value: float, spec: Argument) -> None:
    low, high = spec.low, spec.high
    if (low is not None and value < low) or (high is not None and value > high):
        wanted = f"at least {low}" if high is None else f"from {low} to {high}"
        raise ValueError(f"must be {wanted}, not {value}")


def _shown(value: Any) -> str:
    """Quote a wrong value briefly: it comes from a model and may be long."""
    if value is None:
        return "null"
    if isinstance(value, str | int | float):
        return clip(json.dumps(value, ensure_ascii=False), 60)
    return "an object" if isinstance(value, Mapping) else f"a {type(value).__name__}"


# --------------------------------------------------------------------------- the converter


def _build() -> cattrs.Converter:
    converter = cattrs.Converter()

    def by_field(cls: type) -> Callable[[Any, Any], Any]:
        hooks = {field.name: override(struct_hook=_hook(field)) for field in class_fields(cls)}
        build: Any = make_dict_structure_fn(cls, converter, **hooks)  # type: ignore[arg-type]
        return lambda value, _: build(_as_fields(value, cls), cls)

    converter.register_structure_hook_factory(has_fields, by_field)
    return converter


def _hook(field: ClassField) -> Callable[[Any, Any], Any]:
    return lambda value, _: convert_value(value, field.kind, field.spec)


_converter: Final = _build()

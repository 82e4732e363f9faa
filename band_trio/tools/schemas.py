"""JSON Schemas of the tools, rendered from their argument classes, in the two usual formats."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from enum import Enum
from functools import lru_cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import attrs

from band_trio.tools.definitions import (
    ToolDefinition,
    class_fields,
    has_fields,
    is_pydantic,
)
from band_trio.tools.docstrings import argument_descriptions, tool_description
from band_trio.tools.notes import limits_schema, read_notes
from band_trio.types import ToolFormat

_BOUNDS: Final = frozenset(
    ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]
)
_NAMED: Final = frozenset(
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"]
)
"""Keywords whose keys are names that an author chose, not keywords."""

_SIMPLE: Final[dict[Any, dict[str, Any]]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    Any: {},
    NoneType: {"type": "null"},
}


def model_schema(model: type) -> dict[str, Any]:
    """Return the JSON Schema of an attrs class or a dataclass, without titles.

    Raises:
        TypeError: a field has no counterpart in JSON.
    """
    described = argument_descriptions(model)
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    required = []
    for field in class_fields(model):
        try:
            prop = type_schema(field.kind)
        except TypeError as exc:
            raise TypeError(f"{field.name}: {exc}") from None
        if field.default is attrs.NOTHING:
            required.append(field.name)
        elif not isinstance(field.default, attrs.Factory):  # type: ignore[arg-type]
            prop.update(_default(field.default))
        # What stands at the field comes first, then what stands at its type, then the docstring.
        words = (field.spec.description, prop.pop("description", ""), described.get(field.name, ""))
        if any(words):
            prop["description"] = next(filter(None, words))
        schema["properties"][field.name] = prop
    if required:
        schema["required"] = required
    return schema


def _default(value: Any) -> dict[str, Any]:
    """Return the schema's word for a default; none where JSON cannot express it."""
    plain = value.value if isinstance(value, Enum) else value
    try:
        return {"default": json.loads(json.dumps(plain, allow_nan=False))}
    except (TypeError, ValueError, RecursionError):
        return {}


def type_schema(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of an annotation.

    Raises:
        TypeError: it has no counterpart in JSON.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _noted_schema(*inner)
    if kind in _SIMPLE:
        return dict(_SIMPLE[kind])
    if origin in (Union, UnionType):
        return {"anyOf": [type_schema(each) for each in inner]}
    if origin is Literal:
        return _choices(list(inner))
    if origin is list or kind is list:
        return {"type": "array", "items": type_schema(inner[0]) if inner else {}}
    if origin is dict or kind is dict:
        items = type_schema(inner[1]) if inner else {}
        return {"type": "object", "additionalProperties": items or True}
    if isinstance(kind, type):
        return _class_schema(kind)
    raise TypeError(f"{kind!r} has no counterpart in JSON Schema")


def _noted_schema(kind: Any, *notes: Any) -> dict[str, Any]:
    schema, read = type_schema(kind), read_notes(notes)
    schema.update(limits_schema(read.limits, schema.get("type")))
    return {**schema, "description": read.description} if read.description else schema


def _class_schema(kind: type) -> dict[str, Any]:
    if issubclass(kind, Enum):
        return _choices([member.value for member in kind])
    if is_pydantic(kind):
        return pydantic_schema(kind)
    if has_fields(kind):
        return model_schema(kind)
    raise TypeError(f"{kind!r} has no counterpart in JSON Schema")


def _choices(values: list[Any]) -> dict[str, Any]:
    kinds = {type(value) for value in values}
    if len(kinds) == 1 and (kind := kinds.pop()) in _SIMPLE:
        return {**_SIMPLE[kind], "enum": values}
    return {"enum": values}


# --------------------------------------------------------------------------- foreign schemas


def pydantic_schema(model: Any) -> dict[str, Any]:
    """Return the schema of a pydantic model: without titles, its own description and references.

    Arguments without a description get that of the docstring. The caller may change the result.
    """
    schema: dict[str, Any] = copied(_pydantic_schema(model))
    return schema


@lru_cache(maxsize=256)
def _pydantic_schema(model: Any) -> dict[str, Any]:
    raw = model.model_json_schema()
    schema: dict[str, Any] = _inlined(raw, raw.get("$defs", {}), ())
    schema.pop("$defs", None)
    schema.pop("description", None)
    for name, text in argument_descriptions(model).items():
        if name in schema.get("properties", {}):
            schema["properties"][name].setdefault("description", text)
    return schema


def _inlined(value: Any, defs: Mapping[str, Any], inside: tuple[str, ...]) -> Any:
    """Copy a schema without titles, definitions in place of references to them."""
    if isinstance(value, list):
        return [_inlined(item, defs, inside) for item in value]
    if not isinstance(value, Mapping):
        return value
    name = str(value.get("$ref", "")).removeprefix("#/$defs/")
    if name in inside:
        raise TypeError(f"{name} contains itself, which has no counterpart in a tool's schema")
    if name in defs:
        beside = {key: item for key, item in value.items() if key != "$ref"}
        return _inlined({**defs[name], **beside}, defs, (*inside, name))
    result: dict[str, Any] = {}
    for key, item in value.items():
        if key in _NAMED and isinstance(item, Mapping):
            named = {} if key == "$defs" else item
            result[key] = {n: _inlined(each, defs, inside) for n, each in named.items()}
        elif key in ("enum", "const", "default", "examples"):
            result[key] = copied(item)
        # A discriminator is no word of JSON Schema, and refers to definitions that are gone.
        elif not (key == "title" and isinstance(item, str)) and key != "discriminator":
            result[key] = _inlined(item, defs, inside)
    return result


# --------------------------------------------------------------------------- sanitising


def sanitize_tool_schema(
    schema: Mapping[str, Any],
    *,
    drop_numeric_bounds: bool = False,
    drop_additional_properties: bool = False,
) -> dict[str, Any]:
    """Return a copy of *schema* that every provider takes: `const` becomes a one-value `enum`.

    Optionally without numeric bounds and without `additionalProperties`. A property that merely
    has the name of a keyword stays.
    """
    dropped = _BOUNDS if drop_numeric_bounds else frozenset()
    if drop_additional_properties:
        dropped = dropped | {"additionalProperties"}
    result: dict[str, Any] = _sanitized(schema, dropped)
    return result


def _sanitized(value: Any, dropped: frozenset[str]) -> Any:
    if isinstance(value, list | tuple):
        return [_sanitized(item, dropped) for item in value]
    if not isinstance(value, Mapping):
        return value
    result: dict[str, Any] = {}
    for key, item in value.items():
        if key in _NAMED and isinstance(item, Mapping):
            result[key] = {name: _sanitized(each, dropped) for name, each in item.items()}
        elif key == "const":
            result["enum"] = [copied(item)]
        elif key in ("enum", "default", "examples"):
            result[key] = copied(item)  # values, not schemas
        elif key not in dropped:
            result[key] = _sanitized(item, dropped)
    return result


def copied(value: Any) -> Any:
    """Copy a JSON value; much cheaper than `copy.deepcopy`, which looks for cycles."""
    if isinstance(value, Mapping):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [copied(item) for item in value]
    return value


# --------------------------------------------------------------------------- formats


def render_schemas(format: str, rows: Iterable[ToolDefinition]) -> list[dict[str, Any]]:  # noqa: A002 - the public word
    """Return the schemas of *rows* in a provider's format; the caller may change the result.

    Raises:
        ValueError: *format* is neither `openai` nor `anthropic`.
    """
    known_format(format)
    rendered: list[dict[str, Any]] = [copied(_rendered(format, row)) for row in rows]
    return rendered


def known_format(format: str) -> None:  # noqa: A002 - the public word
    """Check the name of a provider's format.

    Raises:
        ValueError: *format* is neither `openai` nor `anthropic`.
    """
    if format not in get_args(ToolFormat):
        raise ValueError(f"format must be 'openai' or 'anthropic', not {format!r}")


@lru_cache(maxsize=256)
def _rendered(format: str, row: ToolDefinition) -> dict[str, Any]:  # noqa: A002 - the public word
    schema = sanitize_tool_schema(model_schema(row.input_model), drop_numeric_bounds=True)
    return in_format(format, row.name, tool_description(row.input_model), schema)


def in_format(format: str, name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:  # noqa: A002 - the public word
    """Put one tool into a provider's format."""
    if format == "anthropic":
        return {"name": name, "description": description, "input_schema": schema}
    function = {"name": name, "description": description, "parameters": schema}
    return {"type": "function", "function": function}

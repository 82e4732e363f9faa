"""JSON Schemas of the tools, rendered from their argument classes, in the two usual formats."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

import attrs

from band_trio.tools.catalogue import TOOL_DEFINITIONS, TOOL_MODELS
from band_trio.tools.definitions import ToolDefinition, argument_of
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
    Any: {},
    NoneType: {"type": "null"},
}


def tool_description(model: type) -> str:
    """Return what the docstring of an argument class says, as one paragraph per paragraph."""
    paragraphs = inspect.cleandoc(model.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def model_schema(model: type[attrs.AttrsInstance]) -> dict[str, Any]:
    """Return the JSON Schema of an argument class, without titles and without bounds."""
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    required = []
    for field in attrs.fields(attrs.resolve_types(model)):
        prop = type_schema(field.type)
        if field.default is attrs.NOTHING:
            required.append(field.name)
        elif not isinstance(field.default, attrs.Factory):  # type: ignore[arg-type]
            prop["default"] = field.default
        description = argument_of(field).description
        if description:
            prop["description"] = description
        schema["properties"][field.name] = prop
    if required:
        schema["required"] = required
    return schema


def type_schema(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of an annotation.

    Raises:
        TypeError: it has no counterpart in JSON.
    """
    if kind in _SIMPLE:
        return dict(_SIMPLE[kind])
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return {"anyOf": [type_schema(each) for each in get_args(kind)]}
    if origin is Literal:
        return {"type": "string", "enum": list(get_args(kind))}
    if origin is list:
        return {"type": "array", "items": type_schema(get_args(kind)[0])}
    if origin is dict or kind is dict:
        return {"type": "object", "additionalProperties": True}
    if isinstance(kind, type) and attrs.has(kind):
        return model_schema(kind)
    raise TypeError(f"{kind!r} has no counterpart in JSON Schema")


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
    if format not in get_args(ToolFormat):
        raise ValueError(f"format must be 'openai' or 'anthropic', not {format!r}")
    rendered: list[dict[str, Any]] = [copied(_rendered(format, row)) for row in rows]
    return rendered


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


# --------------------------------------------------------------------------- for frameworks


def get_tool_description(name: str) -> str:
    """Return the description of a platform tool.

    Raises:
        KeyError: there is none of that name.
    """
    return tool_description(TOOL_DEFINITIONS[name].input_model)


def get_tool_docstring_with_args(name: str) -> str:
    """Return the description of a platform tool with its arguments, as a Google-style docstring."""
    model = TOOL_DEFINITIONS[name].input_model
    fields = attrs.fields(model)
    lines = [get_tool_description(name)]
    if fields:
        lines += ["", "Args:"]
        lines += [f"    {field.name}: {argument_of(field).description}" for field in fields]
    return "\n".join(lines)


def platform_args_schema(name: str) -> type[attrs.AttrsInstance]:
    """Return the argument class of a platform tool, for frameworks that read models."""
    return TOOL_MODELS[name]

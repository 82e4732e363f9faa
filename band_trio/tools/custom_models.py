"""Arguments of custom tools: a function's parameters, an attrs class, a dataclass, or pydantic.

All become one thing: a JSON Schema, and a way to build an instance from what a model sent.
Pydantic is recognised by its methods and never imported.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

import attrs

from band_trio.errors import BandConfigError, InvalidToolArgumentsError
from band_trio.tools.arguments import (
    format_tool_validation_error,
    given_object,
    validate_tool_arguments,
)
from band_trio.tools.definitions import argument, is_pydantic
from band_trio.tools.schemas import model_schema, pydantic_schema

_KINDS: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@attrs.frozen(eq=False)
class ArgumentModel:
    """The arguments of one custom tool."""

    schema: dict[str, Any]
    read: Callable[[str, Any], Any]
    """Tool name and a model's arguments → instance; raises `InvalidToolArgumentsError`."""
    values: Callable[[Any], dict[str, Any]]
    """Instance → its arguments by name."""

    @property
    def is_empty(self) -> bool:
        """Whether there are no arguments at all."""
        return not self.schema.get("properties")


def model_of_class(tool: str, cls: type) -> ArgumentModel:
    """Read an arguments class.

    Raises:
        BandConfigError: it is of no kind that is known, or has a field that JSON cannot express.
    """
    if is_pydantic(cls):
        return _of_pydantic(tool, cls)
    if attrs.has(cls):
        return ArgumentModel(
            _schema(tool, cls), lambda name, args: validate_tool_arguments(name, cls, args), _fields
        )
    if dataclasses.is_dataclass(cls):
        return _of_dataclass(tool, cls)
    raise BandConfigError(
        f"custom tool {tool!r}: {cls.__name__} must be an attrs class, a dataclass or a pydantic "
        "model"
    )


def model_of_function(tool: str, function: Callable[..., Any]) -> ArgumentModel:
    """Read the parameters of a function.

    Raises:
        BandConfigError: one has no annotation, cannot be given by name, or JSON cannot express it.
    """
    hints = _hints(tool, function)
    fields = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind not in _KINDS:
            raise BandConfigError(
                f"custom tool {tool!r}: the parameter {name!r} cannot be given by name; *args, "
                "**kwargs and positional-only parameters are not possible"
            )
        if name not in hints:
            raise BandConfigError(
                f"custom tool {tool!r}: the parameter {name!r} needs an annotation"
            )
        default = parameter.default
        fields[name] = _field(
            name, hints[name], attrs.NOTHING if default is parameter.empty else default
        )
    mirror = _mirror(tool, fields)
    return ArgumentModel(
        _schema(tool, mirror),
        lambda name, args: validate_tool_arguments(name, mirror, args),
        _fields,
    )


# --------------------------------------------------------------------------- the kinds


def _of_dataclass(tool: str, cls: type) -> ArgumentModel:
    hints = _hints(tool, cls)
    fields = {}
    for each in dataclasses.fields(cls):
        if not each.init:
            continue
        default: Any = attrs.NOTHING if each.default is dataclasses.MISSING else each.default
        if each.default_factory is not dataclasses.MISSING:
            default = attrs.Factory(each.default_factory)
        described = str(each.metadata.get("description", ""))
        fields[each.name] = _field(each.name, hints[each.name], default, described)
    mirror = _mirror(tool, fields)

    def read(name: str, args: Any) -> Any:
        checked = validate_tool_arguments(name, mirror, args)
        try:
            return cls(**_fields(checked))
        except (ValueError, TypeError) as exc:  # what `__post_init__` refuses
            raise InvalidToolArgumentsError(format_tool_validation_error(name, exc)) from None

    def values(instance: Any) -> dict[str, Any]:
        return {each.name: getattr(instance, each.name) for each in dataclasses.fields(cls)}

    return ArgumentModel(_schema(tool, mirror), read, values)


def _of_pydantic(tool: str, cls: Any) -> ArgumentModel:
    try:
        schema = pydantic_schema(cls)
    except Exception as exc:
        raise BandConfigError(f"custom tool {tool!r}: {exc}") from exc

    def read(name: str, args: Any) -> Any:
        try:
            return cls.model_validate(given_object(args, list(cls.model_fields)))
        except (ValueError, TypeError) as exc:  # pydantic's own error is a ValueError
            raise InvalidToolArgumentsError(_pydantic_problems(name, exc)) from None

    def values(instance: Any) -> dict[str, Any]:
        return {name: getattr(instance, name) for name in cls.model_fields}

    return ArgumentModel(schema, read, values)


def _pydantic_problems(name: str, exc: Exception) -> str:
    errors = getattr(exc, "errors", None)
    if not callable(errors):
        return format_tool_validation_error(name, exc)
    problems = []
    for error in errors(include_url=False, include_context=False, include_input=False):
        path = ".".join(str(part) for part in error["loc"])
        problems.append(f"{path}: {error['msg']}" if path else str(error["msg"]))
    return format_tool_validation_error(name, ValueError("; ".join(problems)))


# --------------------------------------------------------------------------- details


def _hints(tool: str, source: Any) -> dict[str, Any]:
    if not isinstance(source, type) and not inspect.isroutine(source):
        source = type(source).__call__  # an object that can be called
    try:
        return get_type_hints(source, include_extras=True)
    except (NameError, TypeError) as exc:
        raise BandConfigError(
            f"custom tool {tool!r}: its annotations cannot be read: {exc}"
        ) from exc


def _field(name: str, kind: Any, default: Any, description: str = "") -> Any:
    if get_origin(kind) is Annotated:
        kind, *notes = get_args(kind)
        description = description or next((each for each in notes if isinstance(each, str)), "")
    # The alias keeps a leading underscore, which attrs would take away.
    field = argument(description, default=default, kw_only=True)
    return attrs.field(
        type=kind, default=default, kw_only=True, alias=name, metadata=field.metadata
    )


def _mirror(tool: str, fields: Mapping[str, Any]) -> type[attrs.AttrsInstance]:
    """Return an attrs class with *fields*, so that one converter serves all kinds."""
    try:
        return attrs.make_class(f"{tool}_arguments", dict(fields), frozen=True, slots=False)
    except (TypeError, ValueError, SyntaxError) as exc:
        raise BandConfigError(f"custom tool {tool!r}: its arguments cannot be read: {exc}") from exc


def _schema(tool: str, cls: type[attrs.AttrsInstance]) -> dict[str, Any]:
    try:
        return model_schema(cls)
    except (NameError, TypeError, RecursionError) as exc:
        raise BandConfigError(f"custom tool {tool!r}: {exc}") from exc


def _fields(instance: attrs.AttrsInstance) -> dict[str, Any]:
    return {each.name: getattr(instance, each.name) for each in attrs.fields(type(instance))}

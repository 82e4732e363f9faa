"""Arguments of custom tools: a function's parameters, an attrs class, a dataclass, or pydantic.

All become one thing: a JSON Schema, and a way to build an instance from what a model sent.
Pydantic is recognised by its methods and never imported.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, get_type_hints

import attrs

from band_trio.errors import BandConfigError
from band_trio.tools.arguments import validate_tool_arguments
from band_trio.tools.definitions import class_fields, has_fields, is_pydantic
from band_trio.tools.notes import is_field
from band_trio.tools.schemas import type_schema

T = TypeVar("T")

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
        names = list(cls.model_fields)  # type: ignore[attr-defined]
    elif has_fields(cls):
        names = [field.name for field in _checked(tool, lambda: class_fields(cls))]
    else:
        raise BandConfigError(
            f"custom tool {tool!r}: {cls.__name__} must be an attrs class, a dataclass or a "
            "pydantic model"
        )
    return _model(tool, cls, names)


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
        default = attrs.NOTHING if parameter.default is parameter.empty else parameter.default
        if is_field(default):
            raise BandConfigError(
                f"custom tool {tool!r}: write the parameter {name!r} as Annotated[…, Field(…)]"
            )
        # The alias keeps a leading underscore, which attrs would take away.
        fields[name] = attrs.field(type=hints[name], default=default, kw_only=True, alias=name)
    return _model(tool, _mirror(tool, function, fields), list(fields))


# --------------------------------------------------------------------------- details


def _model(tool: str, cls: type, names: list[str]) -> ArgumentModel:
    return ArgumentModel(
        _checked(tool, lambda: type_schema(cls)),
        lambda name, args: validate_tool_arguments(name, cls, args),
        lambda instance: {name: getattr(instance, name) for name in names},
    )


def _checked(tool: str, read: Callable[[], T]) -> T:
    """Return what *read* returns; whatever is wrong with a class is found here."""
    try:
        return read()
    except Exception as exc:
        raise BandConfigError(f"custom tool {tool!r}: {exc}") from exc


def _hints(tool: str, source: Any) -> dict[str, Any]:
    if not isinstance(source, type) and not inspect.isroutine(source):
        source = type(source).__call__  # an object that can be called
    try:
        return get_type_hints(source, include_extras=True)
    except (NameError, TypeError) as exc:
        raise BandConfigError(
            f"custom tool {tool!r}: its annotations cannot be read: {exc}"
        ) from exc


def _mirror(tool: str, function: Any, fields: Mapping[str, Any]) -> type[attrs.AttrsInstance]:
    """Return an attrs class with *fields*, so that one converter serves all kinds."""
    described = function if inspect.isroutine(function) else type(function).__call__
    name = re.sub(r"\W", "_", f"arguments_of_{tool}")  # it becomes part of generated code
    try:
        cls = attrs.make_class(name, dict(fields), frozen=True, slots=False)
    except (TypeError, ValueError, SyntaxError) as exc:
        raise BandConfigError(f"custom tool {tool!r}: its arguments cannot be read: {exc}") from exc
    cls.__doc__ = described.__doc__
    return cls

"""Direct calls of tools, by code: names and plain types are checked before anything is requested.

What a model sends goes another way: it is repaired and validated (`band_trio.tools.arguments`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

from band_trio import texts
from band_trio.config.keywords import unexpected_keyword
from band_trio.errors import InvalidToolArgumentsError, did_you_mean
from band_trio.tools.failures import AgentFailure

_Kind = tuple[tuple[type, ...], str]

_KINDS: Final[dict[str, _Kind]] = {
    "str": ((str,), "text"),
    "str | None": ((str, NoneType), "text or None"),
    "int": ((int,), "a whole number"),
    "int | None": ((int, NoneType), "a whole number or None"),
    "Sequence[str] | None": ((list, tuple, set, frozenset, NoneType), "a list of texts or None"),
    "Mapping[str, Any] | None": ((Mapping, NoneType), "a mapping or None"),
    "AgentFailure": ((AgentFailure,), "an AgentFailure"),
}
"""Annotation of a parameter, as it is written → what it takes, and in words."""
_ANYTHING: Final[_Kind] = ((object,), "")

Check = Callable[[tuple[Any, ...], Mapping[str, Any]], None]


def argument_check(method: Callable[..., Any], inputs: type | None = None) -> Check:
    """Return a check of the arguments behind `self` of a tool's method; cheap, once per call.

    The check raises InvalidToolArgumentsError for a value of a wrong kind, or for values that do not
    go together (`__attrs_post_init__` of *inputs* says which do), and TypeError for a keyword that
    is none. An argument that is missing is Python's matter.
    """
    together = inputs if hasattr(inputs, "__attrs_post_init__") else None
    parameters = list(inspect.signature(method).parameters.values())[1:]
    by_name = {each.name: _KINDS.get(each.annotation, _ANYTHING) for each in parameters}
    kinds = [kind for kind, _ in by_name.values()]

    def check(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        # One pass without a line of Python: nearly all calls fit.
        if not all(map(isinstance, args, kinds)):
            for name, value in zip(by_name, args, strict=False):
                _check_kind(method, name, by_name[name], value)
        for name, value in kwargs.items():
            if name not in by_name:
                raise TypeError(unexpected_keyword(method.__name__, name, by_name))
            _check_kind(method, name, by_name[name], value)
        if together is not None:
            _check_together(method, together, {**dict(zip(by_name, args, strict=False)), **kwargs})

    return check


def _check_kind(method: Callable[..., Any], name: str, kind: _Kind, value: object) -> None:
    if not isinstance(value, kind[0]):
        problem = f"{name}: must be {kind[1]}, not {type(value).__name__}"
        raise InvalidToolArgumentsError(texts.invalid_arguments(method.__name__, problem))


def _check_together(method: Callable[..., Any], inputs: type, given: dict[str, Any]) -> None:
    try:
        inputs(**given)
    except ValueError as exc:
        problem = texts.invalid_arguments(method.__name__, str(exc))
        raise InvalidToolArgumentsError(problem) from None
    except TypeError:  # one is missing: the call itself says so
        return


class AnswersNames:
    """Says what is meant where an attribute does not exist: `send_mesage` is `send_message`."""

    if not TYPE_CHECKING:  # else every name would pass the type check

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # a property that failed: its own error
                return object.__getattribute__(self, name)
            told = ""
            if not name.startswith("_"):
                names = [each for each in dir(self) if not each.startswith("_")]
                told = did_you_mean(name.removeprefix("band_"), names)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}.{told}")

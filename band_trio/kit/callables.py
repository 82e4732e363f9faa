"""What can be seen of a callable before it is called."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

Hook = Callable[..., Awaitable[None] | None]
"""A callback of the application: async, or sync and then run in a worker thread."""


def is_async(fn: Any) -> bool:
    """Tell whether calling *fn* gives a coroutine: functions, methods, partials, `__call__`.

    A decorated function is what it wraps.
    """
    while isinstance(fn, functools.partial):
        fn = fn.func
    method = getattr(fn, "__call__", None)  # noqa: B004 - of an object that can be called
    return any(inspect.iscoroutinefunction(each) for each in (fn, inspect.unwrap(fn), method))


def misfit(fn: Any, shape: str) -> str | None:
    """Tell in what way *fn* cannot be called with the arguments of *shape*; None if it can.

    *shape* is a list of parameters without defaults, as in `msg, tools, *, room_id`: those before
    the star are passed by position, the others by name. What cannot be inspected is let through, as
    is a decorator that takes everything: nobody knows what it passes on.
    """
    positional, _, named = shape.partition("*")
    try:
        signature = inspect.signature(fn, follow_wrapped=False)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*_names(positional), **dict.fromkeys(_names(named)))
    except TypeError as exc:
        return f"is called with ({shape}) but takes {_parameters(signature)}: {exc}"
    return None


def _names(shape: str) -> list[str]:
    return [name.strip() for name in shape.split(",") if name.strip()]


def _parameters(signature: inspect.Signature) -> str:
    """Show the names only: a default may be anything."""
    empty = inspect.Parameter.empty
    bare = [each.replace(annotation=empty, default=empty) for each in signature.parameters.values()]
    return str(inspect.Signature(bare))

"""How a function, or a pair of a class and a function, becomes a tool: name, schema, and call."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, Final, cast

import attrs
import trio

from band_trio.errors import BandConfigError
from band_trio.kit.callables import is_async
from band_trio.kit.limiter import FairLimiter
from band_trio.tools.custom_models import ArgumentModel, model_of_class, model_of_function
from band_trio.tools.docstrings import tool_description
from band_trio.tools.schemas import sanitize_tool_schema
from band_trio.types import TurnEffect

THREADS: Final = 40
"""Most sync tools that run at once; an abandoned one counts until its thread ends."""
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")

_limiter: Final[trio.lowlevel.RunVar[FairLimiter]] = trio.lowlevel.RunVar("custom_tools")


@attrs.frozen(eq=False)
class CustomTool:
    """A custom tool as it is offered and called."""

    name: str
    description: str
    model: ArgumentModel
    schema: dict[str, Any]
    effect: TurnEffect
    handler: Callable[..., Any]
    paired: bool
    """Whether the handler takes one instance instead of keywords."""

    async def run(self, instance: Any) -> Any:
        """Call the handler with the arguments in *instance*; return what it returns.

        A sync handler runs in a worker thread, which is abandoned when the call is cancelled: its
        late result is ignored.
        """
        if not self.paired:
            call = functools.partial(self.handler, **self.model.values(instance))
        elif self.model.is_empty:
            call = functools.partial(self.handler)
        else:
            call = functools.partial(self.handler, instance)
        if is_async(self.handler):
            return await call()
        # In a tuple, because a thread must not give back something to await, and this may be it.
        (result,) = await trio.to_thread.run_sync(
            lambda: (call(),),
            abandon_on_cancel=True,
            limiter=cast("trio.CapacityLimiter", _threads()),
        )
        return await result if inspect.isawaitable(result) else result


def read_custom_tool(tool: Any) -> CustomTool:
    """Take a custom tool apart.

    Raises:
        BandConfigError: it is of no shape that can be a tool; the text says why.
    """
    if isinstance(tool, tuple):
        if len(tool) != 2 or not isinstance(tool[0], type):
            raise BandConfigError(
                "a custom tool is a function, or a pair of an arguments class and a function, not "
                f"{tool!r}"
            )
        return _pair(*tool)
    return _function(tool)


# --------------------------------------------------------------------------- the two shapes


def _pair(cls: type, handler: Callable[..., Any]) -> CustomTool:
    base = cls.__name__.removesuffix("Input") or cls.__name__
    name = _checked_name(base.lower())
    _check_handler(name, handler)
    model = model_of_class(name, cls)
    try:
        signature = inspect.signature(handler)
    except (ValueError, TypeError):
        signature = None  # a builtin may have none
    if signature is not None:
        try:
            signature.bind(*(() if model.is_empty else (None,)))
        except TypeError as exc:
            needed = "no argument" if model.is_empty else f"one argument, the {cls.__name__}"
            raise BandConfigError(
                f"custom tool {name!r}: its function must take {needed} ({exc})"
            ) from exc
    return _made(name, tool_description(cls), model, handler, paired=True)


def _function(function: Any) -> CustomTool:
    if not callable(function) or isinstance(function, type):
        raise BandConfigError(f"a custom tool must be a function, not {function!r}")
    name = getattr(function, "__name__", None)
    if isinstance(function, functools.partial) or name == "<lambda>":
        raise BandConfigError(
            f"{function!r} has no name of its own: give it in a pair with an arguments class"
        )
    if name is None:  # an object that can be called goes by its class
        name = type(function).__name__.lower()
    name = _checked_name(name)
    _check_handler(name, function)
    described = function if inspect.isroutine(function) else type(function)
    model = model_of_function(name, function)
    return _made(name, tool_description(described), model, function, paired=False)


def _made(
    name: str,
    description: str,
    model: ArgumentModel,
    handler: Callable[..., Any],
    *,
    paired: bool,
) -> CustomTool:
    schema = sanitize_tool_schema(model.schema, drop_numeric_bounds=True)
    schema.setdefault("properties", {})
    return CustomTool(name, description, model, schema, _effect(name, handler), handler, paired)


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise BandConfigError(
            f"{name!r} cannot be the name of a tool: letters, digits, _ and - are possible, at "
            "most 64"
        )
    return name


def _check_handler(name: str, handler: Any) -> None:
    inner = handler
    while isinstance(inner, functools.partial):
        inner = inner.func
    if not callable(handler):
        raise BandConfigError(f"custom tool {name!r}: {handler!r} cannot be called")
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise BandConfigError(f"custom tool {name!r}: a generator cannot be a tool")


def _effect(name: str, handler: Any) -> TurnEffect:
    declared = getattr(handler, "band_effect", None)
    while declared is None and isinstance(handler, functools.partial):
        handler = handler.func
        declared = getattr(handler, "band_effect", None)
    if declared is None:
        return TurnEffect.ACT if getattr(handler, "band_terminal", False) else TurnEffect.OBSERVE
    try:
        return TurnEffect(declared)
    except ValueError:
        raise BandConfigError(
            f"custom tool {name!r}: band_effect must be one of {', '.join(TurnEffect)}"
        ) from None


def _threads() -> FairLimiter:
    """Return this run's limiter: threads abandoned in an earlier run never give theirs back."""
    try:
        return _limiter.get()
    except LookupError:
        limiter = FairLimiter(THREADS)
        _limiter.set(limiter)
        return limiter

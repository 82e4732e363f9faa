"""Arguments that a function does not take: answered with the one that is meant."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, ParamSpec, TypeVar, cast

from band_trio.errors import BandConfigError, did_you_mean
from band_trio.kit.secret import silent

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=type)

_RENAMED: Final = {
    "arguments": "args",
    "callback": "cleanup",
    "llm": "model",
    "page": "cursor",
    "page_size": "limit",
    "timeout": "grace",
    "tool_name": "name",
}
"""Keywords of band-sdk that band_trio names otherwise, where the function has the second."""
_NEEDLESS: Final = "band_trio does without: a room's history is read once, at its first turn."
_ELSEWHERE: Final = {
    "auto_subscribe_existing_rooms": "To leave rooms alone use AgentConfig(room_filter=…).",
    "context_cache_ttl_seconds": _NEEDLESS,
    "enable_context_cache": _NEEDLESS,
    "install_signal_handlers": "agent.run handles no signals; band_trio.run(agent) does.",
    "shutdown_timeout": "The grace is given to the stop: agent.stop(grace=…).",
}
"""Keywords of band-sdk that have no counterpart here, with what to do instead."""


def answer_keyword(given: str, known: Iterable[str]) -> str:
    """Return what to say of a keyword that is none of *known*: a sentence behind a blank, or ``."""
    names = list(known)
    if _RENAMED.get(given) in names:
        return f" band_trio calls it {_RENAMED[given]!r}."
    if given in _ELSEWHERE:
        return f" {_ELSEWHERE[given]}"
    return did_you_mean(given, names, max_distance=4)


def answers_keywords(fn: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function whose users may misspell a keyword; the error stays a TypeError.

    A call that fits costs nothing more than the call. A key among the keywords is made silent: a
    traceback with locals shows this frame, and that of *fn*.
    """

    def begin(*args: P.args, **kwargs: P.kwargs) -> R:
        if "api_key" in kwargs:
            kwargs["api_key"] = silent(kwargs["api_key"])
        try:
            return fn(*args, **kwargs)
        except TypeError:
            if (mistake := _mistake(fn, args, kwargs)) is None:
                raise
            raise TypeError(mistake) from None
        except BandConfigError as exc:
            # The text says it all, and tools that print locals would show what was given: keys,
            # passwords of proxies, the whole environment.
            kwargs.clear()
            raise exc.with_traceback(None)  # noqa: B904 - no other error

    if not inspect.iscoroutinefunction(fn):
        return functools.wraps(fn)(begin)

    @functools.wraps(fn)
    async def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        return await cast("Coroutine[Any, Any, Any]", begin(*args, **kwargs))

    return cast("Callable[P, R]", call)


def with_answers(cls: T) -> T:
    """Decorate a class whose constructor answers misspelt keywords."""
    setattr(cls, "__init__", answers_keywords(cast("Any", cls).__init__))  # noqa: B010 - mypy
    return cls


def check_keywords(name: str, given: Iterable[str], fn: Callable[..., Any], *more: str) -> None:
    """Refuse what is neither a keyword of *fn* nor one of *more*, before anything else is done.

    Raises:
        TypeError: says what was passed to the function *name*, and what is meant.
    """
    known = [*inspect.signature(fn).parameters, *more]
    for each in given:
        if each not in known:
            raise TypeError(unexpected_keyword(name, each, known))


def unexpected_keyword(name: str, given: str, known: Iterable[str]) -> str:
    """Word the TypeError for a keyword of the function *name* that is none of *known*."""
    told = answer_keyword(given, known)
    return f"{name}() got an unexpected keyword argument {given!r}.{told}"


def _mistake(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """Say which of the arguments *fn* does not take; None if that was not the error."""
    parameters = inspect.signature(fn).parameters.values()
    kinds = {each.kind for each in parameters}
    name = fn.__qualname__.removesuffix(".__init__")
    named = [
        each.name
        for each in parameters
        if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
        and each.name not in ("self", "cls")
    ]
    unknown = [each for each in kwargs if each not in named]
    if unknown and inspect.Parameter.VAR_KEYWORD not in kinds:
        return unexpected_keyword(name, unknown[0], named)
    places = sum(each.kind <= each.POSITIONAL_OR_KEYWORD for each in parameters)
    if len(args) > places and inspect.Parameter.VAR_POSITIONAL not in kinds:
        return f"{name}() takes keyword arguments: {', '.join(f'{each}=…' for each in named)}."
    return None

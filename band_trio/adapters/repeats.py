"""Requests to a model that are repeated here, for SDKs that do not repeat them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Final, TypeVar

import trio

T = TypeVar("T")

FIRST_WAIT: Final = 1.0
"""Seconds before the first repetition; each further wait is twice as long."""
_TRANSPORT: Final = frozenset({"TransportError", "ModelConnectionError"})
"""Classes of errors in transport, by name: which HTTP library an SDK uses is its own affair."""


async def repeated(request: Callable[[], Awaitable[T]], repetitions: int) -> T:
    """Return what *request* returns, after at most *repetitions* more of it where it fails.

    Only what may pass by itself is repeated: too many requests, errors of the server, transport.
    """
    wait = FIRST_WAIT
    for _ in range(repetitions):
        try:
            return await request()
        except Exception as exc:
            if not may_pass(exc):
                raise
        await trio.sleep(wait)
        wait *= 2
    return await request()


def may_pass(exc: BaseException) -> bool:
    """Tell whether a failure may pass by itself: too many requests, the server, transport."""
    status = getattr(exc, "status_code", None)
    if isinstance(status, int):
        return status == 429 or status >= 500
    return any(
        isinstance(each, OSError) or not _TRANSPORT.isdisjoint(class_names(each))
        for each in causes(exc)
    )


def causes(exc: BaseException) -> Iterator[BaseException]:
    """Return *exc* and what it was raised from, down to the first error."""
    cause: BaseException | None = exc
    while cause is not None:
        yield cause
        cause = cause.__cause__


def class_names(exc: BaseException) -> list[str]:
    """Return the names of the classes of *exc*, for those of libraries that are not loaded."""
    return [kind.__name__ for kind in type(exc).__mro__]

"""Requests to a model that are repeated here, for SDKs that do not repeat them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
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
            if not _may_pass(exc):
                raise
        await trio.sleep(wait)
        wait *= 2
    return await request()


def _may_pass(exc: Exception) -> bool:
    status = getattr(exc, "status_code", None)
    if isinstance(status, int):
        return status == 429 or status >= 500
    return any(
        isinstance(each, OSError) or any(kind.__name__ in _TRANSPORT for kind in type(each).__mro__)
        for each in (exc, exc.__cause__)
    )

"""Naming code that blocks the thread: while it does, nothing else of the program can say so."""

from __future__ import annotations

import types
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

T = TypeVar("T")


@types.coroutine
def timed(
    work: Coroutine[Any, Any, T], longest: float, tell: Callable[[float], None]
) -> Generator[Any, Any, T]:
    """Await *work* as it is, and tell of each step that took more than *longest* seconds.

    A step is what runs between two points at which the task waits. The time is the real one,
    whatever clock trio has. *tell* is given the seconds, when the step is over.
    """
    step = partial(work.send, None)
    while True:
        began = perf_counter()
        try:
            waits_for = step()
        except StopIteration as done:
            result: T = done.value
            return result
        finally:
            del step  # it may hold the error that comes out, which holds this frame
            took = perf_counter() - began
            if took > longest:
                tell(took)
        try:
            step = partial(work.send, (yield waits_for))
        except BaseException as exc:  # noqa: ASYNC103, BLE001 - passed on, cancellations too
            step = partial(work.throw, exc)

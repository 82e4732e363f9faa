"""What can be seen of a callable before it is called."""

from __future__ import annotations

import functools
import inspect
from typing import Any


def is_async(fn: Any) -> bool:
    """Tell whether calling *fn* gives a coroutine: functions, methods, partials, `__call__`.

    A decorated function is what it wraps.
    """
    while isinstance(fn, functools.partial):
        fn = fn.func
    method = getattr(fn, "__call__", None)  # noqa: B004 - of an object that can be called
    return any(inspect.iscoroutinefunction(each) for each in (fn, inspect.unwrap(fn), method))

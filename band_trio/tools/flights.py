"""Calls under way: who asks for the same one again waits for the first instead of repeating it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

import attrs
import trio

T = TypeVar("T")


class FlightLostError(Exception):
    """The first call was cancelled before it had a result; nobody knows what it did."""


@attrs.define(eq=False)
class _Flight(Generic[T]):
    done: trio.Event = attrs.field(factory=trio.Event)
    results: list[T] = attrs.field(factory=list)
    error: Exception | None = None

    def result(self) -> T:
        if self.error is not None:
            raise self.error
        if not self.results:
            raise FlightLostError
        return self.results[0]


class Flights(Generic[T]):
    """Results by key, shared between callers of one turn."""

    def __init__(self, *, keep: bool) -> None:
        # Bounded by the calls of one turn, which is what owns this object.
        self._flights: dict[Hashable, _Flight[T]] = {}
        self._keep = keep

    async def run(self, key: Hashable, work: Callable[[], Awaitable[T]]) -> T:
        """Return what *work* returns or raises, once per *key* while it runs (or ever, if kept).

        Raises:
            FlightLostError: the first caller was cancelled.
        """
        earlier = self._flights.get(key)
        if earlier is not None:
            await earlier.done.wait()
            return earlier.result()
        flight = self._flights[key] = _Flight()
        try:
            result = await work()
        except Exception as exc:
            flight.error = exc
            raise
        else:
            flight.results.append(result)
            return result
        finally:
            flight.done.set()
            if not self._keep and self._flights.get(key) is flight:
                self.forget(key)

    def forget(self, key: Hashable) -> None:
        """Let the next call with *key* run again."""
        self._flights.pop(key, None)

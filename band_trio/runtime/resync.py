"""The pace of the reads that a new connection asks for."""

from __future__ import annotations

from typing import Final

import trio

FIRST_AT_ONCE: Final = 8
"""First reads at once when nothing is known yet of how fast the platform answers."""


class FirstReads:
    """How many rooms read at once after a new connection: as many as the answers allow.

    One more with each round of good answers, half as many after a refusal or a failure, none
    before a told wait is over.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._level = float(min(FIRST_AT_ONCE, most))
        self._limiter = trio.CapacityLimiter(int(self._level))
        self._not_before = 0.0

    async def acquire(self) -> None:
        """Wait for a place; the caller's task holds it."""
        await self._limiter.acquire()
        try:
            while trio.current_time() < self._not_before:  # noqa: ASYNC110 - it may move
                await trio.sleep_until(self._not_before)
        except trio.Cancelled:
            self._limiter.release()
            raise

    def release(self) -> None:
        """Give the place of the caller's task back."""
        self._limiter.release()

    def answered(self) -> None:
        """A read was answered well."""
        self._set(min(self._most, self._level + 1 / self._level))

    def failed(self, told: float) -> None:
        """A read was refused, or had no answer; *told*: seconds to wait, as the platform said."""
        self._set(max(1.0, self._level / 2))
        self._not_before = max(self._not_before, trio.current_time() + told)

    def _set(self, level: float) -> None:
        if int(level) != int(self._level):
            self._limiter.total_tokens = int(level)
        self._level = level

"""The one task of an agent that waits for times: others leave a call behind instead of a task.

Told of a time it is not woken: trio moves the deadline that it sleeps under. What most turns
leave behind is cancelled long before its time, which is a flag.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final

import attrs
import trio

CLEAN_FROM: Final = 64
"""So many entries are kept before those that are cancelled are looked for."""


@attrs.define(eq=False)
class Deadline:
    """A call that is to be made when its time has come."""

    look: Callable[[], float | None] | None
    """None once it is cancelled, or was made for the last time."""

    def cancel(self) -> None:
        """Have nothing called any more; at any time, and any number of times."""
        self.look = None


@attrs.define(eq=False)
class Deadlines:
    """Calls by the time at which they are to be made, and the task that makes them."""

    _entries: list[tuple[float, int, Deadline]] = attrs.field(factory=list, init=False)
    """A heap of (trio's time, number, entry); at most twice what was live when last cleaned."""
    _numbers: Iterator[int] = attrs.field(factory=count, init=False)
    _clean_at: int = attrs.field(default=CLEAN_FROM, init=False)
    _sleep: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _sleeps_until: float = attrs.field(default=-math.inf, init=False)
    """The deadline of `_sleep`; minus infinity while the task looks for itself."""
    _serving: trio.CancelScope = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        # What holds up the end of a run is named while it does, hence a shield.
        self._serving = trio.CancelScope(shield=True)  # its deadline is `close`

    def at(self, when: float, look: Callable[[], float | None]) -> Deadline:
        """Have *look* called once *when* has come, in trio's time.

        It returns when to be called again, or None. It is quick code of the runtime and raises
        nothing: an error would end the run.
        """
        entry = Deadline(look)
        self._add(when, entry)
        return entry

    def _add(self, when: float, entry: Deadline) -> None:
        if len(self._entries) >= self._clean_at:
            self._clean()
        heappush(self._entries, (when, next(self._numbers), entry))
        if when < self._sleeps_until:
            self._sleep.deadline = self._sleeps_until = when

    def _clean(self) -> None:
        self._entries = [each for each in self._entries if each[2].look is not None]
        heapify(self._entries)
        self._clean_at = max(CLEAN_FROM, 2 * len(self._entries))

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Make the calls until `close`; a cancellation from outside does not end it."""
        with self._serving:
            task_status.started()
            while True:
                self._look(trio.current_time())
                self._sleeps_until = self._next()
                with trio.CancelScope(deadline=self._sleeps_until) as self._sleep:
                    await trio.sleep_forever()
                self._sleeps_until = -math.inf

    def close(self) -> None:
        """End the task; what is left is not called."""
        self._serving.cancel(reason="the run is over")

    def _next(self) -> float:
        """Return when the first entry is due; those that were cancelled in front of it are gone."""
        entries = self._entries
        while entries and entries[0][2].look is None:
            heappop(entries)
        return entries[0][0] if entries else math.inf

    def _look(self, now: float) -> None:
        """Make the calls that are due; one that wants the next at once gets it after a checkpoint."""
        due: list[Deadline] = []
        while self._entries and self._entries[0][0] <= now:
            due.append(heappop(self._entries)[2])
        for entry in due:
            again = entry.look() if entry.look is not None else None
            if again is None:
                entry.look = None
            else:  # it may have cancelled itself, and is forgotten like others
                self._add(again, entry)

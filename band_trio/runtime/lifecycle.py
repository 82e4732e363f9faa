"""Whether the run goes on, by when it has to be over, and what ended it.

A value that every part looks at, so that a stop cannot be lost in a queue. `stop` and `fail` are
synchronous and may be called from any task of the run.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from enum import StrEnum
from typing import Final

import attrs
import trio

from band_trio.errors import BandConnectionError


class End(StrEnum):
    """Why a turn, or the room around it, comes to an end."""

    INTERRUPT = "interrupt"
    STOP = "stop"
    LEFT = "left"
    SHUTDOWN = "shutdown"
    SUPERSEDED = "superseded"
    TIMEOUT = "timeout"


_HOOK_SHARE: Final = 0.6
"""Part of the overhead that the clean-up of rooms may take; the rest is for what comes after."""
_CLOSE_SHARE: Final = 0.85
"""Part of the overhead after which only the socket and the lock are still to be closed."""


class StartAborted(Exception):
    """The run was stopped while it was starting: what was started is undone, in reverse."""


@attrs.define(eq=False)
class Lifecycle:
    """One run, from its start to its last deadline."""

    overhead: float
    """Seconds after the grace for last marks, clean-up hooks and the close frame."""
    kind: End = attrs.field(default=End.SHUTDOWN, init=False)
    """What a turn that has to be cancelled is released with."""
    errors: list[BaseException] = attrs.field(factory=list, init=False)
    """What ended the run, if it was not asked to stop."""
    grace: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    """Around the wait for running turns; its deadline is the end of the grace."""
    whole: trio.CancelScope = attrs.field(init=False)
    """Around everything; `stop` sets the deadline that ends the run whatever still hangs."""
    _step: trio.CancelScope | None = attrs.field(default=None, init=False)
    """Around the step of the start that is under way."""
    turns_finished: int = attrs.field(default=0, init=False)
    """Turns that ended by themselves while the run was ending."""
    turns_cancelled: int = attrs.field(default=0, init=False)
    """Turns that the end of the grace cancelled."""
    stopped_at: float | None = attrs.field(default=None, init=False)
    """When the end began, in trio's time."""
    _stopping: trio.Event = attrs.field(factory=trio.Event, init=False)

    def __attrs_post_init__(self) -> None:
        self.whole = trio.CancelScope(shield=True)  # deadline: set by stop

    @property
    def closing(self) -> bool:
        """Whether admission is closed: nothing is claimed and no handler starts any more."""
        return self._stopping.is_set()

    @property
    def deadline(self) -> float:
        """End of the grace, in trio's time; infinite while the run goes on."""
        return self.grace.deadline

    @property
    def hooks_deadline(self) -> float:
        """When the clean-up hooks of rooms must have ended."""
        return self.deadline + self.overhead * _HOOK_SHARE

    @property
    def close_deadline(self) -> float:
        """When everything but the socket, the client and the lock must have ended."""
        return self.deadline + self.overhead * _CLOSE_SHARE

    @property
    def end(self) -> float:
        """When the run must be over."""
        return self.deadline + self.overhead

    def stop(self, grace: float) -> None:
        """Close admission now and end the run within *grace* seconds and the overhead.

        A later call can only bring the deadline forward.
        """
        self.grace.deadline = min(self.deadline, trio.current_time() + max(0.0, grace))
        self.whole.deadline = self.end
        if not self._stopping.is_set():
            self._stopping.set()
            self.stopped_at = trio.current_time()
            if self._step is not None:
                self._step.cancel(reason="the agent was stopped while it was starting")

    def fail(self, error: BaseException) -> None:
        """End the run at once, in order, and let *error* leave it."""
        if isinstance(error, BandConnectionError) and not self.closing:
            self.kind = End.SUPERSEDED
        self.errors.append(error)
        self.stop(0)

    @contextmanager
    def step(self) -> Generator[None]:
        """Surround one step of the start: a stop cancels it and ends the start.

        Raises:
            StartAborted: the run was stopped before or during the step.
        """
        with trio.CancelScope() as scope:
            self._step = scope
            if self.closing:
                scope.cancel(reason="the agent was stopped before it had started")
            try:
                yield
            finally:
                self._step = None
        if self.closing:
            raise StartAborted

    async def wait_stopping(self) -> None:
        """Wait until somebody stops the run, or something fails it."""
        await self._stopping.wait()

    def within(self, seconds: float, limit: float = math.inf) -> float:
        """Return the deadline of a step that may take *seconds*, but not go beyond *limit*."""
        return min(trio.current_time() + seconds, limit)


@attrs.frozen
class ShutdownReport:
    """How a run ended."""

    graceful: bool
    """No turn was cancelled, and no settlement was cancelled or left pending."""
    turns_finished: int
    """Turns that ended by themselves after the stop began."""
    turns_cancelled: int
    """Turns that the end of the grace cancelled; their messages are served again."""
    settles_pending: int
    """Marks that the platform has not confirmed."""
    cleanup_errors: tuple[str, ...]
    """Failures and overruns of clean-up hooks, and handlers that could not be ended."""
    duration: float
    """Seconds from the stop to the end."""

"""Whether the run goes on, by when it has to be over, and what ended it.

A value that every part looks at, so that a stop cannot be lost in a queue. `stop` and `fail` are
synchronous and may be called from any task of the run.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from enum import StrEnum
from typing import Final

import attrs
import trio

from band_trio.errors import BandConnectionError


class EndReason(StrEnum):
    """Why a turn, or the room around it, comes to an end."""

    INTERRUPT = "interrupt"
    STOP = "stop"
    LEFT = "left"
    SHUTDOWN = "shutdown"
    SUPERSEDED = "superseded"
    TIMEOUT = "timeout"


# Parts of the overhead, counted from the end of the grace. Each step of the end has a deadline of
# its own, so that one that hangs leaves the next ones their time.
MARKS: Final = 0.35
"""By then a room must have made its last try of a mark and sent its last working report."""
HOOKS: Final = 0.6
"""By then `on_cleanup` of all rooms must have ended."""
ROOMS: Final = 0.65
"""By then all rooms must have ended; one that has not is named. Also the end of settling."""
ADAPTER: Final = 0.85
"""By then the adapter must be cleaned up; the rest is for the socket and the lock."""


class StartAborted(Exception):
    """The run was stopped while it was starting: what was started is undone, in reverse."""


@attrs.define(eq=False)
class Lifecycle:
    """One run, from its start to its last deadline."""

    overhead: float
    """Seconds after the grace for last marks, clean-up hooks and the close frame."""
    end_reason: EndReason = attrs.field(default=EndReason.SHUTDOWN, init=False)
    """What a turn that has to be cancelled is released with."""
    errors: list[BaseException] = attrs.field(factory=list, init=False)
    """What ended the run, if it was not asked to stop."""
    grace: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    """Around the wait for running turns; its deadline is the end of the grace."""
    whole: trio.CancelScope = attrs.field(init=False)
    """Around everything; `stop` sets the deadline that ends the run whatever still hangs."""
    _step: trio.CancelScope | None = attrs.field(default=None, init=False)
    """Around the step of the start that is under way."""
    _shields: dict[trio.CancelScope, float] = attrs.field(factory=dict, init=False)
    """Steps that are shielded now, with their part of the overhead."""
    turns_finished: int = attrs.field(default=0, init=False)
    """Turns that ended by themselves while the run was ending."""
    turns_cancelled: int = attrs.field(default=0, init=False)
    """Turns that the end of the grace cancelled."""
    stopped_at: float | None = attrs.field(default=None, init=False)
    """When the end began, in trio's time."""
    closing: bool = attrs.field(default=False, init=False)
    """Whether admission is closed: nothing is claimed and no handler starts any more."""
    _stopping: trio.Event = attrs.field(factory=trio.Event, init=False)

    def __attrs_post_init__(self) -> None:
        self.whole = trio.CancelScope(shield=True)  # deadline: set by stop

    @property
    def deadline(self) -> float:
        """End of the grace, in trio's time; infinite while the run goes on."""
        return self.grace.deadline

    def until(self, part: float) -> float:
        """Return when a part of the overhead is over; infinite while the run goes on."""
        return self.deadline + self.overhead * part

    def stop(self, grace: float) -> None:
        """Close admission now and end the run within *grace* seconds and the overhead.

        A later call can only bring the deadline forward.
        """
        self.grace.deadline = min(self.deadline, trio.current_time() + max(0.0, grace))
        self.whole.deadline = self.until(1.0)
        for shield, part in self._shields.items():
            shield.deadline = min(shield.deadline, self.until(part))
        if not self.closing:
            self.closing = True
            self._stopping.set()
            self.stopped_at = trio.current_time()
            if self._step is not None:
                self._step.cancel(reason="the agent was stopped while it was starting")

    def fail(self, error: BaseException) -> None:
        """End the run at once, in order, and let *error* leave it."""
        if isinstance(error, BandConnectionError) and not self.closing:
            self.end_reason = EndReason.SUPERSEDED
        self.errors.append(error)
        self.stop(0)

    def tally(self, ended_by: EndReason | None) -> None:
        """Count a turn that has ended while the run is ending, and why."""
        if ended_by in (EndReason.SHUTDOWN, EndReason.SUPERSEDED):
            self.turns_cancelled += 1
        else:
            self.turns_finished += 1

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

    @contextmanager
    def shield(self, seconds: float, part: float) -> Generator[trio.CancelScope]:
        """Surround a step that has to be done even in a task that is being cancelled.

        It gets *seconds*, but ends with its *part* of the overhead at the latest: a stop that
        comes while it is under way brings its end forward.
        """
        deadline = min(trio.current_time() + seconds, self.until(part))
        with trio.move_on_at(deadline, shield=True) as scope:
            self._shields[scope] = part
            try:
                yield scope
            finally:
                del self._shields[scope]


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

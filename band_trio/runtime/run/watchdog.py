"""Naming code that blocks the thread, whoever's it is: nothing else of the program can run then.

One instrument of trio for the run notes when each step of any task begins. A step is what runs
between two points at which a task waits. A thread looks in now and then; where a step lasts too
long it takes down what the step is doing, which nobody can tell afterwards.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from pathlib import Path
from time import perf_counter
from types import FrameType, TracebackType
from typing import Final, Self

import attrs
import trio

from band_trio.kit.limiter import room_in
from band_trio.kit.logs import RepeatedLog

_log: Final = RepeatedLog(logging.getLogger(__name__))

JOIN_SECONDS: Final = 1.0
"""The thread ends within microseconds, unless the machine stands still."""

_OURS: Final = tuple(
    f"{Path(each).parent}{os.sep}" for each in (str(trio.__file__), str(Path(__file__).parents[1]))
)
_STANDARD: Final = (f"{Path(os.__file__).parent}{os.sep}", "<")
_INSTALLED: Final = tuple(f"{os.sep}{each}{os.sep}" for each in ("site-packages", "dist-packages"))


@attrs.define(eq=False)
class _Sample:
    """What a step was doing when it had lasted too long."""

    began: float
    """Tells the step."""
    room_id: str | None
    place: str
    told: bool = False
    """Whether it was told that the step goes on."""


@attrs.define(eq=False)
class Watchdog(trio.abc.Instrument):
    """Tells of each step that takes more than *limit* seconds of real time, whatever clock trio has.

    Put it around a run, in trio's thread: `with Watchdog(10, problems.note):`. It is told once,
    when the step is over; one that lasts twice as long is logged while it goes on as well, because
    it may never end.
    """

    _limit: float
    _note: Callable[[str], object]
    """Given one line for each step, in trio's thread."""
    # Written by trio's thread at each step, read by ours. Infinity: no step is under way.
    _began: float = attrs.field(default=math.inf, init=False)
    _task: trio.lowlevel.Task | None = attrs.field(default=None, init=False)
    _sample: _Sample | None = attrs.field(default=None, init=False)
    """Of the last step that lasted too long; written by our thread."""
    _trio_thread: int = attrs.field(factory=threading.get_ident, init=False)
    # Instruments are called in the context of whoever called `trio.run`.
    _context: Context = attrs.field(factory=copy_context, init=False)
    _over: threading.Event = attrs.field(factory=threading.Event, init=False)
    _thread: threading.Thread = attrs.field(init=False)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._watch, name="band_trio watchdog", daemon=True)
        self._thread.start()
        trio.lowlevel.add_instrument(self)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.before_io_wait(0.0)
        trio.lowlevel.remove_instrument(self)
        self._over.set()
        self._thread.join(JOIN_SECONDS)

    # ------------------------------------------------------------------ trio's thread

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Note that a step begins, which is the end of the one before. Runs at each step."""
        now = perf_counter()
        if now - self._began > self._limit:
            self._tell(now)
        self._began, self._task = now, task

    def before_io_wait(self, timeout: float) -> None:
        """Note that no step is under way."""
        now = perf_counter()
        if now - self._began > self._limit:
            self._tell(now)
        self._began, self._task = math.inf, None

    def _tell(self, now: float) -> None:
        task, sample, began = self._task, self._sample, self._began
        self._began, self._sample = math.inf, None
        assert task is not None  # set whenever `_began` is
        if sample is None or sample.began != began:  # code that holds the interpreter's lock
            sample = _Sample(began, room_in(task.context), "a place that could not be seen")
        took, where = now - began, _where(task, sample)
        self._note(f"the thread was blocked for {took:.1f} s at {where}")
        self._context.run(
            _log.warning,
            "the thread was blocked for %.1f s at %s; nothing else ran. Blocking code belongs in "
            "trio.to_thread.run_sync",
            took, where,
        )  # fmt: skip

    # ------------------------------------------------------------------ our thread

    def _watch(self) -> None:
        wait = self._limit / 2
        while not self._over.wait(wait):
            wait = self._look()

    def _look(self) -> float:
        """Look at the step that is under way; return the seconds until the next look."""
        began, task, sample = self._began, self._task, self._sample
        lasted = perf_counter() - began
        if lasted < self._limit or task is None:
            return min(self._limit / 2, max(0.0, self._limit - lasted))
        if sample is None or sample.began != began:
            sample = _Sample(began, room_in(task.context), _place(self._trio_thread, task))
            if self._began == began:  # else it ended meanwhile, and what was seen is of the next
                self._sample = sample
        elif not sample.told and lasted >= 2 * self._limit:
            sample.told = True
            _log.warning(
                "the thread is blocked for %.1f s already at %s, and goes on; nothing else runs",
                lasted, _where(task, sample),
            )  # fmt: skip
        return self._limit / 2


def _where(task: trio.lowlevel.Task, sample: _Sample) -> str:
    room = f" of room {sample.room_id}" if sample.room_id is not None else ""
    return f"{sample.place}, in the task {task.name!r}{room}"


def _place(thread: int, task: trio.lowlevel.Task) -> str:
    """Return `file:line in function` of what a task is doing: the innermost code of the application.

    Where there is none it is that of an installed library, else whatever is innermost.
    """
    outermost = getattr(task.coro, "cr_frame", None)
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - the only way to it
    frames: list[FrameType] = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back if frame is not outermost else None
    best = min(frames, key=_distance)
    return f"{best.f_code.co_filename}:{best.f_lineno} in {best.f_code.co_qualname}"


def _distance(frame: FrameType) -> int:
    """Return how far code is from being the application's: 0, its libraries 1, all else 2."""
    path = frame.f_code.co_filename
    if path.startswith(_OURS):
        return 2
    if any(each in path for each in _INSTALLED):
        return 1
    return 2 if path.startswith(_STANDARD) else 0

"""The asyncio side of `AsyncioHost`: a loop for a thread, the tasks of a call, waiting for trio.

The only file that imports asyncio. Everything here runs in the loop's thread, but for the methods
that say otherwise. What it tells the trio side it hands to functions that post and never block.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - the one place that runs asyncio, for frameworks that need it
import contextvars
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

import attrs

_log: Final = logging.getLogger(__name__)

_family: Final[contextvars.ContextVar[TaskFamily | None]] = contextvars.ContextVar(
    "band_trio_task_family", default=None
)


@attrs.frozen
class Outcome:
    """How a task of one side ended, for the other."""

    value: Any = None
    error: BaseException | None = None

    def unwrap(self) -> Any:
        """Return the value, or raise the error."""
        error = self.error
        if error is None:
            return self.value
        try:
            raise error
        finally:
            del error, self  # the error's traceback holds this frame: no cycle


def is_asyncio_cancellation(error: BaseException | None) -> bool:
    """Tell whether *error* is asyncio's cancellation."""
    return isinstance(error, asyncio.CancelledError)


# --------------------------------------------------------------------------- the loop


@attrs.define(eq=False)
class HostLoop:
    """A loop that a thread runs."""

    _loop: asyncio.AbstractEventLoop | None = attrs.field(default=None, init=False)
    closed: bool = attrs.field(default=False, init=False)
    """Whether it was told to stop."""

    def run(self, ready: Callable[[], object], wind_down_seconds: float) -> None:
        """Be the thread: run until `stop`, then cancel what is left, for so many seconds."""
        loop = asyncio.new_event_loop()
        try:
            asyncio.set_event_loop(loop)
            loop.set_task_factory(_make_task)
            loop.call_soon(ready)
            self._loop = loop
            while not self.closed:
                _run_on(loop)
            loop.run_until_complete(_wind_down(wind_down_seconds))
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    def stop(self) -> None:
        """Have `run` come to its end; from any thread."""
        self.closed = True
        if self._loop is not None:
            self.post(self._loop.stop)

    def post(
        self, fn: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> bool:
        """Have the loop call *fn*; tell whether there is still a loop. From any thread."""
        return self._loop is not None and _post(self._loop, fn, *args, context=context)


def _post(
    loop: asyncio.AbstractEventLoop,
    fn: Callable[..., object],
    *args: Any,
    context: contextvars.Context | None = None,
) -> bool:
    try:
        loop.call_soon_threadsafe(fn, *args, context=context)
    except RuntimeError:
        return False  # the loop is closed, and its tasks are gone with it
    return True


def _run_on(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop until it is stopped, or a task of the framework tries to end the program."""
    try:
        loop.run_forever()
    except (SystemExit, KeyboardInterrupt) as exc:
        # Only tasks that nobody waits for get here; the program is not theirs to end.
        _log.error("a background task of an asyncio framework raised %s", type(exc).__name__)


async def _wind_down(seconds: float) -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        _, stuck = await asyncio.wait(left, timeout=seconds)
        for task in stuck:
            _log.warning("the asyncio task %s ignores its cancellation", task.get_name())
    try:
        await asyncio.wait_for(asyncio.get_running_loop().shutdown_asyncgens(), seconds)
    except TimeoutError:
        _log.warning("asynchronous generators of an asyncio framework could not be closed")


# --------------------------------------------------------------------------- the tasks of a call


@attrs.define(eq=False)
class TaskFamily:
    """The main task of a call, and every task that it has begun."""

    _ended: Callable[[Outcome], object]
    """Told how the main task ended."""
    _quiet: Callable[[], object]
    """Told when, after `cancel`, the last task has ended."""
    _main: asyncio.Task[Outcome] | None = attrs.field(default=None, init=False)
    _tasks: set[asyncio.Task[Any]] = attrs.field(factory=set, init=False)
    _cancelled: bool = attrs.field(default=False, init=False)

    def adopt(self, context: contextvars.Context) -> None:
        """Make what starts in *context* part of the family; from any thread."""
        context.run(_family.set, self)

    def owns(self, context: contextvars.Context) -> bool:
        """Tell whether *context* descends from the call's; from any thread."""
        return context.get(_family) is self

    def start(self, fn: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> None:
        """Begin the main task; in the call's context."""
        self._main = asyncio.get_running_loop().create_task(_ending(fn, args))

    def cancel(self) -> None:
        """Cancel all tasks, once."""
        self._cancelled = True
        for task in list(self._tasks):
            task.cancel()
        if not self._tasks:
            self._quiet()

    def track(self, task: asyncio.Task[Any]) -> None:
        """Count *task* among those that are cancelled with the call."""
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task is self._main:
            # Cancelled only before its first step: after that it returns how it ended.
            self._ended(
                Outcome(error=asyncio.CancelledError()) if task.cancelled() else task.result()
            )
        if self._cancelled and not self._tasks:
            self._quiet()


def _make_task(
    loop: asyncio.AbstractEventLoop,
    coro: Any,
    *,
    context: contextvars.Context | None = None,
    **options: Any,
) -> asyncio.Task[Any]:
    """Make a task that belongs to the call in whose context it starts."""
    task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, context=context, **options)
    family = _family.get() if context is None else context.get(_family)
    if family is not None:
        family.track(task)
    return task


async def _ending(fn: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> Outcome:
    try:
        return Outcome(await fn(*args))
    # Whatever it is, it is raised on the other side; this task ends in the same step.
    except BaseException as exc:  # noqa: BLE001, ASYNC103 - raised by `Outcome.unwrap`
        return Outcome(error=exc)  # noqa: ASYNC104


# --------------------------------------------------------------------------- waiting for trio


@attrs.define(eq=False)
class Answer:
    """Where a task of asyncio waits for what trio does for it."""

    # Not necessarily the host's loop: a framework may run one of its own in a thread.
    _loop: asyncio.AbstractEventLoop = attrs.field(factory=asyncio.get_running_loop, init=False)
    _given: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)
    _end: Outcome = attrs.field(default=Outcome(), init=False)

    async def wait(self, cancel: Callable[[], bool]) -> Any:
        """Return what is given, or raise it.

        A cancelled caller has *cancel* called, which tells whether there will still be an answer,
        and waits for it, so that nothing of it goes on behind the caller's back.
        """
        try:
            await self._given.wait()
        except asyncio.CancelledError:
            if cancel():
                # Asyncio has no shields; a second cancellation ends the wait.
                await self._given.wait()  # noqa: ASYNC102
            raise
        end, self._end = self._end, Outcome()
        return end.unwrap()

    def give(self, end: Outcome) -> None:
        """Answer; from any thread."""
        _post(self._loop, self._take, end)

    def _take(self, end: Outcome) -> None:
        self._end = end
        self._given.set()

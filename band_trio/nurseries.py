"""Nurseries that are nobody's business: errors leave them as they were raised."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Final, Self, TypeAlias, TypeVarTuple, cast

import attrs
import trio

from band_trio.leaves import leaf_errors

Ts = TypeVarTuple("Ts")

_Group: TypeAlias = BaseExceptionGroup[BaseException]


@attrs.frozen
class hide_nursery:
    """Keep a nursery of ours out of the errors that its caller sees.

    Put it around `async with trio.open_nursery()`. One real error comes out as itself, with its
    own cause and context; several stay a group, with a note that names *what*.
    """

    what: str
    """Name of the public thing that the nursery belongs to, for the note."""

    def __enter__(self) -> None:
        pass

    # A class, not a @contextmanager function: contextlib's frame would keep the group, the group
    # the error, the error its traceback, and the traceback that frame. Such a cycle keeps every
    # object of a failed session alive until the garbage collector comes by.
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not isinstance(exc, BaseExceptionGroup):
            return
        group = cast("_Group", exc)
        real = [each for each in group.exceptions if not is_cancellation(each)]
        if len(real) > 1:
            group.add_note(f"several tasks of {self.what} failed together; use except*")
            return
        only = real[0] if real else group.exceptions[0]
        context = only.__context__
        try:
            raise only
        finally:
            only.__context__ = context  # raising it here has made the group its context
            del exc, traceback, group, real, only, context


@attrs.define(eq=False)
class GuardedNursery:
    """A nursery for code of the application, whose errors never cross trio's nursery beneath.

    trio puts the `repr` of an error that crosses a nursery into the reason of the cancellation; a
    `repr` that fails, as that of groups nested too deep does, would end the whole program. So the
    errors of tasks and of the block are kept aside. The first one cancels the nursery, as in
    trio's own; once all have ended, one error comes out as itself, several as a group that names
    *what*.
    """

    _what: str
    """Whose tasks they are, for the group."""
    _manager: AbstractAsyncContextManager[trio.Nursery] = attrs.field(
        factory=trio.open_nursery, init=False
    )
    _nursery: trio.Nursery = attrs.field(init=False)
    _errors: list[BaseException] = attrs.field(factory=list, init=False)

    @property
    def cancel_scope(self) -> trio.CancelScope:
        """Around the block and all tasks."""
        return self._nursery.cancel_scope

    @property
    def child_tasks(self) -> frozenset[trio.lowlevel.Task]:
        """The tasks that still run."""
        return self._nursery.child_tasks

    def start_soon(
        self,
        async_fn: Callable[[*Ts], Awaitable[object]],
        *args: *Ts,
        name: object = None,
    ) -> None:
        """Start a task, as trio's nurseries do.

        Raises:
            RuntimeError: the nursery has ended.
        """
        self._nursery.start_soon(self._run, async_fn, args, name=name or async_fn)

    async def start(
        self, async_fn: Callable[..., Awaitable[object]], *args: object, name: object = None
    ) -> Any:
        """Start a task and wait until it calls `task_status.started`; return what it gives there.

        An error from before that is the caller's.
        """
        failed: list[BaseException] = []
        try:
            return await self._nursery.start(
                self._run_started, async_fn, args, failed, name=name or async_fn
            )
        finally:
            if failed:
                raise failed.pop()

    async def _run(self, async_fn: Callable[..., Awaitable[object]], args: tuple[Any, ...]) -> None:
        try:
            await async_fn(*args)
        except BaseException as exc:  # noqa: ASYNC103, BLE001 - kept, raised at the end
            self._keep(exc)

    async def _run_started(
        self,
        async_fn: Callable[..., Awaitable[object]],
        args: tuple[Any, ...],
        failed: list[BaseException],
        *,
        task_status: trio.TaskStatus[Any],
    ) -> None:
        status = _Status(task_status)
        try:
            await async_fn(*args, task_status=status)
        except BaseException as exc:  # noqa: ASYNC103, BLE001 - kept, or handed over
            if status.up or is_own_cancellation(exc):
                self._keep(exc)
            else:
                failed.append(as_error(exc))
                task_status.started()  # else `start` would raise an error of its own

    def _keep(self, error: BaseException) -> None:
        """Keep an error and end the others; the cancellation of a scope of ours goes on."""
        if is_own_cancellation(error):
            raise error
        self._errors.append(as_error(error))
        self.cancel_scope.cancel(reason=f"{self._what}: a task failed")

    async def __aenter__(self) -> Self:
        self._nursery = await self._manager.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if exc is not None and not is_own_cancellation(exc):
            self._keep(exc)
            exc_type = exc = traceback = None
        caught = False
        try:
            caught = bool(await self._manager.__aexit__(exc_type, exc, traceback))  # noqa: ASYNC102 - trio's own
        except BaseException as left:  # noqa: ASYNC103 - raised below
            real = [each for each in leaf_errors(left) if not isinstance(each, trio.Cancelled)]
            if not real and not self._errors:
                raise
            self._errors += real  # Ctrl-C
        errors, self._errors = self._errors, []
        if not errors:
            return caught
        only = errors[0] if len(errors) == 1 else BaseExceptionGroup(self._what, errors)
        context = only.__context__
        try:
            raise only
        finally:
            only.__context__ = context  # raising it here has made the block's error its context
            # An error holds the frames that it came through: no frame may hold the error.
            del exc, traceback, errors, only, context


@attrs.define(eq=False)
class _Status:
    """A task status that knows whether `started` was called."""

    _inner: trio.TaskStatus[Any]
    up: bool = attrs.field(default=False, init=False)

    def started(self, value: Any = None) -> None:
        """Tell the starter that the task is up."""
        self._inner.started(value)
        self.up = True


class StrayCancelledError(RuntimeError):
    """A `trio.Cancelled` where nothing was cancelled: kept from a scope that is over."""


_STRAY: Final = "trio.Cancelled was raised where nothing was cancelled; it belongs to another scope"


def as_error(exc: BaseException) -> BaseException:
    """Return *exc*; in place of a cancellation that is not ours, an error that says so.

    Raised as it is, it would silently end the next nursery around.
    """
    if not is_cancellation(exc):
        return exc
    error = StrayCancelledError(_STRAY)
    error.__cause__ = exc
    return error


def is_own_cancellation(exc: BaseException) -> bool:
    """Tell whether *exc* is the cancellation of a scope around the caller, and nothing else.

    A `trio.Cancelled` that code of the application kept from a scope that is over is an error.
    """
    return trio.current_effective_deadline() == -math.inf and is_cancellation(exc)


def is_cancellation(exc: BaseException) -> bool:
    """Tell whether *exc* is nothing but trio's cancellation, in groups or bare."""
    return all(isinstance(leaf, trio.Cancelled) for leaf in leaf_errors(exc))

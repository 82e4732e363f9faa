"""`AsyncioHost`: one asyncio loop in one worker thread, for frameworks that run on nothing else.

The trio side. Both sides talk by posting: nothing blocks either loop, and what is posted runs in
the order in which it was posted. A call is a trio task on this side and an asyncio task on the
other. What the framework calls back runs in a nursery of the call, so that it ends with the call,
as everything in trio does.
"""

from __future__ import annotations

import contextvars
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial, wraps
from typing import Any, Final, ParamSpec, TypeVar, cast

import attrs
import trio

from band_trio.adapters.asyncio_loop import (
    Answer,
    HostLoop,
    Outcome,
    TaskFamily,
    is_asyncio_cancellation,
)
from band_trio.errors import ProviderRunError, TurnClosedError
from band_trio.kit.leaves import program_end
from band_trio.kit.nurseries import hidden_nursery, hide_nursery

_log: Final = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

GRACE_SECONDS: Final = 2.0
"""How long a cancelled asyncio task may take to clean up before it is abandoned."""
STOP_SECONDS: Final = 1.0
"""How long the loop may take to stop before its thread is abandoned."""
SELF_CANCELLED: Final = "cancelled"
"""Code of the error for a task that ended cancelled although nobody here cancelled it."""

_OVER: Final = "The call that this belongs to is over; it has no effect any more."


def open_asyncio_host(
    *, stop_seconds: float = STOP_SECONDS
) -> AbstractAsyncContextManager[AsyncioHost]:
    """Run an asyncio loop in a worker thread until the block ends.

    Then what is left on the loop is cancelled and the thread joined. If that takes longer than
    *stop_seconds* the thread is abandoned, with an error in the log. Errors of the block leave it
    as they are.
    """
    return AsyncioHost(stop_seconds).opened()


@attrs.define(eq=False)
class AsyncioHost:
    """An asyncio loop in a thread of its own; see `open_asyncio_host`.

    Objects of a framework that belong to a loop (clients, sessions, checkpointers) are made, used
    and closed through `call`.
    """

    _stop_seconds: float
    _token: trio.lowlevel.TrioToken = attrs.field(
        factory=trio.lowlevel.current_trio_token, init=False
    )
    _loop: HostLoop = attrs.field(factory=HostLoop, init=False)
    _ready: trio.Event = attrs.field(factory=trio.Event, init=False)
    _calls: set[HostCall] = attrs.field(factory=set, init=False)

    async def call(
        self, fn: Callable[..., Awaitable[T]], /, *args: Any, grace: float = GRACE_SECONDS
    ) -> T:
        """Run `await fn(*args)` on the asyncio loop and return its result; see `HostCall.run`."""
        return await self.begin().run(fn, *args, grace=grace)

    def begin(self) -> HostCall:
        """Prepare a call whose function calls back; see `HostCall.hop`."""
        return HostCall(self)

    # ----------------------------------------------------------------- posting

    def to_asyncio(
        self, fn: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> bool:
        """Have the loop call *fn*; tell whether there is still a loop."""
        return self._loop.post(fn, *args, context=context)

    def to_trio(self, fn: Callable[..., object], *args: Any) -> bool:
        """Have trio call *fn*, which must not raise; tell whether trio still runs."""
        try:
            self._token.run_sync_soon(fn, *args)
        except trio.RunFinishedError:
            return False  # the program's trio part has ended: nobody is left to be told
        return True

    # ----------------------------------------------------------------- life

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[AsyncioHost]:
        """Run the loop until the block ends; see `open_asyncio_host`."""
        # A shield whose deadline is set in the `finally` below: the loop outlives the cancellation
        # of the block by just so long that its tasks can clean up.
        thread = trio.CancelScope(shield=True)
        try:
            async with hidden_nursery("open_asyncio_host") as nursery:
                try:
                    nursery.start_soon(self._in_thread, thread)
                    await self._ready.wait()
                    yield self
                finally:
                    thread.deadline = trio.current_time() + self._stop_seconds
                    self._loop.stop()
        finally:
            for call in list(self._calls):
                call.lose()

    async def _in_thread(self, scope: trio.CancelScope) -> None:
        with scope:
            await trio.to_thread.run_sync(
                self._loop.run,
                partial(self.to_trio, self._ready.set),
                self._stop_seconds / 2,
                abandon_on_cancel=True,  # a thread that something blocks must not hold up the stop
                limiter=trio.CapacityLimiter(1),  # its own: it lives as long as the host
            )
        if scope.cancelled_caught:
            _log.error(
                "the asyncio thread did not end in %g s and was abandoned; something blocks it",
                self._stop_seconds,
            )

    def admit(self, call: HostCall) -> None:
        """Keep a call in mind, so that it ends if the host does.

        Raises:
            RuntimeError: the host is closed.
        """
        if self._loop.closed:
            raise RuntimeError("This AsyncioHost is closed.")
        self._calls.add(call)

    def discard(self, call: HostCall) -> None:
        """Forget a call."""
        self._calls.discard(call)


@attrs.define(eq=False)
class HostCall:
    """One call of an asyncio function from trio, and the gate for what it calls back."""

    _host: AsyncioHost
    _tasks: TaskFamily = attrs.field(init=False)
    _context: contextvars.Context | None = attrs.field(default=None, init=False)
    """The context variables of the call; None before it runs."""
    _nursery: trio.Nursery | None = attrs.field(default=None, init=False)
    _open: bool = attrs.field(default=False, init=False)
    """Whether callbacks may begin."""
    _end: Outcome | None = attrs.field(default=None, init=False)
    _fatal: BaseException | None = attrs.field(default=None, init=False)
    """What ends the program, out of a callback."""
    _ended: trio.Event = attrs.field(factory=trio.Event, init=False)
    """The main task has ended."""
    _quiet: trio.Event = attrs.field(factory=trio.Event, init=False)
    """All tasks have ended after they were cancelled."""
    _stopping: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._tasks = TaskFamily(
            partial(self._host.to_trio, self._finish), partial(self._host.to_trio, self._quiet.set)
        )

    async def run(
        self, fn: Callable[..., Awaitable[T]], /, *args: Any, grace: float = GRACE_SECONDS
    ) -> T:
        """Run `await fn(*args)` on the asyncio loop, once, and return its result.

        It sees the caller's context variables. What it raises comes out as it is. Callbacks that
        still run when it returns are waited for; when it raises they are cancelled. Other tasks
        that it leaves behind, as clients do, go on until the host closes, but cannot call back.

        Cancelled, the gate closes first; then the asyncio task and all tasks that it has begun
        are cancelled and waited for, *grace* seconds at most. Who ignores that is abandoned: its
        result is dropped, its callbacks are refused.

        Raises:
            ProviderRunError: the task ended cancelled although this call was not.
            RuntimeError: the host is closed, or this call has run before.
        """
        if self._context is not None:
            raise RuntimeError("A HostCall runs only once.")
        self._context = contextvars.copy_context()
        self._tasks.adopt(self._context)
        await trio.lowlevel.checkpoint_if_cancelled()
        self._host.admit(self)
        try:
            with hide_nursery("AsyncioHost.call"):
                async with trio.open_nursery() as nursery:
                    self._nursery, self._open = nursery, True
                    self._host.to_asyncio(self._tasks.start, fn, args, context=self._context)
                    await self._attend(nursery, grace)
        finally:
            self._nursery, self._open = None, False
            self._host.discard(self)
        return cast("T", self._result())

    async def _attend(self, nursery: trio.Nursery, grace: float) -> None:
        """Wait for the main task, and see to it that a cancellation reaches all of them."""
        try:
            await self._ended.wait()
        except trio.Cancelled:
            self._open = False
            self._stop_tasks()
            with trio.move_on_after(grace, shield=True):
                await self._quiet.wait()
            if not self._quiet.is_set():
                _log.warning("an asyncio task ignored its cancellation for %g s", grace)
            raise
        if self._end is not None and self._end.error is not None:
            nursery.cancel_scope.cancel(reason="the asyncio task failed")

    def _result(self) -> Any:
        if self._fatal is not None:
            raise self._fatal
        end, self._end = self._end or Outcome(), None
        if is_asyncio_cancellation(end.error):
            detail = "the framework cancelled its own task"
            raise ProviderRunError(SELF_CANCELLED, detail) from end.error
        return end.unwrap()

    def lose(self) -> None:
        """End the call although nothing was heard of its task: the host is closed."""
        self._finish(Outcome(error=RuntimeError("The AsyncioHost was closed during a call.")))
        self._quiet.set()

    def _finish(self, end: Outcome) -> None:
        if not self._ended.is_set():
            self._end = end
            self._open = False  # what the task has left running may not call back any more
            self._ended.set()

    def _stop_tasks(self) -> None:
        if not self._stopping:
            self._stopping = True
            if not self._host.to_asyncio(self._tasks.cancel):
                self._quiet.set()

    # ----------------------------------------------------------------- callbacks

    def hop(self, fn: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
        """Return *fn*, a trio function, as an asyncio function for the framework of this call.

        It runs in trio, in a nursery of this call, and concurrently with others. If the framework
        cancels it, it alone is cancelled, and has ended when the framework learns so. When the
        call is over it raises `TurnClosedError` and does nothing.
        """

        @wraps(fn)
        async def hopped(*args: P.args, **kwargs: P.kwargs) -> T:
            callback = _Callback(self, partial(fn, *args, **kwargs), contextvars.copy_context())
            if not self._host.to_trio(callback.begin):
                raise TurnClosedError(_OVER)
            cancel = partial(self._host.to_trio, callback.cancel)
            return cast("T", await callback.answer.wait(cancel))

        return hopped

    def start_callback(
        self, act: Callable[[], Awaitable[None]], name: str, asked: contextvars.Context
    ) -> bool:
        """Start *act* in the call's nursery, unless the gate is closed.

        It runs in the context *asked* where that descends from the call's; from workers that
        several calls share, in the call's own.
        """
        if not self._open or self._nursery is None or self._context is None:
            return False
        context = (asked if self._tasks.owns(asked) else self._context).copy()
        context.run(partial(self._nursery.start_soon, act, name=name))
        return True

    def callback_cancelled(self) -> None:
        """Note that a callback was cancelled from outside: with the whole call, or after it.

        In the first case the framework is told before the callback answers, so that it sees its
        own cancellation rather than an error.
        """
        if not self._ended.is_set():
            self._stop_tasks()

    def crash(self, error: BaseException) -> None:
        """End the call with what ends the program."""
        self._fatal = self._fatal or error
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel(reason="the program ends")


@attrs.define(eq=False)
class _Callback:
    """One call from asyncio back to trio. Made on asyncio, lives on trio."""

    _call: HostCall
    _fn: Callable[[], Awaitable[Any]]
    _asked: contextvars.Context
    answer: Answer = attrs.field(factory=Answer, init=False)
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)

    def begin(self) -> None:
        """Start it in the call's nursery, or refuse it."""
        if not self._call.start_callback(self._act, "callback from asyncio", self._asked):
            self.answer.give(Outcome(error=TurnClosedError(_OVER)))

    def cancel(self) -> None:
        """End it, and nothing else."""
        self._scope.cancel(reason="cancelled by the asyncio framework")

    async def _act(self) -> None:
        end = Outcome(error=TurnClosedError(_OVER))
        try:
            with self._scope:
                end = Outcome(await self._fn())
        # Every error goes to the framework but what is not for it: see `_sorted`.
        except BaseException as exc:  # noqa: BLE001, ASYNC103 - answered, or raised again
            end, cancelled = self._sorted(exc)
            if cancelled is not None:
                self._call.callback_cancelled()
                raise cancelled from None  # noqa: ASYNC104 - the part of it that is trio's
        finally:
            self.answer.give(end)

    def _sorted(self, exc: BaseException) -> tuple[Outcome, BaseException | None]:
        """Return what the framework is told of an error, and trio's cancellation in it."""
        cancelled: BaseException | None = None
        rest: BaseException | None = exc
        if isinstance(exc, BaseExceptionGroup):
            cancelled, rest = exc.split(trio.Cancelled)
        elif isinstance(exc, trio.Cancelled):
            cancelled, rest = exc, None
        fatal = program_end(rest) if rest is not None else None
        if fatal is not None:
            self._call.crash(fatal)
            rest = None
        return Outcome(error=rest if rest is not None else TurnClosedError(_OVER)), cancelled

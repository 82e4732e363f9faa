"""Calling the application's code: async as it is, sync in a thread, always within a bound."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from functools import partial
from typing import Any, Final, TypeVar, cast

import attrs
import trio

from band_trio.kit.callables import is_async
from band_trio.kit.hygiene import traceback_text
from band_trio.kit.leaves import leaf_errors, program_end
from band_trio.kit.limiter import FairLimiter
from band_trio.kit.nurseries import hidden_nursery, is_cancellation
from band_trio.runtime.deadlines import Deadline, Deadlines
from band_trio.runtime.problems import Problems

_log: Final = logging.getLogger(__name__)

T = TypeVar("T")

HOOK_THREADS: Final = 16
"""Sync callbacks at once; our own limit, so that they cannot use up trio's shared threads."""
END_SECONDS: Final = 1.0
"""A hook that goes on so long after it was cancelled is named, at most once more as long after."""


def contained(what: str, fn: Callable[[], T], otherwise: T) -> T:
    """Call sync code of the application; what it raises is logged, and *otherwise* returned."""
    try:
        return fn()
    except BaseException as exc:  # noqa: ASYNC103, BLE001 - the boundary to the application
        if (end := program_end(exc)) is not None:
            raise end  # noqa: ASYNC104, B904 - what came with it does not matter any more
        _log.warning("%s failed\n%s", what, traceback_text(exc))
        return otherwise  # noqa: ASYNC104 - it was none of ours


@attrs.define(eq=False)
class Hooks:
    """Runs hooks; what goes wrong in a guarded one is logged and noted, never raised."""

    _problems: Problems
    _deadlines: Deadlines

    _threads: FairLimiter = attrs.field(factory=lambda: FairLimiter(HOOK_THREADS), init=False)

    async def call(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Call *fn* and return what it gives; its errors come out as they are.

        A sync function runs in a thread that is abandoned when the caller is cancelled.
        """
        if is_async(fn):
            return await fn(*args)
        result = await trio.to_thread.run_sync(
            lambda: fn(*args),
            abandon_on_cancel=True,
            limiter=cast("trio.CapacityLimiter", self._threads),
        )
        return await result if isinstance(result, Awaitable) else result

    async def guard(
        self,
        name: str,
        fn: Callable[..., Any],
        args: Sequence[Any],
        *,
        bound: AbstractContextManager[trio.CancelScope],
        cleans_up: bool = False,
        watch: bool = True,
    ) -> bool:
        """Call a hook whose failure must not matter: it is noted. Tell whether it worked.

        *bound* ends it; a shield also keeps it going in a scope that is cancelled already. One that
        does not end then is named while it goes on, unless that is left to the caller (*watch*).
        """
        in_time = False
        try:
            with bound as scope:
                began_late = scope.cancel_called
                late = self._name_late(name, scope, cleans_up) if watch else None
                try:
                    await self.call(fn, *args)
                    # One that swallows the cancellation has overrun as well.
                    in_time = began_late or not scope.cancel_called
                finally:
                    if late is not None:
                        late.cancel()
        except BaseException as exc:  # noqa: ASYNC103 - the boundary to the application
            if is_cancellation(exc):
                raise
            if (end := program_end(exc)) is not None:
                raise end  # noqa: ASYNC104, B904 - what came with it does not matter any more
            _log.warning("%s failed\n%s", name, traceback_text(exc))
            failure = f"{name} raised {type(leaf_errors(exc)[0]).__name__}"
            self._problems.note(failure, of_end=cleans_up)
            return False  # noqa: ASYNC104 - it was none of ours
        if not in_time:
            _log.warning("%s did not end in time and was cancelled", name)
            self._problems.note(f"{name} did not end in time", of_end=cleans_up)
        return in_time

    def _name_late(self, name: str, scope: trio.CancelScope, of_end: bool) -> Deadline:
        """Look now and then whether *scope* was cancelled, whose deadline may move, and its hook runs.

        The look after that one names the hook.
        """
        told = False

        def look() -> float | None:
            nonlocal told
            if told:
                self._still_runs(name, of_end)
                return None
            told = scope.cancel_called
            return trio.current_time() + END_SECONDS

        return self._deadlines.at(trio.current_time() + END_SECONDS, look)

    def _still_runs(self, name: str, of_end: bool) -> None:
        _log.error("%s was told to end and still runs", name)
        self._problems.note(f"{name} was told to end and still runs", of_end=of_end)

    @asynccontextmanager
    async def watched(self, name: str, *, of_end: bool = False) -> AsyncGenerator[None]:
        """Surround code of the application that is named if it does not end when it is told to.

        For what has no scope of its own to be ended by: a task hears of the cancellation.
        """
        late: Deadline | None = None
        over = False

        async def hear() -> None:
            nonlocal late
            try:
                await trio.sleep_forever()
            finally:
                if not over:
                    tell = partial(self._still_runs, name, of_end)
                    late = self._deadlines.at(trio.current_time() + END_SECONDS, tell)

        async with hidden_nursery(name) as nursery:
            nursery.start_soon(hear, name=f"watch over {name}")
            try:
                yield
                # Not where the block fails: its error could not be told from this cancellation.
                nursery.cancel_scope.cancel(reason=f"{name} has ended")
            finally:
                over = True
                if late is not None:
                    late.cancel()

"""State machines of hypothesis whose rules act on a trio program: one guest run per example.

Rules are ordinary functions. `do` runs an async function inside the program and returns once every
task waits again; time stands still until `advance` lets it pass. Everything must be in memory: a
real socket or a thread would make "every task waits" prove nothing.

trio's scheduler takes its random numbers from hypothesis, and `vary_the_scheduler` draws the seed:
the order in which tasks run differs between examples and repeats when one is replayed or shrunk.
"""

from __future__ import annotations

import queue
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, Generic, TypeVar, TypeVarTuple

import outcome
import trio
import trio.testing
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize

W = TypeVar("W")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

PATIENCE: Final = 20.0
"""Real seconds after which a program that does nothing is given up."""


class TrioMachine(RuleBasedStateMachine, Generic[W]):
    """Override `open_world`; write rules that call `do` and `advance`. Draw only in rules."""

    world: W

    def __init__(self) -> None:
        super().__init__()
        self.clock = trio.testing.MockClock()
        self._todo: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._jobs: trio.MemorySendChannel[Callable[[], Awaitable[None]]] | None = None
        self._end: outcome.Outcome[None] | None = None
        trio.lowlevel.start_guest_run(
            self._program,
            run_sync_soon_threadsafe=self._todo.put,
            done_callback=self._ended,
            clock=self.clock,
            host_uses_signal_set_wakeup_fd=True,
        )
        self._turn_until(lambda: self._jobs is not None)

    @initialize(seed=st.random_module())
    def vary_the_scheduler(self, seed: object) -> None:
        """Drawing the seed is all there is to do."""

    def open_world(self) -> AbstractAsyncContextManager[W]:
        """Build what the rules act on. It is left in `teardown`, while time runs by itself."""
        raise NotImplementedError

    def do(self, async_fn: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
        """Run a call to its end, let all other tasks settle, and return its result.

        Raises:
            AssertionError: the call waits for something that only time could bring.
        """
        results: list[outcome.Outcome[T]] = []

        async def call() -> None:
            try:
                results.append(outcome.Value(await async_fn(*args)))
            except Exception as exc:  # noqa: BLE001 - the rule that asked raises it
                results.append(outcome.Error(exc))

        async def job() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(call)
                await trio.testing.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel(reason="every other task waits, so this one would too")

        self._run(job)
        assert results, f"{async_fn} would wait until time passes"
        return results[0].unwrap()

    def advance(self, seconds: float) -> None:
        """Let virtual time pass, one deadline after the other."""

        async def job() -> None:
            end = trio.current_time() + seconds
            while True:
                await trio.testing.wait_all_tasks_blocked()
                left = end - trio.current_time()
                if left <= 0:
                    return
                next_deadline = trio.lowlevel.current_statistics().seconds_to_next_deadline
                # A step of nothing would never reach a deadline that rounding put just ahead.
                self.clock.jump(min(left, max(next_deadline, 1e-9)))

        self._run(job)

    def teardown(self) -> None:
        """Leave the world; an error of it that no rule has met is raised here."""
        if self._end is None:
            assert self._jobs is not None
            self.clock.autojump_threshold = 0
            self._jobs.close()
            while self._end is None:
                self._turn()
        self._raise_error()

    # ------------------------------------------------------------------ the guest run

    async def _program(self) -> None:
        # Capacity 1: the host hands in one job and waits until it is done.
        jobs, inbox = trio.open_memory_channel[Callable[[], Awaitable[None]]](1)
        async with self.open_world() as self.world:
            await trio.testing.wait_all_tasks_blocked()
            self._jobs = jobs
            with inbox:
                async for job in inbox:
                    await job()

    def _ended(self, end: outcome.Outcome[None]) -> None:
        self._end = end

    def _run(self, job: Callable[[], Awaitable[None]]) -> None:
        finished: list[bool] = []

        async def run() -> None:
            await job()
            finished.append(True)

        assert self._jobs is not None
        self._jobs.send_nowait(run)
        self._turn_until(lambda: bool(finished))

    def _turn_until(self, condition: Callable[[], bool]) -> None:
        """Be the host's event loop until *condition* holds."""
        while not condition():
            if self._end is not None:
                self._raise_error()
                raise AssertionError("the world has ended although nobody left it")
            self._turn()

    def _turn(self) -> None:
        try:
            work = self._todo.get(timeout=PATIENCE)
        except queue.Empty:
            raise AssertionError(f"the program did nothing for {PATIENCE:g} s") from None
        work()

    def _raise_error(self) -> None:
        """Raise what ended the run, once, although a rule and `teardown` may both ask."""
        assert self._end is not None
        end, self._end = self._end, outcome.Value(None)
        end.unwrap()

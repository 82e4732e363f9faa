"""Calls at their time by one task, which is not woken for what is later than its next."""

from __future__ import annotations

import gc
import math
import weakref
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from band_trio.runtime.deadlines import Deadline, Deadlines


@asynccontextmanager
async def serving() -> AsyncGenerator[Deadlines]:
    """Serve deadlines for the length of the block."""
    deadlines = Deadlines()
    async with trio.open_nursery() as nursery:
        await nursery.start(deadlines.serve)
        try:
            yield deadlines
        finally:
            deadlines.close()


class Planned:
    """One entry: when it is made, due, due again and cancelled, and when it was called."""

    def __init__(self, made: int, delay: int, again: list[int], cancelled: int | None) -> None:
        self.made, self.due, self.again = made, made + delay, again
        self.cancelled = math.inf if cancelled is None else made + cancelled
        self.entry: Deadline | None = None
        self.called: list[float] = []

    def look(self) -> float | None:
        now = trio.current_time()
        self.called.append(now)
        n = len(self.called) - 1
        return now + self.again[n] if n < len(self.again) else None

    def check(self) -> None:
        due = float(max(self.made, self.due))
        times = [due]
        for pause in self.again:
            due = max(due, due + pause)
            times.append(due)
        # In the tick of its cancellation it may have been called before that, or not.
        most = [each for each in times if each <= self.cancelled]
        least = [each for each in times if each < self.cancelled]
        assert self.called in [most[:n] for n in range(len(least), len(most) + 1)]


plans = st.builds(
    Planned,
    made=st.integers(0, 20),
    delay=st.integers(-3, 20),
    again=st.lists(st.integers(-2, 6), max_size=3),
    cancelled=st.none() | st.integers(0, 25),
)


@pytest.mark.slow
@given(st.lists(plans, max_size=30))
def test_each_call_is_made_at_its_time_and_none_that_is_cancelled(planned: list[Planned]) -> None:
    async def main() -> None:
        began = trio.current_time()
        async with serving() as deadlines:
            for now in range(60):
                for each in planned:
                    if each.made == now:
                        each.entry = deadlines.at(began + each.due, each.look)
                    if each.cancelled == now and each.entry is not None:
                        each.entry.cancel()
                await trio.sleep(1)
        for each in planned:
            each.called = [round(when - began, 6) for when in each.called]
            each.check()
            each.called.clear()  # hypothesis runs an example again

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


class Steps(trio.abc.Instrument):
    """Counts the steps of one task."""

    def __init__(self, name: str) -> None:
        self.name, self.count = name, 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += self.name in task.name


async def test_nobody_is_woken_for_calls_that_are_cancelled_in_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with serving() as deadlines:
        await trio.sleep(1)
        steps = Steps("Deadlines.serve")
        trio.lowlevel.add_instrument(steps)
        for _ in range(300):
            entry = deadlines.at(trio.current_time() + 0.25, lambda: None)
            await trio.sleep(0.01)
            entry.cancel()
        trio.lowlevel.remove_instrument(steps)
        assert 0 < steps.count <= 3 / 0.25 + 1


async def test_what_is_cancelled_is_forgotten_long_before_its_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with serving() as deadlines:
        live = [deadlines.at(trio.current_time() + 3600, lambda: None) for _ in range(50)]
        kept: list[weakref.ref[Deadline]] = []
        for _ in range(2000):
            entry = deadlines.at(trio.current_time() + 1e6, lambda: None)
            kept.append(weakref.ref(entry))
            entry.cancel()
        gc.collect()
        assert sum(each() is not None for each in kept) <= 2 * len(live)


async def test_a_call_that_is_always_due_lets_others_run(
    autojump_clock: trio.testing.MockClock,
) -> None:
    calls = 0

    def look() -> float:
        nonlocal calls
        calls += 1
        return trio.current_time()

    async with serving() as deadlines:
        entry = deadlines.at(0, look)
        for _ in range(10):
            await trio.lowlevel.checkpoint()
        entry.cancel()
        assert 1 < calls <= 12
        await trio.sleep(1)
        assert calls <= 12


async def test_a_call_may_cancel_itself_and_others_that_are_due(
    autojump_clock: trio.testing.MockClock,
) -> None:
    called: list[str] = []

    def first() -> float:
        called.append("first")
        both[0].cancel()
        both[1].cancel()
        return trio.current_time() + 1

    async with serving() as deadlines:
        when = trio.current_time() + 1
        both = [deadlines.at(when, first), deadlines.at(when, lambda: called.append("second"))]
        await trio.sleep(10)
        assert called == ["first"]


async def test_it_goes_on_when_all_around_it_is_cancelled(
    autojump_clock: trio.testing.MockClock,
) -> None:
    called: list[float] = []
    deadlines = Deadlines()
    deadlines.at(5, lambda: called.append(trio.current_time()))  # before it is served
    async with trio.open_nursery() as nursery:
        await nursery.start(deadlines.serve)
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await trio.sleep(10)
        deadlines.close()
    assert called == [5]
    deadlines.at(trio.current_time() - 1, lambda: called.append(0))  # nobody calls it
    await trio.sleep(10)
    assert called == [5]

"""The driver of the machines: it finds bugs, repeats what it did, and reports crashes and hangs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule, run_state_machine_as_test

from tests.support.trio_machine import TrioMachine

FEW = settings(
    max_examples=20,
    stateful_step_count=8,
    deadline=None,
    database=None,
    derandomize=True,
    phases=(Phase.generate, Phase.shrink),
)


class Ticking(TrioMachine[list[float]]):
    """A world with a task that notes the time every ten seconds."""

    @asynccontextmanager
    async def open_world(self) -> AsyncGenerator[list[float]]:
        ticks: list[float] = []

        async def tick() -> None:
            while True:
                await trio.sleep(10)
                ticks.append(trio.current_time())
                if len(ticks) == self.breaks_at:
                    raise OSError("broken")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(tick)
            yield ticks
            nursery.cancel_scope.cancel(reason="the example is over")

    breaks_at = -1

    @rule(seconds=st.integers(0, 25))
    def wait(self, seconds: int) -> None:
        self.advance(seconds)

    @invariant()
    def nothing_is_missed(self) -> None:
        now = int(self.clock.current_time() / 10)
        assert self.world == [10.0 * n for n in range(1, now + 1)]


def test_time_stops_at_every_deadline() -> None:
    run_state_machine_as_test(Ticking, settings=FEW)


def test_a_bug_is_found_and_shrunk() -> None:
    class AtMostOne(Ticking):
        @invariant()
        def at_most_one(self) -> None:
            assert len(self.world) <= 1

    with pytest.raises(AssertionError) as caught:
        run_state_machine_as_test(AtMostOne, settings=FEW)

    example = "\n".join(caught.value.__notes__)
    assert example.count("state.wait(") <= 2


def test_a_crash_in_the_background_is_raised_once() -> None:
    machine = Ticking()
    machine.breaks_at = 1

    with pytest.RaisesGroup(pytest.RaisesExc(OSError, match="broken")):
        machine.advance(60)
    machine.teardown()


def test_a_call_that_would_wait_is_reported_at_once() -> None:
    machine = Ticking()

    with pytest.raises(AssertionError, match=r"sleep_forever.* would wait"):
        machine.do(trio.sleep_forever)
    machine.teardown()


def test_an_error_of_a_call_goes_to_the_rule_alone() -> None:
    async def fail() -> None:
        await trio.lowlevel.checkpoint()
        raise KeyError("mine")

    machine = Ticking()
    with pytest.raises(KeyError, match="mine"):
        machine.do(fail)
    machine.do(trio.lowlevel.checkpoint)
    machine.teardown()


def test_interleavings_vary_and_repeat() -> None:
    orders: list[tuple[int, ...]] = []

    class Race(Ticking):
        @rule()
        def race(self) -> None:
            order: list[int] = []

            async def run(number: int) -> None:
                await trio.lowlevel.checkpoint()
                order.append(number)

            async def all_of_them() -> None:
                async with trio.open_nursery() as nursery:
                    for number in range(4):
                        nursery.start_soon(run, number)

            self.do(all_of_them)
            orders.append(tuple(order))

    run_state_machine_as_test(Race, settings=FEW)
    first = orders.copy()
    orders.clear()
    run_state_machine_as_test(Race, settings=FEW)

    assert orders == first
    assert len(set(first)) > 6  # of 24

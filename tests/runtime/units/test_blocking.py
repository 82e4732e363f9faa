"""Awaiting a coroutine with a watch on how long its steps take: nothing else about it changes."""

from __future__ import annotations

import gc
import time
import types
import weakref
from collections.abc import Generator
from contextlib import suppress

import pytest
import trio
import trio.testing

from band_trio.runtime.blocking import timed


def no_step(seconds: float) -> None:
    """Be told of nothing."""
    raise AssertionError(f"a step took {seconds} s")


async def test_what_it_returns_and_raises_comes_through(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def work(error: BaseException | None) -> str:
        await trio.sleep(1)
        if error is not None:
            raise error
        return "done"

    assert await timed(work(None), 60, no_step) == "done"
    for error in (ValueError("no"), GeneratorExit(), ExceptionGroup("g", [KeyError()])):
        with pytest.raises(type(error)) as caught:
            await timed(work(error), 60, no_step)
        assert caught.value is error


async def test_cancellations_and_errors_reach_the_work_where_it_waits(
    autojump_clock: trio.testing.MockClock,
) -> None:
    seen: list[str] = []

    async def work() -> None:
        with trio.move_on_after(1):
            await trio.sleep_forever()
        seen.append("its own scope")
        try:
            await trio.sleep_forever()
        finally:
            seen.append("cleaned up")

    with trio.move_on_after(5) as scope:
        await timed(work(), 60, no_step)
    assert scope.cancelled_caught
    assert seen == ["its own scope", "cleaned up"]


class Held:
    """Something that the work holds."""


def test_an_error_leaves_no_cycle_behind() -> None:
    @types.coroutine
    def pause() -> Generator[None]:
        yield

    async def work() -> None:
        await pause()

    held = Held()
    alive = weakref.ref(held)
    steps = timed(work(), 60, no_step)
    steps.send(None)
    gc.disable()  # what is in a cycle stays
    try:
        with suppress(ValueError):
            steps.throw(ValueError(held))
        del held
        assert alive() is None
    finally:
        gc.enable()


async def test_steps_that_take_long_are_told_one_by_one() -> None:
    told: list[float] = []

    async def work() -> None:
        await trio.sleep(0.03)  # waiting is no step
        time.sleep(0.02)  # noqa: ASYNC251 - the case
        await trio.lowlevel.checkpoint()
        time.sleep(0.03)  # noqa: ASYNC251 - the case

    await timed(work(), 0.015, told.append)
    assert [round(each, 2) >= least for each, least in zip(told, (0.02, 0.03), strict=True)]
    assert all(each < 1 for each in told)
    await timed(work(), 0.2, no_step)

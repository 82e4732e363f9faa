"""Nurseries for code of the application: like trio's, whatever comes out of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from band_trio.nurseries import GuardedNursery, StrayCancelledError, is_own_cancellation


class Unprintable:
    """As a row of a database whose session is closed."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def unprintable() -> BaseException:
    return ValueError(Unprintable())


def nested() -> BaseException:
    error: BaseException = ValueError("deep")
    for _ in range(3000):
        error = BaseExceptionGroup("g", [error])
    return error


def foreign() -> BaseException:
    return asyncio.CancelledError()


async def stale() -> trio.Cancelled:
    """Return a cancellation of a scope that is over."""
    kept: list[trio.Cancelled] = []
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.sleep_forever()
        except trio.Cancelled as exc:  # noqa: ASYNC103 - the case
            kept.append(exc)
    return kept[0]


async def fail(error: BaseException) -> None:
    await trio.lowlevel.checkpoint()
    raise error


@pytest.mark.parametrize("where", ["block", "task", "started", "start"])
@pytest.mark.parametrize("make", [unprintable, nested, foreign])
async def test_g44_no_error_is_looked_at_on_its_way(
    where: str, make: Callable[[], BaseException]
) -> None:
    async def up_then_fail(*, task_status: trio.TaskStatus[int]) -> None:
        task_status.started(5)
        await fail(error)

    async def fail_at_once(*, task_status: trio.TaskStatus[int]) -> None:  # noqa: ASYNC128 - on purpose
        await fail(error)

    error, beside = make(), trio.Event()

    async def wait() -> None:
        try:
            await trio.sleep_forever()
        finally:
            beside.set()

    caught: list[BaseException] = []
    try:
        async with GuardedNursery("this") as nursery:
            nursery.start_soon(wait)
            if where == "block":
                raise error
            if where == "task":
                nursery.start_soon(fail, error)
                await trio.sleep_forever()
            if where == "started":
                assert await nursery.start(up_then_fail) == 5
                await trio.sleep_forever()
            await nursery.start(fail_at_once)
    except BaseException as exc:  # noqa: ASYNC103, BLE001 - any of them
        caught.append(exc)
    assert caught == [error]
    assert error.__context__ is None
    assert beside.is_set(), "the others were cancelled, and waited for"


async def test_several_errors_are_a_group_of_them() -> None:
    async def fail_when_cancelled() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise KeyError("second")

    with pytest.RaisesGroup(KeyError, OSError):
        async with GuardedNursery("this") as nursery:
            nursery.start_soon(fail_when_cancelled)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(fail, OSError("first"))


async def test_an_error_from_before_the_start_is_the_callers() -> None:
    async with GuardedNursery("this") as nursery:
        with pytest.raises(OSError, match="early"):
            await nursery.start(lambda task_status: fail(OSError("early")))
        assert not nursery.child_tasks
        await trio.lowlevel.checkpoint()  # nothing was cancelled


async def test_a_task_that_never_says_that_it_is_up_is_told_as_by_trio() -> None:
    async def silent(*, task_status: trio.TaskStatus[None]) -> None:  # noqa: ASYNC128 - on purpose
        await trio.lowlevel.checkpoint()

    async with GuardedNursery("this") as nursery:
        with pytest.raises(RuntimeError, match="started"):
            await nursery.start(silent)


async def test_cancelling_it_or_a_scope_around_is_as_with_trio() -> None:
    async with GuardedNursery("this") as nursery:
        nursery.start_soon(trio.sleep_forever)
        nursery.cancel_scope.cancel()
        await trio.sleep_forever()
    with trio.CancelScope() as scope:
        async with GuardedNursery("this") as nursery:
            nursery.start_soon(trio.sleep_forever)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    assert scope.cancelled_caught


@pytest.mark.parametrize("where", ["block", "task"])
async def test_g44_a_cancellation_of_another_scope_is_an_error(where: str) -> None:
    error = await stale()
    with pytest.raises(StrayCancelledError, match="another scope") as caught:
        async with GuardedNursery("this") as nursery:
            if where == "block":
                raise error
            nursery.start_soon(fail, error)
            await trio.sleep_forever()
    assert caught.value.__cause__ is error


async def test_whose_a_cancellation_is_depends_on_the_scopes_around() -> None:
    error = await stale()
    assert not is_own_cancellation(error)
    with trio.CancelScope() as scope:
        scope.cancel()
        assert is_own_cancellation(error)
        assert is_own_cancellation(BaseExceptionGroup("g", [error]))
        assert not is_own_cancellation(BaseExceptionGroup("g", [error, ValueError()]))
        await trio.lowlevel.checkpoint()


async def test_tasks_are_named_after_what_they_run() -> None:
    async def names(work: Callable[[], Awaitable[None]]) -> None:
        nursery.start_soon(work)
        nursery.start_soon(work, name="its name")
        found = {task.name.rpartition(".")[2] for task in nursery.child_tasks}
        assert found == {"sleep_forever", "its name"}
        nursery.cancel_scope.cancel()
        await trio.lowlevel.checkpoint()

    async with GuardedNursery("this") as nursery:
        await names(trio.sleep_forever)

"""Nurseries that leave no trace in the errors that their callers see."""

from __future__ import annotations

import gc
import weakref

import pytest
import trio
import trio.testing

from band_trio.kit.nurseries import hidden_nursery, hide_nursery, is_cancellation


async def fail(error: BaseException) -> None:
    await trio.lowlevel.checkpoint()
    raise error


async def test_one_error_comes_out_as_itself_with_its_own_context() -> None:
    error = KeyError("mine")
    with pytest.raises(KeyError) as caught:
        async with hidden_nursery("this") as nursery:
            nursery.start_soon(fail, error)
            await trio.sleep_forever()
    assert caught.value is error
    assert error.__context__ is None


async def test_several_errors_stay_a_group_with_a_note() -> None:
    with pytest.RaisesGroup(KeyError, OSError) as caught:
        async with hidden_nursery("this") as nursery:
            nursery.start_soon(fail_when_cancelled)
            nursery.start_soon(fail, OSError("b"))
    assert caught.value.__notes__ == ["several tasks of this failed together; use except*"]


def test_what_ends_the_program_and_plain_errors_come_out_bare() -> None:
    with pytest.raises(SystemExit) as caught:
        with hide_nursery("this"):
            raise BaseExceptionGroup("g", [SystemExit(3)])
    assert caught.value.code == 3
    with pytest.raises(ValueError, match="plain"):
        with hide_nursery("this"):
            raise ValueError("plain")


async def test_a_cancellation_passes_bare_and_an_error_beside_it_wins() -> None:
    bare = False
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            async with hidden_nursery("this"), trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep_forever)
                nursery.start_soon(trio.sleep_forever)
        except trio.Cancelled:
            bare = True
            raise
    assert bare
    assert scope.cancelled_caught

    with trio.CancelScope() as scope:
        with pytest.raises(KeyError):
            async with hidden_nursery("this") as nursery:
                nursery.start_soon(fail_when_cancelled)
                await trio.lowlevel.checkpoint()
                scope.cancel()
                await trio.sleep_forever()


async def fail_when_cancelled() -> None:
    try:
        await trio.sleep_forever()
    finally:
        raise KeyError("from the clean-up")


async def test_what_is_nothing_but_a_cancellation() -> None:
    caught: BaseException | None = None
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as exc:
            caught = exc
            raise
    assert caught is not None
    assert is_cancellation(caught)
    assert is_cancellation(BaseExceptionGroup("g", [BaseExceptionGroup("h", [caught])]))
    assert not is_cancellation(BaseExceptionGroup("g", [caught, KeyError()]))
    assert not is_cancellation(KeyError())


async def test_an_error_from_before_the_start_is_the_callers() -> None:
    async with hidden_nursery("this") as nursery:
        with pytest.raises(OSError, match="early"):
            await nursery.start(lambda task_status: fail(OSError("early")))
        await trio.lowlevel.checkpoint()  # nothing was cancelled


async def test_an_error_that_has_left_is_kept_by_nothing() -> None:
    class Mine(Exception):
        pass

    kept: list[weakref.ref[Mine]] = []

    async def through() -> None:
        try:
            async with hidden_nursery("this"):
                raise Mine
        except Mine as exc:
            kept.append(weakref.ref(exc))

    gc.disable()
    try:
        await through()
        assert kept[0]() is None
    finally:
        gc.enable()

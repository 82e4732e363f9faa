"""Two small helpers: log lines that repeat, and nurseries that leave no trace."""

from __future__ import annotations

import logging

import pytest
import trio
import trio.testing

from band_trio.logs import RepeatedLog, thinned_lines
from band_trio.nurseries import hide_nursery, is_cancellation


async def test_a_repeated_line_is_written_three_times_then_once_a_minute(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    log = RepeatedLog(logging.getLogger("band_trio.test"))
    with thinned_lines(trio.current_time):
        for n in range(200):
            log.warning("line %d", n)
            await trio.sleep(1)
        log.warning("another %s", "line")
        lines = [message for message in caplog.messages if message.startswith("line")]
        assert caplog.messages[-1] == "another line"
        await trio.sleep(601)
        log.warning("line %d", 999)
        assert caplog.messages[-1] == "line 999"

    assert lines == [
        "line 0",
        "line 1",
        "line 2",
        "line 62 (and 59 more like it)",
        "line 122 (and 59 more like it)",
        "line 182 (and 59 more like it)",
    ]


def test_c72_each_argument_of_a_repeated_line_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    log = RepeatedLog(logging.getLogger("band_trio.test"))
    log.warning("%s: %s, %d, %.1f", "a\nb", ValueError("\x1b[2J"), 3, 0.5)
    assert caplog.messages == ["a\\nb: \\x1b[2J, 3, 0.5"]


async def test_one_run_hides_no_line_of_another_and_outside_none_is_left_out(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    log = RepeatedLog(logging.getLogger("band_trio.test"))

    async def run() -> None:
        with thinned_lines(trio.current_time):
            for _ in range(10):
                await trio.lowlevel.checkpoint()
                log.warning("a line")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        nursery.start_soon(run)
    assert len(caplog.messages) == 2 * 3
    caplog.clear()
    for _ in range(10):
        log.warning("a line")
    assert len(caplog.messages) == 10


async def test_a_thread_writes_its_lines_too(caplog: pytest.LogCaptureFixture) -> None:
    log = RepeatedLog(logging.getLogger("band_trio.test"))
    with thinned_lines(trio.current_time):
        await trio.to_thread.run_sync(log.warning, "a line")
    assert caplog.messages == ["a line"]


async def fail(error: BaseException) -> None:
    await trio.lowlevel.checkpoint()
    raise error


async def test_one_error_comes_out_as_itself_with_its_own_context() -> None:
    error = KeyError("mine")
    with pytest.raises(KeyError) as caught:
        with hide_nursery("this"):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fail, error)
                await trio.sleep_forever()
    assert caught.value is error
    assert error.__context__ is None


async def test_several_errors_stay_a_group_with_a_note() -> None:
    with pytest.RaisesGroup(KeyError, OSError) as caught:
        with hide_nursery("this"):
            async with trio.open_nursery() as nursery:
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


async def test_a_cancellation_passes_and_an_error_beside_it_wins() -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        with hide_nursery("this"):
            async with trio.open_nursery():
                await trio.sleep_forever()
    assert scope.cancelled_caught

    with trio.CancelScope() as scope:
        with pytest.raises(KeyError):
            with hide_nursery("this"):
                async with trio.open_nursery() as nursery:
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

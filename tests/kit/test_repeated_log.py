"""Log lines that repeat are thinned."""

from __future__ import annotations

import logging

import pytest
import trio
import trio.testing

from band_trio.kit.logs import RepeatedLog, thinned_lines
from tests.marks import case


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

        log.warning("line %d", 1000)
        log.warning("line %d", 1001)
        log.warning("line %d", 1002)
    for _ in range(5):
        log.warning("line %d", 2000)
    assert caplog.messages[-5:] == ["line 2000"] * 5, "after the block none is left out"

    assert lines == [
        "line 0",
        "line 1",
        "line 2",
        "line 62 (and 59 more like it)",
        "line 122 (and 59 more like it)",
        "line 182 (and 59 more like it)",
    ]


@case("C72")
def test_each_argument_of_a_repeated_line_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
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

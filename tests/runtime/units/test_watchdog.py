"""Steps that hold the thread too long are told, with their place; others cost nothing."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import trio
import trio.testing

import band_trio
from band_trio.kit.limiter import work_of
from band_trio.runtime.run.watchdog import Watchdog

LIMIT: Final = 0.1
"""Other programs may hold up this one for so long, hence no less."""
TOO_LONG: Final = 1.8 * LIMIT

pytestmark = pytest.mark.slow


def line_of(code: Any, behind: int = 1) -> str:
    """Return how a place so many lines below a `def` is told."""
    code = code.__code__
    return f"{code.co_filename}:{code.co_firstlineno + behind} in {code.co_qualname}"


@contextmanager
def told(limit: float = LIMIT) -> Generator[list[str]]:
    """Watch the block; give what was told."""
    lines: list[str] = []
    with Watchdog(limit, lines.append):
        yield lines


async def run(*work: Callable[[], Awaitable[object]]) -> None:
    async with trio.open_nursery() as nursery:
        for each in work:
            nursery.start_soon(each)


async def blocks() -> None:  # noqa: ASYNC124 - the case
    time.sleep(TOO_LONG)  # noqa: ASYNC251 - the case


async def test_a_step_that_blocks_is_told_once_with_place_task_and_seconds(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    with told() as lines:
        await run(blocks)
        await trio.sleep(100)
    (line,) = lines
    assert f"blocked for {TOO_LONG:.1f} s at {line_of(blocks)}, in the task '" in line
    assert line.endswith("test_watchdog.blocks'")
    (record,) = caplog.records
    assert line in record.getMessage()


async def test_the_room_is_told_also_where_the_task_is_another() -> None:
    async def in_a_room() -> None:
        with work_of("r1"):
            await run(blocks)

    with told() as lines:
        await in_a_room()
    (line,) = lines
    assert line.endswith("of room r1")


async def test_waiting_and_many_short_steps_are_no_block() -> None:
    async def works() -> None:
        for _ in range(20):
            time.sleep(0.01)  # noqa: ASYNC251 - the case
            await trio.lowlevel.checkpoint()

    with told() as lines:
        await run(works, works)
        await trio.sleep(TOO_LONG)
        assert lines == []


def nearest() -> None:
    threading.Event().wait(TOO_LONG)


async def test_the_place_is_the_applications_not_that_of_what_it_calls() -> None:
    text = f"import time\ndef sleep(): time.sleep({TOO_LONG})\nasync def work(): sleep()\n"
    files = ["/lib/site-packages/lib.py", f"{Path(band_trio.__file__).parent}/adapters/some.py"]
    libraries: list[dict[str, Any]] = [{}, {}]
    for file, library in zip(files, libraries, strict=True):
        exec(compile(text, file, "exec"), library)

    async def calls(fn: Callable[[], object]) -> None:  # noqa: ASYNC124 - the case
        fn()

    with told() as lines:
        await run(partial(calls, nearest), *[partial(calls, each["sleep"]) for each in libraries])
        await run(libraries[0]["work"])
    *mine, theirs = lines
    assert sum(line_of(nearest) in line for line in mine) == 1
    assert sum(line_of(calls) in line for line in mine) == 2
    assert f"{files[0]}:2 in sleep" in theirs


async def test_a_step_that_goes_on_is_logged_meanwhile(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []

    async def endless() -> None:  # noqa: ASYNC124 - the case
        ends = time.perf_counter() + 10
        while not caplog.records and time.perf_counter() < ends:
            time.sleep(0.01)  # noqa: ASYNC251 - the case
        seen.extend(each.getMessage() for each in caplog.records)

    with told() as lines:
        await run(endless)
    (line,) = seen
    assert "is blocked for 0.2 s already" in line
    assert "test_watchdog.py" in line
    assert len(lines) == 1


async def test_code_that_lets_no_other_thread_run_is_told_all_the_same() -> None:
    async def holds_the_interpreter() -> None:  # noqa: ASYNC124 - the case
        ends = time.perf_counter() + TOO_LONG
        while time.perf_counter() < ends:
            pass

    before = sys.getswitchinterval()
    with told() as lines:
        await trio.lowlevel.checkpoint()
        sys.setswitchinterval(100)
        try:
            await run(holds_the_interpreter)
        finally:
            sys.setswitchinterval(before)
    (line,) = lines
    assert "could not be seen" in line
    assert "holds_the_interpreter" in line


def watchdogs() -> int:
    return sum(each.name == "band_trio watchdog" for each in threading.enumerate())


async def test_nothing_is_left_of_it_and_two_do_not_meet() -> None:
    with pytest.raises(KeyError):
        with told() as outer, told(60) as inner:
            assert watchdogs() == 2
            await run(blocks)
            raise KeyError
    assert watchdogs() == 0
    assert (len(outer), inner) == (1, [])
    await run(blocks)
    assert len(outer) == 1


async def test_a_block_right_before_the_end_is_told() -> None:
    with told() as lines:
        await trio.lowlevel.checkpoint()
        await blocks()
    assert len(lines) == 1

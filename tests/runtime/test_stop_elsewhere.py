"""Ends in odd places: silent sockets, other threads, two tasks, after a crash."""

from __future__ import annotations

import gc
import signal
import threading
import time

import pytest
import trio
import trio.testing

from band_trio import (
    ShutdownReport,
)
from band_trio.localband import open_local_band
from tests.link.phoenix_peer import until
from tests.marks import case, guarantee
from tests.runtime.harness import Scripted, Stage, stage
from tests.runtime.lifecycle_kit import life


@guarantee(51)
@case("C44")
@pytest.mark.slow
@pytest.mark.parametrize("when", ["at the stop", "in a reconnect"])
async def test_a_silent_platform_on_real_sockets_does_not_keep_the_agent(
    when: str,
) -> None:
    async with open_local_band() as band:
        here = Stage(band, band.register_agent("Scribe"), Scripted())
        room = await here.room()
        with trio.fail_after(8):
            async with here.running(
                grace=0, connect_seconds=0.2, reconnect_base_seconds=0.01,
                heartbeat_seconds=0.05, dead_seconds=0.2,
            ) as agent:  # fmt: skip
                await here.settled(await here.say(room, "hello"))
                band.silence(here.account)
                if when == "in a reconnect":
                    await until(lambda: agent.health().epoch == 2)
                    await here.settled(await here.say(room, "again"))
                    band.silence(here.account)
                began = time.perf_counter()
            assert time.perf_counter() - began < 2
    gc.collect()  # a socket that leaked warns here, and warnings are errors


@guarantee(51)
@case("C53")
async def test_a_stop_from_two_tasks_is_one_and_after_a_crash_none(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        room = await here.room()
        agent = here.agent()
        reports: list[ShutdownReport] = []

        async def stop() -> None:
            await trio.sleep(5)
            agent.stop(grace=3)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop)
            nursery.start_soon(stop)
            reports.append(await agent.run())
        assert [report.graceful for report in reports] == [True]
        await here.assert_nothing_left()

        here.noted.hooks["on_started"] = crash
        with pytest.raises(ZeroDivisionError):
            await agent.run()
        agent.stop(grace=0)
        del here.noted.hooks["on_started"]
        async with agent:
            await here.settled(await here.say(room, "hello"))
        await here.assert_nothing_left()


async def crash() -> None:
    await trio.lowlevel.checkpoint()
    raise ZeroDivisionError("a bug")


@guarantee(46)
@case("C53")
@pytest.mark.slow
def test_a_run_outside_of_the_main_thread_touches_no_signal() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    seen: list[object] = []

    async def main() -> None:
        async with stage() as here:
            room = await here.room()
            async with here.running():
                await here.settled(await here.say(room, "hello"))
                seen.append([signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)])
        seen.append(here.reports[0].graceful)

    thread = threading.Thread(target=trio.run, args=(main,))
    thread.start()
    thread.join(10)
    assert seen == [before, True]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before

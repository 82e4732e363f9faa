"""The pace of first reads."""

from __future__ import annotations

import trio
import trio.testing

from band_trio.runtime.resync import FIRST_AT_ONCE, FirstReads
from tests.marks import guarantee


class Reader:
    """Makes first reads that take a second each, and counts those under way."""

    def __init__(self, first: FirstReads) -> None:
        self.first, self.now, self.most = first, 0, 0
        self.began: list[float] = []

    async def read(self, told: float | None = None) -> None:
        await self.first.acquire()
        self.now += 1
        self.most = max(self.most, self.now)
        self.began.append(trio.current_time())
        await trio.sleep(1)
        if told is None:
            self.first.answered()
        else:
            self.first.failed(told)
        self.now -= 1
        self.first.release()


@guarantee(32)
async def test_first_reads_get_faster_with_good_answers_up_to_a_bound(
    autojump_clock: trio.abc.Clock,
) -> None:
    reader = Reader(FirstReads(12))
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for _ in range(100):
            nursery.start_soon(reader.read)
    assert reader.began.count(began) == FIRST_AT_ONCE
    assert reader.most == 12
    assert trio.current_time() - began < 100 / FIRST_AT_ONCE


@guarantee(32)
async def test_a_refused_first_read_slows_the_others_down_and_a_told_wait_is_kept(
    autojump_clock: trio.abc.Clock,
) -> None:
    reader = Reader(FirstReads(12))
    for _ in range(4):
        await reader.read(told=0.0)  # half as many each time, and never none
    began = trio.current_time()
    await reader.read(told=30.0)
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(reader.read)
    assert reader.began[-3:] == [began + 31, began + 32, began + 32]
    assert reader.most == 2


async def test_a_first_read_that_is_cancelled_while_it_waits_gives_its_place_back(
    autojump_clock: trio.abc.Clock,
) -> None:
    first = FirstReads(1)
    first.failed(30.0)
    with trio.move_on_after(1):
        await first.acquire()
    await first.acquire()
    first.release()

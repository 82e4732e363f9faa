"""The bucket for speculative reads, and when an idle room asks it."""

from __future__ import annotations

import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from band_trio.runtime.resync import FIRST_AT_ONCE, FirstReads, ResyncBucket
from tests.marks import guarantee


@guarantee(32)
async def test_a_burst_goes_at_once_and_the_rest_at_the_rate(
    autojump_clock: trio.abc.Clock,
) -> None:
    await trio.lowlevel.checkpoint()
    bucket, now = ResyncBucket(rate=10, burst=3), trio.current_time()
    waits = [round(bucket.reserve() - now, 6) for _ in range(6)]
    assert waits == [0, 0, 0, 0.1, 0.2, 0.3]


@guarantee(32)
async def test_an_idle_bucket_fills_up_to_its_depth_and_not_beyond(
    autojump_clock: trio.abc.Clock,
) -> None:
    bucket = ResyncBucket(rate=10, burst=3)
    for _ in range(6):
        bucket.reserve()
    await trio.sleep(0.5)  # 5 tokens: 3 pay the debt
    now = trio.current_time()
    assert [round(bucket.reserve() - now, 6) for _ in range(3)] == [0, 0, 0.1]
    await trio.sleep(1000)
    now = trio.current_time()
    assert [round(bucket.reserve() - now, 6) for _ in range(4)] == [0, 0, 0, 0.1]


@guarantee(32)
@given(
    st.lists(st.floats(0, 2), max_size=40),
    st.floats(0.5, 50),
    st.integers(1, 10),
)
def test_no_window_holds_more_reads_than_the_bucket_allows(
    pauses: list[float], rate: float, burst: int
) -> None:
    async def reserve_all() -> list[float]:
        bucket, times = ResyncBucket(rate, burst), []
        for pause in pauses:
            await trio.sleep(pause)
            times.append(bucket.reserve())
            assert times[-1] >= trio.current_time()
        return times

    times = trio.run(reserve_all, clock=trio.testing.MockClock(autojump_threshold=0))
    assert times == sorted(times)
    for first in range(len(times)):
        for last in range(first, len(times)):
            allowed = burst + (times[last] - times[first]) * rate
            assert last - first + 1 <= allowed + 1e-6


# --------------------------------------------------------------------------- first reads


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

"""The bucket for speculative reads, and when an idle room asks it."""

from __future__ import annotations

import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from band_trio.runtime.resync import IdlePolls, ResyncBucket


async def test_g32_a_burst_goes_at_once_and_the_rest_at_the_rate(
    autojump_clock: trio.abc.Clock,
) -> None:
    await trio.lowlevel.checkpoint()
    bucket, now = ResyncBucket(rate=10, burst=3), trio.current_time()
    waits = [round(bucket.reserve() - now, 6) for _ in range(6)]
    assert waits == [0, 0, 0, 0.1, 0.2, 0.3]


async def test_g32_an_idle_bucket_fills_up_to_its_depth_and_not_beyond(
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


@given(
    st.lists(st.floats(0, 2), max_size=40),
    st.floats(0.5, 50),
    st.integers(1, 10),
)
def test_g32_no_window_holds_more_reads_than_the_bucket_allows(
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


def test_idle_polls_are_spread_then_rarer_and_frequent_again_after_work() -> None:
    rooms = [IdlePolls(60, 300) for _ in range(20)]
    for polls in rooms:
        polls.after_pass(1000, found_work=True)
        assert 1000 <= polls.at <= 1060
    assert len({polls.at for polls in rooms}) > 1
    polls, waits = rooms[0], []
    for found_work in (False, False, False, False, True, False):
        polls.after_pass(1000, found_work=found_work)
        waits.append(polls.at - 1000)
    assert waits == [120, 240, 300, 300, 60, 120]

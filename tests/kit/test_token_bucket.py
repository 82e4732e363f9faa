"""The bucket that paces what nothing asks for."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from band_trio.kit.token_bucket import TokenBucket
from tests.marks import guarantee


@guarantee(32)
def test_a_burst_goes_at_once_and_the_rest_at_the_rate() -> None:
    bucket = TokenBucket(rate=10, burst=3)
    waits = [round(bucket.reserve(1000) - 1000, 6) for _ in range(6)]
    assert waits == [0, 0, 0, 0.1, 0.2, 0.3]


@guarantee(32)
def test_an_idle_bucket_fills_up_to_its_depth_and_not_beyond() -> None:
    bucket = TokenBucket(rate=10, burst=3)
    for _ in range(6):
        bucket.reserve(1000)
    # Half a second is 5 tokens: 3 pay the debt.
    assert [round(bucket.reserve(1000.5) - 1000.5, 6) for _ in range(3)] == [0, 0, 0.1]
    assert [round(bucket.reserve(2000) - 2000, 6) for _ in range(4)] == [0, 0, 0, 0.1]


@guarantee(32)
@given(
    st.lists(st.floats(0, 2), max_size=40),
    st.floats(0.5, 50),
    st.integers(1, 10),
)
def test_no_window_holds_more_reads_than_the_bucket_allows(
    pauses: list[float], rate: float, burst: int
) -> None:
    bucket, times = TokenBucket(rate, burst), []
    for now in accumulate(pauses):
        times.append(bucket.reserve(now))
        assert times[-1] >= now
    assert times == sorted(times)
    for first in range(len(times)):
        for last in range(first, len(times)):
            allowed = burst + (times[last] - times[first]) * rate
            assert last - first + 1 <= allowed + 1e-6

"""Waits: inside their bounds, spread over them, and never beyond the cap."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from band_trio.kit.backoff import full_jitter, half_jitter
from tests.support.for_each import for_each

positive = st.floats(1e-3, 1e6)


@given(st.integers(0, 100_000), positive, positive, st.integers())
@example(100_000, 1e6, 30.0, 0)
@example(0, 1e308, 1e308, 0)
@example(10_000, 1e308, 60.0, 0)
def test_waits_stay_inside_their_bounds(attempt: int, base: float, cap: float, seed: int) -> None:
    ceiling = min(cap, base * 2.0 ** min(attempt, 64))
    random.seed(seed)

    assert 0 < full_jitter(attempt, base, cap) <= ceiling
    assert ceiling / 2 <= half_jitter(attempt, base, cap) <= ceiling


@for_each("attempt", [0, 1, 2, 3, 5, 6, 7, 50])
def test_waits_use_all_of_their_range(attempt: int) -> None:
    random.seed(attempt)
    ceiling = min(30, 0.5 * 2**attempt)
    full = [full_jitter(attempt, 0.5, 30) / ceiling for _ in range(2_000)]
    half = [half_jitter(attempt, 0.5, 30) / ceiling for _ in range(2_000)]

    assert min(full) < 0.01
    assert max(full) > 0.99
    assert sum(full) / 2_000 == pytest.approx(0.5, abs=0.03)
    assert min(half) < 0.505
    assert max(half) > 0.995
    assert sum(half) / 2_000 == pytest.approx(0.75, abs=0.02)


def test_a_wait_is_never_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "random", lambda: 0.0)
    assert full_jitter(0, 2, 60) == 2

    monkeypatch.setattr(random, "random", lambda: 1 - 2**-53)
    assert full_jitter(0, 2, 60) > 0

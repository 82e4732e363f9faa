"""The benchmark of the adapters for models runs, with sizes as small as they go."""

from __future__ import annotations

import pytest

from tests.support.benchmark import Benchmark, are_positive


@pytest.mark.slow
def test_the_benchmark_prints_a_row_for_each_adapter(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    benchmark = Benchmark(capsys, monkeypatch)
    rows = benchmark.run("adapter_overhead", "--turns=1", "--rounds=1", "--history=3")

    figures = [figures for name, figures in rows.items() if name.endswith(" turn")]
    assert len(figures) == 6
    assert all(are_positive(each) for each in figures)

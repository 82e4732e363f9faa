"""The benchmark of the adapters for models runs, with sizes as small as they go."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_benchmark_prints_a_row_for_each_adapter() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.adapter_overhead", "--turns=1", "--rounds=1",
         "--history=3"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")
    rows = [re.split(r"\s{2,}", line.strip()) for line in done.stdout.splitlines()]
    figures = {row[0]: row[1:] for row in rows if row[0].endswith(" turn")}
    assert len(figures) == 6
    assert all(float(figure) > 0 for row in figures.values() for figure in row)

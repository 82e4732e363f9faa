"""Benchmarks inside the process of the tests: to start each one costs more than what it does."""

from __future__ import annotations

import re
import runpy
import sys

import attrs
import pytest


@attrs.frozen
class Benchmark:
    """Runs benchmarks, as `python -m benchmarks.<name>` does."""

    _capsys: pytest.CaptureFixture[str]
    _patch: pytest.MonkeyPatch

    def run(self, name: str, *arguments: str) -> dict[str, list[str]]:
        """Run one; return the figures of each row by the row's name."""
        module = f"benchmarks.{name}"
        with self._patch.context() as patched:
            patched.setattr(sys, "argv", [module, *arguments])
            patched.delitem(sys.modules, module, raising=False)
            runpy.run_module(module, run_name="__main__")
        told = self._capsys.readouterr()
        assert told.err == ""
        rows = [re.split(r"\s{2,}", line.strip()) for line in told.out.splitlines()]
        return {name: figures for name, *figures in rows}


def are_positive(figures: list[str]) -> bool:
    """Tell whether there are figures, and each is above zero."""
    return bool(figures) and all(float(figure) > 0 for figure in figures)

"""Without an extra: what needs it says so, everything else works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from band_trio.kit.extras import load_extra
from tests.support.for_each import for_each

ROOT = Path(__file__).parents[2]

WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""


def run_without(missing: list[str], code: str) -> str:
    """Run *code* in a program that lacks modules; return what it prints, errors included."""
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(missing=set(missing)) + code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
    )
    return ended.stdout + ended.stderr


@pytest.mark.slow
@for_each(
    ("missing", "code", "said"),
    [
        ("pydantic_ai", "from band_trio.converters import *; PydanticAIHistoryConverter()",
         "PydanticAIHistoryConverter needs the extra `pydantic-ai` (pydantic_ai is missing)"),
        ("mcp", "from band_trio.mcp import MCPServer",
         "MCPServer needs the extra `mcp` (mcp is missing): pip install 'band-trio[mcp]'"),
        ("hypercorn", "from band_trio.testing import open_local_band; open_local_band()",
         "open_local_band needs the extra `local` (hypercorn is missing)"),
        ("starlette", "from band_trio.testing import *; print(run_turn.__name__)", "run_turn\n"),
    ],
)  # fmt: skip
def test_an_extra_that_is_missing_is_named(missing: str, code: str, said: str) -> None:
    assert said in run_without([missing], code)


@pytest.mark.slow
def test_another_module_that_is_missing_is_not_the_extra() -> None:
    code = "from band_trio.testing import open_local_band; open_local_band()"
    told = run_without(["priority"], code)

    assert "ModuleNotFoundError: No module named 'priority'" in told
    assert "needs the extra" not in told


def test_a_module_of_our_own_that_is_missing_is_not_the_extra() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"band_trio\.nothing"):
        load_extra("band_trio.nothing", "local", "it")

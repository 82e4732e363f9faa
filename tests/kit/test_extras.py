"""Without an extra: what needs it says so, everything else works."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from band_trio.kit.extras import load_extra
from tests.support.for_each import for_each

ROOT = Path(__file__).parents[2]

WITHOUT = """
import json, os, sys, traceback, band_trio

class Missing:
    def __init__(self, module):
        self.module = module

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == self.module:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

for module, code in json.loads(sys.argv[1]):
    if not (child := os.fork()):
        assert module not in sys.modules
        sys.meta_path.insert(0, Missing(module))
        try:
            exec(code, {})
        except ImportError:
            print(traceback.format_exc())
        print("\\0", end="", flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""
LOCAL = "from band_trio.testing import open_local_band; open_local_band()"
LACKS = {
    "pydantic_ai": "from band_trio.converters import *; PydanticAIHistoryConverter()",
    "mcp": "from band_trio.mcp import MCPServer",
    "hypercorn": LOCAL,
    "starlette": "from band_trio.testing import *; print(run_turn.__name__)",
    "priority": LOCAL,  # what an extra needs in its turn
}


@pytest.fixture
def told() -> dict[str, str]:
    """Run each code in a program that lacks a module; return what it prints, errors included."""
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT, json.dumps(list(LACKS.items()))],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=ROOT,
    )
    assert ended.stderr == ""
    return dict(zip(LACKS, ended.stdout.split("\0"), strict=False))


@pytest.mark.slow
@for_each(
    ("missing", "said"),
    [
        ("pydantic_ai",
         "PydanticAIHistoryConverter needs the extra `pydantic-ai` (pydantic_ai is missing)"),
        ("mcp", "MCPServer needs the extra `mcp` (mcp is missing): pip install 'band-trio[mcp]'"),
        ("hypercorn", "open_local_band needs the extra `local` (hypercorn is missing)"),
        ("starlette", "run_turn\n"),
        ("priority", "ModuleNotFoundError: No module named 'priority'"),
    ],
)  # fmt: skip
def test_an_extra_that_is_missing_is_named_and_no_other_module_is_taken_for_one(
    told: dict[str, str], missing: str, said: str
) -> None:
    assert said in told[missing]
    assert ("needs the extra" in told[missing]) is ("needs the extra" in said)


def test_a_module_of_our_own_that_is_missing_is_not_the_extra() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"band_trio\.nothing"):
        load_extra("band_trio.nothing", "local", "it")

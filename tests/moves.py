"""The moves of a message as tables of a page: `python -m tests.moves` writes them anew."""

from __future__ import annotations

import ast
import inspect
import re
from itertools import pairwise
from pathlib import Path
from typing import Final

from band_trio.runtime.journal.entries import MOVES, Phase, Step

PAGE: Final = Path(__file__).parents[1] / "docs" / "architecture.md"
_TABLES: Final = re.compile(r"(?<=<!-- moves -->\n).*?(?=<!-- /moves -->)", re.DOTALL)
_EVERY_WAIT: Final = {Phase.LISTED, Phase.HELD, Phase.ASIDE, Phase.REFUSED, Phase.STOPPED}


def meanings() -> dict[str, str]:
    """Return phase → what stands below it in the source."""
    (tree,) = ast.parse(inspect.getsource(Phase)).body
    assert isinstance(tree, ast.ClassDef)
    return {
        line.value.value: " ".join(below.value.value.split())
        for line, below in pairwise(tree.body)
        if isinstance(line, ast.Assign)
        and isinstance(line.value, ast.Constant)
        and isinstance(line.value.value, str)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }


def tables() -> str:
    """Return what a phase means, and the moves between them."""
    return "\n".join([
        "| phase | meaning |", "|---|---|",
        *(f"| {phase} | {meaning} |" for phase, meaning in meanings().items()),
        "",
        "| move | the journal is told that | from | to |", "|---|---|---|---|",
        *(f"| {move} | {step.told} | {_befores(step)} | {step.after} |"
          for move, step in MOVES.items()),
    ])  # fmt: skip


def _befores(step: Step) -> str:
    """Return the phases that a move may be made from, in their order; those that wait as one."""
    before = set(step.before)
    words = ["(not known)"] if None in before else []
    if before >= _EVERY_WAIT:
        before -= _EVERY_WAIT
        words.append("any that waits")
    return ", ".join([*words, *(phase for phase in Phase if phase in before)])


def renewed(page: str) -> str:
    """Return the page with its tables written anew."""
    return _TABLES.sub(lambda _: f"\n{tables()}\n\n", page)


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

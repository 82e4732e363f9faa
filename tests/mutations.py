"""Small edits, one at a time, against the related tests: does any test notice?

    python -m tests.mutations [--count 100] [--seed 1] [PATH …]

PATHs are files or folders of the package, `runtime/journal` say; without one, all that have an
entry in `RELATED`. Each edit is made in a copy of the project. What survives is printed: write the
missing test, or, where the edit changes nothing that anybody could see, note it in `HARMLESS`.
"""

from __future__ import annotations

import argparse
import ast
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

import attrs

PROJECT: Final = Path(__file__).parents[1]
LONGEST: Final = 300.0
"""Seconds of tests for one edit; an edit that makes them hang is noticed."""

RELATED: Final = {
    "runtime/journal": ["tests/runtime/units", "tests/machine/test_journal_machine.py"],
    "runtime": ["tests/runtime"],
    "protocol": ["tests/protocol", "tests/link", "tests/localband"],
    "link": ["tests/link", "tests/runtime/test_start.py", "tests/runtime/test_convergence.py"],
    "tools": ["tests/tools", "tests/testing", "tests/mcp"],
    "kit": ["tests/kit"],
    "stores": ["tests/stores", "tests/localband/test_keeping_routes.py"],
    "config": [
        "tests/test_config.py",
        "tests/test_construction.py",
        "tests/test_operating.py",
        "tests/link/test_dialler.py",
    ],
}
"""Folder of the package → the tests that are asked; the longest name that fits counts."""

HARMLESS: Final[dict[str, str]] = {
    "converter.register_structure_hook_func(lambda t: t == dict[str, Any], _mapping)": (
        "no type fits two of these hooks"
    ),
}
"""The line that was edited → why the edit changes nothing that anybody could see."""

DROPPED: Final = {"deadline", "within", "bound", "secrets", "shield", "told", "timeout"}
"""Keyword arguments that are easily forgotten."""
_SWAPS: Final[dict[type[ast.cmpop], str]] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip


@attrs.frozen
class Edit:
    """Replace what stands between two places of a file."""

    file: str
    line: int
    begin: int
    end: int
    """Characters from the beginning of the file."""
    new: str
    kind: str

    def applied(self, text: str) -> str:
        """Return the file with the edit made."""
        return text[: self.begin] + self.new + text[self.end :]


class Source:
    """A file, and where its nodes stand."""

    def __init__(self, file: str, text: str) -> None:
        self.file, self.text, self.tree = file, text, ast.parse(text)
        starts = [0]
        for line in text.encode().splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        self._starts, self._bytes = starts, text.encode()

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Return begin and end of a node, in characters."""
        begin = self._starts[node.lineno - 1] + node.col_offset
        end = self._starts[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0)
        return len(self._bytes[:begin].decode()), len(self._bytes[:end].decode())

    def of(self, node: ast.expr | ast.stmt) -> str:
        """Return the text of a node."""
        begin, end = self.span(node)
        return self.text[begin:end]

    def edit(self, node: ast.expr | ast.stmt, new: str, kind: str) -> Edit:
        """Return the edit that replaces a node."""
        begin, end = self.span(node)
        return Edit(self.file, node.lineno, begin, end, new, kind)

    def edits(self) -> Iterator[Edit]:
        """Yield every edit that is known how to make."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.If | ast.While | ast.IfExp):
                yield self.edit(node.test, f"(not ({self.of(node.test)}))", "condition negated")
            if isinstance(node, ast.Compare) and len(node.ops) == 1:
                left, right = self.of(node.left), self.of(node.comparators[0])
                new = f"{left} {_SWAPS[type(node.ops[0])]} {right}"
                yield self.edit(node, new, "comparison changed")
            if isinstance(node, ast.BoolOp):
                word = " or " if isinstance(node.op, ast.And) else " and "
                new = word.join(f"({self.of(each)})" for each in node.values)
                yield self.edit(node, f"({new})", "and, or changed")
            if isinstance(node, ast.Call):
                yield from self._dropped_arguments(node)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from self._of_statements(node)

    def _dropped_arguments(self, call: ast.Call) -> Iterator[Edit]:
        for each in call.keywords:
            if each.arg in DROPPED:
                left = [self.of(a) for a in call.args]
                left += [
                    f"{k.arg}={self.of(k.value)}" if k.arg else f"**{self.of(k.value)}"
                    for k in call.keywords
                    if k is not each
                ]
                new = f"{self.of(call.func)}({', '.join(left)})"
                yield self.edit(call, new, f"{each.arg} dropped")

    def _of_statements(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Edit]:
        for node in ast.walk(function):
            for body in (getattr(node, name, []) for name in ("body", "orelse", "finalbody")):
                if not isinstance(body, list):
                    continue
                for each in body:
                    if _does_something(each):
                        yield self.edit(each, "pass", "line lost")
                for one, two in pairwise(body):
                    if _does_something(one) and _does_something(two):
                        begin, end = self.span(one)[0], self.span(two)[1]
                        between = self.text[self.span(one)[1] : self.span(two)[0]]
                        new = f"{self.of(two)}{between}{self.of(one)}"
                        yield Edit(self.file, one.lineno, begin, end, new, "lines swapped")


def _does_something(node: ast.stmt) -> bool:
    """Tell whether a statement can be lost: it has an effect, and binds no local name."""
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Assign):
        return all(isinstance(each, ast.Attribute | ast.Subscript) for each in node.targets)
    return isinstance(node, ast.AugAssign | ast.Delete)


def related(file: str) -> list[str]:
    """Return the tests that are asked about a file."""
    fits = [folder for folder in RELATED if file.startswith(folder)]
    return RELATED[max(fits, key=len)] if fits else ["tests"]


def edits(paths: list[str]) -> list[Edit]:
    """Return all edits of these files and folders, except the harmless ones."""
    found, package = list[Edit](), PROJECT / "band_trio"
    for path in paths:
        top = package / path
        for each in sorted(top.rglob("*.py")) if top.is_dir() else [top]:
            file, text = each.relative_to(package).as_posix(), each.read_text(encoding="utf-8")
            lines = text.splitlines()
            found += [
                edit
                for edit in Source(file, text).edits()
                if lines[edit.line - 1].strip() not in HARMLESS and _is_code(edit.applied(text))
            ]
    return found


def _is_code(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def notices(copy: Path, edit: Edit) -> bool:
    """Make an edit in a copy of the project and tell whether a related test fails."""
    target = copy / "band_trio" / edit.file
    before = target.read_text(encoding="utf-8")
    target.write_text(edit.applied(before), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
    ]
    try:
        done = subprocess.run(
            [*command, *related(edit.file)],
            cwd=copy, env={"PYTHONPATH": str(copy), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True, timeout=LONGEST, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return True
    finally:
        target.write_text(before, encoding="utf-8")
    return done.returncode != 0


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*", metavar="PATH")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    possible = edits(options.paths or list(RELATED))
    chosen = random.Random(options.seed).sample(possible, min(options.count, len(possible)))
    print(f"{len(chosen)} of {len(possible)} edits, seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("band_trio", "tests", "examples", "docs", "benchmarks"):
            shutil.copytree(
                PROJECT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md"):
            shutil.copy(PROJECT / name, copy / name)
        survived = 0
        for number, edit in enumerate(chosen, 1):
            began, noticed = time.monotonic(), notices(copy, edit)
            survived += not noticed
            what = "noticed" if noticed else "SURVIVED"
            where = f"{edit.file}:{edit.line}"
            took = f"{time.monotonic() - began:5.0f} s"
            told = f"{where}  {edit.kind}: {edit.new[:60]!r}"
            print(f"{number:4} {took}  {what:9} {told}", flush=True)
    print(f"noticed: {100 * (len(chosen) - survived) / max(1, len(chosen)):.0f} %")


if __name__ == "__main__":
    main()

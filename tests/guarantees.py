"""Keep the tables of proofs true: `python -m tests.guarantees` rewrites their last columns.

A test proves guarantees 6 and 21 when it has the marker `@guarantee(6, 21)`, and shows that case 2
is handled with `@case("C02")`.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Final

import attrs

TESTS: Final = Path(__file__).parent
NONE: Final = "(none)"
_ROW: Final = re.compile(r"^\| (\d+) \| ([^|]+) \|[^|]*\|$", re.MULTILINE)


@cache
def marked() -> tuple[tuple[str, str, int], ...]:
    """Return marker, test (as `file::name`) and number, of all tests that have such a marker."""
    found = []
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            test = f"{path.relative_to(TESTS).as_posix()}::{node.name}"
            for call in node.decorator_list:
                match call:
                    case ast.Call(func=ast.Name(id="guarantee" | "case" as marker), args=args):
                        numbers = [ast.literal_eval(each) for each in args]
                        found += [(marker, test, int(str(n).lstrip("C"))) for n in numbers]
    return tuple(found)


@attrs.frozen
class Listing:
    """A page with a table of numbers, what they stand for, and the tests that prove them."""

    marker: str
    table: Path

    def proofs(self) -> dict[int, list[str]]:
        """Return number → tests, as `file::name`, sorted."""
        found: dict[int, list[str]] = defaultdict(list)
        for marker, test, number in marked():
            if marker == self.marker:
                found[number].append(test)
        return {number: sorted(tests) for number, tests in found.items()}

    def statements(self) -> dict[int, str]:
        """Return number → statement, from the table."""
        rows = _ROW.findall(self.table.read_text(encoding="utf-8"))
        return {int(number): text.strip() for number, text in rows}

    def with_proofs(self, text: str) -> str:
        """Return the page with its last column rewritten."""
        found = self.proofs()

        def row(match: re.Match[str]) -> str:
            tests = "<br>".join(f"`{test}`" for test in found.get(int(match[1]), []))
            return f"| {match[1]} | {match[2].strip()} | {tests or NONE} |"

        return _ROW.sub(row, text)


GUARANTEES: Final = Listing("guarantee", TESTS / "GUARANTEES.md")
CASES: Final = Listing("case", TESTS / "CASES.md")


if __name__ == "__main__":
    for each in (GUARANTEES, CASES):
        page = each.table.read_text(encoding="utf-8")
        each.table.write_text(each.with_proofs(page), encoding="utf-8")

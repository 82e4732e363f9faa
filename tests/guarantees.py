"""Keep the tables of proofs true: `python -m tests.guarantees` rewrites their last columns.

A test proves guarantee 6 when its name carries `g06`, and case 2 when it carries `c02`:
`test_g06_…`, or `test_g06_g21_c02_…` for several.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Final

import attrs

TESTS: Final = Path(__file__).parent
NONE: Final = "(none)"
_TEST: Final = re.compile(r"^\s*(?:async )?def (test_(?:[cg]\d\d_)+\w*)", re.MULTILINE)
_MARKS: Final = re.compile(r"test_((?:[cg]\d\d_)+)")
_ROW: Final = re.compile(r"^\| (\d+) \| ([^|]+) \|[^|]*\|$", re.MULTILINE)


@attrs.frozen
class Listing:
    """A page with a table of numbers, what they stand for, and the tests that prove them."""

    letter: str
    """What stands before the number in the name of a test."""
    table: Path

    def proofs(self) -> dict[int, list[str]]:
        """Return number → tests, as `file::name`, sorted."""
        found: dict[int, list[str]] = defaultdict(list)
        for path in sorted(TESTS.rglob("test_*.py")):
            for name in _TEST.findall(path.read_text(encoding="utf-8")):
                marks = _MARKS.match(name)
                assert marks is not None
                for number in re.findall(rf"{self.letter}(\d\d)_", marks[1]):
                    found[int(number)].append(f"{path.relative_to(TESTS).as_posix()}::{name}")
        return dict(found)

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


GUARANTEES: Final = Listing("g", TESTS / "GUARANTEES.md")
CASES: Final = Listing("c", TESTS / "CASES.md")


if __name__ == "__main__":
    for each in (GUARANTEES, CASES):
        page = each.table.read_text(encoding="utf-8")
        each.table.write_text(each.with_proofs(page), encoding="utf-8")

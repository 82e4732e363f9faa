"""Keep `tests/GUARANTEES.md` true: `python -m tests.guarantees` rewrites its last column.

A test proves guarantee 6 when its name carries `g06`: `test_g06_…`, or `test_g47_g70_…` for two.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parent
TABLE: Final = TESTS / "GUARANTEES.md"
NONE: Final = "(none)"
_TEST: Final = re.compile(r"^\s*(?:async )?def (test_(?:g\d\d_)+\w*)", re.MULTILINE)
_ROW: Final = re.compile(r"^\| (\d+) \| ([^|]+) \|[^|]*\|$", re.MULTILINE)


def proofs() -> dict[int, list[str]]:
    """Return guarantee number → tests, as `file::name`, sorted."""
    found: dict[int, list[str]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        for name in _TEST.findall(path.read_text(encoding="utf-8")):
            for number in re.findall(r"g(\d\d)_", name):
                found[int(number)].append(f"{path.relative_to(TESTS).as_posix()}::{name}")
    return dict(found)


def statements() -> dict[int, str]:
    """Return guarantee number → statement, from the table."""
    return {int(n): text.strip() for n, text in _ROW.findall(TABLE.read_text(encoding="utf-8"))}


def with_proofs(text: str) -> str:
    """Return the page with its last column rewritten."""
    found = proofs()

    def row(match: re.Match[str]) -> str:
        tests = "<br>".join(f"`{test}`" for test in found.get(int(match[1]), []))
        return f"| {match[1]} | {match[2].strip()} | {tests or NONE} |"

    return _ROW.sub(row, text)


if __name__ == "__main__":
    TABLE.write_text(with_proofs(TABLE.read_text(encoding="utf-8")), encoding="utf-8")

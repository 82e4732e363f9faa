"""System lines: delivered at least once, in order, dropped only by a commit, counted when lost."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from band_trio.runtime.turn.system_lines import SystemLines
from tests.marks import guarantee


@guarantee(65)
def test_lines_are_told_again_until_a_commit() -> None:
    lines = SystemLines(10)
    assert lines.pending() == (None, 0)
    lines.add("a")
    lines.add("b")
    assert lines.pending() == ("a\nb", 2)
    lines.add("c")
    assert lines.pending() == ("a\nb\nc", 3)
    lines.commit(2)
    assert lines.pending() == ("c", 3)
    lines.commit(3)
    assert lines.pending() == (None, 3)


@guarantee(65)
def test_what_was_left_out_is_counted_even_if_it_came_after_the_delivery() -> None:
    lines = SystemLines(2)
    lines.add("a")
    lines.add("b")
    _, upto = lines.pending()
    for line in "cde":
        lines.add(line)
    lines.commit(upto)  # a and b; c came and went meanwhile
    assert lines.pending()[0] == "(1 earlier updates are left out)\nd\ne"


@guarantee(65)
@given(
    st.integers(1, 4),
    st.lists(st.sampled_from(["add", "add", "look", "commit"]), max_size=40),
)
def test_every_line_is_delivered_or_counted(capacity: int, steps: list[str]) -> None:
    lines, added, told, looked = SystemLines(capacity), 0, 0, 0
    for step in steps:
        if step == "add":
            added += 1
            lines.add(str(added))
        elif step == "look":
            text, looked = lines.pending()
            assert _numbers(text) == list(range(told + 1, added + 1))[-capacity:]
            assert _left_out(text) == max(0, added - told - capacity)
        else:
            lines.commit(looked)
            told = looked
    text, upto = lines.pending()
    assert upto == added
    assert _left_out(text) + len(_numbers(text)) == added - told


def _numbers(text: str | None) -> list[int]:
    return [int(line) for line in (text or "").split("\n") if line.isdigit()]


def _left_out(text: str | None) -> int:
    match = re.match(r"\((\d+) earlier", text or "")
    return int(match[1]) if match else 0

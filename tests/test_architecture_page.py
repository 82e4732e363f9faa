"""docs/architecture.md shows the moves that there are."""

from __future__ import annotations

from band_trio.runtime.journal.entries import Phase
from tests.moves import PAGE, meanings, renewed, tables


def test_every_phase_is_explained() -> None:
    assert list(meanings()) == [*Phase]


def test_the_tables_are_those_of_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert tables() in page
    assert page == renewed(page), "run: python -m tests.moves"

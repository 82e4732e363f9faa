"""Every guarantee has a test that names it, and the table of them is up to date."""

from __future__ import annotations

from typing import Final

from tests import guarantees

UNSUPPORTED: Final = {73, 74, 75}
"""Contact events are refused at construction."""


def test_the_table_is_up_to_date() -> None:
    text = guarantees.TABLE.read_text(encoding="utf-8")

    assert text == guarantees.with_proofs(text), "run: python -m tests.guarantees"


def test_every_guarantee_is_listed_and_proven() -> None:
    listed, proven = guarantees.statements(), guarantees.proofs()

    assert sorted(listed) == list(range(1, 81))
    assert sorted(proven.keys() | UNSUPPORTED) == sorted(listed)

"""Every guarantee and every case has a test that names it, and the tables are up to date."""

from __future__ import annotations

import pytest

from tests.guarantees import CASES, GUARANTEES, Listing


@pytest.mark.parametrize("listing", [GUARANTEES, CASES], ids=lambda each: each.table.stem)
def test_the_table_is_up_to_date(listing: Listing) -> None:
    text = listing.table.read_text(encoding="utf-8")

    assert text == listing.with_proofs(text), "run: python -m tests.guarantees"


def test_every_guarantee_is_listed_and_proven() -> None:
    listed, proven = GUARANTEES.statements(), GUARANTEES.proofs()

    assert sorted(listed) == list(range(1, 90))
    assert sorted(proven) == sorted(listed)


def test_every_case_is_listed_and_tested() -> None:
    listed = CASES.statements()

    assert sorted(listed) == [*range(1, 77), *range(86, 89), *range(90, 96)]
    assert sorted(CASES.proofs()) == sorted(listed)

"""Markers of tests that prove something listed: `@guarantee(1, 2)`, `@case("C15")`."""

from __future__ import annotations

from typing import Final

import pytest

guarantee: Final = pytest.mark.guarantee
"""The test shows that these guarantees hold; their statements are in GUARANTEES.md."""
case: Final = pytest.mark.case
"""The test shows that these cases are handled; they are told in CASES.md."""

"""What may be an id or a cursor, and that no URL made of them is too long."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from band_trio.config.credentials import Credentials
from band_trio.errors import BandConfigError
from band_trio.kit.ids import CURSOR, CURSOR_CHARS, ID, ID_CHARS
from tests.marks import case, guarantee
from tests.support.for_each import for_each

ODD: list[object] = [
    "", "\0", "a\nb", "\x1b[2J", "\x7f", "\x85", "\u2028", "\u202e", "\u200b", "\ud800", "\ufffd",
    "x" * (ID_CHARS + 1), None, 5, b"id", ["id"],
]  # fmt: skip


@guarantee(87)
@case("C69")
@for_each("odd", ODD, ids=lambda odd: ascii(odd)[:12])
def test_what_cannot_be_an_id(odd: object) -> None:
    assert not ID.accepts(odd)


@guarantee(87)
@for_each(
    "fine", ["5b1e", "a b", "..", "a/b?c=d#e", "ü\U0001f600", "x" * ID_CHARS, "\u30eb\u30fc\u30e0"]
)
def test_ids_are_opaque_otherwise(fine: str) -> None:
    assert ID.accepts(fine)
    assert CURSOR.accepts(fine)


@guarantee(87)
@case("C69")
def test_the_longest_url_is_none_that_a_library_refuses() -> None:
    widest = "\U0001f600"
    assert ID.accepts(widest * ID_CHARS)
    assert CURSOR.accepts(widest * CURSOR_CHARS)
    assert not CURSOR.accepts(widest * (CURSOR_CHARS + 1))
    assert len(quote(widest)) * (2 * ID_CHARS + CURSOR_CHARS) < 60_000


@guarantee(87)
@case("C69")
@for_each("odd", ["a\0", "x" * 70_000, "\ud800", "a\nb"], ids=lambda odd: odd[:3])
def test_an_agent_id_that_cannot_be_one_is_a_mistake_with_a_remedy(odd: str) -> None:
    with pytest.raises(BandConfigError, match="agent_id must be 1 to 256 printable") as caught:
        Credentials(odd, "k-secret")
    text = str(caught.value)
    assert len(text) < 200
    assert "\n" not in text
    assert "k-secret" not in text

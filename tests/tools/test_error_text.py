"""Text of errors that leaves the process (guarantee 79, case C14)."""

from __future__ import annotations

from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from band_trio.errors import BandApiError, BandToolError, OutcomeUnknownError
from band_trio.kit.hygiene import error_text, redact_credentials_deep
from band_trio.tools.results import explain
from tests.marks import guarantee
from tests.support.for_each import for_each

KEY = "sk/very+secret=key~1234"
LIMIT = 1000


class Broken(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@guarantee(79)
@for_each(
    "leak",
    [
        KEY,
        quote(KEY, safe=""),
        "Authorization: Bearer abcdefghijkl",
        "authorization=Basic dXNlcjpwYXNz",
        "https://x.test/?api_key=topsecretvalue&x=1",
        '{"password": "topsecretvalue"}',
        "X-API-Key: topsecretvalue",
        "thnv_a_topsecretvalue",
    ],
)
def test_credentials_are_masked(leak: str) -> None:
    text = error_text(ValueError(f"call failed with {leak} at once"), LIMIT, [KEY])

    assert text.startswith("ValueError: call failed with ")
    assert "[REDACTED]" in text
    for secret in (KEY, quote(KEY, safe=""), "abcdefghijkl", "dXNlcjpwYXNz", "topsecretvalue"):
        assert secret not in text


@guarantee(79)
def test_long_text_keeps_head_and_tail() -> None:
    text = error_text(ValueError("head " + "x" * 10**6 + " tail"), LIMIT)

    assert len(text) <= LIMIT
    assert text.startswith("ValueError: head")
    assert text.endswith(" tail")


@guarantee(79)
def test_a_secret_at_the_cut_is_masked_before_cutting() -> None:
    text = error_text(ValueError("x" * 480 + KEY * 3 + "y" * 2000), LIMIT, [KEY])

    assert "very+secret" not in text
    assert len(text) <= LIMIT


@guarantee(79)
@for_each(
    ("error", "text"),
    [
        (ValueError("a\x00b\x1bc\x85d\ud800e\tf\ng"), "ValueError: a�b�c�d�e\tf\ng"),
        (ValueError(), "ValueError"),
        (ValueError(" \u200b "), "ValueError"),
        (Broken(), "Broken"),
        (ExceptionGroup("many", [ValueError("one"), ExceptionGroup("in", [KeyError("two")])]),
         "ValueError: one; KeyError: 'two'"),
        (BaseExceptionGroup("g", [KeyboardInterrupt("k")]), "KeyboardInterrupt: k"),
    ],
)  # fmt: skip
def test_broken_text_is_repaired_and_never_empty(error: BaseException, text: str) -> None:
    assert error_text(error, LIMIT) == text


@guarantee(79)
@given(st.text(), st.integers(1, 200), st.from_regex("[a-z0-9]{6,12}", fullmatch=True))
def test_any_text_is_clean_short_and_without_the_key(body: str, limit: int, key: str) -> None:
    text = error_text(ValueError(body + key + body), limit, [key])

    assert 0 < len(text) <= max(limit, len("ValueError"))
    assert key not in text or key in body
    text.encode("utf-8")
    assert not any(ord(c) < 32 and c not in "\t\n" for c in text)


@guarantee(79)
def test_data_is_masked_by_key_and_by_value() -> None:
    data = {"api_key": "a", "deep": [{"Token": 5, "text": f"see {KEY}"}], "n": 1}

    assert redact_credentials_deep(data, [KEY]) == {
        "api_key": "[REDACTED]",
        "deep": [{"Token": "[REDACTED]", "text": "see [REDACTED]"}],
        "n": 1,
    }


@guarantee(79)
def test_texts_for_the_model_are_masked_and_capped() -> None:
    api = explain("t", BandApiError(422, "code", f"see {KEY} " + "x" * 5000), [KEY])
    tool = explain("t", BandToolError(f"see {KEY}\x00 " + "x" * 50_000), [KEY])
    lost = explain("t", OutcomeUnknownError("https://platform.test gave no answer"))
    foreign = explain("t", KeyError("inner secret"))

    assert KEY not in api + tool
    assert len(api) < 600
    assert len(tool) < 2_100
    assert "platform.test" not in lost
    assert "may have taken effect" in lost
    assert foreign == "Error executing t: KeyError"

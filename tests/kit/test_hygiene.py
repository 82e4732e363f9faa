"""Text that leaves the process: no secrets, no broken characters, within its limit."""

from __future__ import annotations

import json
import time
import traceback
import unicodedata
from typing import Any
from urllib.parse import quote, quote_plus, urlencode

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from band_trio.kit.hygiene import (
    REDACTED,
    clean_text,
    clip,
    error_line,
    error_text,
    has_visible,
    one_line,
    redact_credentials,
    redact_credentials_deep,
    traceback_text,
    without_controls,
    without_surrogates,
    without_surrogates_deep,
)
from tests.marks import case, guarantee
from tests.support.for_each import for_each

KEY = "thnv_a_Zq8/x+9=\"7'%&\\w"
wild = st.text(st.characters(codec=None))
keys = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=30)


# --------------------------------------------------------------------------- our own key


def forms(key: str) -> list[str]:
    """Return what becomes of a key on its way through URLs, JSON and repr."""
    encoded = quote(key, safe="")
    return [
        key,
        encoded,
        encoded.replace("%2F", "%2f").replace("%3D", "%3d"),
        quote(key),
        quote_plus(key),
        urlencode({"k": key})[2:],
        json.dumps(key)[1:-1],
        json.dumps(key)[1:-1].replace("/", "\\/"),
        repr(key)[1:-1],
    ]


@guarantee(79)
@given(keys, wild, wild)
@example(KEY, "key=", "&b=1")
@example("%%%%%%%%", "", "")
def test_the_key_is_masked_in_every_form(key: str, before: str, after: str) -> None:
    for form in forms(key):
        masked = redact_credentials(f"{before}\n{form}\n{after}", [key])
        assert f"\n{form}\n" not in masked
        assert REDACTED in masked


def test_the_longest_secret_is_masked_first() -> None:
    masked = redact_credentials("abcd-efgh abcd", ["abcd", "abcd-efgh", "", "  "])

    assert masked == f"{REDACTED} {REDACTED}"


def test_a_secret_with_a_space_is_masked_in_urls() -> None:
    masked = redact_credentials("?a=pass+phrase&b=pass%20phrase pass phrase", ["pass phrase"])

    assert masked == f"?a={REDACTED}&b={REDACTED} {REDACTED}"


def test_one_secret_may_be_given_as_text() -> None:
    assert redact_credentials("ab cd", "cd") == f"ab {REDACTED}"
    assert redact_credentials_deep(["ab cd"], "cd") == [f"ab {REDACTED}"]


# --------------------------------------------------------------------------- by shape


@guarantee(79)
@for_each(
    ("text", "masked"),
    [
        ("Bearer abc.DEF-123 tail", "Bearer # tail"),
        ("bearer: s3cret!with$signs, next", "bearer: #, next"),
        ("Basic dXNlcjpwYXNz tail", "Basic # tail"),
        ("got thnv_u_ABCdef123, ok", "got #, ok"),
        ("key sk-proj-abcdefgh12345678 is wrong", "key # is wrong"),
        ("GET https://bob:pass@host/x", "GET https://#@host/x"),
        ("Authorization: Token abc def\nHost: x", "Authorization: #\nHost: x"),
        ("Cookie: a=b; c=d\r\nX: y", "Cookie: #\r\nX: y"),
        ("{'Authorization': 'Bearer x y', 'a': 1}", "{'Authorization': '#', 'a': 1}"),
        ('{"x-api-key": "abc", "n": 1}', '{"x-api-key": "#", "n": 1}'),
        ('{\\"api_key\\": \\"a b\\", \\"n\\": 1}', '{\\"api_key\\": \\"#\\", \\"n\\": 1}'),
        ("[(b'x-api-key', b'abc'), (b'host', b'h')]", "[(b'x-api-key', b'#'), (b'host', b'h')]"),
        ("?api_key=abc&room=1", "?api_key=#&room=1"),
        ("apiKey=abc accessToken: def", "apiKey=# accessToken: #"),
        ("DB_PASSWORD=abc, client-secret : def;", "DB_PASSWORD=#, client-secret : #;"),
        ('password="my \\"long\\" phrase" end', 'password="#" end'),
        ("private_key => abc", "private_key => #"),
        ('secret="never closed', 'secret="#'),
    ],
)
def test_credentials_are_masked_by_their_shape(text: str, masked: str) -> None:
    assert redact_credentials(text) == masked.replace("#", REDACTED)


@for_each(
    "text",
    [
        "a basic question about bearer tokens",
        "Bearer token is missing",
        "max_tokens: 4096, input_tokens=12",
        "the secretary: Ann",
        "api_key=None, token: null",
        "see https://host/path?x=1@2",
        "unauthorized",
        "sk-learn is a library",
        f"password: {REDACTED}",
        "",
    ],
)
def test_other_text_stays(text: str) -> None:
    assert redact_credentials(text) == text


FRAGMENTS = [
    *("token", "authorization", "api_key", "cookie", "bearer", "basic", "password", REDACTED, KEY),
    *("=", ":", " ", '"', "'", "\\", ",", "(", ")", "]", "}", "\n", "b'", "://", "@", "abcd", "X9"),
]


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=20).map("".join) | wild)
def test_masking_twice_changes_nothing(text: str) -> None:
    once = redact_credentials(text, [KEY])

    assert redact_credentials(once, [KEY]) == once


@for_each(
    "part",
    [
        *("_", "a_", "a-", "token", "token ", "token=\\", 'password="', "bearer ", "basic a"),
        *("basic aaaa ", "://a:", "sk-a-", "authorization:", "cookie: ", "%6b", KEY[:9]),
    ],
)
def test_huge_text_takes_linear_time(part: str) -> None:
    """With a pattern that backtracks, this ends in the time-out of the whole run."""
    redact_credentials(part * (100_000 // len(part)), [KEY])


def test_a_traceback_is_clean() -> None:
    try:
        raise RuntimeError(f"GET /x?api_key={quote(KEY, safe='')} with {KEY!r}")
    except RuntimeError as exc:
        text = "".join(traceback.format_exception(exc))
    masked = redact_credentials(text, [KEY])

    assert all(form not in masked for form in forms(KEY))
    assert "RuntimeError: GET /x?api_key=" in masked


# --------------------------------------------------------------------------- values


@guarantee(79)
def test_credential_named_keys_are_masked_in_values() -> None:
    value = {
        "X-API-Key": "abc",
        "accessToken": {"a": 1},
        "password": 1234,
        "token": None,
        "secret": True,
        "usage": {"input_tokens": 3, "cache_read_tokens": 4},
        "list": [f"see {KEY}", ("Bearer abcd", 5, None)],
        KEY: 1,
        7: "x",
    }

    assert redact_credentials_deep(value, [KEY]) == {
        "X-API-Key": REDACTED,
        "accessToken": REDACTED,
        "password": REDACTED,
        "token": None,
        "secret": True,
        "usage": {"input_tokens": 3, "cache_read_tokens": 4},
        "list": [f"see {REDACTED}", [f"Bearer {REDACTED}", 5, None]],
        REDACTED: 1,
        7: "x",
    }


def test_the_value_given_is_not_changed() -> None:
    value = {"a": [{"token": "x"}]}
    redact_credentials_deep(value)

    assert value == {"a": [{"token": "x"}]}


def test_values_without_end_are_cut() -> None:
    loop: list[Any] = []
    loop.append(loop)

    assert REDACTED in str(redact_credentials_deep(loop))


# --------------------------------------------------------------------------- characters


@for_each("text", ["", " \t\n", "\u200b\u200d\ufeff", "\u202e", "\x00", "\ud800"])
def test_blank_text_has_nothing_visible(text: str) -> None:
    assert not has_visible(text)
    assert has_visible(text + "a")


@for_each("text", ["a", "5", ".", "😀", "ü", "中"])
def test_a_letter_number_sign_or_symbol_is_visible(text: str) -> None:
    assert has_visible(text)


@given(wild)
@example("\ud83d\ude00")
@example("\ufeffa\ud800")
def test_text_without_surrogates_can_be_encoded(text: str) -> None:
    cleaned = without_surrogates(text)

    cleaned.encode()
    assert without_surrogates(cleaned) == cleaned
    # The same characters in the same order; two halves may have become one.
    halves = text.encode("utf-16-le", "surrogatepass")
    assert len(cleaned.encode("utf-16-le")) == len(halves)
    assert not any("\ud800" <= char <= "\udfff" for char in cleaned)


@given(st.text())
def test_sound_text_is_not_touched(text: str) -> None:
    assert without_surrogates(text) == text


@given(wild)
def test_only_tab_and_newline_are_left_of_the_controls(text: str) -> None:
    cleaned = without_controls(text)

    assert len(cleaned) == len(text)
    assert all(c in "\t\n" or unicodedata.category(c) != "Cc" for c in cleaned)
    assert all(
        a == b or unicodedata.category(b) == "Cc" for a, b in zip(cleaned, text, strict=True)
    )


# --------------------------------------------------------------------------- clipping

JOINED = [
    "👨\u200d👩\u200d👧",
    "👍🏽",
    "e\u0301\u0323",
    "1\ufe0f\u20e3",
    "🇩🇪",
    "🏴\U000e0067\U000e0062\U000e007f",
    "कि",
    "\u1100\u1161\u11a8",
]


@given(wild, st.integers(0, 40), st.sampled_from([" … ", "", "[cut]"]))
def test_clipped_text_keeps_its_limit_its_head_and_its_tail(
    text: str, limit: int, marker: str
) -> None:
    clipped = clip(text, limit, marker)

    assert len(clipped) <= limit
    if len(text) <= limit:
        assert clipped == text
    elif limit > len(marker):
        at = clipped.index(marker) if marker else 0
        assert any(
            text.startswith(clipped[:i]) and text.endswith(clipped[i + len(marker) :])
            for i in range(at, len(clipped) + 1)
            if clipped[i : i + len(marker)] == marker
        )


def test_a_limit_is_used_up_to_the_last_character() -> None:
    text = "".join(chr(ord("a") + i % 26) for i in range(100))

    assert [len(clip(text, limit)) for limit in range(1, 101)] == list(range(1, 101))
    assert clip(text, 100) == text
    assert clip(text, 13) == "abcde … rstuv"
    assert clip("abcdef", 4, "…") == "ab…f"


@for_each("joined", JOINED, ids=[unicodedata.name(j[0]) for j in JOINED])
def test_a_visible_character_is_kept_whole_or_not_at_all(joined: str) -> None:
    text = "xy" + joined * 12 + "z"
    for limit in range(len(text)):
        kept = clip(text, limit, "#").replace("#", "").removeprefix("xy")
        assert kept.removesuffix("z").replace(joined, "") in ("", "x")


def test_text_of_one_endless_character_is_cut_to_the_marker() -> None:
    assert clip("a" + "\u0301" * 100, 10) == " … "
    assert clip("\u200d" * 100, 2) == ""


def test_flags_are_cut_between_pairs_only() -> None:
    assert clip("🇩🇪🇫🇷🇮🇹🇪🇸", 4, "") == "🇩🇪🇪🇸"
    assert clip("x🇩🇪🇫🇷🇮🇹🇪🇸", 5, "#") == "x#🇪🇸"


# --------------------------------------------------------------------------- errors as text


class Broken(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


@guarantee(79)
@for_each(
    ("error", "text"),
    [
        (ValueError("wrong"), "ValueError: wrong"),
        (ValueError(""), "ValueError"),
        (ValueError(), "ValueError"),
        (ValueError(" \n\u200b"), "ValueError"),
        (ValueError("a\x00b\r\x1bc\td\ne"), "ValueError: a\ufffdb\ufffd\ufffdc\td\ne"),
        (ValueError("a\ud800b"), "ValueError: a\ufffdb"),
        (Broken(), "Broken"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (
            ExceptionGroup("g", [ValueError("a"), ExceptionGroup("h", [KeyError("b"), Broken()])]),
            "ValueError: a; KeyError: 'b'; Broken",
        ),
        (BaseExceptionGroup("g", [SystemExit(3)]), "SystemExit: 3"),
        (RuntimeError(f"no {KEY} here"), f"RuntimeError: no {REDACTED} here"),
        (RuntimeError(f"?k={quote(KEY, safe='')}&"), f"RuntimeError: ?k={REDACTED}&"),
        (RuntimeError("Authorization: Bearer abcd"), f"RuntimeError: Authorization: {REDACTED}"),
    ],
)
def test_an_error_is_told_in_clean_words(error: BaseException, text: str) -> None:
    assert error_text(error, 1_000, [KEY]) == text


def _failing() -> None:
    try:
        raise KeyError("first")
    except KeyError as exc:
        raise ValueError("no such thing") from exc


@guarantee(79)
def test_an_error_that_quotes_a_traceback_is_told_without_it() -> None:
    with pytest.raises(ValueError, match="no such thing") as caught:
        _failing()
    quoted = "".join(traceback.format_exception(caught.value))
    text = error_text(RuntimeError(f"The tool failed:\n{quoted}\nTry again."), 1_000)

    assert text.startswith("RuntimeError: The tool failed:\nKeyError: 'first'\n")
    assert text.endswith("ValueError: no such thing\nTry again.")
    assert "Traceback" not in text
    assert "File " not in text
    assert "_failing" not in text
    one_line = RuntimeError("It failed: " + quoted.replace("\n", "\\n"))
    assert error_text(one_line, 1_000) == "RuntimeError: It failed:"


@guarantee(79)
@for_each("limit", [1, 3, 10, 1_000])
def test_a_monstrous_error_is_capped_with_head_and_tail(limit: int) -> None:
    text = error_text(ValueError("start " + "x" * 1_000_000 + " end"), limit)

    assert len(text) == limit
    assert text.startswith("V")
    assert limit < 1_000 or (text.startswith("ValueError: start x") and text.endswith("x end"))


@guarantee(79)
def test_a_secret_is_not_cut_before_it_is_masked() -> None:
    for padding in range(40):
        text = error_text(ValueError("y" * padding + KEY * 30), 60, [KEY])
        assert all(KEY[i : i + 6] not in text for i in range(len(KEY) - 6))


@guarantee(79)
@given(wild, st.integers(1, 60))
@example("\ud83d\ude00" * 50, 20)
@example("\u200d" * 100, 5)
@example("\u0301" * 100, 12)
def test_any_text_of_an_error_is_accepted(message: str, limit: int) -> None:
    text = error_text(ValueError(message), limit, [KEY])

    text.encode()
    assert has_visible(text)
    assert len(text) <= max(limit, len("ValueError"))
    assert without_controls(text) == text


def test_the_text_of_a_group_is_that_of_its_leaves_however_deep() -> None:
    first, second = ValueError("1"), KeyError("2")
    error: Exception = ExceptionGroup("g", [first, second])
    for _ in range(3_000):
        error = ExceptionGroup("g", [error])

    assert error_text(error, 100) == "ValueError: 1; KeyError: '2'"


def test_surrogates_are_replaced_at_every_level_of_a_value() -> None:
    value = {"a\ud800": ["\udfff", ("x", 3)], 4: None}

    assert without_surrogates_deep(value) == {"a\ufffd": ["\ufffd", ["x", 3]], 4: None}
    assert value == {"a\ud800": ["\udfff", ("x", 3)], 4: None}


@for_each(
    ("text", "line"), [("a\tb\nc", "a b c"), (" x\x00y\x1b\x7f ", "xy"), ("é\u200d", "é\u200d")]
)
def test_a_title_is_one_line(text: str, line: str) -> None:
    assert one_line(text) == line


# --------------------------------------------------------------------------- a line of ours

NOT_IN_A_LINE = {"Cc", "Cs", "Zl", "Zp"}


@guarantee(79)
@case("C72")
@for_each(
    ("text", "line"),
    [
        ("a\nb\r\n\tc", "a\\nb\\r\\n\\tc"),
        ("\x1b[31mred\x07\x00\x85", "\\x1b[31mred\\x07\\x00\\x85"),
        ("a\u2028b\u2029c", "a\\u2028b\\u2029c"),
        ("abc\u202etxt.exe\u2066\ufeff", "abc\\u202etxt.exe\\u2066\\ufeff"),
        ("half \ud83d", "half \\ud83d"),
        ("山田\u3000太郎 👩\u200d💻 é", "山田\u3000太郎 👩\u200d💻 é"),
        ("Cookie: a=b\nX: y", f"Cookie: {REDACTED}"),
    ],
)
def test_controls_are_shown_as_escapes(text: str, line: str) -> None:
    assert clean_text(text) == line


@case("C72")
def test_no_character_ends_a_line_or_turns_it() -> None:
    for code in range(0x10000):  # the other planes have none
        char = chr(code)
        kind = unicodedata.category(char)
        if kind in NOT_IN_A_LINE or unicodedata.bidirectional(char) in _TURNS:
            assert clean_text(char).isascii(), hex(code)
        elif code < 0x400 and char.isprintable():
            assert clean_text(char) == char


_TURNS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@guarantee(79)
@case("C72")
@given(wild, keys, wild, st.integers(1, 400))
@example("a\n", "key=value+%", "\x1b]0;title\x07", 30)
@example("Bearer ", "abcdefgh", "\u202e" * 300, 20)
def test_any_text_is_one_clean_line(before: str, key: str, after: str, limit: int) -> None:
    text = before + key + after + quote(key, safe="")
    line = clean_text(text, limit, [key])

    assert len(line.splitlines()) <= 1
    assert not {unicodedata.category(char) for char in line} & NOT_IN_A_LINE
    assert len(line) <= limit
    assert key not in line.replace(REDACTED, "")
    line.encode()
    whole = clean_text(text, secrets=[key])
    assert clean_text(whole, secrets=[key]) == whole


@guarantee(79)
def test_a_huge_text_becomes_a_line_quickly() -> None:
    for text in ("\x1b" * 1_000_000, "a:b@" * 100_000, "(" * 300_000, "a:," * 100_000):
        began = time.perf_counter()
        assert len(clean_text(text, 300)) <= 300
        assert time.perf_counter() - began < 1, text[:4]


@case("C72")
def test_a_traceback_forges_no_line_of_the_log() -> None:
    with pytest.raises(ValueError, match="forged") as caught:
        raise ValueError("no\n2026-01-01 CRITICAL forged\x1b[2J\r\ud800")
    lines = traceback_text(caught.value).splitlines()

    assert lines[0] == "  Traceback (most recent call last):"
    assert lines[-1] == "  2026-01-01 CRITICAL forged\\x1b[2J\\r\\ud800"
    assert all(line.startswith("  ") for line in lines)


@case("C72")
def test_an_error_is_told_in_a_line() -> None:
    assert error_line(ValueError("a\nb")) == "ValueError: a\\nb"
    assert error_line(ValueError(KEY), [KEY]) == f"ValueError: {REDACTED}"


@guarantee(79)
@case("C69")
@for_each(
    ("text", "masked"),
    [
        ("HTTPS_PROXY=user:pw@h:1 is odd", "HTTPS_PROXY=#@h:1 is odd"),
        ("user:pw@h:1", "#@h:1"),
        ("proxy 'user:p@ss:w%40rd@[::1]:1'", "proxy '#@[::1]:1'"),
        ("http://user:p@ss@h:1/x", "http://#@h:1/x"),
        ("socks5://:pw@h:1", "socks5://#@h:1"),
    ],
)
def test_user_and_password_of_a_proxy_are_masked(text: str, masked: str) -> None:
    assert redact_credentials(text) == masked.replace("#", REDACTED)


@for_each(
    "text", ["mailto:bob@example.com", "at 10:30 @bob", "see ann@x.de: yes", "a: b@c", "::1@"]
)
def test_what_has_a_colon_and_an_at_sign_stays(text: str) -> None:
    assert redact_credentials(text) == text

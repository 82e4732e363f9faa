"""JSON at the boundary: everything that is read can be written, and garbage has one error."""

from __future__ import annotations

import json
import math
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from band_trio.protocol import codec
from band_trio.protocol.errors import RemoteProtocolError
from tests.marks import case, guarantee
from tests.protocol.strategies import json_values, wild_texts, wild_values
from tests.support.for_each import for_each


@given(json_values)
def test_what_is_written_is_read_back(value: Any) -> None:
    data = codec.dumps(value)

    assert codec.loads(data) == value
    assert codec.loads(data.decode()) == value
    assert codec.loads(bytearray(data)) == value


@given(wild_values)
def test_whatever_is_read_can_be_written(value: Any) -> None:
    text = json.dumps(value)  # with \ud800, NaN and Infinity, which JSON does not know
    try:
        read = codec.loads(text)
    except RemoteProtocolError:
        assert "NaN" in text or "Infinity" in text
    else:
        assert codec.loads(codec.dumps(read)) == read


@given(wild_values)
def test_a_dump_of_wild_values_is_valid_json(value: Any) -> None:
    codec.loads(codec.dumps(value).decode("utf-8", "strict"))


@given(st.binary() | st.text() | wild_texts)
@example(b"\xff\xfe")
@example("\ufeff{}")
@example("")
@example("-")
@example('"\\ud800')
@example("[1e999]")
@example("9" * 5_000)
@example("-" + "9" * 400)
@example("[" * 100_000)
@example('{"a":' * 100_000)
def test_garbage_has_one_error(data: bytes | str) -> None:
    try:
        value = codec.loads(data)
    except RemoteProtocolError:
        return
    codec.dumps(value)


def test_nothing_of_the_data_gets_into_the_error() -> None:
    for text in ("SECRET", '{"SECRET', '["SECRET", NaN]'):
        with pytest.raises(RemoteProtocolError) as caught:
            codec.loads(text)
        assert "SECRET" not in str(caught.value)
        assert caught.value.__suppress_context__


@for_each("constant", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
@for_each("frame", ["{}", "[{}]", '{{"a":{}}}', '["\\ud800",{}]'])
def test_numbers_without_a_value_are_refused(constant: str, frame: str) -> None:
    with pytest.raises(RemoteProtocolError, match="not JSON"):
        codec.loads(frame.format(constant))


def test_numbers_without_a_value_are_written_as_null() -> None:
    assert codec.dumps([math.nan, math.inf, -math.inf]) == b"[null,null,null]"


@for_each("text", ["\ud800", "a\udfffb", "\ud800\ud800"])
def test_lone_surrogates_become_replacement_characters(text: str) -> None:
    replaced = "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)

    assert codec.loads(json.dumps([text])) == [replaced]
    assert codec.loads(json.dumps({text: [1]})) == {replaced: [1]}
    assert codec.loads(codec.dumps({"a": (text, {text: None})})) == {
        "a": [replaced, {replaced: None}]
    }


def test_two_halves_of_a_character_are_joined() -> None:
    assert codec.loads('["\\ud83d\\ude00 \\ud800"]') == ["\U0001f600 \ufffd"]
    assert codec.loads(codec.dumps("\ud83d\ude00")) == "\U0001f600"


def test_the_last_of_equal_keys_counts() -> None:
    assert codec.loads('{"a":1,"a":2}') == {"a": 2}
    assert codec.loads('{"a":1,"a":2,"b":"\\ud800"}') == {"a": 2, "b": "\ufffd"}


@for_each("tail", ["", ',"\\ud800"'], ids=["orjson", "stdlib"])
@for_each(
    ("digits", "value"),
    [
        (str(2**64 - 1), 2**64 - 1),
        (str(2**64), 2.0**64),
        (str(-(2**63)), -(2**63)),
        (str(-(2**63) - 1), -(2.0**63)),
        ("1.5", 1.5),
    ],
)
def test_both_readers_agree_on_numbers(tail: str, digits: str, value: float) -> None:
    read = codec.loads(f"[{digits}{tail}]")[0]

    assert read == value
    assert type(read) is type(value)


def nested(depth: int, core: str = "", *, mapping: bool = False) -> str:
    before, after = ('{"a":', "}") if mapping else ("[", "]")
    return before * depth + (core or ("0" if mapping else "")) + after * depth


@for_each("mapping", [False, True], ids=["lists", "objects"])
@for_each("core", ["", '"\\ud800"'], ids=["orjson", "stdlib"])
def test_depth_has_one_limit_and_leaves_room_to_write(mapping: bool, core: str) -> None:
    deepest = nested(codec.MAX_DEPTH, core, mapping=mapping)
    for data in (deepest, deepest.encode()):
        codec.dumps([{"data": [{"metadata": codec.loads(data)}]}])

    for depth in (codec.MAX_DEPTH + 1, 254, 255, 900, 1_100):
        with pytest.raises(RemoteProtocolError):
            codec.loads(nested(depth, core, mapping=mapping))


def test_many_brackets_beside_each_other_are_fine() -> None:
    rows: list[Any] = [[{"a": [{}]}] for _ in range(1_000)]
    text = json.dumps({"data": rows, "note": "[{" * 1_000})

    assert codec.loads(text) == json.loads(text)
    assert codec.loads(json.dumps("[" * 1_000)) == "[" * 1_000


@for_each("value", [{1, 2}, object(), 2**64, b"bytes", [{"a": {1}}]])
def test_what_json_cannot_express_is_our_error(value: object) -> None:
    with pytest.raises(TypeError):
        codec.dumps(value)


def test_a_value_in_itself_is_our_error() -> None:
    loop: list[Any] = ["\ud800"]
    loop.append(loop)

    with pytest.raises(TypeError, match="nested too deeply"):
        codec.dumps(loop)


MIB = 2**20


@guarantee(86)
@case("C68")
@for_each(
    "body",
    [
        b"[" + b"1," * (2 * MIB - 9) + b"1]",
        b"[" + b"[]," * MIB + b"1]",
        b'["\\ud800",' + b"1," * 30_000 + b"1]",
        b"[" + b"1," * 30_000 + b"1e999]",
    ],
    ids=["numbers", "lists", "a lone surrogate", "no number"],
)
def test_what_would_take_long_to_read_is_not_read(body: bytes) -> None:
    for data in (body, body.decode()):
        began = time.thread_time()
        with pytest.raises(RemoteProtocolError):
            codec.loads(data)
        assert time.thread_time() - began < 0.1


@guarantee(86)
@for_each(
    "body",
    [
        b"[" + b"{}," * 120_000 + b"1]",
        b'["\\ud800",' + b"12345678," * 19_000 + b"1]",
        b'["\\ud800' + b"x" * (4 * MIB - 20) + b'"]',
        b'["' + b"word, " * 100_000 + b'"]',
    ],
    ids=["many values", "a lone surrogate", "a long text", "prose"],
)
def test_what_is_read_takes_no_long_step(body: bytes) -> None:
    began = time.thread_time()
    codec.loads(body)
    assert time.thread_time() - began < 0.1


def test_text_is_written_raw() -> None:
    assert codec.dumps({"a": "ü😀", 1: datetime(2026, 3, 1, tzinfo=UTC)}) == (
        '{"a":"ü😀","1":"2026-03-01T00:00:00+00:00"}'.encode()
    )

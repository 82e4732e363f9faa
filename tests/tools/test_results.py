"""What a call gives back."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import attrs

from band_trio.tools.narration import output_text
from band_trio.tools.results import (
    image_block_placeholder,
    is_failed_tool_output,
    is_mcp_content_result,
    redact_tool_call_args,
    serialize_tool_result,
    tool_result_text,
)
from band_trio.tools.usage import is_usage_event, usage_event
from band_trio.types import TurnUsage
from tests.support.for_each import for_each


class Colour(Enum):
    RED = "red"


@attrs.frozen
class Point:
    x: int
    label: Any = None


@dataclasses.dataclass
class Pair:
    left: Any


class Model:
    def model_dump(self, *, mode: str) -> dict[str, str]:
        return {"mode": mode}


@for_each(
    ("value", "plain"),
    [
        (None, None),
        ("x", "x"),
        (Colour.RED, "red"),
        (b"\xff\xfe", "__4="),
        (datetime(2025, 1, 1, tzinfo=UTC), "2025-01-01T00:00:00+00:00"),
        (Point(1, Pair([b"a"])), {"x": 1, "label": {"left": ["YQ=="]}}),
        ((1, {2}), [1, [2]]),
        (Model(), {"mode": "json"}),
    ],
)
def test_results_become_plain_data(value: Any, plain: Any) -> None:
    assert serialize_tool_result(value) == plain
    json.dumps(plain)


def test_other_objects_are_left_as_they_are() -> None:
    thing = object()

    assert serialize_tool_result([thing]) == [thing]


def test_text_is_json_and_capped() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    long = tool_result_text({"a": "x" * 100_000, "z": "end"})

    assert tool_result_text("text") == "text"
    assert tool_result_text({"a": "ü"}) == '{"a": "ü"}'
    assert tool_result_text(cycle).startswith("Error: ")
    assert tool_result_text({(1, 2): 3}) == "{(1, 2): 3}"
    assert len(long) == 50_000
    assert long.startswith('{"a": "x')
    assert long.endswith('"end"}')


@for_each(
    ("value", "failed"),
    [
        ({"ok": False}, True),
        ({"ok": True}, False),
        ("ERROR: no", True),
        ("Error executing x: y", True),
        ("Invalid arguments for x: y", True),
        ("unknown tool: x", True),
        ("errors are fine", False),
        ({"content": [{"type": "text", "text": "no"}], "isError": True}, True),
        ({"content": [{"type": "text", "text": "yes"}], "isError": False}, False),
        ({"content": [], "isError": True}, True),
        ({"content": [{"type": "text", "text": "no"}], "is_error": True}, True),
        ({"content": [{"type": "text", "text": "yes"}], "is_error": False}, False),
        ({"content": [], "isError": True, "total": 0}, False),
        ({"content": "no", "isError": True}, False),
        ({"isError": True}, False),
        (None, False),
    ],
)
def test_failed_outputs_are_recognised(value: Any, failed: bool) -> None:
    assert is_failed_tool_output(value) is failed


def test_events_show_no_file_content() -> None:
    args = {"content": "äb", "filename": "f"}

    assert redact_tool_call_args("band_send_room_file", args) == {
        "content": "<3 byte file content>",
        "filename": "f",
    }
    assert redact_tool_call_args("band_send_message", args) == args
    assert image_block_placeholder(2) == "<2 image content block(s)>"


TEXT = {"type": "text", "text": "x"}
PICTURE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}


@for_each(
    ("value", "is_content"),
    [
        ({"content": [TEXT, PICTURE]}, True),
        ({"content": [TEXT], "isError": False, "structuredContent": None, "_meta": {}}, True),
        ({"content": [TEXT], "total": 1}, False),  # a page of something
        ({"content": [TEXT, {"id": 1, "title": "Alpha"}]}, False),
        ({"content": [{"type": "text", "title": "Alpha"}]}, False),
        ({"content": [{"type": "chapter", "text": "x"}]}, False),
        ({"content": ["one", "two"]}, False),
        ({"content": []}, False),
        ({"content": "x"}, False),
        ([TEXT], False),
    ],
)
def test_only_blocks_of_mcp_are_content(value: Any, is_content: bool) -> None:
    assert is_mcp_content_result(value) is is_content
    if not is_content:
        assert output_text(value) == json.dumps(value)


def test_blocks_that_are_no_pictures_are_shown_as_text() -> None:
    blocks = [
        TEXT,
        {"type": "resource", "resource": {"uri": "a:b", "text": "held"}},
        {"type": "resource_link", "uri": "a:b", "name": "link", "size": None},
        {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
        PICTURE,
    ]

    assert output_text({"content": blocks}).splitlines() == [
        "x",
        "held",
        '{"type": "resource_link", "uri": "a:b", "name": "link"}',
        "<audio content block>",
        "<1 image content block(s)>",
    ]


def test_usage_is_one_event() -> None:
    content, metadata = usage_event(TurnUsage(1200, 34))

    assert content == "Tokens used: 1,200 in, 34 out"
    assert metadata["band_usage"]["output_tokens"] == 34
    assert is_usage_event(metadata)
    assert not is_usage_event(None)

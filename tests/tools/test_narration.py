"""Tool calls told to the room: valid JSON within the limit, nothing secret, best effort."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from band_trio.errors import BandToolError, RoomExecutionStoppedError
from band_trio.protocol.rest import EVENT_CHARS
from band_trio.testing import FakeAgentTools, events_of_type
from band_trio.tools.narration import (
    NARRATION_SECONDS,
    narrate_call,
    narrate_result,
    output_text,
    tool_call_content,
    tool_result_content,
)
from tests.marks import case
from tests.support.for_each import for_each


async def test_the_wire_form_of_both_events() -> None:
    tools = FakeAgentTools()
    assert await narrate_call(tools, "look", {"at": "ü"}, "c1")
    assert await narrate_result(tools, "look", {"seen": [1]}, "c1")
    assert await narrate_result(tools, "look", "gone", "c1", is_error=True)

    assert [event["content"] for event in tools.events_sent] == [
        '{"name": "look", "args": {"at": "ü"}, "tool_call_id": "c1"}',
        '{"name": "look", "output": "{\\"seen\\": [1]}", "tool_call_id": "c1", "is_error": false}',
        '{"name": "look", "output": "gone", "tool_call_id": "c1", "is_error": true}',
    ]
    assert len(events_of_type(tools, "tool_call")) == 1
    assert tools.turn.effects <= {"observe"}


@for_each(
    ("args", "shown"),
    [
        ('{"a": 1}', {"a": 1}),
        ("not json", {"arguments": "not json"}),
        ([1, 2], {"arguments": [1, 2]}),
        (None, {}),
        ({"n": float("nan"), 3: {4}}, {"n": "nan", "3": [4]}),
        ({"n": 1 << 1024}, {"n": hex(1 << 1024)}),
        ({"x": "\ud800"}, {"x": "\ufffd"}),
        ({"api_key": "topsecretvalue", "k": "a KEY-1 b"}, {"api_key": "[REDACTED]",
                                                          "k": "a [REDACTED] b"}),
    ],
)  # fmt: skip
def test_arguments_of_any_shape_become_an_object(args: Any, shown: Any) -> None:
    content = json.loads(tool_call_content("t", args, "c", secrets=["KEY-1"]))

    assert content["args"] == shown


def test_file_contents_are_shown_as_their_size() -> None:
    content = tool_call_content("band_send_room_file", {"content": "ü" * 9, "filename": "f"}, "c")

    assert json.loads(content)["args"] == {"content": "<18 byte file content>", "filename": "f"}


def test_pictures_become_a_placeholder() -> None:
    picture = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    result = {"content": [{"type": "text", "text": "two"}, picture, picture]}

    assert output_text(result) == "two\n<2 image content block(s)>"


def test_a_cyclic_value_is_worded() -> None:
    cycle: dict[str, Any] = {}
    cycle["self"] = cycle

    assert "contains itself" in json.loads(tool_call_content("t", cycle, "c"))["args"]["arguments"]
    assert "contains itself" in output_text(cycle)


@case("C31")
def test_a_long_result_is_shortened_inside() -> None:
    output = "head" + "x" * 1_000_000 + "tail"
    content = tool_result_content("t", output, "c", is_error=False)
    shown = json.loads(content)["output"]

    assert EVENT_CHARS - 5 <= len(content) <= EVENT_CHARS
    assert shown.startswith("headxxx")
    assert shown.endswith("xxxtail")
    assert json.loads(content)["tool_call_id"] == "c"


def test_arguments_are_shortened_each_at_its_place() -> None:
    args = {"long": "a" * 20_000 + "z", "short": "kept as it is", "list": ["b" * 20_000]}
    content = tool_call_content("t", args, "c")
    shown = json.loads(content)["args"]

    assert len(content) <= EVENT_CHARS
    assert shown["short"] == "kept as it is"
    assert shown["long"].endswith("z")
    assert len(shown["long"]) == len(shown["list"][0]) > 7000


@pytest.mark.parametrize("count", [4_000, 100_000])
def test_very_many_arguments_become_one_shortened_text(count: int) -> None:
    content = tool_call_content("t", {f"k{n}": n for n in range(count)}, "c")
    shown = json.loads(content)["args"]["arguments"]

    assert len(content) <= EVENT_CHARS
    assert shown.startswith('{"k0": 0')
    assert shown.endswith(f'"k{count - 1}": {count - 1}}}')


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(_json, st.integers(300, 2_000), st.text(), st.booleans())
def test_any_value_fits_and_stays_valid(value: Any, limit: int, call_id: str, bad: bool) -> None:
    call = tool_call_content("some tool", value, call_id, limit=limit)
    result = tool_result_content("some tool", value, call_id, is_error=bad, limit=limit)

    assert len(call) <= limit
    assert len(result) <= limit
    assert isinstance(json.loads(call)["args"], dict)
    assert isinstance(json.loads(result)["output"], str)
    assert json.loads(result)["is_error"] is bad
    assert "NaN" not in call


async def test_telling_the_room_is_best_effort() -> None:
    tools = FakeAgentTools()
    tools.send_event_error = BandToolError("no")
    assert not await narrate_call(tools, "t", {}, "c")
    tools.send_event_error = RoomExecutionStoppedError("r")
    with pytest.raises(RoomExecutionStoppedError):
        await narrate_result(tools, "t", "x", "c")
    tools.turn.close()
    assert not await narrate_call(tools, "t", {}, "c")


async def test_what_goes_wrong_in_telling_never_fails_a_call() -> None:
    tools = FakeAgentTools()
    tools.send_event_error = OSError("broken")
    assert not await narrate_call(tools, "look", {}, "c1")
    assert not await narrate_result(tools, "look", "seen", "c1")
    tools.send_event_error = RoomExecutionStoppedError("r")
    with pytest.raises(RoomExecutionStoppedError):
        await narrate_result(tools, "look", "seen", "c1")


async def test_a_slow_platform_holds_up_a_call_only_so_long(autojump_clock: MockClock) -> None:
    class Slow(FakeAgentTools):
        async def send_event(self, *_: Any, **__: Any) -> None:
            await trio.sleep_forever()

    began = trio.current_time()
    assert not await narrate_call(Slow(), "t", {}, "c")
    assert trio.current_time() - began == pytest.approx(NARRATION_SECONDS)

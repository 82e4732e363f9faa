"""Phoenix frames: five elements, round trips, and garbage that costs one frame."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from band_trio.protocol.errors import RemoteProtocolError
from band_trio.protocol.phoenix import Frame, heartbeat, parse_frame
from tests.marks import guarantee
from tests.protocol.strategies import integers, json_values, objects, texts, wild_texts, wild_values
from tests.support.for_each import for_each

refs = st.none() | texts
names = st.text(min_size=1, max_size=12)
frames = st.builds(Frame, refs, refs, names, names, objects)


@given(frames)
def test_a_frame_survives_the_wire(frame: Frame) -> None:
    text = frame.dump()

    assert parse_frame(text) == frame
    assert parse_frame(text.encode()) == frame
    assert json.loads(text) == [
        frame.join_ref,
        frame.ref,
        frame.topic,
        frame.event,
        frame.payload,
    ]


@given(st.builds(Frame, refs, refs, names, names, st.dictionaries(wild_texts, wild_values)))
def test_a_frame_of_wild_text_can_be_sent(frame: Frame) -> None:
    sent = parse_frame(frame.dump())

    assert parse_frame(sent.dump()) == sent


def is_frame(parts: Any) -> bool:
    """Say what a frame is, in the words of the platform documentation."""
    if type(parts) is not list or len(parts) != 5:
        return False
    join_ref, ref, topic, event, _ = parts
    return all(r is None or type(r) in (str, int) for r in (join_ref, ref)) and all(
        type(name) is str and name != "" for name in (topic, event)
    )


elements = st.none() | st.booleans() | integers | texts | json_values
almost_frames = st.tuples(
    refs | integers | elements, refs | elements, names | elements, names | elements, elements
).map(list) | st.lists(elements, max_size=7)


@guarantee(78)
@given(almost_frames | json_values)
@example([None, None, "t", "e", {}])
@example([None, None, "t", "e", {}, None])
@example([None, None, "t", "e"])
@example([None, None, "", "e", {}])
@example([None, None, "t", "", {}])
def test_only_frames_are_frames(parts: Any) -> None:
    text = json.dumps(parts)
    if not is_frame(parts):
        with pytest.raises(RemoteProtocolError):
            parse_frame(text)
        return
    frame = parse_frame(text)
    assert [frame.topic, frame.event] == parts[2:4]
    assert [frame.join_ref, frame.ref] == [None if r is None else str(r) for r in parts[:2]]
    assert frame.payload == (parts[4] if isinstance(parts[4], dict) else {})


@guarantee(78)
@given(st.binary(max_size=60) | wild_texts)
@example(b"\x00")
@example("[" * 5_000)
@example('[null,null,"t","e",' + '{"a":' * 300 + "0" + "}" * 300 + "]")
@example('[null,null,"t","e",{"n":NaN}]')
@example('{"topic":"t","event":"phx_reply","payload":{},"ref":"1"}')
def test_garbage_is_one_error(data: bytes | str) -> None:
    with pytest.raises(RemoteProtocolError):
        parse_frame(data)


@guarantee(78)
@given(frames, st.data())
def test_a_damaged_frame_is_read_or_refused(frame: Frame, data: st.DataObject) -> None:
    raw = bytearray(frame.dump().encode())
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        read = parse_frame(bytes(raw))
    except RemoteProtocolError:
        return
    assert parse_frame(read.dump()) == read


def test_references_that_are_numbers_become_text() -> None:
    assert parse_frame('[3,7,"t","e",{}]') == Frame("3", "7", "t", "e")
    assert parse_frame('[null,-1,"t","e",{}]').ref == "-1"


@for_each("ref", ["true", "1.0", "[]", "{}", "1e3"])
@for_each("place", ['[{},null,"t","e",{{}}]', '[null,{},"t","e",{{}}]'])
def test_other_references_are_refused(ref: str, place: str) -> None:
    with pytest.raises(RemoteProtocolError, match="reference"):
        parse_frame(place.format(ref))


@for_each("payload", ["null", "[]", '"x"', "5", "true"])
def test_a_payload_that_is_no_object_reads_as_empty(payload: str) -> None:
    assert parse_frame(f'[null,null,"t","e",{payload}]').payload == {}


def test_lone_surrogates_do_not_cost_the_frame() -> None:
    frame = parse_frame('["3",null,"t","e",{"content":"a\\ud800b","\\udc00":1}]')

    assert frame.payload == {"content": "a\ufffdb", "\ufffd": 1}


def test_the_heartbeat_is_exact() -> None:
    assert heartbeat("7").dump() == '[null,"7","phoenix","heartbeat",{}]'

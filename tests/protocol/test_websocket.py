"""The frame counter against wsproto, cut at any place, and against floods."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from band_trio.protocol.errors import RemoteProtocolError
from band_trio.protocol.websocket import FRAGMENTS, FRAMES_AT_ONCE, FrameCounter
from tests.marks import case, guarantee

TEXT, CONTINUED, PING = 0x1, 0x0, 0x9


def frame(payload: bytes, opcode: int = TEXT, *, final: bool = True) -> bytes:
    size = len(payload)
    head = bytes([opcode | (0x80 if final else 0)])
    if size < 126:
        return head + bytes([size]) + payload
    if size < 2**16:
        return head + b"\x7e" + size.to_bytes(2) + payload
    return head + b"\x7f" + size.to_bytes(8) + payload


def steps(counter: FrameCounter, data: bytes) -> list[bytes]:
    """Return *data* as the steps that it is passed on in."""
    left, taken = memoryview(data), []
    while left:
        end = counter.take(left)
        assert end > 0
        taken.append(bytes(left[:end]))
        left = left[end:]
    return taken


@given(
    st.lists(st.sampled_from([0, 1, 125, 126, 127, 300, 70_000]), min_size=1, max_size=600),
    st.lists(st.integers(1, 3000), max_size=30),
)
def test_all_bytes_are_passed_on_in_order_and_few_frames_at_once(
    sizes: list[int], cuts: list[int]
) -> None:
    frames = [frame(b"x" * size) for size in sizes]
    data = b"".join(frames)
    ends = {sum(map(len, frames[: n + 1])) for n in range(len(frames))}
    counter, passed = FrameCounter(), bytearray()
    pieces, at = [], 0
    for cut in cuts:
        pieces.append(data[at : at + cut])
        at += cut
    for piece in (*pieces, data[at:]):
        for step in steps(counter, piece):
            before = len(passed)
            passed += step
            inside = [end for end in ends if before < end < len(passed)]
            assert len(inside) <= FRAMES_AT_ONCE
    assert bytes(passed) == data


@guarantee(86)
@case("C68")
def test_a_message_has_few_fragments() -> None:
    opened = frame(b"", final=False)
    more = frame(b"x", CONTINUED, final=False) + frame(b"", PING)  # control frames are none
    counter = FrameCounter()
    steps(counter, opened + more * (FRAGMENTS - 1))
    steps(counter, frame(b"y", CONTINUED))
    steps(counter, opened + more * (FRAGMENTS - 1))
    with pytest.raises(RemoteProtocolError, match="1024 fragments"):
        steps(counter, more)


@guarantee(87)
@given(st.binary(max_size=2000))
def test_any_bytes_are_counted(data: bytes) -> None:
    assert b"".join(steps(FrameCounter(), data)) == data

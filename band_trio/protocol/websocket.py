"""Where the frames of a WebSocket begin and end: bounds that the library does not keep.

It takes whatever came in one read as one step, and keeps the fragments of a message in a list: a
peer that sends frames of one byte, or of none, stops the program and fills its memory, far below
any limit in bytes.
"""

from __future__ import annotations

from typing import Final

import attrs

from band_trio.protocol.errors import RemoteProtocolError

FRAMES_AT_ONCE: Final = 256
"""Frames that are passed on in one step."""
FRAGMENTS: Final = 1024
"""Most frames of one message; the platform does not split any."""
_CONTROL: Final = 0x8
_FINAL: Final = 0x80
_LENGTHS: Final = {126: 2, 127: 8}
"""Value of the short length → bytes of the long one behind it (RFC 6455, Base framing)."""


@attrs.define(eq=False)
class FrameCounter:
    """Cuts the bytes of a server into steps of few frames. Masks are not expected."""

    _skip: int = 0
    """Bytes of the present frame that are still to come, its head not included."""
    _head: bytearray = attrs.field(factory=bytearray)
    """What has come of a frame's head, where a read ended inside it."""
    _fragments: int = 0

    def take(self, data: memoryview) -> int:
        """Return how many bytes of *data* belong to the next step; never 0 unless it is empty.

        Raises:
            RemoteProtocolError: a message comes in too many fragments.
        """
        at, size = 0, len(data)
        for _ in range(FRAMES_AT_ONCE):
            at = self._read_head(data, at)
            jump = min(self._skip, size - at)
            at, self._skip = at + jump, self._skip - jump
            if at == size:
                break
        return at

    def _read_head(self, data: memoryview, at: int) -> int:
        """Read the head of the frame that begins at *at*; return where its payload does."""
        if self._skip or at == len(data):
            return at
        head = self._head
        while len(head) < 2 or len(head) < 2 + _LENGTHS.get(head[1] & 0x7F, 0):
            if at == len(data):
                return at
            head.append(data[at])
            at += 1
        length = head[1] & 0x7F
        self._skip = int.from_bytes(head[2:]) if length in _LENGTHS else length
        self._count(head[0])
        head.clear()
        return at

    def _count(self, first: int) -> None:
        if first & _CONTROL:
            return
        self._fragments = 0 if first & _FINAL else self._fragments + 1
        if self._fragments > FRAGMENTS:
            raise RemoteProtocolError(f"a message in more than {FRAGMENTS} fragments")

"""Lines over pipes: how the measuring process and the platform's process talk."""

from __future__ import annotations

from collections import deque

import attrs
import trio


@attrs.define(eq=False)
class Lines:
    """The lines of a byte stream, one at a time."""

    _stream: trio.abc.ReceiveStream
    _whole: deque[bytes] = attrs.field(factory=deque, init=False)
    _rest: bytes = attrs.field(default=b"", init=False)

    async def next(self) -> bytes | None:
        """Return the next line, None when the stream has ended."""
        while not self._whole:
            chunk = await self._stream.receive_some()
            if not chunk:
                return None
            *whole, self._rest = (self._rest + chunk).split(b"\n")
            self._whole.extend(whole)
        return self._whole.popleft()

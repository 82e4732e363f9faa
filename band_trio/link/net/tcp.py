"""The bytes of a TCP connection, for little more than the system calls.

trio's own stream goes once round the scheduler after each send, and reads in vain before it waits
for something to read: for a request of a few hundred bytes a quarter of what it costs. Here sending
what the system takes at once is no step of the scheduler; reading always is one.
"""

from __future__ import annotations

import os
from typing import Final

import trio

READ_BYTES: Final = 64 * 2**10


class TcpStream(trio.abc.Stream):
    """What trio's *stream* is, with the same errors. One task sends, one reads."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self.socket: Final = stream.socket

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            sent = os.write(self.socket.fileno(), data)
        except OSError:
            sent = 0  # trio's stream waits, or says what is wrong
        if sent < len(data):
            await self._stream.send_all(memoryview(data)[sent:])

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        if self.socket.fileno() >= 0:
            await trio.lowlevel.wait_readable(self.socket)
            try:  # the number is asked for again: the socket may have been closed meanwhile
                return os.read(self.socket.fileno(), max_bytes or READ_BYTES)
            except BlockingIOError:
                pass  # there is nothing after all
            except OSError as exc:
                if self.socket.fileno() >= 0:
                    raise trio.BrokenResourceError(str(exc)) from exc
        return await self._stream.receive_some(max_bytes)  # or it says that it is closed

    async def aclose(self) -> None:
        await self._stream.aclose()

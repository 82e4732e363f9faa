"""Connections on loopback, whose bytes can be cut or lost from below."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from typing import Any, Final

import attrs
import trio

from band_trio.localband.fault_rules import Cut

LINE_BYTES: Final = 16 * 1024
"""As much as a server takes for a head; what is longer is left to the server to refuse."""
READ_BYTES: Final = 16 * 1024
"""Hypercorn handles all parts of one read in one step, even when nobody wants them any more."""


@attrs.define(eq=False)
class LoopbackStream(trio.abc.HalfCloseableStream):
    """A client's connection, as the server on it sees it.

    Closed by the server while it is silent, it stays open until the client ends it: see `linger`.
    """

    wire: trio.SocketStream
    _ahead: bytearray = attrs.field(factory=bytearray)
    """Read already, and not yet given to the server."""
    _silent: bool = False

    @property
    def socket(self) -> trio.socket.SocketType:
        """The socket; Hypercorn asks it for both addresses."""
        return self.wire.socket

    # ------------------------------------------------------------------ faults

    def sever(self, how: Cut) -> None:
        """Cut the connection, as the client sees it."""
        with suppress(OSError):  # the client is gone already: nothing is left to be cut
            if how is Cut.RST:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.socket.close()
            else:
                self.socket.shutdown(trio.socket.SHUT_RDWR)

    def silence(self) -> None:
        """Lose all bytes from now on, in both directions; the client notices nothing."""
        self._silent = True

    async def linger(self) -> None:
        """Wait until the client has ended a connection that is silent."""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while self._silent and await self.wire.receive_some():
                pass

    # ------------------------------------------------------------------ bytes

    async def read_line(self) -> bytes:
        """Return what begins the connection, up to a newline, and leave it for the server.

        Less comes back if the client ends it before, more if the line is too long.
        """
        while b"\n" not in self._ahead and len(self._ahead) < LINE_BYTES:
            data = await self.wire.receive_some(LINE_BYTES)
            if not data:
                break
            self._ahead += data
        return bytes(self._ahead.partition(b"\n")[0])

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive bytes."""
        max_bytes = READ_BYTES if max_bytes is None else min(max_bytes, READ_BYTES)
        if self._ahead:
            data = bytes(self._ahead[:max_bytes])
            del self._ahead[: len(data)]
            await trio.lowlevel.checkpoint()
            return data
        while True:
            data = bytes(await self.wire.receive_some(max_bytes))
            if not data or not self._silent:
                return data

    async def send_all(self, data: Any) -> None:
        """Send bytes."""
        if self._silent:
            await trio.lowlevel.checkpoint()
            return
        await self.wire.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until there is room."""
        await self.wire.wait_send_all_might_not_block()

    async def send_eof(self) -> None:
        """End our direction."""
        if not self._silent:
            await self.wire.send_eof()

    async def aclose(self) -> None:
        """Close it, unless it is silent."""
        if self._silent:
            await trio.lowlevel.checkpoint()
            return
        await self.wire.aclose()

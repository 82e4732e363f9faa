"""A byte relay in front of the sockets on loopback, so that a connection can be cut from below.

An ASGI application cannot drop its connection without a close frame; the bytes can. REST needs no
relay: there a fault breaks an answer off in the middle.
"""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from typing import Final

import attrs
import trio

from band_trio.localband.fault_rules import Cut

CHUNK: Final = 64 * 1024
LAST_WORDS: Final = 1.0
"""Seconds that the other direction may still flow after one side has ended."""


@attrs.define(eq=False)
class _Link:
    """One client's connection and ours to the server behind it."""

    near: trio.SocketStream
    far: trio.SocketStream
    silent: bool = False

    def sever(self, how: Cut) -> None:
        with suppress(OSError):  # the client is gone already: nothing is left to be cut
            if how is Cut.RST:
                self.near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.near.socket.close()
            else:
                self.near.socket.shutdown(trio.socket.SHUT_RDWR)
        self.far.socket.close()


@attrs.define(eq=False)
class Relay:
    """Passes bytes between clients and a server on this machine."""

    target: int = 0
    """Port of the server."""
    _links: dict[int, _Link] = attrs.field(factory=dict)
    """Port by which the server knows the connection → the connection."""

    async def serve(self, *, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED) -> None:
        """Listen on a free port of 127.0.0.1, report it, and pass bytes until cancelled."""
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port: int = listeners[0].socket.getsockname()[1]
        async with trio.open_nursery() as nursery:
            await nursery.start(trio.serve_listeners, self._connect, listeners)
            task_status.started(port)

    def sever(self, port: int, how: Cut) -> bool:
        """Cut the connection that the server knows by *port*; False if it came another way."""
        link = self._links.get(port)
        if link is not None:
            link.sever(how)
        return link is not None

    def sever_all(self) -> None:
        """Cut every connection; a server that still writes to a deaf client can go on."""
        for link in list(self._links.values()):
            link.sever(Cut.FIN)

    def silence(self, port: int) -> None:
        """Lose all bytes of that connection from now on."""
        if port in self._links:
            self._links[port].silent = True

    async def _connect(self, near: trio.SocketStream) -> None:
        async with near:
            try:
                far = await trio.open_tcp_stream("127.0.0.1", self.target)
            except OSError:
                return  # the server is stopping: the client sees the end of its connection
            async with far:
                link = _Link(near, far)
                port: int = far.socket.getsockname()[1]
                self._links[port] = link
                try:
                    await self._pass_both(link)
                finally:
                    del self._links[port]

    async def _pass_both(self, link: _Link) -> None:
        async with trio.open_nursery() as nursery:

            async def up() -> None:
                await _pass(link, link.near, link.far)
                nursery.cancel_scope.deadline = trio.current_time() + LAST_WORDS

            nursery.start_soon(up)
            await _pass(link, link.far, link.near)
            if link.silent:
                await trio.sleep_forever()  # until the client ends it
            nursery.cancel_scope.deadline = trio.current_time() + LAST_WORDS


async def _pass(link: _Link, source: trio.SocketStream, sink: trio.SocketStream) -> None:
    try:
        while data := await source.receive_some(CHUNK):
            if not link.silent:
                await sink.send_all(data)
        if not link.silent:
            await sink.send_eof()
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        return  # either side was cut; the other one is told by the end of its own direction

"""The network face: REST and the channels on one port.

Connections are taken here, because the bytes of a socket must be cut and counted; by its first
line one goes to `serve_socket` or to Hypercorn. What bounds a connection for REST:

* a head: `HEAD_SECONDS` for its first line, `keep_alive_timeout` for the rest of it and between
  requests, and `h11_max_incomplete_size` with one read on top;
* a body: it is read after the key, up to the limit of its route (`rest`); until then one read and
  `max_app_queue_size` parts of it wait, and so does the client. What is not wanted: `Unread`;
* what a client does not read: `UNREAD_MS`.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, cast

import attrs
import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ASGIFramework, LifespanState
from starlette.types import ASGIApp

from band_trio.config.endpoints import SOCKET_PATH
from band_trio.kit.hygiene import error_text
from band_trio.localband.fault_rules import Cut
from band_trio.localband.hub import Hub
from band_trio.localband.sockets import serve_socket
from band_trio.localband.streams import LoopbackStream
from band_trio.localband.unread import Unread

UNREAD_MS: Final = 3000
"""A client that does not take its bytes for so long is dropped; without it, one such client holds
up the shutdown for ever."""
HEAD_SECONDS: Final = 10.0
"""A client that opened a connection and asks for nothing is dropped."""
GRACE_SECONDS: Final = 0.5
"""For answers under way when the platform is closed."""

_log: Final = logging.getLogger(__name__)


def loopback_config() -> Config:
    """Return Hypercorn's options."""
    config = Config()
    config.errorlog = None
    config.accesslog = None
    config.include_server_header = False
    # Longer than any client keeps an idle connection: a request never meets one just closed.
    config.keep_alive_timeout = 120
    config.h11_max_incomplete_size = 16 * 1024
    config.max_app_queue_size = 10
    return config


@asynccontextmanager
async def open_server(app: ASGIApp, hub: Hub, host: str, port: int) -> AsyncGenerator[int]:
    """Serve *app* and the sockets of *hub* until the block ends; yields the port that was bound.

    Raises:
        OSError: the port is taken, or the address is none of this machine.
    """
    # The cast: both sides mean ASGI, each with types of its own.
    server = _Server(hub, ASGIWrapper(cast("ASGIFramework", Unread(app))))
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(port, host=host)
        for each in listeners:
            # Accepted sockets inherit it. Linux only; elsewhere the bound is missing.
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                each.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_MS)
        await nursery.start(server.serve, listeners)
        bound: int = listeners[0].socket.getsockname()[1]
        yield bound
        server.stop.set()


@attrs.define(eq=False)
class _Server:
    """Takes connections until it is stopped."""

    hub: Hub
    app: ASGIWrapper
    config: Config = attrs.field(factory=loopback_config)
    context: WorkerContext = attrs.field(factory=lambda: WorkerContext(None))
    stop: trio.Event = attrs.field(factory=trio.Event)
    sockets: set[LoopbackStream] = attrs.field(factory=set)

    async def serve(
        self,
        listeners: list[trio.SocketListener],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve all connections; those that are open at the end have `GRACE_SECONDS`."""
        async with trio.open_nursery() as connections:
            async with trio.open_nursery() as accepting:
                accept = partial(
                    trio.serve_listeners, self._connect, listeners, handler_nursery=connections
                )
                await accepting.start(accept)
                task_status.started()
                await self.stop.wait()
                accepting.cancel_scope.cancel(reason="the platform is closed")
            await self.context.terminated.set()
            for stream in self.sockets:
                stream.sever(Cut.FIN)  # a client that does not read would hold up the end
            connections.cancel_scope.deadline = trio.current_time() + GRACE_SECONDS

    async def _connect(self, wire: trio.SocketStream) -> None:
        stream = LoopbackStream(wire)
        try:
            line = b""
            with trio.move_on_after(HEAD_SECONDS):
                line = await stream.read_line()
            if _asks_for_socket(line):
                await self._serve_socket(stream)
            elif line:
                await TCPServer(self.app, self.config, self.context, LifespanState({}), stream)  # type: ignore[arg-type]  # it wants the bytes, and both addresses
        except Exception as exc:  # noqa: BLE001 - the boundary: one connection must not end the others
            _log.warning("a connection was given up: %s", error_text(exc, 200))
        finally:
            await trio.aclose_forcefully(wire)

    async def _serve_socket(self, stream: LoopbackStream) -> None:
        self.sockets.add(stream)
        try:
            await serve_socket(self.hub, stream, stream)
            await stream.linger()
        finally:
            self.sockets.discard(stream)


def _asks_for_socket(line: bytes) -> bool:
    method, _, rest = line.partition(b" ")
    return method == b"GET" and rest.split(b" ")[0].partition(b"?")[0] == SOCKET_PATH.encode()

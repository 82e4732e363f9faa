"""The loopback faces: REST and the channels behind a real server on 127.0.0.1."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, cast

import attrs
import trio
from hypercorn.config import Config, Sockets
from hypercorn.trio import serve
from hypercorn.typing import ASGIFramework
from starlette.types import ASGIApp, Receive, Scope, Send

from band_trio.endpoints import SOCKET_PATH
from band_trio.localband.fault_rules import Cut
from band_trio.localband.hub import Hub
from band_trio.localband.refusal import not_found
from band_trio.localband.relay import Relay
from band_trio.localband.routes import Reply
from band_trio.localband.session import serve_session
from band_trio.protocol import codec

UNREAD_MS: Final = 3000
"""A client that does not take its bytes for so long is dropped; without it, one such client holds
up the shutdown for ever."""


class _LoopbackConfig(Config):
    """Hypercorn's options, with a bound on clients that do not read."""

    def create_sockets(self) -> Sockets:
        sockets = super().create_sockets()
        for each in sockets.insecure_sockets:
            # Accepted sockets inherit it. Linux only; elsewhere the bound is missing.
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_MS)
        return sockets


def loopback_config(port: int) -> Config:
    """Return the server's options; port 0 picks a free one."""
    config = _LoopbackConfig()
    config.bind = [f"127.0.0.1:{port}"]
    config.errorlog = None
    config.accesslog = None
    config.include_server_header = False
    config.graceful_timeout = 0.5
    # Longer than any client keeps an idle connection: a request never meets one just closed.
    config.keep_alive_timeout = 120
    config.websocket_max_message_size = 4 * 1024 * 1024
    return config


@asynccontextmanager
async def open_server(app: ASGIApp, port: int) -> AsyncGenerator[int]:
    """Serve *app* until the block ends; yields the port that was bound.

    Raises:
        OSError: the port is taken.
    """
    stop, options = trio.Event(), loopback_config(port)
    async with trio.open_nursery() as nursery:
        # The cast: both sides mean ASGI, each with types of its own.
        framework = cast("ASGIFramework", app)
        binds: list[str] = await nursery.start(
            partial(serve, framework, options, shutdown_trigger=stop.wait, mode="asgi")
        )
        yield int(binds[0].rpartition(":")[2])
        stop.set()


# --------------------------------------------------------------------------- the socket


@attrs.define(eq=False)
class _AsgiWire:
    """A socket of the server as the session sees it."""

    _receive: Receive
    _send: Send

    async def receive(self) -> str | bytes | None:
        message = await self._receive()
        if message["type"] != "websocket.receive":
            return None
        data: str | bytes = message.get("text") or message.get("bytes") or b""
        return data

    async def send(self, text: str) -> None:
        await self._send({"type": "websocket.send", "text": text})

    async def close(self, code: int, reason: str) -> None:
        await self._send({"type": "websocket.close", "code": code, "reason": reason})


@attrs.define(eq=False)
class LoopbackSockets:
    """The channels as an ASGI application."""

    hub: Hub
    relay: Relay

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one upgrade, and the session if it is admitted."""
        await receive()
        if scope["path"] != SOCKET_PATH:
            missing = not_found("Socket")
            await _deny(send, Reply(404, missing.body(self.hub.world.new_id())))
            return
        headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        verdict = self.hub.admit(scope["query_string"].decode("latin-1"), headers)
        if isinstance(verdict, Reply):
            await _deny(send, verdict)
            return
        await send({"type": "websocket.accept"})
        port: int = scope["client"][1]

        def sever(how: Cut) -> None:
            if not self.relay.sever(port, how):
                # Not through the relay: the bytes are out of reach, the session is not.
                bare.cancel(reason="cut")

        with trio.CancelScope() as bare:
            wire = _AsgiWire(receive, send)
            await serve_session(self.hub, verdict, wire, sever, partial(self.relay.silence, port))


async def _deny(send: Send, reply: Reply) -> None:
    headers: list[Any] = [(name.encode(), value.encode()) for name, value in reply.headers.items()]
    body = b"" if reply.body is None else codec.dumps(reply.body)
    if body:
        headers.append((b"content-type", b"application/json"))
    headers.append((b"content-length", str(len(body)).encode()))
    await send(
        {"type": "websocket.http.response.start", "status": reply.status, "headers": headers}
    )
    await send({"type": "websocket.http.response.body", "body": body})

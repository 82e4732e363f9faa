"""The faces without sockets: REST and the channels over memory, for tests under a virtual clock.

The platform's side of every request and socket runs in the platform's own nursery: a client that
is cancelled or loses patience never stops what the platform has begun.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, Final, cast
from urllib.parse import urlsplit

import attrs
import httpx  # noqa: ASYNC127, TID251 - the transport for clients in the same program
import trio
import trio.testing
from starlette.types import ASGIApp, Message, Scope

from band_trio.localband.fault_rules import Cut
from band_trio.localband.hub import Hub
from band_trio.localband.rest import CUT
from band_trio.localband.sockets import serve_socket

PIPE_BYTES: Final = 64 * 1024
"""What a client has not read of a socket's bytes before sending to it waits."""


# --------------------------------------------------------------------------- REST


@attrs.define(eq=False)
class _Exchange:
    """One request on its way through the application."""

    body: bytes
    now: Callable[[], datetime]
    start: Message | None = None
    chunks: list[bytes] = attrs.field(factory=list)
    cut: Message | None = None
    asked: trio.Event = attrs.field(factory=trio.Event)
    """Set once the application wants the body, or needs it no more."""
    done: trio.Event = attrs.field(factory=trio.Event)
    _taken: bool = False
    _parts: trio.MemoryReceiveChannel[bytes | None] | None = None
    """A body that the client makes while it is sent, None at its end."""

    @classmethod
    def of(cls, request: httpx.Request, now: Callable[[], datetime]) -> _Exchange:
        return cls(request.content if isinstance(request.stream, httpx.ByteStream) else b"", now)

    async def upload(self, request: httpx.Request) -> None:
        """Send the body as the application takes it; runs in the client's task."""
        if isinstance(request.stream, httpx.ByteStream):
            return
        # No capacity: a part is made once the one before it was taken.
        sender, self._parts = trio.open_memory_channel[bytes | None](0)
        await self.asked.wait()
        if self.done.is_set():
            return
        with sender, suppress(trio.BrokenResourceError):  # it is answered already
            async for part in cast("httpx.AsyncByteStream", request.stream):
                await sender.send(part)
            await sender.send(None)

    async def receive(self) -> Message:
        self.asked.set()
        if self._taken:
            await trio.sleep_forever()
        if self._parts is None:
            self._taken = True
            await trio.lowlevel.checkpoint()
            return {"type": "http.request", "body": self.body, "more_body": False}
        try:
            part = await self._parts.receive()
        except trio.EndOfChannel:  # the client was cancelled, or could not make the rest
            return {"type": "http.disconnect"}
        self._taken = part is None
        return {"type": "http.request", "body": part or b"", "more_body": not self._taken}

    def finish(self) -> None:
        """Let the client go on: no more comes."""
        if self._parts is not None:
            self._parts.close()
        self.asked.set()
        self.done.set()

    async def send(self, message: Message) -> None:
        await trio.lowlevel.checkpoint()
        if message["type"] == "http.response.start":
            dated = format_datetime(self.now().astimezone(UTC), usegmt=True)  # in whole seconds
            self.start = {**message, "headers": [*message["headers"], (b"date", dated.encode())]}
        elif message["type"] == CUT:
            self.cut = message
            self.finish()
        else:
            self.chunks.append(message.get("body", b""))
            if not message.get("more_body"):
                self.finish()


@attrs.define(eq=False)
class MemoryTransport(httpx.AsyncBaseTransport):
    """Hands requests of an httpx client to the application."""

    app: ASGIApp
    nursery: trio.Nursery
    now: Callable[[], datetime]
    """The platform's clock; its answers are dated by it."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Serve a request.

        Raises:
            httpx.ReadTimeout: no answer within the client's read time-out.
            httpx.RemoteProtocolError: the connection was cut; it may have taken effect.
            httpx.ConnectError: the platform is stopped, or a fault made it unreachable.
        """
        exchange = _Exchange.of(request, self.now)
        try:
            self.nursery.start_soon(self._run, _scope(request), exchange)
        except RuntimeError:
            raise httpx.ConnectError("the platform is stopped", request=request) from None
        await exchange.upload(request)
        patience = request.extensions.get("timeout", {}).get("read")
        with trio.move_on_after(math.inf if patience is None else patience) as scope:
            await exchange.done.wait()
        if scope.cancelled_caught:
            raise httpx.ReadTimeout("no answer", request=request)
        if exchange.cut is not None or exchange.start is None:
            if exchange.cut is not None and not exchange.cut["reached"]:
                raise httpx.ConnectError("unreachable", request=request)
            raise httpx.RemoteProtocolError(
                "Server disconnected without sending a response.", request=request
            )
        return httpx.Response(
            exchange.start["status"],
            headers=exchange.start["headers"],
            content=b"".join(exchange.chunks),
            request=request,
        )

    async def _run(self, scope: Scope, exchange: _Exchange) -> None:
        try:
            await self.app(scope, exchange.receive, exchange.send)
        finally:
            # Also when the platform is closed in the middle: the client must not wait for ever.
            exchange.finish()


def _scope(request: httpx.Request) -> Scope:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "path": request.url.path,
        "raw_path": request.url.raw_path.partition(b"?")[0],
        "root_path": "",
        "scheme": request.url.scheme,
        "query_string": request.url.query,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "client": ("127.0.0.1", 0),
        "server": (request.url.host, request.url.port or 80),
        "extensions": {CUT: {}},
    }


# --------------------------------------------------------------------------- the socket


@attrs.define(eq=False)
class MemoryStream(trio.abc.Stream):
    """The client's end of the bytes: a pair of memory streams that can be cut or silenced."""

    _near: trio.StapledStream[Any, Any]
    _far: trio.StapledStream[Any, Any]
    unread: int = 0
    """Bytes of the platform that wait for the client."""
    _reset: bool = False
    _silent: bool = False
    _over: bool = False
    _room: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot, repr=False)

    async def wait_for_room(self) -> None:
        """Wait until the client has read most of what was sent, or one side has ended."""
        while self.unread > PIPE_BYTES and not self._over:
            await self._room.park()

    def _end(self) -> None:
        self._over = True
        self._room.unpark_all()

    def sever(self, how: Cut) -> None:
        """Cut the bytes, as the client sees it."""
        self._end()
        self._reset = how is Cut.RST
        self._far.send_stream.close()
        self._far.receive_stream.close()

    def silence(self) -> None:
        """Lose all bytes from now on, in both directions; the client notices nothing."""
        self._silent = True

    async def send_all(self, data: Any) -> None:
        """Send bytes."""
        if self._silent:
            await trio.lowlevel.checkpoint()
            return
        await self._near.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until there is room, which there always is."""
        await self._near.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive bytes; nothing more comes once the stream was silenced."""
        if self._reset:
            await trio.lowlevel.checkpoint()
            raise trio.BrokenResourceError("connection reset")
        data = await self._take(max_bytes)
        if self._reset:
            raise trio.BrokenResourceError("connection reset")
        while self._silent:
            # What arrives from now on is lost, the end of the stream too; only closing our own
            # end wakes this up.
            if not data:
                await trio.sleep_forever()
            data = await self._take(max_bytes)
        return data

    async def _take(self, max_bytes: int | None) -> bytes:
        data = bytes(await self._near.receive_some(max_bytes))
        self.unread -= len(data)
        self._room.unpark_all()
        return data

    async def aclose(self) -> None:
        """Close our end."""
        self._end()
        await self._near.aclose()


@attrs.define(eq=False)
class _ServerEnd(trio.abc.Stream):
    """The platform's end of the bytes; sending waits for a client that does not read."""

    _far: trio.StapledStream[Any, Any]
    _client: MemoryStream

    async def send_all(self, data: Any) -> None:
        await self._client.wait_for_room()
        await self._far.send_all(data)
        self._client.unread += len(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._client.wait_for_room()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return bytes(await self._far.receive_some(max_bytes))

    async def aclose(self) -> None:
        await self._far.aclose()


@attrs.define(eq=False)
class MemorySockets:
    """Opens sockets of the platform without a network."""

    hub: Hub
    nursery: trio.Nursery

    async def open_stream(self, url: str) -> trio.abc.Stream:
        """Return a connected byte stream; the upgrade follows on it.

        Raises:
            OSError: the platform is stopped.
        """
        await trio.lowlevel.checkpoint()
        near, far = trio.testing.memory_stream_pair()
        stream = MemoryStream(near, far)
        if urlsplit(url).scheme not in ("ws", "wss") or self.hub.closing:
            raise ConnectionRefusedError("the platform is stopped")
        end = _ServerEnd(far, stream)
        self.nursery.start_soon(serve_socket, self.hub, end, stream)
        return stream

"""The faces without sockets: REST and the channels over memory, for tests under a virtual clock.

The platform's side of every request and socket runs in the platform's own nursery: a client that
is cancelled or loses patience never stops what the platform has begun.
"""

from __future__ import annotations

import math
from typing import Any, Final
from urllib.parse import urlsplit

import attrs
import httpx  # noqa: ASYNC127, TID251 - the transport for clients in the same program
import trio
import trio.testing
import trio_websocket  # noqa: TID251 - the platform's end of a socket in memory
from starlette.types import ASGIApp, Message, Scope

from band_trio.localband.fault_rules import Cut
from band_trio.localband.hub import Hub
from band_trio.localband.rest import CUT
from band_trio.localband.routes import Reply
from band_trio.localband.session import serve_session
from band_trio.protocol import codec

MESSAGE_BYTES: Final = 4 * 1024 * 1024
RECEIVE_BYTES: Final = 64 * 1024
UPGRADE_SECONDS: Final = 10.0
"""A peer that opened a stream and asks for nothing is dropped."""
QUEUE: Final = 16
"""Messages of the peer that wait inside the library; our reader takes them at once."""


# --------------------------------------------------------------------------- REST


@attrs.define(eq=False)
class _Exchange:
    """One request on its way through the application."""

    body: bytes
    taken: bool = False
    start: Message | None = None
    chunks: list[bytes] = attrs.field(factory=list)
    cut: Message | None = None
    done: trio.Event = attrs.field(factory=trio.Event)

    async def receive(self) -> Message:
        if self.taken:
            await trio.sleep_forever()
        self.taken = True
        await trio.lowlevel.checkpoint()
        return {"type": "http.request", "body": self.body, "more_body": False}

    async def send(self, message: Message) -> None:
        await trio.lowlevel.checkpoint()
        if message["type"] == "http.response.start":
            self.start = message
        elif message["type"] == CUT:
            self.cut = message
            self.done.set()
        else:
            self.chunks.append(message.get("body", b""))
            if not message.get("more_body"):
                self.done.set()


@attrs.define(eq=False)
class MemoryTransport(httpx.AsyncBaseTransport):
    """Hands requests of an httpx client to the application."""

    app: ASGIApp
    nursery: trio.Nursery

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Serve a request.

        Raises:
            httpx.ReadTimeout: no answer within the client's read time-out.
            httpx.RemoteProtocolError: the connection was cut; it may have taken effect.
            httpx.ConnectError: the platform is stopped, or a fault made it unreachable.
        """
        exchange = _Exchange(await request.aread())
        try:
            self.nursery.start_soon(self._run, _scope(request), exchange)
        except RuntimeError:
            raise httpx.ConnectError("the platform is stopped", request=request) from None
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
            exchange.done.set()


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
    _reset: bool = False
    _silent: bool = False

    def sever(self, how: Cut) -> None:
        """Cut the bytes, as the client sees it."""
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
        data = bytes(await self._near.receive_some(max_bytes))
        if self._reset:
            raise trio.BrokenResourceError("connection reset")
        while self._silent:
            # What arrives from now on is lost, the end of the stream too; only closing our own
            # end wakes this up.
            if not data:
                await trio.sleep_forever()
            data = bytes(await self._near.receive_some(max_bytes))
        return data

    async def aclose(self) -> None:
        """Close our end."""
        await self._near.aclose()


@attrs.define(eq=False)
class _MemoryWire:
    """A socket of trio-websocket as the session sees it."""

    socket: trio_websocket.WebSocketConnection

    async def receive(self) -> str | bytes | None:
        try:
            return await self.socket.get_message()
        except trio_websocket.ConnectionClosed:
            return None

    async def send(self, text: str) -> None:
        try:
            await self.socket.send_message(text)
        except trio_websocket.ConnectionClosed:
            raise trio.BrokenResourceError from None

    async def close(self, code: int, reason: str) -> None:
        await self.socket.aclose(code, reason)


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
        self.nursery.start_soon(self._serve, stream, far)
        return stream

    async def _serve(self, stream: MemoryStream, far: trio.StapledStream[Any, Any]) -> None:
        try:
            async with trio.open_nursery() as nursery:
                await self._shake_hands(nursery, stream, far)
                nursery.cancel_scope.cancel(reason="the session is over")
        except* (trio_websocket.ConnectionClosed, trio.BrokenResourceError):
            pass  # the peer went away in the middle of the upgrade: nobody is left to be told
        finally:
            await trio.aclose_forcefully(far)

    async def _shake_hands(
        self, nursery: trio.Nursery, stream: MemoryStream, far: trio.StapledStream[Any, Any]
    ) -> None:
        request = None
        with trio.move_on_after(UPGRADE_SECONDS):
            request = await trio_websocket.wrap_server_stream(
                nursery,
                far,
                message_queue_size=QUEUE,
                max_message_size=MESSAGE_BYTES,
                receive_buffer_size=RECEIVE_BYTES,
            )
        if request is not None:
            await self._answer(request, stream)

    async def _answer(self, request: trio_websocket.WebSocketRequest, stream: MemoryStream) -> None:
        headers = {
            name.decode("latin-1").lower(): v.decode("latin-1") for name, v in request.headers
        }
        query = urlsplit(request.path).query
        verdict = self.hub.admit(query, headers)
        if isinstance(verdict, Reply):
            await request.reject(verdict.status, **_rejection(verdict))
            return
        socket = await request.accept()
        await serve_session(self.hub, verdict, _MemoryWire(socket), stream.sever, stream.silence)


def _rejection(reply: Reply) -> dict[str, Any]:
    headers = [(name.encode(), value.encode()) for name, value in reply.headers.items()]
    body = None if reply.body is None else codec.dumps(reply.body)
    return {"extra_headers": headers, "body": body}

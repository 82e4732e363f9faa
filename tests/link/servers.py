"""Servers on loopback for the tests of the network: raw bytes, TLS by a CA of our own, a proxy."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import attrs
import trio
import trustme

from band_trio.kit.nurseries import hide_nursery

Handler = Callable[[trio.abc.Stream], Awaitable[None]]


@asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncGenerator[int]:
    """Serve raw bytes on loopback, behind TLS if there is a context; yields the port."""

    async def handle(stream: trio.SocketStream) -> None:
        used: trio.abc.Stream = stream
        if tls is not None:
            used = trio.SSLStream(stream, tls, server_side=True, https_compatible=True)
        try:
            await handler(used)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return  # the client has gone, which is often the point
        finally:
            await trio.aclose_forcefully(used)

    with hide_nursery("serving"):
        async with trio.open_nursery() as nursery:
            listeners = await nursery.start(partial(trio.serve_tcp, handle, 0, host="127.0.0.1"))
            yield listeners[0].socket.getsockname()[1]
            nursery.cancel_scope.cancel()


async def read_request(stream: trio.abc.Stream) -> bytes:
    """Read one request, with the body that its length announces; b"" at the end."""
    data = bytearray()
    while b"\r\n\r\n" not in data:
        part = await stream.receive_some()
        if not part:
            return b""
        data += part
    head, _, body = bytes(data).partition(b"\r\n\r\n")
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    while len(body) < length:
        body += await stream.receive_some()
    return head + b"\r\n\r\n" + body


def ok(body: bytes = b'{"data": 1}', more: bytes = b"") -> bytes:
    """Return an answer."""
    return b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n%b" % (more, len(body), body)


@attrs.define(eq=False)
class ConnectProxy:
    """A proxy that opens tunnels, all of them to loopback whatever host is named."""

    credentials: str = ""
    """What `Proxy-Authorization` must say; empty for nothing."""
    answer: bytes = b"HTTP/1.1 200 Connection established\r\nVia: 1.1 proxy\r\n\r\n"
    targets: list[str] = attrs.field(factory=list)
    """What it was asked for, in order."""

    async def handle(self, stream: trio.abc.Stream) -> None:
        head = (await read_request(stream)).decode()
        method, target, _ = head.split(" ", 2)
        assert method == "CONNECT"
        self.targets.append(target)
        if f"Proxy-Authorization: {self.credentials}\r\n" not in head and self.credentials:
            await stream.send_all(
                b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
            )
            return
        await stream.send_all(self.answer)
        if b" 200 " not in self.answer:
            return
        port = int(target.rpartition(":")[2])
        async with await trio.open_tcp_stream("127.0.0.1", port) as onward:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_pump, stream, onward)
                await _pump(onward, stream)
                nursery.cancel_scope.cancel()


async def _pump(source: trio.abc.Stream, sink: trio.abc.Stream) -> None:
    try:
        async for data in source:
            await sink.send_all(data)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        return


@attrs.frozen
class PrivateCA:
    """A CA that no system knows."""

    authority: trustme.CA = attrs.field(factory=trustme.CA)

    def server(self, *names: str) -> ssl.SSLContext:
        """Return what a server needs that goes by *names*."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.authority.issue_cert(*names).configure_cert(context)
        return context

    def client(self) -> ssl.SSLContext:
        """Return a context that believes it."""
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        return context

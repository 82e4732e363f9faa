"""HTTP/1.1 over our own streams: an httpx transport with one connection per request in flight.

A library's pool walks over all its connections several times per request, and a cancelled request
can leave a slot of it lost for good. Here taking a connection is a pop, the one used last comes
first, and one whose exchange did not end well is closed. How many there are is up to the limiters
of the callers. Heads are bounded here, and what framing adds to a body; the body itself by who
reads it: what was not asked for is never read. Nothing is decoded, no redirect is followed. Time
is bounded by the caller, but for the connect: given up there, a request is known not to be sent.
"""

from __future__ import annotations

import re
import select
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import Enum
from typing import Final, Self

import attrs
import httptools
import httpx  # noqa: ASYNC127, TID251 - the interface that is implemented here
import trio

from band_trio.link.dialler import DialError

HEAD_BYTES: Final = 64 * 2**10
"""Longest head of an answer, interim answers included."""
WIRE_PER_BODY: Final = 8
"""Most bytes on the wire per byte of the body; chunks of one byte take six."""
READ_BYTES: Final = 64 * 2**10
"""Most bytes of one read."""
IDLE_SECONDS: Final = 30.0
"""A connection that was not needed for this long is closed when the next exchange ends."""
_ILLEGAL: Final = re.compile(rb"[\0\r\n]")


class Transport(httpx.AsyncBaseTransport):
    """Carries requests whose body is in memory; opens connections by *dial*."""

    def __init__(
        self, dial: Callable[[], Awaitable[trio.abc.Stream]], connect_seconds: float
    ) -> None:
        self._dial = dial
        self._connect_seconds = connect_seconds
        self._idle: deque[tuple[float, trio.abc.Stream]] = deque()
        """Those that wait, with the time since when; the longest first."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send *request*, return once the answer's head is there. Close its stream, read or not.

        Raises:
            httpx.LocalProtocolError, httpx.ConnectError, httpx.ConnectTimeout: nothing was sent.
            httpx.ReadError, httpx.RemoteProtocolError: cut off, or no HTTP; the outcome is unknown.
        """
        wire = _written(request)
        exchange = _Exchange(self, await self._connection())
        try:
            await exchange.begin(wire)
        except BaseException:
            await exchange.aclose()
            raise
        exchange.release_if_over()
        return httpx.Response(exchange.status, headers=exchange.headers, stream=exchange)

    async def _connection(self) -> trio.abc.Stream:
        """Return a connection for the caller alone: the last one that still lives, or a new one."""
        while self._idle:
            _, stream = self._idle.pop()
            if not _is_stale(stream):
                return stream
            await trio.aclose_forcefully(stream)
        with trio.move_on_after(self._connect_seconds):
            try:
                return await self._dial()
            except DialError as exc:
                raise httpx.ConnectError(str(exc)) from None
        raise httpx.ConnectTimeout("no connection in time")

    def keep(self, stream: trio.abc.Stream) -> None:
        """Keep a connection whose exchange has ended well."""
        self._idle.append((trio.current_time(), stream))

    async def close_old(self) -> None:
        """Close the connection that was not needed for longest, if that is long enough."""
        if self._idle and self._idle[0][0] < trio.current_time() - IDLE_SECONDS:
            await trio.aclose_forcefully(self._idle.popleft()[1])

    async def aclose(self) -> None:
        """Close the connections that wait."""
        while self._idle:
            await trio.aclose_forcefully(self._idle.popleft()[1])


class _Phase(Enum):
    """How far an answer has come."""

    HEAD = "head"
    BODY = "body"
    COMPLETE = "complete"
    RELEASED = "released"  # the connection is somebody else's, or closed


@attrs.define(eq=False)
class _Exchange(httpx.AsyncByteStream):
    """One request and its answer: the parser's callbacks, and the body as it comes in."""

    transport: Transport
    stream: trio.abc.Stream
    status: int = 0
    headers: list[tuple[bytes, bytes]] = attrs.field(factory=list)
    _parser: httptools.HttpResponseParser = attrs.field(init=False)
    _phase: _Phase = _Phase.HEAD
    _parts: list[bytes] = attrs.field(factory=list)
    """What has come of the body and was not asked for yet: of one read at most."""
    _seen: int = 0
    """Bytes that were read, of which `_body` are the body's."""
    _body: int = 0
    _until_eof: bool = False
    """Whether the body ends with the connection."""
    _reusable: bool = False

    def __attrs_post_init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)

    def on_message_begin(self) -> None:
        if self._phase is _Phase.HEAD:
            self.headers = []  # those of an interim answer do not count
        else:  # what nobody asked for; it ends the connection, not this answer
            self._reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._phase is _Phase.HEAD:  # else a trailer
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self._phase is not _Phase.HEAD or 100 <= status < 200:
            return
        self.status, self._phase = status, _Phase.BODY
        names = {name.lower() for name, _ in self.headers}
        framed = b"content-length" in names or b"transfer-encoding" in names
        self._until_eof = not framed and status not in (204, 304)

    def on_body(self, body: bytes) -> None:
        if self._phase is _Phase.BODY:
            self._parts.append(body)
            self._body += len(body)

    def on_message_complete(self) -> None:
        if self._phase is _Phase.BODY:
            self._phase = _Phase.COMPLETE
            self._reusable = self._parser.should_keep_alive()

    async def begin(self, wire: memoryview) -> None:
        """Send the request and read the head of the answer."""
        with suppress(trio.BrokenResourceError):  # it may have answered before it has read all
            await self.stream.send_all(wire)
        while self._phase is _Phase.HEAD:
            await self._read()

    def release_if_over(self) -> None:
        """Give the connection back as soon as the answer is complete."""
        if self._phase is _Phase.COMPLETE and self._reusable:
            self._release()
            self.transport.keep(self.stream)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while not self._parts:
            if self._phase is not _Phase.BODY:
                raise StopAsyncIteration
            await self._read()
            self.release_if_over()
        part = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        return part

    async def aclose(self) -> None:
        """Close the connection, unless it has been given back."""
        if self._phase is _Phase.RELEASED:
            await self.transport.close_old()
            return
        self._release()
        await trio.aclose_forcefully(self.stream)

    def _release(self) -> None:
        self._phase = _Phase.RELEASED
        del self._parser  # it holds this object: a ring, which only the garbage collector opens

    async def _read(self) -> None:
        """Read once, and let the parser tell what that was."""
        try:
            data = await self.stream.receive_some(READ_BYTES)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as exc:
            raise httpx.ReadError(str(exc.__cause__ or "the connection was cut")) from None
        if not data:
            self._end()
            return
        self._seen += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise httpx.RemoteProtocolError("the server changes the protocol") from None
        except httptools.HttpParserError as exc:
            self._reusable = False
            if self._phase is not _Phase.COMPLETE:  # else it is behind the answer
                raise httpx.RemoteProtocolError(f"that is no HTTP: {exc}") from None
        self._bound_framing()

    def _bound_framing(self) -> None:
        if self._seen > HEAD_BYTES + WIRE_PER_BODY * self._body:
            if self._phase is _Phase.HEAD:
                raise httpx.RemoteProtocolError(f"the server sends a head above {HEAD_BYTES} bytes")
            if self._phase is _Phase.BODY:
                raise httpx.RemoteProtocolError("the server sends chunks without content")

    def _end(self) -> None:
        """Take in that the server has closed its side."""
        if not (self._phase is _Phase.BODY and self._until_eof):
            where = "in the middle of its answer" if self._seen else "without an answer"
            raise httpx.RemoteProtocolError(f"the server closed the connection {where}")
        self._phase = _Phase.COMPLETE


def _written(request: httpx.Request) -> memoryview:
    """Return *request* as bytes; a view, because tracebacks with locals print bytes, and with them
    the key."""
    lines = [b"%b %b HTTP/1.1" % (request.method.encode("ascii"), request.url.raw_path)]
    for name, value in request.headers.raw:
        if _ILLEGAL.search(name) or _ILLEGAL.search(value):
            raise httpx.LocalProtocolError("a header holds a line break")
        lines.append(b"%b: %b" % (name, value))
    return memoryview(b"\r\n".join([*lines, b"", request.content]))


def _is_stale(stream: trio.abc.Stream) -> bool:
    """Tell whether an idle connection is of no use: closed, or with bytes nobody asked for."""
    while isinstance(stream, trio.SSLStream):
        if stream.pending() or stream._incoming.pending:  # noqa: SLF001 - undecrypted ones
            return True
        stream = stream.transport_stream
    if not isinstance(stream, trio.SocketStream):
        return False
    poll = select.poll()
    poll.register(stream.socket.fileno(), select.POLLIN)
    return bool(poll.poll(0))

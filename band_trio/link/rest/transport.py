"""HTTP/1.1 over our own streams, with one connection per request in flight.

A library's pool walks over all its connections several times per request, and a cancelled request
can leave a slot of it lost for good. Here taking a connection is a pop, the one used last comes
first, and one whose exchange did not end well is closed. How many there are is up to the limiters
of the callers. Heads are bounded here, what framing adds to a body, and the body: what was not
asked for is never read. Nothing is decoded, no redirect is followed. Time is bounded by the
caller, but for the connect: given up there, a request is known not to be sent.
"""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import httptools
import trio

from band_trio.link.net.dialler import DialError
from band_trio.link.net.tcp import TcpStream
from band_trio.link.rest.exchange import WITH_LENGTH, CutOff, Reply, Unreached, head_flaw, too_long

HEAD_BYTES: Final = 64 * 2**10
"""Longest head of an answer, interim answers included."""
WIRE_PER_BODY: Final = 8
"""Most bytes on the wire per byte of the body; chunks of one byte take six."""
READ_BYTES: Final = 64 * 2**10
"""Most bytes of one read."""
IDLE_SECONDS: Final = 30.0
"""A connection that was not needed for this long is closed when the next exchange ends."""


class Transport:
    """Carries requests to *host* with *headers* in each; opens connections by *dial*."""

    def __init__(
        self,
        host: str,
        headers: Mapping[str, str],
        dial: Callable[[], Awaitable[trio.abc.Stream]],
        connect_seconds: float,
    ) -> None:
        self._fixed = _lines({"Host": host, **headers})
        self._dial = dial
        self._connect_seconds = connect_seconds
        self._idle: deque[tuple[float, _Connection]] = deque()
        """Those that wait, with the time since when; the longest first."""

    async def exchange(
        self, method: str, target: str, headers: Mapping[str, str], content: bytes, limit: int
    ) -> Reply:
        """Send one request; see `Carrier`."""
        wire = self._written(method, target, headers, content)
        connection = await self._connection()
        try:
            reply = await connection.exchange(wire, limit)
        except BaseException:
            await connection.aclose()
            raise
        if connection.reusable:
            now = trio.current_time()
            self._idle.append((now, connection))
            if self._idle[0][0] < now - IDLE_SECONDS:
                await self._idle.popleft()[1].aclose()
        else:
            await connection.aclose()
        return reply

    def _written(
        self, method: str, target: str, headers: Mapping[str, str], content: bytes
    ) -> memoryview:
        """Return a request as bytes; a view, because tracebacks with locals print bytes, and with
        them the key."""
        first = f"{method} {target} HTTP/1.1\r\n".encode("ascii")
        more = _lines(headers) if headers else b""
        if content or method in WITH_LENGTH:
            more += b"Content-Length: %d\r\n" % len(content)
        return memoryview(b"%b%b%b\r\n%b" % (first, self._fixed, more, content))

    async def _connection(self) -> _Connection:
        """Return a connection for the caller alone: the last one that still lives, or a new one."""
        while self._idle:
            _, connection = self._idle.pop()
            if not connection.is_stale():
                return connection
            await connection.aclose()
        with trio.move_on_after(self._connect_seconds):
            try:
                return _Connection(await self._dial())
            except DialError as exc:
                raise Unreached(str(exc)) from None
        raise Unreached("no connection in time")

    async def aclose(self) -> None:
        """Close the connections that wait."""
        while self._idle:
            await self._idle.popleft()[1].aclose()


class _Connection:
    """One connection, and the answer that comes in on it: the parser calls the methods `on_…`."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._tls: list[trio.SSLStream[Any]] = []
        while isinstance(stream, trio.SSLStream):
            self._tls.append(stream)
            stream = stream.transport_stream
        self._poll = None  # there is no socket in some tests
        if isinstance(stream, TcpStream):
            self._poll = select.poll()
            self._poll.register(stream.socket.fileno(), select.POLLIN)
        self._parser = httptools.HttpResponseParser(self)
        self._begin()

    def _begin(self) -> None:
        self.reusable = False
        """Whether the exchange has ended so that another one may follow."""
        self._status = 0  # until a head is complete that is the answer's
        self._headers: dict[bytes, bytes] = {}
        self._body = bytearray()
        self._seen = 0  # bytes that were read
        self._complete = False
        self._until_eof = False  # whether the body ends with the connection

    async def exchange(self, wire: memoryview, limit: int) -> Reply:
        """Send a request, read its answer.

        Raises:
            CutOff: the connection broke, or that was no HTTP.
        """
        self._begin()
        with suppress(trio.BrokenResourceError):  # it may have answered before it has read all
            await self._stream.send_all(wire)
        while not self._status:
            await self._read()
        headers = self._headers
        length = headers.get(b"content-length", b"")
        odd = len(length) > 7 or (length.isdigit() and int(length) > limit)
        flaw = head_flaw(headers, limit) if odd or b"content-encoding" in headers else ""
        while not (self._complete or flaw or len(self._body) > limit):
            await self._read()
        if len(self._body) > limit and not flaw:
            flaw = too_long(limit)
        self.reusable = self.reusable and self._complete
        return Reply(self._status, self._headers, b"" if flaw else self._body, flaw)

    def is_stale(self) -> bool:
        """Tell whether an idle connection is of no use: closed, or with bytes nobody asked for."""
        for tls in self._tls:
            if tls.pending() or tls._incoming.pending:  # noqa: SLF001 - undecrypted ones
                return True
        return self._poll is not None and bool(self._poll.poll(0))

    async def aclose(self) -> None:
        """Close it at once."""
        del self._parser  # it holds this object: a ring, which only the garbage collector opens
        await trio.aclose_forcefully(self._stream)

    # ----------------------------------------------------------------- what the parser tells

    def on_message_begin(self) -> None:
        if self._status:  # what nobody asked for; it ends the connection, not this answer
            self.reusable = False
        else:  # headers of an interim answer do not count
            self._headers = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._status:  # else a trailer
            self._headers.setdefault(name.lower(), value)

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self._status or 100 <= status < 200:
            return
        headers = self._headers
        framed = b"content-length" in headers or b"transfer-encoding" in headers
        self._until_eof = not framed and status not in (204, 304)
        self._status = status

    def on_body(self, body: bytes) -> None:
        if not self._complete:
            self._body += body

    def on_message_complete(self) -> None:
        if self._status and not self._complete:
            self._complete = True
            self.reusable = self._parser.should_keep_alive()

    # ----------------------------------------------------------------- what comes in

    async def _read(self) -> None:
        """Read once, and let the parser tell what that was."""
        try:
            data = await self._stream.receive_some(READ_BYTES)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as exc:
            raise CutOff(str(exc.__cause__ or "the connection was cut")) from None
        if not data:
            self._end()
            return
        self._seen += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise CutOff("the server changes the protocol") from None
        except httptools.HttpParserError as exc:
            self.reusable = False
            if not self._complete:  # else it is behind the answer
                raise CutOff(f"that is no HTTP: {exc}") from None
        if self._seen > HEAD_BYTES + WIRE_PER_BODY * len(self._body) and not self._complete:
            if self._status:
                raise CutOff("the server sends chunks without content")
            raise CutOff(f"the server sends a head above {HEAD_BYTES} bytes")

    def _end(self) -> None:
        """Take in that the server has closed its side."""
        if not (self._status and self._until_eof):
            where = "in the middle of its answer" if self._seen else "without an answer"
            raise CutOff(f"the server closed the connection {where}")
        self._complete = True


def _lines(headers: Mapping[str, str]) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("ascii")

"""One WebSocket: a port over trio-websocket that adds what the library leaves open.

* The byte stream is ours, or the application's: opened first, closed forcefully last, whatever
  happens in between. The library's own functions leak it when an upgrade is refused.
* The opening handshake has our deadline: the library waits for ever for a silent peer.
* Whatever the library's reader dies of becomes `SocketClosed` here; no error and no group of the
  library gets out.
* Limits: 16 unread messages, then the peer waits; 4 MiB and 1024 fragments per message, more ends
  the connection; 64 KiB for the answer to the upgrade, a refusal included.

Only one task may send. A send that was cancelled leaves half a frame on the wire, so nothing may
be sent after it: leave the block.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Never, cast
from urllib.parse import SplitResult, urlsplit

import attrs
import trio
import trio_websocket  # noqa: TID251 - this is the one door to trio_websocket
from wsproto.utilities import LocalProtocolError

from band_trio.config.agent import OpenStream
from band_trio.config.proxies import PORTS
from band_trio.errors import BandError
from band_trio.kit.nurseries import hide_nursery
from band_trio.link.net.dialler import DialError
from band_trio.link.net.retry_after import read_retry_after
from band_trio.protocol import codec
from band_trio.protocol.errors import RemoteProtocolError
from band_trio.protocol.rest import ErrorBody
from band_trio.protocol.websocket import FrameCounter

QUEUE_MESSAGES: Final = 16
"""Unread messages; then the library stops reading and the peer waits."""
MESSAGE_BYTES: Final = 4 * 2**20
"""Largest message; the platform keeps its own below 1 MiB (platform docs, Limits)."""
BUFFER_BYTES: Final = 64 * 2**10
HEAD_BYTES: Final = 64 * 2**10
"""How much of the answer to the upgrade is read; of a refusal it is kept to find out why."""
TOO_BIG: Final = 1009
NORMAL: Final = 1000

_NO_BYTES: Final = memoryview(b"")

Headers = Sequence[tuple[bytes, bytes]]


class SocketClosed(Exception):
    """The connection is over. Inside only: the supervisor decides what follows."""

    def __init__(self, code: int | None, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        """The close code, 1006 when there was no close frame; None when nobody knows."""
        self.reason = reason


class ConnectFailed(Exception):
    """The server was not reached, or did not finish the handshake. Inside only."""


class UpgradeRefused(Exception):
    """The server answered the upgrade with a status. Inside only."""

    def __init__(self, status: int, headers: Headers, body: bytes) -> None:
        super().__init__(f"status {status}")
        self.status = status
        parsed = _json(body)
        self.error: Final = ErrorBody.read(parsed)
        """The platform's error object; empty where there is none."""
        fields = {name.lower().decode("latin-1"): v.decode("latin-1") for name, v in headers}
        self.retry_after: Final = read_retry_after(fields.get, parsed)
        """Seconds to wait as told by a header or by the body."""


@attrs.define(eq=False)
class Socket:
    """An open connection; works until its `async with` block is left."""

    _connection: trio_websocket.WebSocketConnection
    _stream: _WatchedStream
    _reader: _Reader

    async def send(self, text: str) -> None:
        """Put one message on the wire. One task at a time; see the module's last paragraph.

        Raises:
            SocketClosed: it is not on the wire, or not all of it.
        """
        try:
            await self._connection.send_message(text)
        except (trio_websocket.ConnectionClosed, LocalProtocolError) as exc:
            self._raise_closed(exc)

    async def receive(self) -> str | bytes:
        """Return the next message; those that came before a close are delivered first.

        Raises:
            SocketClosed: there will be no more.
        """
        try:
            return await self._connection.get_message()
        except trio_websocket.ConnectionClosed as exc:
            self._raise_closed(exc)

    async def close(self) -> None:
        """Send one close frame 1000 and wait for the answer; bound it, the peer may be silent."""
        try:
            await self._connection.aclose(NORMAL)
        except (trio_websocket.ConnectionClosed, LocalProtocolError):
            return  # it is over already, so there is nobody to say goodbye to

    @property
    def quiet_since(self) -> float:
        """The trio time since when the peer has sent nothing although we were reading; infinity
        while there may be something that was not read yet."""
        return self._stream.reading_since

    def _raise_closed(self, exc: Exception) -> Never:
        reason = exc.reason if isinstance(exc, trio_websocket.ConnectionClosed) else None
        if self._stream.broken:
            raise SocketClosed(None, f"the peer broke the rules: {self._stream.broken}") from None
        if reason is None:
            died = self._reader.failure
            raise SocketClosed(None, f"the connection failed: {died or exc!r}") from None
        if reason.code == TOO_BIG and MESSAGE_TEXT in (reason.reason or ""):
            text = f"a message above {MESSAGE_BYTES} bytes arrived (close code 1009)"
            raise SocketClosed(TOO_BIG, text) from None
        words = f": {reason.reason}" if reason.reason else ""
        raise SocketClosed(reason.code, f"close code {reason.code}{words}") from None


MESSAGE_TEXT: Final = "Exceeded maximum message size"
"""How the library words its own close 1009, as opposed to one of the peer."""


@asynccontextmanager
async def open_socket(
    url: str,
    resource: str,
    headers: Headers,
    *,
    open_stream: OpenStream,
    connect_seconds: float,
) -> AsyncGenerator[Socket]:
    """Connect to the host of *url*, ask for *resource* (path and query), upgrade.

    The stream is closed forcefully when the block ends; say goodbye with `Socket.close` before.

    Raises:
        ConnectFailed: no connection, no handshake, or not within *connect_seconds*.
        UpgradeRefused: the server answered with a status.
        Whatever the block raises, as itself.
    """
    deadline = trio.current_time() + connect_seconds
    stream = _WatchedStream(await _connect(open_stream, url, deadline))
    try:
        with hide_nursery("open_socket"):
            async with trio.open_nursery() as nursery:
                reader = _Reader(nursery)
                try:
                    yield await _shake_hands(reader, stream, url, resource, headers, deadline)
                finally:
                    reader.scope.cancel(reason="the socket's block has been left")
    finally:
        await trio.aclose_forcefully(stream)


async def _connect(open_stream: OpenStream, url: str, deadline: float) -> trio.abc.Stream:
    with trio.move_on_at(deadline):
        try:
            return await open_stream(url)
        except DialError as exc:
            raise ConnectFailed(f"no connection: {exc}") from None
        except BandError:
            raise
        except Exception as exc:
            raise ConnectFailed(f"no connection: {_describe(exc)}") from exc
    raise ConnectFailed("no connection in time")


async def _shake_hands(
    reader: _Reader,
    stream: _WatchedStream,
    url: str,
    resource: str,
    headers: Headers,
    deadline: float,
) -> Socket:
    connection = None
    with trio.CancelScope(deadline=deadline) as scope:
        # The library does not notice when the stream ends in the handshake.
        stream.ended = reader.ended = lambda: scope.cancel(reason="the handshake has failed")
        connection = await trio_websocket.wrap_client_stream(
            cast("trio.Nursery", reader),
            cast("trio.SocketStream", stream),
            _host(urlsplit(url)),
            resource,
            extra_headers=list(headers),
            message_queue_size=QUEUE_MESSAGES,
            max_message_size=MESSAGE_BYTES,
            receive_buffer_size=BUFFER_BYTES,
        )
    if connection is None:
        raise _why_no_handshake(reader.failure, bytes(stream.head or b""), scope.deadline)
    stream.ended = reader.ended = _nothing
    return Socket(connection, stream, reader)


def _why_no_handshake(
    failure: Exception | None, head: bytes, deadline: float
) -> ConnectFailed | UpgradeRefused:
    if isinstance(failure, trio_websocket.ConnectionRejected):
        return UpgradeRefused(failure.status_code, failure.headers, failure.body or b"")
    refused = _refusal(head)
    if refused is not None:
        return refused
    if failure is not None:
        return ConnectFailed(f"the handshake failed: {_describe(failure)}")
    if trio.current_time() >= deadline:
        return ConnectFailed("no answer to the handshake in time")
    return ConnectFailed("the connection ended in the handshake")


def _refusal(head: bytes) -> UpgradeRefused | None:
    """Read a refusal whose body ends with the connection, or not at all: the library waits on."""
    top, end_of_head, body = head.partition(b"\r\n\r\n")
    first, *lines = top.split(b"\r\n")
    words = first.split(None, 2)
    if not end_of_head or len(words) < 2 or not words[0].startswith(b"HTTP/1."):
        return None
    # Three digits: `int` refuses to read thousands.
    if not (words[1].isdigit() and len(words[1]) == 3) or words[1] == b"101":
        return None
    pairs = [(name.strip(), value.strip()) for name, _, value in (x.partition(b":") for x in lines)]
    return UpgradeRefused(int(words[1]), pairs, body)


# --------------------------------------------------------------------------- the library's reader


def _nothing() -> None:
    pass


@attrs.define(eq=False)
class _Reader:
    """Stands in for the nursery that the library starts its reader in.

    The reader is shielded: after the block was cancelled it still has to read the answer to the
    close frame. Its errors are kept here instead of cancelling the block.
    """

    nursery: trio.Nursery
    scope: trio.CancelScope = attrs.field(init=False)
    failure: Exception | None = attrs.field(default=None, init=False)
    ended: Callable[[], None] = attrs.field(default=_nothing, init=False)

    def __attrs_post_init__(self) -> None:
        self.scope = trio.CancelScope(shield=True)  # open_socket cancels it when its block ends

    def start_soon(self, task: Callable[[], Awaitable[Any]]) -> None:
        self.nursery.start_soon(self._run, task)

    async def _run(self, task: Callable[[], Awaitable[Any]]) -> None:
        with self.scope:
            try:
                await task()
            except Exception as exc:  # noqa: BLE001 - the boundary: it ends this socket
                self.failure = exc
            finally:
                self.ended()


@attrs.define(eq=False)
class _WatchedStream(trio.abc.Stream):
    """A byte stream that tells when its peer is quiet or gone, keeps the first bytes, and hands on
    a few frames at a time."""

    inner: trio.abc.Stream
    ended: Callable[[], None] = _nothing
    reading_since: float = math.inf
    head: bytearray | None = attrs.field(factory=bytearray)
    """What came in the handshake; None after it."""
    broken: str = ""
    """How the peer broke the rules, once it has."""
    _frames: FrameCounter = attrs.field(factory=FrameCounter)
    _left: memoryview = _NO_BYTES
    """What was read, and is for later steps."""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self.inner.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self.inner.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        if self._left:
            await trio.lowlevel.checkpoint()  # between two steps, so that others get their turn
        else:
            data = await self._receive(max_bytes)
            if not data:
                self.ended()
                return data
            greeting = self._greet(data) if self.head is not None else 0
            self._left = memoryview(data)[greeting:]
            if greeting:
                return data[:greeting]
        try:
            end = self._frames.take(self._left)
        except RemoteProtocolError as exc:
            self.broken = str(exc)
            raise trio.BrokenResourceError(self.broken) from None
        step, self._left = bytes(self._left[:end]), self._left[end:]
        return step

    async def _receive(self, max_bytes: int | None) -> bytes | bytearray:
        self.reading_since = trio.current_time()
        try:
            return await self.inner.receive_some(max_bytes)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.ended()
            raise
        finally:
            self.reading_since = math.inf

    def _greet(self, data: bytes | bytearray) -> int:
        """Return how many bytes of *data* belong to the answer to the upgrade."""
        assert self.head is not None  # asked for in the handshake only
        self.head += data
        end = self.head.find(b"\r\n\r\n") + 4
        if end >= 4 and self.head.startswith(b"HTTP/1.1 101"):
            behind = len(self.head) - end
            self.head = None
            return len(data) - behind
        if len(self.head) > HEAD_BYTES:
            self.ended()
        return len(data)

    async def aclose(self) -> None:
        self.ended()
        await self.inner.aclose()


# --------------------------------------------------------------------------- small helpers


def _host(parts: SplitResult) -> str:
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    return host if parts.port in (None, PORTS[parts.scheme]) else f"{host}:{parts.port}"


def _describe(exc: BaseException) -> str:
    """Name what went wrong; errors of TLS and of the library have their text in the cause."""
    if not str(exc) and exc.__cause__ is not None:
        return _describe(exc.__cause__)
    return f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__


def _json(body: bytes) -> Any:
    try:
        return codec.loads(body)
    except RemoteProtocolError:
        return None

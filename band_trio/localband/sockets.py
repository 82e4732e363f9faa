"""The platform's end of a socket, on any stream of bytes: the upgrade, and then the session.

What a peer may cost, on both faces:

* a head: 16 KiB (h11, inside wsproto) and `UPGRADE_SECONDS`; the key is asked for before anything
  behind the head is read;
* a message, fragments joined: `MESSAGE_CHARS`, then it is closed with 1009. No compression is
  agreed on, so that nothing grows here;
* fragments: `UNHEARD_BYTES` without one whole message, then it is cut; a fragment costs memory even
  when it is empty. Reads are small, because all fragments of a read are handled in one step;
* what waits for a peer that does not read: the `Outbox`, and one frame on the way.
"""

from __future__ import annotations

import logging
from typing import Any, Final
from urllib.parse import urlsplit

import attrs
import trio
import trio_websocket  # noqa: TID251 - the platform's end of a socket

from band_trio.kit.hygiene import error_text
from band_trio.localband.hub import Hub, Line
from band_trio.localband.routes import Reply
from band_trio.localband.session import serve_session
from band_trio.protocol import codec

MESSAGE_CHARS: Final = 32 * 1024
"""Clients send joins, leaves and heartbeats (platform docs, Frames)."""
UNHEARD_BYTES: Final = 256 * 1024
RECEIVE_BYTES: Final = 4 * 1024
UPGRADE_SECONDS: Final = 10.0
"""A peer that opened a stream and asks for nothing is dropped."""
QUEUE: Final = 16
"""Messages of the peer that wait inside the library; our reader takes them at once."""

_log: Final = logging.getLogger(__name__)


@attrs.define(eq=False)
class _Metered(trio.abc.Stream):
    """A stream that ends when too much came in without a whole message."""

    _stream: trio.abc.Stream
    unheard: int = 0

    async def send_all(self, data: Any) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        data = await self._stream.receive_some(max_bytes)
        self.unheard += len(data)
        if self.unheard > UNHEARD_BYTES:
            raise trio.BrokenResourceError("the peer sends fragments and no message")
        return data

    async def aclose(self) -> None:
        await self._stream.aclose()


@attrs.define(eq=False)
class _SocketWire:
    """A socket of trio-websocket as the session sees it."""

    socket: trio_websocket.WebSocketConnection
    meter: _Metered

    async def receive(self) -> str | bytes | None:
        try:
            message = await self.socket.get_message()
        except trio_websocket.ConnectionClosed:
            return None
        self.meter.unheard = 0
        return message

    async def send(self, text: str) -> None:
        try:
            await self.socket.send_message(text)
        except trio_websocket.ConnectionClosed:
            raise trio.BrokenResourceError from None

    async def close(self, code: int, reason: str) -> None:
        await self.socket.aclose(code, reason)


async def serve_socket(hub: Hub, stream: trio.abc.Stream, line: Line) -> None:
    """Serve a peer that wants a socket; *stream*, our end of *line*, is closed at the end."""
    meter = _Metered(stream)
    try:
        async with trio.open_nursery() as nursery:
            request = await _await_request(nursery, meter)
            if request is not None:
                await _answer(hub, request, meter, line)
            nursery.cancel_scope.cancel(reason="the session is over")
    except* (trio_websocket.ConnectionClosed, trio.BrokenResourceError, trio.ClosedResourceError):
        pass  # the peer went away in the middle of the upgrade: nobody is left to be told
    except* Exception as group:  # noqa: BLE001 - the boundary: wsproto leaks what heads make it raise
        _log.warning("a socket was given up: %s", error_text(group.exceptions[0], 200))
    finally:
        await trio.aclose_forcefully(stream)


async def _await_request(
    nursery: trio.Nursery, meter: _Metered
) -> trio_websocket.WebSocketRequest | None:
    with trio.move_on_after(UPGRADE_SECONDS):
        return await trio_websocket.wrap_server_stream(
            nursery,
            meter,
            message_queue_size=QUEUE,
            max_message_size=MESSAGE_CHARS,
            receive_buffer_size=RECEIVE_BYTES,
        )
    return None


async def _answer(
    hub: Hub, request: trio_websocket.WebSocketRequest, meter: _Metered, line: Line
) -> None:
    headers = {name.decode("latin-1").lower(): v.decode("latin-1") for name, v in request.headers}
    verdict = hub.admit(urlsplit(request.path).query, headers)
    if isinstance(verdict, Reply):
        await request.reject(verdict.status, **_rejection(verdict))
        return
    socket = await request.accept()
    await serve_session(hub, verdict, _SocketWire(socket, meter), line)


def _rejection(reply: Reply) -> dict[str, Any]:
    headers = [(name.encode(), value.encode()) for name, value in reply.headers.items()]
    if reply.body is None:
        return {"extra_headers": headers, "body": None}
    headers.append((b"content-type", b"application/json"))
    return {"extra_headers": headers, "body": codec.dumps(reply.body)}

"""What a client still sends of a body that is not wanted: it is discarded, up to a bound.

An answer may come before the body was read. Hypercorn then closes the connection at once, which
can cost the client the answer; and with its queue full it would wait for ever for the application
to take more.
"""

from __future__ import annotations

from typing import Final

import attrs
import trio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

DISCARD_BYTES: Final = 1024 * 1024
"""Discarded after an answer; with more to come the connection is closed."""
DISCARD_SECONDS: Final = 2.0


@attrs.frozen
class Unread:
    """Lets *app* answer requests without reading their bodies."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http":
            body = _Body(receive, send, _is_short(scope))
            await self.app(scope, body.receive, body.send)
        else:
            await self.app(scope, receive, send)


def _is_short(scope: Scope) -> bool:
    """Tell whether what is left of a body will be discarded whole."""
    headers = dict(scope["headers"])
    length: bytes = headers.get(b"content-length", b"0")
    return b"transfer-encoding" not in headers and int(length[:19]) <= DISCARD_BYTES


@attrs.define(eq=False)
class _Body:
    """The body of one request, and the answer to it."""

    _receive: Receive
    _send: Send
    _short: bool
    _over: bool = False
    _size: int = 0

    async def receive(self) -> Message:
        message = await self._receive()
        self._over = not message.get("more_body")  # a disconnect has none
        self._size += len(message.get("body", b""))
        return message

    async def send(self, message: Message) -> None:
        """Pass on the answer; before its last part the rest of the body is discarded."""
        if self._over:
            await self._send(message)
        elif message["type"] == "http.response.start" and not self._short:
            headers = [*message["headers"], (b"connection", b"close")]
            await self._send({**message, "headers": headers})
        elif message["type"] == "http.response.body" and not message.get("more_body"):
            await self._send({**message, "more_body": True})
            await self._discard()
            await self._end()
        else:
            await self._send(message)

    async def _discard(self) -> None:
        enough = self._size + DISCARD_BYTES
        with trio.move_on_after(DISCARD_SECONDS):
            while not self._over and self._size < enough:
                await self.receive()

    async def _end(self) -> None:
        """End the answer; meanwhile the queue is emptied, as the server waits for room in it."""
        async with trio.open_nursery() as nursery:
            if not self._over:
                nursery.start_soon(self._swallow)
            await self._send({"type": "http.response.body", "body": b""})
            nursery.cancel_scope.cancel(reason="the answer is sent")

    async def _swallow(self) -> None:
        while True:
            await self._receive()

"""A tiny platform for the socket: a Phoenix peer over memory streams, with faults on order.

`PhoenixPeer.open_stream` is what `AgentConfig.open_stream` wants. Every connection uses the real
WebSocket protocol; nothing needs a socket, so a virtual clock works.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio
import trio.testing
import trio_websocket

from band_trio.kit.nurseries import hide_nursery
from band_trio.protocol.phoenix import HEARTBEAT, JOIN, LEAVE, Frame, parse_frame

OK: dict[str, Any] = {"status": "ok", "response": {}}


@attrs.frozen
class Refusal:
    """An upgrade that is answered with a status."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = ()


@attrs.frozen
class Upgrade:
    """A request to upgrade, as it came in."""

    at: float
    path: str
    headers: dict[str, str]


@attrs.define(eq=False)
class Connection:
    """One accepted socket, from the platform's side."""

    peer: PhoenixPeer
    websocket: trio_websocket.WebSocketConnection
    stream: trio.abc.Stream
    opened_at: float
    frames: list[tuple[float, Frame]] = attrs.field(factory=list)
    joined: dict[str, str] = attrs.field(factory=dict)
    close_code: int | None = None
    closes: int = 0
    over_at: float | None = None
    stop_reading: bool = False
    closing: trio.Event | None = None
    """Set at the end of a close that began here."""

    def sent(self, event: str) -> list[str]:
        """Topics of the client's frames with *event*, in order."""
        return [frame.topic for _, frame in self.frames if frame.event == event]

    async def raw(self, text: str | bytes) -> None:
        await self.websocket.send_message(text)

    async def frame(self, *parts: Any) -> None:
        await self.raw(json.dumps(parts))

    async def push(self, topic: str, event: str, payload: dict[str, Any] | None = None) -> None:
        await self.frame(self.joined[topic], None, topic, event, payload or {})

    async def close(self, code: int, reason: str = "") -> None:
        self.closing = trio.Event()
        with trio.move_on_after(1):
            await self.websocket.aclose(code, reason)
        self.closing.set()

    async def fin(self) -> None:
        """End the byte stream without a close frame."""
        await trio.aclose_forcefully(self.stream)

    async def handle(self, frame: Frame) -> None:
        self.frames.append((trio.current_time(), frame))
        if frame.event == HEARTBEAT:
            if not self.peer.mute_heartbeats:
                await self.frame(None, frame.ref, frame.topic, "phx_reply", OK)
        elif frame.event == JOIN:
            await self._join(frame)
        elif frame.event == LEAVE and not self.peer.mute_leaves:
            self.joined.pop(frame.topic, None)
            await self.frame(frame.join_ref, frame.ref, frame.topic, "phx_reply", OK)

    async def _join(self, frame: Frame) -> None:
        answers = self.peer.join_answers.get(frame.topic)
        answer = answers.popleft() if answers else "ok"
        if answer == "ignore":
            return
        self.peer.nursery.start_soon(self._answer_join, frame, answer)

    async def _answer_join(self, frame: Frame, answer: str) -> None:
        await trio.sleep(self.peer.join_latency)
        reply = OK
        if answer == "ok":
            self.joined[frame.topic] = str(frame.join_ref)
        else:
            reply = {"status": "error", "response": {"reason": answer}}
        try:
            await self.frame(frame.join_ref, frame.ref, frame.topic, "phx_reply", reply)
        except trio_websocket.ConnectionClosed:
            self.joined.clear()


@attrs.define(eq=False)
class PhoenixPeer:
    """Accepts connections; the deques say what goes wrong next, all else goes well."""

    nursery: trio.Nursery
    refusals: deque[Refusal] = attrs.field(factory=deque)
    openings: deque[Exception | str] = attrs.field(factory=deque)
    """An error to raise instead of a stream; or `silent`, `fin`, `garbage`, raw bytes to answer
    the handshake with."""
    join_answers: dict[str, deque[str]] = attrs.field(factory=dict)
    """Per topic: `ok`, `ignore`, or the reason of a rejection."""
    join_latency: float = 0.0
    mute_heartbeats: bool = False
    mute_leaves: bool = False
    upgrades: list[Upgrade] = attrs.field(factory=list)
    attempts: list[float] = attrs.field(factory=list)
    """When a stream was asked for."""
    urls: list[str] = attrs.field(factory=list)
    connections: list[Connection] = attrs.field(factory=list)
    client_streams: list[trio.testing.MemorySendStream] = attrs.field(factory=list)

    @property
    def last(self) -> Connection:
        return self.connections[-1]

    async def open_stream(self, url: str) -> trio.abc.Stream:
        self.attempts.append(trio.current_time())
        self.urls.append(url)
        opening = self.openings.popleft() if self.openings else "ok"
        if isinstance(opening, Exception):
            raise opening
        client, server = trio.testing.memory_stream_pair()
        self.client_streams.append(client.send_stream)
        if opening == "ok":
            self.nursery.start_soon(self._serve, server)
        elif opening == "fin":
            await server.aclose()
        elif opening != "silent":
            self.nursery.start_soon(self._answer_raw, server, opening.encode())
        return client

    async def _answer_raw(self, server: trio.abc.Stream, answer: bytes) -> None:
        await server.receive_some()
        await server.send_all(answer)
        await server.aclose()

    async def _serve(self, server: trio.abc.Stream) -> None:
        async with trio.open_nursery() as nursery:
            try:
                request = await trio_websocket.wrap_server_stream(nursery, server)
                await self._answer_upgrade(request, server)
            finally:
                nursery.cancel_scope.cancel()
                await trio.aclose_forcefully(server)

    async def _answer_upgrade(
        self, request: trio_websocket.WebSocketRequest, server: trio.abc.Stream
    ) -> None:
        headers = {k.decode().lower(): v.decode() for k, v in request.headers}
        self.upgrades.append(Upgrade(trio.current_time(), request.path, headers))
        if self.refusals:
            refusal = self.refusals.popleft()
            await request.reject(
                refusal.status, extra_headers=list(refusal.headers), body=refusal.body
            )
            return
        websocket = await request.accept()
        self.connections.append(Connection(self, websocket, server, trio.current_time()))
        await self._converse(self.last)

    async def _converse(self, connection: Connection) -> None:
        try:
            while True:
                if connection.stop_reading:
                    await trio.sleep_forever()
                await connection.handle(parse_frame(await connection.websocket.get_message()))
        except trio_websocket.ConnectionClosed as exc:
            connection.over_at = trio.current_time()
            if connection.closing is not None:
                await connection.closing.wait()
            if exc.reason is not None:
                connection.close_code = exc.reason.code
                connection.closes += 1


@asynccontextmanager
async def open_peer() -> AsyncGenerator[PhoenixPeer]:
    with hide_nursery("open_peer"):
        async with trio.open_nursery() as nursery:
            yield PhoenixPeer(nursery)
            nursery.cancel_scope.cancel()


async def until(condition: Callable[[], object], within: float = 60, every: float = 0.01) -> None:
    """Let virtual time pass until *condition* holds."""
    with trio.fail_after(within):
        while not condition():  # noqa: ASYNC110 - conditions of many kinds
            await trio.sleep(every)

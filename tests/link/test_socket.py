"""The port over the WebSocket library: real TCP where the library is known to leak or hang."""

from __future__ import annotations

import gc
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, cast

import attrs
import pytest
import trio
import trio.testing
import trio_websocket

from band_trio.kit.nurseries import hide_nursery
from band_trio.link.channel.socket import ConnectFailed, SocketClosed, UpgradeRefused, open_socket
from band_trio.link.net.dialler import dial
from tests.marks import case, guarantee
from tests.support.for_each import for_each
from tests.support.gaps import Gaps

direct = partial(dial, proxy=None, verify=True)

Handler = Callable[[trio.SocketStream], Awaitable[None]]


@asynccontextmanager
async def tcp_server(handler: Handler) -> AsyncGenerator[str]:
    """Serve raw TCP on loopback; yields the URL to connect to."""
    with hide_nursery("tcp_server"):
        async with trio.open_nursery() as nursery:
            listeners = await nursery.start(partial(trio.serve_tcp, handler, 0, host="127.0.0.1"))
            yield f"ws://127.0.0.1:{listeners[0].socket.getsockname()[1]}/socket"
            nursery.cancel_scope.cancel()
    gc.collect()  # a socket that leaked warns here, and warnings are errors


def websocket_handler(
    talk: Callable[[trio_websocket.WebSocketConnection, trio.SocketStream], Awaitable[None]],
) -> Handler:
    async def handle(stream: trio.SocketStream) -> None:
        async with trio.open_nursery() as nursery:
            request = await trio_websocket.wrap_server_stream(nursery, stream)
            await talk(await request.accept(), stream)
            nursery.cancel_scope.cancel()
        await trio.aclose_forcefully(stream)

    return handle


def raw_handler(answer: bytes, wait: float = 0.0) -> Handler:
    async def handle(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()
            await stream.send_all(answer)
            await trio.sleep(wait)

    return handle


async def connect(url: str, seconds: float = 5.0) -> None:
    async with open_socket(url, "/socket", [], open_stream=direct, connect_seconds=seconds):
        raise AssertionError("connected")


@case("C44")
@for_each(
    "answer",
    [
        b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 403 Forbidden\r\n\r\n",
        b'HTTP/1.1 403 Forbidden\r\nRetry-After: 9\r\nContent-Length: 28\r\n\r\n{"error":{"code":"no_entry"}}',
        b"HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ],
    ids=["empty", "ends with the stream", "json", "chunked"],
)
async def test_a_refused_upgrade_is_typed_and_leaks_nothing(answer: bytes) -> None:
    async with tcp_server(raw_handler(answer)) as url:
        with trio.fail_after(2), pytest.raises(UpgradeRefused) as caught:
            await connect(url)
        assert caught.value.status == 403
        if b"Retry-After" in answer:
            assert caught.value.retry_after == 9


@case("C44")
@for_each(
    "answer",
    [
        b"",
        b"\x00\xff",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 1",
        b"HTTP/1.1 %b X\r\n\r\n" % (b"9" * 5000),
    ],
    ids=["empty", "binary", "ssh", "half a status", "a status of 5000 digits"],
)
async def test_a_handshake_that_ends_or_is_nonsense_fails_at_once(answer: bytes) -> None:
    async with tcp_server(raw_handler(answer)) as url:
        with trio.fail_after(2), pytest.raises(ConnectFailed):
            await connect(url)


@case("C44")
async def test_a_silent_handshake_is_bounded() -> None:
    async with tcp_server(raw_handler(b"", wait=60)) as url:
        with trio.fail_after(2), pytest.raises(ConnectFailed, match="in time"):
            await connect(url, 0.1)


async def test_a_refused_connection_and_an_unknown_host_fail_with_words() -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    await listeners[0].aclose()
    with pytest.raises(ConnectFailed, match="Connection refused"):
        await connect(f"ws://127.0.0.1:{port}/")


async def test_tls_against_a_server_without_tls_fails_with_words() -> None:
    async with tcp_server(raw_handler(b"HTTP/1.1 400 Bad\r\n\r\n")) as url:
        with trio.fail_after(5), pytest.raises(ConnectFailed, match=r"TLS with 127.0.0.1 failed"):
            await connect(url.replace("ws://", "wss://"))


async def test_the_openers_own_error_is_a_failed_connect() -> None:
    async def opener(url: str) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        raise RuntimeError("proxy says no")

    with pytest.raises(ConnectFailed, match="proxy says no"):
        async with open_socket("ws://x/y", "/y", [], open_stream=opener, connect_seconds=1):
            raise AssertionError("connected")


@for_each("how", ["fin", "rst", "1011", "garbage"])
async def test_an_abnormal_end_is_typed_and_leaks_nothing(how: str) -> None:
    async def talk(ws: trio_websocket.WebSocketConnection, stream: trio.SocketStream) -> None:
        await ws.send_message("last words")
        if how == "1011":
            await ws.aclose(1011, "oops")
        elif how == "rst":
            linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
            stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, linger)
        elif how == "garbage":
            await stream.send_all(b"\xff\xff\xff\xff")
            await trio.sleep(0.05)

    async with tcp_server(websocket_handler(talk)) as url:
        with trio.fail_after(2):
            async with open_socket(
                url, "/socket", [], open_stream=direct, connect_seconds=1
            ) as socket:
                with pytest.raises(SocketClosed) as caught:
                    while True:
                        await socket.receive()
                with pytest.raises(SocketClosed):
                    await socket.send("too late")
                await socket.close()  # nobody is there: no error
        assert caught.value.code == {"1011": 1011, "garbage": 1002}.get(how, 1006)


@case("C44")
async def test_leaving_by_an_error_is_quick_with_a_silent_peer() -> None:
    async def talk(ws: trio_websocket.WebSocketConnection, stream: trio.SocketStream) -> None:
        await trio.sleep_forever()

    async with tcp_server(websocket_handler(talk)) as url:
        with trio.fail_after(1), pytest.raises(KeyError, match="mine"):
            async with open_socket(url, "/socket", [], open_stream=direct, connect_seconds=1):
                raise KeyError("mine")
        with trio.move_on_after(0.05) as scope:
            async with open_socket(url, "/socket", [], open_stream=direct, connect_seconds=1):
                await trio.sleep_forever()
        assert scope.cancelled_caught


@attrs.define(eq=False)
class Deaf:
    """The server's end of a stream that keeps what comes in to itself, once it is told to."""

    inner: trio.SocketStream
    deaf: bool = False
    heard: bytearray = attrs.field(factory=bytearray)

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        while True:
            data = await self.inner.receive_some(max_bytes)
            if not self.deaf or not data:
                return data
            self.heard += data

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@case("C44")
async def test_a_goodbye_to_a_silent_peer_is_one_frame_and_bounded() -> None:
    ends: list[Deaf] = []

    async def handle(stream: trio.SocketStream) -> None:
        ends.append(Deaf(stream))
        async with trio.open_nursery() as nursery:
            request = await trio_websocket.wrap_server_stream(nursery, cast("Any", ends[0]))
            await request.accept()
            ends[0].deaf = True
            await trio.sleep_forever()

    async with tcp_server(handle) as url:
        with trio.fail_after(2):
            async with open_socket(
                url, "/socket", [], open_stream=direct, connect_seconds=1
            ) as socket:
                await trio.sleep(0.02)
                with trio.move_on_after(0.1) as scope:
                    await socket.close()
                assert scope.cancelled_caught
            await trio.sleep(0.02)
        (end,) = ends
        assert end.heard[0] == 0x88
        assert len(end.heard) == 8, "one close frame: head, mask, code"


async def test_opening_can_be_cancelled_at_every_step() -> None:
    """Cancel after n steps of the scheduler: the cancellation comes out, no stream stays open."""

    async def talk(ws: trio_websocket.WebSocketConnection, stream: trio.SocketStream) -> None:
        await trio.sleep_forever()

    opened: list[trio.abc.Stream] = []

    async def opener(url: str) -> trio.abc.Stream:
        client, server = trio.testing.memory_stream_pair()
        opened.append(client)
        nursery.start_soon(_serve_memory, server)
        await trio.lowlevel.checkpoint()
        return client

    connected = 0
    async with trio.open_nursery() as nursery:
        for steps in range(40):
            scope = trio.CancelScope()
            nursery.start_soon(_cancel_after, scope, steps)
            with scope:
                async with open_socket("ws://x/", "/", [], open_stream=opener, connect_seconds=1):
                    connected += 1
                    await trio.sleep_forever()
            assert scope.cancelled_caught
        nursery.cancel_scope.cancel()
    assert 0 < connected < 40
    for stream in opened[2:]:  # those of the first steps were cancelled inside the opener
        with pytest.raises(trio.ClosedResourceError):
            await stream.send_all(b"x")


async def _serve_memory(server: trio.abc.Stream) -> None:
    async with trio.open_nursery() as nursery:
        request = await trio_websocket.wrap_server_stream(nursery, server)
        await request.accept()


async def _cancel_after(scope: trio.CancelScope, steps: int) -> None:
    for _ in range(steps):
        await trio.lowlevel.checkpoint()
    scope.cancel()


# --------------------------------------------------------------------------- floods


def _frame(first: int, payload: bytes = b"") -> bytes:
    return bytes([first, len(payload)]) + payload


FLOODS = {
    "one-byte fragments": _frame(0x01, b"x") + _frame(0x00, b"x") * 1_200_000,
    "empty fragments": _frame(0x01) + _frame(0x00) * 1_000_000,
}


def flooding(flood: bytes) -> Handler:
    async def handle(stream: trio.SocketStream) -> None:
        async with trio.open_nursery() as nursery:
            request = await trio_websocket.wrap_server_stream(nursery, stream)
            await request.accept()
            with suppress(trio.BrokenResourceError):
                await stream.send_all(flood)
                await trio.sleep_forever()
            nursery.cancel_scope.cancel()
        await trio.aclose_forcefully(stream)

    return handle


@guarantee(86)
@case("C68")
@pytest.mark.parametrize("kind", FLOODS)
async def test_a_message_in_fragments_without_end_ends_the_socket(kind: str) -> None:
    gaps = Gaps()
    async with tcp_server(flooding(FLOODS[kind])) as url, trio.open_nursery() as nursery:
        nursery.start_soon(gaps.watch)
        with trio.fail_after(5), pytest.raises(SocketClosed, match="1024 fragments") as caught:
            async with open_socket(url, "/s", [], open_stream=direct, connect_seconds=2) as socket:
                await socket.receive()
        nursery.cancel_scope.cancel()
    assert caught.value.code is None
    assert gaps.longest < 0.1


@guarantee(86)
async def test_control_frames_without_end_leave_the_others_their_turn() -> None:
    gaps = Gaps()
    pongs = _frame(0x8A) * 60_000 + _frame(0x81, b"done")
    async with tcp_server(flooding(pongs)) as url, trio.open_nursery() as nursery:
        nursery.start_soon(gaps.watch)
        with trio.fail_after(30):
            async with open_socket(url, "/s", [], open_stream=direct, connect_seconds=2) as socket:
                assert await socket.receive() == "done"
        nursery.cancel_scope.cancel()
    assert gaps.longest < 0.1


@guarantee(86)
@for_each(
    "answer",
    [
        b"HTTP/1.1 403 No\r\nTransfer-Encoding: chunked\r\n\r\n" + b"10000\r\n" + b"x" * 2**20,
        b"HTTP/1.1 403 No\r\nContent-Length: 99999999\r\n\r\n" + b"x" * 2**20,
        b"HTTP/1.1 101 Go\r\nX: " + b"x" * 2**20,
    ],
    ids=["chunked", "announced", "a head"],
)
async def test_the_answer_to_the_upgrade_is_read_up_to_its_limit(answer: bytes) -> None:
    async with tcp_server(raw_handler(answer, 10)) as url:
        began = trio.current_time()
        with pytest.raises((UpgradeRefused, ConnectFailed)):
            await connect(url)
    assert trio.current_time() - began < 2

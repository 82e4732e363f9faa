"""Our transport against servers on loopback that behave, cut, trickle, flood and surprise."""

from __future__ import annotations

import traceback
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import pairwise

import httpx  # noqa: ASYNC127 - the interface that is tested
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from band_trio.link.dialler import dial
from band_trio.link.transport import HEAD_BYTES, IDLE_SECONDS, Transport
from tests.link.servers import Handler, ok, read_request, serving

KEY = "thnv_a_sesame"


@asynccontextmanager
async def client_of(
    handler: Handler, seconds: float = 2.0
) -> AsyncGenerator[tuple[httpx.AsyncClient, str]]:
    """Serve *handler*; yield a client over our transport, and the URL."""
    async with serving(handler) as port:
        url = f"http://127.0.0.1:{port}"
        transport = Transport(partial(dial, url, None, True), seconds)
        async with httpx.AsyncClient(transport=transport, timeout=None) as client:
            yield client, url


def answering(*answers: bytes) -> Handler:
    """Answer the requests of each connection with *answers*; the connection closes after them."""

    async def handle(stream: trio.abc.Stream) -> None:
        for answer in answers:
            if not await read_request(stream):
                return
            await stream.send_all(answer)

    return handle


class Counting:
    """A handler that counts its connections and requests, and answers all."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.connections = 0
        self.requests: list[bytes] = []

    async def __call__(self, stream: trio.abc.Stream) -> None:
        self.connections += 1
        while request := await read_request(stream):
            self.requests.append(request)
            await stream.send_all(self.answer)


# --------------------------------------------------------------------------- the usual


async def test_requests_reach_the_server_as_they_are_and_share_a_connection() -> None:
    server = Counting(ok())
    async with client_of(server) as (client, url):
        assert (await client.get(f"{url}/a%2Fb?x=1&y=%C3%A4")).json() == {"data": 1}
        assert (await client.post(f"{url}/p", json={"n": 1})).status_code == 200
    assert server.connections == 1
    assert server.requests[0].startswith(b"GET /a%2Fb?x=1&y=%C3%A4 HTTP/1.1\r\nHost: 127.0.0.1:")
    assert server.requests[1].endswith(b'\r\n\r\n{"n":1}')


@pytest.mark.parametrize(
    ("answer", "status", "body"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", 304, b""),
        (ok(b""), 200, b""),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"3;x=y\r\nabc\r\n1\r\nd\r\n0\r\nTrailer: t\r\n\r\n",
            200,
            b"abcd",
        ),
        (b"HTTP/1.1 100 Continue\r\nX: y\r\n\r\nHTTP/1.1 103 Hints\r\n\r\n" + ok(), 200, b'{"data": 1}'),
    ],
    ids=["204", "304", "empty", "chunked", "interim answers"],
)  # fmt: skip
@pytest.mark.parametrize("size", [1, 7, 10_000])
async def test_any_framing_in_pieces_of_any_size(
    answer: bytes, status: int, body: bytes, size: int
) -> None:
    async def handle(stream: trio.abc.Stream) -> None:
        while await read_request(stream):
            for at in range(0, len(answer), size):
                await stream.send_all(answer[at : at + size])

    async with client_of(handle) as (client, url):
        for _ in range(2):
            response = await client.get(url)
            assert (response.status_code, response.content) == (status, body)
            assert "x" not in response.headers
            assert "trailer" not in response.headers


async def test_a_body_may_end_with_the_connection() -> None:
    for head in (b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.0 200 OK\r\nX: y\r\n\r\n"):
        async with client_of(answering(head + b"some")) as (client, url):
            assert (await client.get(url)).content == b"some"


# --------------------------------------------------------------------------- connections


@pytest.mark.parametrize(
    "answer",
    [
        ok(more=b"Connection: close\r\n"),
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        ok() + ok(b"a surprise"),
        ok() + b"garbage",
        ok(more=b"Connection: close\r\n") + b"garbage",
    ],
    ids=["close", "1.0", "two answers", "garbage", "close and garbage"],
)
async def test_a_connection_is_not_used_again_when_it_cannot_be(answer: bytes) -> None:
    server = Counting(answer)
    async with client_of(server) as (client, url):
        for _ in range(3):
            response = await client.get(url)
            assert response.content in (b'{"data": 1}', b"ok")
    assert server.connections == 3


@pytest.mark.parametrize("how", ["closed", "a late surprise"])
async def test_a_connection_that_went_stale_is_noticed_before_it_is_used(how: str) -> None:
    connections = 0

    async def handle(stream: trio.abc.Stream) -> None:
        nonlocal connections
        connections += 1
        await read_request(stream)
        await stream.send_all(ok())
        if how != "closed":
            await trio.sleep(0.01)
            await stream.send_all(ok(b"not for you"))
            await read_request(stream)

    async with client_of(handle) as (client, url):
        for _ in range(3):
            assert (await client.post(url)).json() == {"data": 1}
            await trio.sleep(0.03)
    assert connections == 3


async def test_as_many_connections_as_requests_at_once_and_the_old_ones_go(
    mock_clock: trio.testing.MockClock,
) -> None:
    closed, server = 0, Counting(ok())
    all_here, release, three_closed = trio.Event(), trio.Event(), trio.Event()

    async def handle(stream: trio.abc.Stream) -> None:
        nonlocal closed
        server.connections += 1
        while await read_request(stream):
            if server.connections == 4:
                all_here.set()
            await release.wait()
            await stream.send_all(ok())
        closed += 1
        if closed == 3:
            three_closed.set()

    async with client_of(handle, 1e9) as (client, url):
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(client.get, url)
            await all_here.wait()
            release.set()
        mock_clock.jump(IDLE_SECONDS + 1)
        for _ in range(3):
            await client.get(url)
        assert server.connections == 4  # the one that was used last is used again
        await three_closed.wait()


async def test_a_cancelled_request_closes_its_connection() -> None:
    closed = trio.Event()

    async def handle(stream: trio.abc.Stream) -> None:
        await read_request(stream)
        await read_request(stream)
        closed.set()

    async with client_of(handle) as (client, url):
        with trio.move_on_after(0.02):
            await client.get(url)
        with trio.fail_after(2):
            await closed.wait()


async def test_a_body_that_is_not_read_to_its_end_closes_its_connection() -> None:
    server = Counting(ok(b"x" * 10**6))
    async with client_of(server) as (client, url):
        for _ in range(2):
            async with client.stream("GET", url):
                pass
    assert server.connections == 2


# --------------------------------------------------------------------------- faults


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"", "without an answer"),
        (b"HTTP/1.1 200 OK\r\nContent-", "in the middle"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "in the middle"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc", "in the middle"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc", "in the middle"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "no HTTP"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\na",
            "no HTTP",
        ),
        (b"HTTP/1.1 200 OK\r\nX: a\x00b\r\n\r\n", "no HTTP"),
        (b"HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", "changes the protocol"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 2 * HEAD_BYTES, "a head above"),
        (b"HTTP/1.1 102 Wait\r\n\r\n" * 8000, "a head above"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"x" * 2 * HEAD_BYTES,
            "chunks without content",
        ),
    ],
)
async def test_g87_what_is_no_answer_is_one_error_of_the_interface(
    answer: bytes, said: str
) -> None:
    async with client_of(answering(answer)) as (client, url):
        with trio.fail_after(5), pytest.raises(httpx.RemoteProtocolError, match=said):
            await client.get(url)


async def test_a_reset_is_an_error_of_the_interface() -> None:
    async def handle(stream: trio.abc.Stream) -> None:
        assert isinstance(stream, trio.SocketStream)
        await read_request(stream)
        stream.socket.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    async with client_of(handle) as (client, url):
        with pytest.raises(httpx.ReadError):
            await client.get(url)


async def test_an_answer_that_comes_before_the_request_was_read_counts() -> None:
    async def handle(stream: trio.abc.Stream) -> None:
        await stream.receive_some(10)
        await stream.send_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        assert isinstance(stream, trio.SocketStream)
        await stream.send_eof()
        await trio.sleep(0.05)

    async with client_of(handle) as (client, url):
        assert (await client.put(url, content=b"x" * 10**5)).status_code == 413


async def test_what_cannot_be_written_is_not_sent() -> None:
    server = Counting(ok())
    async with client_of(server) as (client, url):
        for value in ("a\nb", "a\rb", "a\0b"):
            request = httpx.Request("GET", url)
            request.headers = httpx.Headers([(b"x", value.encode())])
            with pytest.raises(httpx.LocalProtocolError):
                await client.send(request)
    assert server.connections == 0


async def test_g86_c68_tiny_chunks_cost_no_memory_and_a_bounded_time() -> None:
    size = 200_000
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * size
    async with client_of(answering(answer + b"0\r\n\r\n")) as (client, url):
        async with client.stream("GET", url) as response:
            parts = [part async for part in response.aiter_raw()]
    assert sum(map(len, parts)) == size
    assert len(parts) < size / 100


@given(data=st.binary(max_size=300), cuts=st.lists(st.integers(0, 300), max_size=4))
def test_g87_any_bytes_are_an_answer_or_an_error_of_the_interface(
    data: bytes, cuts: list[int]
) -> None:
    async def feed(stream: trio.abc.Stream) -> None:
        await read_request(stream)
        edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
        for start, end in pairwise(edges):
            await stream.send_all(data[start:end])

    async def main() -> None:
        async def pair() -> trio.abc.Stream:
            await trio.lowlevel.checkpoint()
            ours, theirs = trio.testing.memory_stream_pair()
            nursery.start_soon(serve, theirs)
            return ours

        async def serve(stream: trio.abc.Stream) -> None:
            with suppress(trio.BrokenResourceError):  # the client has read enough
                await feed(stream)
            await stream.aclose()

        async with trio.open_nursery() as nursery:
            transport = Transport(pair, 1)
            request = httpx.Request("GET", "http://h/")
            try:
                response = await transport.handle_async_request(request)
                await response.aread()
                assert response.status_code // 100 != 1  # an interim answer is none
            except httpx.TransportError:
                pass  # the other thing that may happen
            await transport.aclose()

    trio.run(main)


async def test_c60_a_traceback_with_locals_does_not_show_the_key() -> None:
    async with client_of(answering(b"nonsense")) as (client, url):
        try:
            await client.get(url, headers={"X-API-Key": KEY})
        except httpx.RemoteProtocolError as exc:
            frames = traceback.TracebackException.from_exception(exc, capture_locals=True).stack
            ours = [frame for frame in frames if "transport.py" in frame.filename]
            assert any("link" in frame.filename for frame in ours)
            assert KEY not in str([frame.locals for frame in ours if "link" in frame.filename])
        else:
            raise AssertionError("no error")

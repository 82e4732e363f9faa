"""Our transport against servers on loopback that behave, cut, trickle, flood and surprise."""

from __future__ import annotations

import traceback
import tracemalloc
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import pairwise

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from band_trio.link.net.dialler import DialError, dial
from band_trio.link.rest.exchange import CutOff, Reply, Unreached
from band_trio.link.rest.transport import HEAD_BYTES, IDLE_SECONDS, Transport
from tests.link.servers import Handler, ok, read_request, serving
from tests.marks import case, guarantee
from tests.support.for_each import for_each

KEY = "thnv_a_sesame"


@attrs.frozen
class Client:
    """Sends requests over our transport."""

    transport: Transport

    async def get(self, target: str = "/", limit: int = 10**7) -> Reply:
        return await self.transport.exchange("GET", target, {}, b"", limit)

    async def send(self, method: str, content: bytes = b"", **headers: str) -> Reply:
        return await self.transport.exchange(method, "/p", headers, content, 10**7)


@asynccontextmanager
async def client_of(handler: Handler, seconds: float = 2.0) -> AsyncGenerator[Client]:
    """Serve *handler*; yield a client."""
    async with serving(handler) as port:
        way = partial(dial, f"http://127.0.0.1:{port}", None, True)
        transport = Transport(f"127.0.0.1:{port}", {"X-API-Key": KEY}, way, seconds)
        try:
            yield Client(transport)
        finally:
            await transport.aclose()


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
    async with client_of(server) as client:
        assert (await client.get("/a%2Fb?x=1&y=%C3%A4")).body == b'{"data": 1}'
        assert (await client.send("POST", b'{"n":1}', x="y")).status == 200
        assert (await client.send("POST")).status == 200
    assert server.connections == 1
    first, second, third = server.requests
    assert first.startswith(b"GET /a%2Fb?x=1&y=%C3%A4 HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"Content-Length" not in first
    assert all(b"\r\nX-API-Key: thnv_a_sesame\r\n" in each for each in server.requests)
    assert second.endswith(b'\r\nx: y\r\nContent-Length: 7\r\n\r\n{"n":1}')
    assert third.endswith(b"\r\nContent-Length: 0\r\n\r\n")


@for_each(
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
@for_each("size", [1, 7, 10_000])
async def test_any_framing_in_pieces_of_any_size(
    answer: bytes, status: int, body: bytes, size: int
) -> None:
    async def handle(stream: trio.abc.Stream) -> None:
        while await read_request(stream):
            for at in range(0, len(answer), size):
                await stream.send_all(answer[at : at + size])

    async with client_of(handle) as client:
        for _ in range(2):
            reply = await client.get()
            assert (reply.status, reply.body, reply.flaw) == (status, body, "")
            assert reply.header("x") is None
            assert reply.header("trailer") is None


async def test_a_body_may_end_with_the_connection() -> None:
    for head in (b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.0 200 OK\r\nX: y\r\n\r\n"):
        async with client_of(answering(head + b"some")) as client:
            assert (await client.get()).body == b"some"


async def test_of_equal_headers_the_first_counts() -> None:
    answer = ok(more=b"Retry-After: 1\r\nRETRY-after: 2\r\nX: \xe4\r\n")
    async with client_of(answering(answer)) as client:
        reply = await client.get()
    assert (reply.header("retry-after"), reply.header("x"), reply.header("y")) == ("1", "ä", None)


# --------------------------------------------------------------------------- connections


@for_each(
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
    async with client_of(server) as client:
        for _ in range(3):
            assert (await client.get()).body in (b'{"data": 1}', b"ok")
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

    async with client_of(handle) as client:
        for _ in range(3):
            assert (await client.send("POST")).body == b'{"data": 1}'
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

    async with client_of(handle, 1e9) as client:
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(client.get)
            await all_here.wait()
            release.set()
        mock_clock.jump(IDLE_SECONDS + 1)
        for _ in range(3):
            await client.get()
        assert server.connections == 4  # the one that was used last is used again
        await three_closed.wait()


async def test_a_cancelled_request_closes_its_connection() -> None:
    closed = trio.Event()

    async def handle(stream: trio.abc.Stream) -> None:
        await read_request(stream)
        await read_request(stream)
        closed.set()

    async with client_of(handle) as client:
        with trio.move_on_after(0.02):
            await client.get()
        with trio.fail_after(2):
            await closed.wait()


@guarantee(86)
@case("C68")
@for_each(
    ("answer", "flaw", "connections"),
    [
        (ok(b"x" * 1000), "", 1),
        (ok(b"x" * 1001), "1001 bytes where 1000 are the limit", 1),
        (ok(b"x" * 10**6), "1000000 bytes where 1000 are the limit", 2),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
         + b"3e9\r\n" + b"x" * 1001 + b"\r\n0\r\n\r\n", "it is longer than 1000 bytes", 1),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 10**6, "it is longer than 1000 bytes", 2),
        (ok(more=b"Content-Encoding: gzip\r\n"),
         "a content coding that was not asked for (gzip)", 1),
        (ok(b"x" * 10**6, b"content-encoding: br\r\n"),
         "a content coding that was not asked for (br)", 2),
        (ok(more=b"Content-Encoding: Identity\r\n"), "", 1),
    ],
    ids=["within", "announced", "much", "chunks", "no length", "coded", "much coded", "identity"],
)  # fmt: skip
async def test_a_body_is_read_up_to_its_limit_and_what_is_left_goes_with_its_connection(
    answer: bytes, flaw: str, connections: int
) -> None:
    server = Counting(answer)
    async with client_of(server) as client:
        for _ in range(2):
            reply = await client.get(limit=1000)
            assert (reply.status, reply.flaw) == (200, flaw)
            assert bool(reply.body) is not bool(flaw)
    assert server.connections == connections


# --------------------------------------------------------------------------- faults


@guarantee(87)
@for_each(
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
async def test_what_is_no_answer_is_one_error(answer: bytes, said: str) -> None:
    async with client_of(answering(answer)) as client:
        with trio.fail_after(5), pytest.raises(CutOff, match=said):
            await client.get()


async def test_a_reset_is_the_same_error() -> None:
    async def handle(stream: trio.abc.Stream) -> None:
        assert isinstance(stream, trio.SocketStream)
        await read_request(stream)
        stream.socket.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    async with client_of(handle) as client:
        with pytest.raises(CutOff, match="reset"):
            await client.get()


async def test_what_cannot_be_reached_in_time_was_not_sent(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def refused() -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        raise DialError("refused")

    for way, said in ((refused, "refused"), (trio.sleep_forever, "no connection in time")):
        with pytest.raises(Unreached, match=said):
            await Client(Transport("h", {}, way, 3)).get()


async def test_an_answer_that_comes_before_the_request_was_read_counts() -> None:
    async def handle(stream: trio.abc.Stream) -> None:
        await stream.receive_some(10)
        await stream.send_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        assert isinstance(stream, trio.SocketStream)
        await stream.send_eof()
        await trio.sleep(0.05)

    async with client_of(handle) as client:
        assert (await client.send("PUT", b"x" * 10**5)).status == 413


@guarantee(86)
@case("C68")
async def test_tiny_chunks_cost_no_memory_and_a_bounded_time() -> None:
    size = 200_000
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"2\r\nxy\r\n" * size
    async with client_of(answering(answer + b"0\r\n\r\n")) as client:
        await client.get(limit=1)
        with trio.fail_after(5):
            tracemalloc.start()
            reply = await client.get()
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    assert reply.body == b"xy" * size
    assert peak < 10 * size


@guarantee(87)
@given(data=st.binary(max_size=300), cuts=st.lists(st.integers(0, 300), max_size=4))
def test_any_bytes_are_an_answer_or_that_error(data: bytes, cuts: list[int]) -> None:
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
            transport = Transport("h", {}, pair, 1)
            with suppress(CutOff):  # the other thing that may happen
                reply = await transport.exchange("GET", "/", {}, b"", 100)
                assert reply.status // 100 != 1  # an interim answer is none
            await transport.aclose()

    trio.run(main)


@case("C60")
async def test_a_traceback_with_locals_does_not_show_the_key() -> None:
    async with client_of(answering(b"nonsense")) as client:
        try:
            await client.get()
        except CutOff as exc:
            frames = traceback.TracebackException.from_exception(exc, capture_locals=True).stack
            ours = [frame for frame in frames if "transport.py" in frame.filename]
            assert any("link" in frame.filename for frame in ours)
            assert KEY not in str([frame.locals for frame in ours if "link" in frame.filename])
        else:
            raise AssertionError("no error")

"""The stream over TCP is what trio's is."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from band_trio.link.net.tcp import TcpStream


@asynccontextmanager
async def pair() -> AsyncGenerator[tuple[TcpStream, trio.SocketStream]]:
    """Connect one of ours with one of trio's."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        port = listener.socket.getsockname()[1]
        ours = TcpStream(await trio.open_tcp_stream("127.0.0.1", port))
        theirs = await listener.accept()
    async with ours, theirs:
        yield ours, theirs


async def test_any_amount_goes_both_ways() -> None:
    data = bytes(range(256)) * 40_000
    async with pair() as (ours, theirs):
        for one, other in ((ours, theirs), (theirs, ours)):
            got = bytearray()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(one.send_all, memoryview(data))
                while len(got) < len(data):
                    got += await other.receive_some(10**6)
            assert got == data
        await theirs.send_eof()
        assert await ours.receive_some() == b""


async def test_sending_a_little_is_no_step_of_the_scheduler_and_reading_is_one() -> None:
    async with pair() as (ours, theirs):
        others = trio.Event()

        async def other() -> None:
            others.set()
            await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
            await ours.send_all(b"x")
            assert not others.is_set()
        await theirs.send_all(b"abc")
        with trio.testing.assert_checkpoints():
            assert await ours.receive_some(2) == b"ab"


async def test_what_is_cancelled_sends_and_reads_nothing() -> None:
    async with pair() as (ours, theirs):
        await theirs.send_all(b"for later")
        with trio.CancelScope() as scope:
            scope.cancel()
            await ours.send_all(b"x")
        with trio.CancelScope() as other:
            other.cancel()
            await ours.receive_some()
        assert scope.cancelled_caught
        assert other.cancelled_caught
        assert await ours.receive_some() == b"for later"
        await ours.send_all(b"y")
        assert await theirs.receive_some() == b"y"


async def test_it_fails_as_the_stream_of_trio_does() -> None:
    async with pair() as (ours, theirs):
        theirs.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        await theirs.aclose()
        with pytest.raises(trio.BrokenResourceError):
            await ours.receive_some()
        with pytest.raises(trio.BrokenResourceError):
            await ours.send_all(b"x")
    with pytest.raises(trio.ClosedResourceError):
        await ours.receive_some()
    with pytest.raises(trio.ClosedResourceError):
        await ours.send_all(b"x")


async def test_who_reads_hears_of_a_close() -> None:
    async with pair() as (ours, _), trio.open_nursery() as nursery:
        nursery.start_soon(_reads_what_is_closed, ours)
        await trio.testing.wait_all_tasks_blocked()
        await ours.aclose()


async def _reads_what_is_closed(stream: TcpStream) -> None:
    with pytest.raises(trio.ClosedResourceError):
        await stream.receive_some()

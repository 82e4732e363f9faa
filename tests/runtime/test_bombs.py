"""Answers without end, and packed ones: what they cost the agent that gets them (C68).

A front stands between the agent, a process of its own, and the platform. It passes requests on,
each over a connection of its own, and answers those of one room with a bomb.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import attrs
import pytest
import trio

from band_trio.localband import LocalAgent, LocalBand, LocalRoom, open_local_band
from tests.link.servers import read_request, serving
from tests.marks import case, guarantee

MIB: Final = 2**20
PART: Final = b" " * 2**16
HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
PACKED: Final = gzip.compress(gzip.compress(b" " * 10 * MIB) * 100)
"""Unpacks to 1000 MiB: what is packed piece by piece may be joined."""


@attrs.frozen
class Bomb:
    """What is answered to the requests of its room whose line matches."""

    request: str
    head: bytes
    part: bytes = PART
    parts: int = 2**15
    """Two GiB of the usual parts."""


_CHUNK: Final = b"10000\r\n" + PART + b"\r\n"
_CLAIM: Final = r"POST .*/processing "
BOMBS: Final = {
    "claim, announced": Bomb(_CLAIM, HEAD + b"Content-Length: 2147483648\r\n\r\n"),
    "claim, until the end": Bomb(_CLAIM, HEAD + b"\r\n"),
    "claim, packed twice": Bomb(
        _CLAIM,
        HEAD + b"Content-Encoding: gzip, gzip\r\nContent-Length: %d\r\n\r\n" % len(PACKED),
        PACKED,
        1,
    ),
    "mark, chunked": Bomb(
        r"POST .*/processed ", HEAD + b"Transfer-Encoding: chunked\r\n\r\n", _CHUNK
    ),
    "reads, chunked": Bomb(
        r"GET .*/(messages|context|participants)",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n",
        _CHUNK,
    ),
    "an error": Bomb(_CLAIM, b"HTTP/1.1 500 Oops\r\n\r\n"),
    "a file of ten bytes": Bomb(r"GET .*/files/bomb ", HEAD + b"\r\n"),
}


@attrs.define(eq=False)
class Front:
    """Passes requests on to the platform at *port*, except those of *room*."""

    port: int
    room: str = ""
    bomb: Bomb | None = None
    thrown: trio.Event = attrs.field(factory=trio.Event)

    async def handle(self, stream: trio.abc.Stream) -> None:
        if request := await read_request(stream):
            line = request.split(b"\r\n", 1)[0].decode()
            bomb = self.bomb
            if bomb is None or self.room not in line or not re.match(bomb.request, line):
                await stream.send_all(await self._forward(request))
                return
            if line.startswith("POST") and b"200 OK" in bomb.head:
                await self._forward(request)  # it is the answer that is a bomb
            self.thrown.set()
            await stream.send_all(bomb.head)
            for _ in range(bomb.parts):
                await stream.send_all(bomb.part)
            return

    async def _forward(self, request: bytes) -> bytes:
        head, _, body = request.partition(b"\r\n\r\n")
        async with await trio.open_tcp_stream("127.0.0.1", self.port) as onward:
            await onward.send_all(head + b"\r\nConnection: close\r\n\r\n" + body)
            return b"".join([data async for data in onward])


@attrs.define(eq=False)
class Program:
    process: trio.Process

    async def figures(self) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        await self.process.stdin.send_all(b"\n")
        line = b""
        while not line.endswith(b"\n"):
            line += await self.process.stdout.receive_some()
        answer: dict[str, Any] = json.loads(line)
        return answer


@asynccontextmanager
async def bombed(band: LocalBand, echo: LocalAgent) -> AsyncGenerator[tuple[Front, Program]]:
    front = Front(urlsplit(band.rest_url).port or 0)
    connection = band.connection(echo)
    del connection["config"]
    async with serving(front.handle) as port:
        connection["rest_url"] = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "tests.runtime.bombed_agent", json.dumps(connection)]
        pipe = subprocess.PIPE
        process = await trio.lowlevel.open_process(command, stdin=pipe, stdout=pipe)
        try:
            yield front, Program(process)
        finally:
            process.kill()
            with trio.move_on_after(5, shield=True):
                await process.wait()
            for end in (process.stdin, process.stdout):
                assert end is not None
                await trio.aclose_forcefully(end)


@guarantee(86)
@case("C68")
@pytest.mark.slow
async def test_a_bomb_costs_little_memory_no_time_and_no_other_room() -> None:
    with trio.fail_after(60):
        async with open_local_band() as band:
            echo = band.register_agent("Echo")
            other = await band.user.create_room(members=[echo])
            async with bombed(band, echo) as (front, program):
                await settle(band, echo, other, "warm up")
                first = await program.figures()
                for name, bomb in BOMBS.items():
                    room = await band.user.create_room(members=[echo])
                    if bomb.request.startswith("POST"):
                        await settle(band, echo, room, "warm up")
                    before = await program.figures()
                    front.room, front.bomb, front.thrown = room.id, bomb, trio.Event()
                    message = await band.user.send(room, "file", mentions=[echo])
                    await front.thrown.wait()
                    began = trio.current_time()
                    await settle(band, echo, other, "next")
                    assert trio.current_time() - began < 1, name
                    await trio.sleep(0.3)
                    figures = await program.figures()
                    assert figures["longest"] < 0.1, (name, figures)
                    assert figures["peak"] - before["peak"] < 16 * MIB, (name, figures)
                    front.bomb = None
                    await settled(band, echo, message)
                last = await program.figures()
                assert last["peak"] - first["peak"] < 16 * MIB


async def settle(band: LocalBand, echo: LocalAgent, room: LocalRoom, text: str) -> None:
    """Send a message, and wait until it is processed."""
    await settled(band, echo, await band.user.send(room, text, mentions=[echo]))


async def settled(band: LocalBand, echo: LocalAgent, message: str) -> None:
    await band.until(lambda: band.state(message, echo) == "processed")

"""What clients may cost the platform: bodies, heads, frames, and what waits for slow readers."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs
import httpx  # noqa: ASYNC127 - a client that is not ours
import pytest
import trio

from band_trio.config.agent import AgentConfig
from band_trio.config.endpoints import SOCKET_PATH, resolve_endpoints
from band_trio.localband import LocalAgent, LocalBand, memory, server, sockets
from band_trio.localband.outbox import OUTBOX_BYTES
from band_trio.localband.records import RequestRecord, SocketRecord
from band_trio.localband.routes import JSON_BYTES
from tests.localband.kit import open_rest, open_socket, refused
from tests.marks import case, guarantee
from tests.support.for_each import for_each

MIB = 1024 * 1024
HUGE = 600_000_000


# --------------------------------------------------------------------------- bodies


@attrs.define(eq=False)
class Body(httpx.AsyncByteStream):
    """A body that counts what was taken of it; it breaks off after *good* parts."""

    parts: int = 10_000
    good: int = 10_000
    taken: int = 0

    def __aiter__(self) -> Body:
        return self

    async def __anext__(self) -> bytes:
        await trio.lowlevel.checkpoint()
        if self.taken == self.good:
            raise ConnectionError("the disk is gone")
        if self.taken == self.parts:
            raise StopAsyncIteration
        self.taken += 1
        return b"x" * 65_536

    async def send(self, http: httpx.AsyncClient, method: str, url: str, **headers: str) -> Any:
        """Send it; through `content=` httpx would hide that nobody took it."""
        headers = {**http.headers, "host": "x", "transfer-encoding": "chunked", **headers}
        return await http.send(httpx.Request(method, url, headers=headers, stream=self))


# Who asks, for what, what is announced → the refusal.
NOT_READ = [
    (None, "POST", "/agent/chats", "5", 401, "unauthorized"),
    (None, "POST", "/agent/chats", str(HUGE), 401, "unauthorized"),
    (None, "PUT", "/nowhere", str(HUGE), 401, "unauthorized"),
    (None, "GET", "/agent/nothing/here", "0", 401, "unauthorized"),
    ("wrong", "POST", "/me/chats", str(HUGE), 401, "unauthorized"),
    ("person", "POST", "/agent/chats", str(HUGE), 403, "forbidden"),
    ("agent", "PUT", "/nowhere", str(HUGE), 404, "not_found"),
    ("agent", "PUT", "/agent/chats", str(HUGE), 405, "method_not_allowed"),
    ("agent", "POST", "/agent/chats", str(HUGE), 413, "payload_too_large"),
    ("agent", "GET", "/agent/me", "9" * 19, 413, "payload_too_large"),
]


def key_of(band: LocalBand, who: str | None) -> str | None:
    keys = {"person": band.user_key, "wrong": "thnv_a_wrong"}
    return None if who is None else keys.get(who) or band.register_agent("Scribe").api_key


@guarantee(86)
@case("C68")
@for_each(("who", "method", "path", "length", "status", "code"), NOT_READ)
async def test_nothing_is_read_of_a_body_that_is_not_wanted(
    memory_band: LocalBand,
    who: str | None,
    method: str,
    path: str,
    length: str,
    status: int,
    code: str,
) -> None:
    key, body = key_of(memory_band, who), Body()
    async with httpx.AsyncClient(
        transport=AgentConfig(**memory_band._transports).rest_transport
    ) as http:
        headers = {"content-length": length} | ({"x-api-key": key} if key else {})
        answer = await body.send(http, method, f"{memory_band.rest_url}/api/v1{path}", **headers)
    refused(answer, status, code)
    assert body.taken == 0


@guarantee(86)
@case("C68")
@for_each(("who", "method", "path", "length", "status", "code"), NOT_READ)
async def test_the_answer_does_not_wait_for_the_body(
    loopback_band: LocalBand,
    who: str | None,
    method: str,
    path: str,
    length: str,
    status: int,
    code: str,
) -> None:
    key = key_of(loopback_band, who)
    async with dial(loopback_band) as stream:
        head = f"{method} /api/v1{path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n"
        await stream.send_all(f"{head}{f'x-api-key: {key}' if key else 'x: y'}\r\n\r\n".encode())
        with trio.fail_after(1):
            answer = await read_answer(stream)
    assert answer.status == status
    assert answer.body["error"]["code"] == code
    # What is short is discarded and the connection goes on.
    assert ("connection: close" in answer.head) is (int(length) > MIB)


@asynccontextmanager
async def dial(band: LocalBand) -> AsyncGenerator[trio.SocketStream]:
    stream = await trio.open_tcp_stream("127.0.0.1", urlsplit(band.rest_url).port or 0)
    async with stream:
        yield stream


@attrs.frozen
class Answered:
    status: int
    head: str
    body: Any


async def read_answer(stream: trio.abc.ReceiveStream) -> Answered:
    data = b""
    while True:
        head, gap, body = data.partition(b"\r\n\r\n")
        lines = head.decode().lower().splitlines()
        length = next((int(row.split(":")[1]) for row in lines if "content-length" in row), 0)
        if gap and len(body) >= length:
            assert len(body) == length
            return Answered(int(lines[0].split()[1]), "\n".join(lines), json.loads(body or b"0"))
        more = await stream.receive_some()
        assert more, data
        data += more


async def test_a_short_body_that_is_not_wanted_does_not_end_the_connection(
    loopback_band: LocalBand,
) -> None:
    async with dial(loopback_band) as stream:
        for _ in range(3):
            head = b"POST /api/v1/agent/chats HTTP/1.1\r\nHost: x\r\nContent-Length: 70000\r\n\r\n"
            await stream.send_all(head)
            assert (await read_answer(stream)).status == 401
            await stream.send_all(b"x" * 70_000)


@guarantee(86)
async def test_a_body_is_counted_while_it_is_read(band: LocalBand) -> None:
    agent, body = band.register_agent("Scribe"), Body()
    async with open_rest(band, agent) as rest:
        with suppress(httpx.WriteError):  # it goes on sending, as most clients do
            answer = await body.send(rest.http, "POST", f"{band.rest_url}/api/v1/agent/chats")
            error = refused(answer, 413, "payload_too_large")
            assert str(JSON_BYTES) in error["message"]
        assert body.taken < 500
    assert band.world.rooms == {}


async def test_the_largest_message_fits_however_it_is_escaped(memory_band: LocalBand) -> None:
    agent = memory_band.register_agent("Scribe")
    room = await memory_band.user.create_room(None, [agent])
    message = {"content": "PLACE", "mentions": [{"id": memory_band.user.id}]}
    body = json.dumps({"message": message}).replace("PLACE", "\\u0078" * 524_200)
    async with open_rest(memory_band, agent) as rest:
        url = f"/api/v1/agent/chats/{room.id}/messages"
        answer = await rest.http.post(url, content=body.encode())
    assert answer.status_code == 201, answer.text[:300]


async def test_a_body_that_breaks_off_asks_for_nothing(band: LocalBand) -> None:
    agent = band.register_agent("Scribe")
    async with open_rest(band, agent) as rest:
        with pytest.raises(ConnectionError):
            await Body(good=2).send(rest.http, "POST", f"{band.rest_url}/api/v1/agent/chats")
        await rest.data("GET", "/agent/me")
    assert [row.route for row in band.log.of(RequestRecord)] == ["me"]


async def test_what_is_noted_of_a_request_is_short(band: LocalBand) -> None:
    async with open_rest(band) as rest:
        refused(
            await rest("GET", f"/agent/{'x' * 9_000}?{'y' * 900}", key="no"), 401, "unauthorized"
        )
    [row] = band.log.requests()
    assert len(row.path) == 500


# --------------------------------------------------------------------------- one port, odd heads


async def test_rest_and_sockets_share_a_port(loopback_band: LocalBand) -> None:  # noqa: ASYNC124 - a fixture of trio
    assert resolve_endpoints(loopback_band.rest_url).ws_url == loopback_band.ws_url


ASKS = f"GET {SOCKET_PATH}?vsn=2.0.0&agent_id="
UPGRADE = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)


@for_each(
    "head",
    [
        f"{ASKS}x HTTP/1.1\r\nHost: xn--a\r\n{UPGRADE}\r\n",
        f"{ASKS}x HTTP/1.1\r\nHost: a\r\n{UPGRADE}\r\nGET / HTTP/1.1\r\n\r\n",
        f"{ASKS}x HTTP/1.1\r\n\r\n",
        f"{ASKS}x HTTP/1.1\r\nHost: a\r\n\r\n",
        f"{ASKS}x\r\n\r\n",
        f"GET /elsewhere HTTP/1.1\r\nHost: a\r\n{UPGRADE}\r\n",
        f"GET /{'x' * 70_000} HTTP/1.1\r\nHost: a\r\n\r\n",
        "\r\n\r\n\r\n",
        "\x16\x03\x01\x02\n",
        "no newline",
    ],
)
async def test_no_head_ends_the_platform(
    loopback_band: LocalBand, head: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.05)
    monkeypatch.setattr(sockets, "UPGRADE_SECONDS", 0.05)
    with trio.fail_after(5):
        async with dial(loopback_band) as stream:
            await stream.send_all(head.encode())
            with suppress(trio.BrokenResourceError):
                while await stream.receive_some():
                    pass
        async with open_rest(loopback_band, loopback_band.register_agent("Scribe")) as rest:
            await rest.data("GET", "/agent/me")


# --------------------------------------------------------------------------- sockets


def frame(opcode: int, data: bytes, *, last: bool) -> bytes:
    """Return a frame of a client, masked with zeros."""
    size = bytes([128 | len(data)]) if len(data) < 126 else b"\xfe" + struct.pack("!H", len(data))
    return bytes([128 * last | opcode]) + size + b"\0\0\0\0" + data


def upgrade(agent: LocalAgent, more: str = "") -> bytes:
    head = f"{ASKS}{agent.id} HTTP/1.1\r\nHost: x\r\nx-api-key: {agent.api_key}\r\n"
    return f"{head}{more}{UPGRADE}\r\n".encode()


@asynccontextmanager
async def open_bytes(
    band: LocalBand, agent: LocalAgent, more: str = ""
) -> AsyncGenerator[trio.abc.Stream]:
    """Open a socket as an agent, and hand over its bytes."""
    open_stream = AgentConfig(**band._transports).open_stream
    if open_stream is None:
        open_stream = partial(_dial_for, band)
    stream = await open_stream(band.ws_url)
    await stream.send_all(upgrade(agent, more))
    data = b""
    while b"\r\n\r\n" not in data:
        data += await stream.receive_some()
    assert data.startswith(b"HTTP/1.1 101"), data
    assert b"extensions" not in data.lower()
    try:
        yield stream
    finally:
        await trio.aclose_forcefully(stream)


async def _dial_for(band: LocalBand, url: str) -> trio.abc.Stream:
    return await trio.open_tcp_stream("127.0.0.1", urlsplit(url).port or 0)


def ends(band: LocalBand) -> list[str]:
    return [row.detail for row in band.log.of(SocketRecord) if row.what == "ended"]


@guarantee(86)
@for_each("part", [b"x" * 1000, b"xy", b""])
async def test_a_message_has_a_limit_in_all_its_fragments(
    band: LocalBand, part: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "MESSAGE_CHARS", 2_000)
    monkeypatch.setattr(sockets, "UNHEARD_BYTES", 20_000)
    agent, before = band.register_agent("Scribe"), len(ends(band))
    unit = frame(0, part, last=False) * (4_000 // (len(part) + 6))
    async with open_bytes(band, agent) as stream:
        with trio.fail_after(5), suppress(trio.BrokenResourceError):
            await stream.send_all(frame(1, b"x", last=False))
            for _ in range(12):  # 48 000 bytes
                await stream.send_all(unit)
            while await stream.receive_some():
                pass
    await band.until(lambda: band.session(agent) is None)
    assert ends(band).pop() == "peer gone"
    assert len(ends(band)) == before + 1


async def test_whole_messages_are_no_flood(
    band: LocalBand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "UNHEARD_BYTES", 500)
    agent = band.register_agent("Scribe")
    async with open_socket(band, agent) as socket:
        for _ in range(40):
            assert (await socket.heartbeat())[3] == "phx_reply"


async def test_no_compression_is_agreed_on(band: LocalBand) -> None:
    agent = band.register_agent("Scribe")
    offer = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n"
    async with open_bytes(band, agent, offer):
        pass  # `open_bytes` looks at the answer


@guarantee(86)
@pytest.mark.slow
async def test_what_waits_for_a_deaf_client_is_bounded(memory_band: LocalBand) -> None:
    agent = memory_band.register_agent("Scribe")
    room = await memory_band.user.create_room(None, [agent])
    async with open_bytes(memory_band, agent) as stream:
        await stream.send_all(
            frame(
                1,
                json.dumps(["1", "1", f"chat_room:{room.id}", "phx_join", {}]).encode(),
                last=True,
            )
        )
        session = memory_band.session(agent)
        assert session is not None
        await memory_band.until(lambda: bool(session.joined))
        for _ in range(2 * OUTBOX_BYTES // 500_000):
            await memory_band.user.send(room, "x" * 500_000, [agent])
            assert session.outbox._bytes <= OUTBOX_BYTES
        assert session.ending == "too slow"
        assert session.outbox._bytes == 0
        assert isinstance(stream, memory.MemoryStream)
        assert stream.unread < memory.PIPE_BYTES + 600_000
        await memory_band.until(lambda: memory_band.session(agent) is None)
    # It is a hint that was lost: all are listed.
    assert len(memory_band.unprocessed(agent)) == 2 * OUTBOX_BYTES // 500_000


# --------------------------------------------------------------------------- measured


@attrs.frozen
class Measured:
    """A platform in a process of its own."""

    process: trio.Process
    about: dict[str, Any]

    @property
    def port(self) -> int:
        return urlsplit(self.about["rest"]).port or 0

    async def take(self) -> dict[str, Any]:
        """Return what it cost since the last time."""
        assert self.process.stdin is not None
        await self.process.stdin.send_all(b"\n")
        return await line_of(self.process)


async def line_of(process: trio.Process) -> dict[str, Any]:
    assert process.stdout is not None
    data = b""
    while not data.endswith(b"\n"):
        more = await process.stdout.receive_some()
        assert more, "the platform has ended"
        data += more
    found: dict[str, Any] = json.loads(data)
    return found


@pytest.fixture
async def measured() -> AsyncGenerator[Measured]:
    """One platform for all bombs: each is counted from what is used when it begins."""
    command = [sys.executable, "-m", "tests.localband.limits_program"]
    pipe = subprocess.PIPE
    process = await trio.lowlevel.open_process(
        command, stdin=pipe, stdout=pipe, cwd=Path(__file__).parents[2]
    )
    try:
        yield Measured(process, await line_of(process))
    finally:
        process.kill()
        with trio.move_on_after(5, shield=True):
            await process.wait()
            for stream in (process.stdin, process.stdout):
                assert stream is not None
                await stream.aclose()


def post(about: dict[str, Any], *, key: bool, chunked: bool) -> bytes:
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {HUGE}"
    who = f"x-api-key: {about['key']}\r\n" if key else ""
    return f"POST /api/v1/agent/chats HTTP/1.1\r\nHost: x\r\n{who}{length}\r\n\r\n".encode()


def asking(about: dict[str, Any], *, key: bool = True, more: str = "") -> bytes:
    agent = LocalAgent(about["id"], "", "", "", about["key"] if key else "no")
    return upgrade(agent, more)


PLAIN, CHUNK = b"x" * 65_536, b"10000\r\n" + b"x" * 65_536 + b"\r\n"
FEW = frame(1, b"x", last=False)
packing = partial(asking, more="Sec-WebSocket-Extensions: permessage-deflate\r\n")
SOCKETS = (asking, packing)


@guarantee(86)
@case("C68")
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read from /proc")
@for_each(
    ("head", "block", "total"),
    [
        pytest.param(partial(post, key=False, chunked=False), PLAIN, HUGE, id="no-key"),
        pytest.param(partial(post, key=False, chunked=True), CHUNK, HUGE, id="no-key-chunked"),
        pytest.param(partial(post, key=True, chunked=False), PLAIN, HUGE, id="announced"),
        pytest.param(partial(post, key=True, chunked=True), CHUNK, HUGE, id="chunked"),
        pytest.param(
            partial(post, key=True, chunked=True),
            b"1\r\nx\r\n" * 9_000,
            200_000,
            id="one-byte-chunks",
        ),
        pytest.param(
            partial(asking, key=False, more=f"Content-Length: {HUGE}\r\n"),
            PLAIN,
            HUGE,
            id="upgrade",
        ),
        pytest.param(
            asking, frame(0, b"x", last=False) * 9_000, 3_600_000, id="one-byte-fragments"
        ),
        pytest.param(asking, frame(0, b"", last=False) * 9_000, 3_600_000, id="empty-fragments"),
        pytest.param(asking, frame(0, b"x" * 60_000, last=False), HUGE, id="large-message"),
        pytest.param(packing, b"\xc1\xfe\xff\xff\0\0\0\0" + PLAIN[:-1], HUGE, id="deflate"),
    ],
)
async def test_a_bomb_costs_little(measured: Measured, head: Any, block: bytes, total: int) -> None:
    with trio.fail_after(60):
        await is_well(measured)
        await measured.take()
        before = (await measured.take())["peak"]
        async with await trio.open_tcp_stream("127.0.0.1", measured.port) as stream:
            await stream.send_all(head(measured.about))
            if head in SOCKETS:  # what comes before the answer ends it: no frame would be read
                assert (await stream.receive_some()).startswith(b"HTTP/1.1 101")
            begun = [FEW] if head is asking else []
            await flood(stream, [*begun, *[block] * (total // len(block))])
            cost = await measured.take()
        await is_well(measured)
    assert cost["peak"] - before < 16 * MIB
    assert cost["longest"] < 0.1


async def flood(stream: trio.SocketStream, blocks: list[bytes]) -> None:
    """Send until the platform has enough."""
    with suppress(trio.BrokenResourceError):
        for block in blocks:
            await stream.send_all(block)


async def is_well(platform: Measured) -> None:
    about = platform.about
    async with httpx.AsyncClient(headers={"x-api-key": about["key"]}) as http:
        assert (await http.get(f"{about['rest']}/api/v1/agent/me")).is_success

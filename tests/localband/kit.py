"""Clients for the tests of the platform: plain httpx and trio-websocket, on either face."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import attrs
import httpx  # noqa: ASYNC127 - a client that is not ours
import trio
import trio_websocket

from band_trio.config.agent import AgentConfig
from band_trio.config.credentials import Credentials
from band_trio.config.endpoints import Endpoints
from band_trio.kit.nurseries import hide_nursery
from band_trio.link.rest.api import open_api
from band_trio.link.rest.rest import RestClient
from band_trio.localband import LocalAgent, LocalBand, LocalRoom, LocalUser
from band_trio.protocol import codec
from band_trio.tools.agent_tools import AgentTools


@attrs.frozen
class Rest:
    """A REST client with one key; paths are relative to `/api/v1`."""

    http: httpx.AsyncClient

    async def __call__(
        self, method: str, path: str, json: Any = None, *, key: str | None = None
    ) -> httpx.Response:
        headers = {"x-api-key": key} if key is not None else None
        content = codec.dumps(json) if json is not None else None
        return await self.http.request(method, f"/api/v1{path}", content=content, headers=headers)

    async def data(self, method: str, path: str, json: Any = None) -> Any:
        """Return `data` of an answer that must be good."""
        answer = await self(method, path, json)
        assert answer.is_success, answer.text
        return answer.json()["data"] if answer.status_code != 204 else None


def transports(band: LocalBand, agent: LocalAgent) -> AgentConfig:
    config: AgentConfig = band.connection(agent)["config"]
    return config


@asynccontextmanager
async def open_rest(
    band: LocalBand, agent: LocalAgent | LocalUser | None = None
) -> AsyncGenerator[Rest]:
    """Open a client of an agent or a person; of the platform's first person by default."""
    key = agent.api_key if agent is not None else band.user_key
    transport = AgentConfig(**band._transports).rest_transport
    async with httpx.AsyncClient(
        base_url=band.rest_url, headers={"x-api-key": key}, transport=transport, timeout=5
    ) as http:
        yield Rest(http)


@asynccontextmanager
async def open_tools(
    band: LocalBand, agent: LocalAgent, room: LocalRoom, *, key: str | None = None
) -> AsyncGenerator[AgentTools]:
    """The real tools of one turn, over the real REST client."""
    endpoints = Endpoints(band.rest_url, band.ws_url)
    credentials = Credentials(agent.id, key or agent.api_key)
    async with open_api(endpoints, credentials, transports(band, agent)) as api:
        yield AgentTools(
            room.id, RestClient(api), await band.user.participants(room), agent_id=agent.id
        )


class Refused(Exception):
    """The upgrade was refused."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        super().__init__(f"{status} {body!r}")
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def error(self) -> dict[str, Any]:
        found: dict[str, Any] = codec.loads(self.body)["error"]
        return found


class Gone(Exception):
    """The socket is closed, with this code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@attrs.define(eq=False)
class Socket:
    """A Phoenix client of a few lines."""

    ws: trio_websocket.WebSocketConnection
    stream: trio.abc.Stream
    refs: int = 0

    def ref(self) -> str:
        self.refs += 1
        return str(self.refs)

    async def send(self, *parts: Any) -> None:
        try:
            await self.ws.send_message(codec.dumps(list(parts)).decode())
        except trio_websocket.ConnectionClosed as closed:
            raise Gone(closed.reason.code if closed.reason else 0) from None

    async def receive(self) -> list[Any]:
        try:
            with trio.fail_after(5):
                frame: list[Any] = codec.loads(await self.ws.get_message())
        except trio_websocket.ConnectionClosed as closed:
            raise Gone(closed.reason.code if closed.reason else 0) from None
        return frame

    async def join(self, topic: str) -> dict[str, Any]:
        """Join a topic and return the payload of the reply, which must be the next frame."""
        ref = self.ref()
        await self.send(ref, ref, topic, "phx_join", {})
        join_ref, reply_ref, reply_topic, event, payload = await self.receive()
        assert (join_ref, reply_ref, reply_topic, event) == (ref, ref, topic, "phx_reply")
        return dict(payload)

    async def heartbeat(self) -> list[Any]:
        ref = self.ref()
        await self.send(None, ref, "phoenix", "heartbeat", {})
        return await self.receive()


@asynccontextmanager
async def open_socket(
    band: LocalBand, agent: LocalAgent | None, query: str = "", *, key: str | None = None
) -> AsyncGenerator[Socket]:
    """Open a socket as an agent, or as the platform's person."""
    key = key or (agent.api_key if agent is not None else band.user_key)
    query = query or "vsn=2.0.0" + (f"&agent_id={agent.id}" if agent is not None else "")
    parts = urlsplit(band.ws_url)
    open_stream = AgentConfig(**band._transports).open_stream
    if open_stream is not None:
        stream = await open_stream(band.ws_url)
    else:
        assert parts.port is not None
        stream = await trio.open_tcp_stream("127.0.0.1", parts.port)
    try:
        with hide_nursery("open_socket"):
            async with trio.open_nursery() as nursery:
                with trio.fail_after(5):
                    ws = await trio_websocket.wrap_client_stream(
                        nursery,
                        stream,  # type: ignore[arg-type]  # any byte stream will do
                        parts.netloc,
                        f"{parts.path}?{query}",
                        message_queue_size=4096,
                        max_message_size=2**22,
                        extra_headers=[(b"x-api-key", key.encode())],
                    )
                yield Socket(ws, stream)
                nursery.cancel_scope.cancel(reason="the test is done")
    except trio_websocket.ConnectionRejected as no:
        headers = {k.decode(): v.decode() for k, v in no.headers or ()}
        raise Refused(no.status_code, headers, no.body or b"") from None
    finally:
        await trio.aclose_forcefully(stream)


NOBODY = "00000000-0000-4000-8000-000000000000"


def refused(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Check the shape of an error, which is the same everywhere, and return it."""
    error: dict[str, Any] = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, code), answer.text
    assert all(isinstance(error[key], str) for key in ("code", "message", "request_id"))
    if status == 422:
        assert error["details"]
        assert all(isinstance(each, list) for each in error["details"].values())
    return error


async def furnish(band: LocalBand) -> tuple[LocalAgent, LocalAgent, LocalRoom]:
    agent, other = band.register_agent("Scribe", "Takes notes"), band.register_agent("Other")
    return agent, other, await band.user.create_room("Plans", [agent])


async def collect(rest: Rest, path: str, limit: int) -> list[str]:
    rows: list[str] = []
    cursor = ""
    while True:
        answer = (await rest("GET", f"{path}limit={limit}{cursor}")).json()
        rows += [row["id"] for row in answer["data"]]
        assert answer["metadata"]["has_more"] is (answer["metadata"]["next_cursor"] is not None)
        if not answer["metadata"]["has_more"]:
            return rows
        cursor = f"&cursor={answer['metadata']['next_cursor']}"

"""What the tests of the link share: a listener that records, and a link over a `PhoenixPeer`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import httpx  # noqa: ASYNC127 - the transport of the tests
import trio

from band_trio.config.agent import AgentConfig
from band_trio.config.credentials import Credentials
from band_trio.config.endpoints import Endpoints
from band_trio.kit.nurseries import hide_nursery
from band_trio.link.link import BandLink
from band_trio.link.rest.api import open_api
from band_trio.link.rest.rest import RestClient
from band_trio.protocol import events
from band_trio.trace import TraceEvent, tracer_of
from tests.link.phoenix_peer import PhoenixPeer, open_peer, until

AGENT = "a1"
KEY = "thnv_a_sesame+open"
CONTROL = events.agent_control(AGENT)
ROOMS = events.agent_rooms(AGENT)
ENDPOINTS = Endpoints("http://127.0.0.1:9", "ws://127.0.0.1:9/api/v1/socket/websocket?zone=b")
WHERE = "ws://127.0.0.1:9/api/v1/socket/websocket"


@attrs.define(eq=False)
class Recorder:
    """A listener that notes everything, and raises when told to."""

    calls: list[tuple[Any, ...]] = attrs.field(factory=list)
    raise_on: str = ""
    link: BandLink | None = None
    connected_values: list[bool] = attrs.field(factory=list)

    def _note(self, *call: Any) -> None:
        self.calls.append(call)
        if self.link is not None:
            self.connected_values.append(self.link.is_connected)
        if call[0] == self.raise_on:
            raise ZeroDivisionError(call[0])

    def connected(self, epoch: int) -> None:
        self._note("connected", epoch)

    def disconnected(self, epoch: int, reason: str) -> None:
        self._note("disconnected", epoch, reason)

    def joined(self, topic: str) -> None:
        self._note("joined", topic)

    def lost(self, topic: str, reason: str) -> None:
        self._note("lost", topic, reason)

    def pushed(self, topic: str, event: str, payload: dict[str, Any]) -> None:
        self._note("pushed", topic, event, payload)

    def of(self, kind: str) -> list[tuple[Any, ...]]:
        return [call[1:] for call in self.calls if call[0] == kind]


@attrs.define(eq=False)
class World:
    """A peer, a link that talks to it, and what was seen."""

    peer: PhoenixPeer
    link: BandLink
    seen: Recorder
    trace: list[TraceEvent]
    me_statuses: list[int]
    """What `GET /agent/me` answers, first to last; 200 after that."""
    me_requests: list[float]
    nursery: trio.Nursery
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)

    async def start(self, patience: float = 120) -> None:
        """Serve in the background, from the first connection on."""
        await self.nursery.start(self._serve, trio.current_time() + patience)

    async def _serve(  # noqa: ASYNC114, ASYNC128 - the link calls started()
        self,
        patience_until: float,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        with self.scope:
            await self.link.serve(patience_until, task_status=task_status)

    async def fully_joined(self) -> None:
        """Wait until every wanted topic is joined."""
        await until(lambda: self.link.is_connected and not self.link.health().pending)


@asynccontextmanager
async def open_world(**options: Any) -> AsyncGenerator[World]:
    """A link ready to be served; everything ends with the block."""
    me_statuses: list[int] = []
    me_requests: list[float] = []

    def answer(request: httpx.Request) -> httpx.Response:
        me_requests.append(trio.current_time())
        return httpx.Response(me_statuses.pop(0) if me_statuses else 200, json={"data": {}})

    trace: list[TraceEvent] = []
    seen = Recorder()
    with hide_nursery("open_world"):
        async with open_peer() as peer, trio.open_nursery() as nursery:
            config = AgentConfig(
                rest_transport=httpx.MockTransport(answer), open_stream=peer.open_stream, **options
            )
            credentials = Credentials(AGENT, KEY)
            async with open_api(ENDPOINTS, credentials, config) as api:
                rest, tracer = RestClient(api), tracer_of(trace.append)
                link = seen.link = BandLink(credentials, ENDPOINTS, config, rest, tracer, seen)
                yield World(peer, link, seen, trace, me_statuses, me_requests, nursery)
                nursery.cancel_scope.cancel()

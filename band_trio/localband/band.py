"""`open_local_band`: a whole platform inside one `async with`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final
from uuid import uuid4

import attrs
import trio

from band_trio.config.agent import AgentConfig
from band_trio.config.endpoints import SOCKET_PATH
from band_trio.kit.nurseries import hide_nursery
from band_trio.localband import control
from band_trio.localband.delivery import State
from band_trio.localband.fault_rules import Cut, Ref, id_of
from band_trio.localband.faults import Faults
from band_trio.localband.hub import Hub, Session
from band_trio.localband.memory import MemorySockets, MemoryTransport
from band_trio.localband.offer import Offer
from band_trio.localband.party import Agent
from band_trio.localband.records import Log
from band_trio.localband.rest import make_app
from band_trio.localband.server import open_server
from band_trio.localband.user import LocalUser
from band_trio.localband.world import Push, World
from band_trio.protocol.events import Mode
from band_trio.protocol.phoenix import Frame
from band_trio.stores.refusal import api_errors

MEMORY_HOST: Final = "localband.localhost"
"""A name that never resolves; clients must use the transports of `LocalBand.connection`."""
GOODBYE_SECONDS: Final = 1.0


@attrs.frozen
class LocalAgent:
    """A registered agent: what a program needs to run it."""

    id: str
    name: str
    handle: str
    """`owner/slug`, without `@`."""
    description: str
    api_key: str = attrs.field(repr=False)


@attrs.define(eq=False)
class LocalBand:
    """An open platform."""

    rest_url: str
    ws_url: str
    user_key: str = attrs.field(repr=False)
    """Key of the person `user`, for the REST routes under `/api/v1/me`."""
    user: LocalUser
    faults: Faults = attrs.field(repr=False)
    world: World = attrs.field(repr=False)
    """The platform's state, to look at. Change it through the methods of this class."""
    hub: Hub = attrs.field(repr=False)
    _transports: dict[str, Any] = attrs.field(factory=dict, repr=False)
    _changes: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot, repr=False)

    @property
    def log(self) -> Log:
        """What happened, in order: requests, pushes, sockets, working reports."""
        return self.world.log

    # ------------------------------------------------------------------ agents

    def register_agent(self, name: str, description: str = "An agent") -> LocalAgent:
        """Create an agent of the person `user`."""
        owner = self.world.keys[self.user_key]
        if isinstance(owner, Agent):
            raise TypeError("an agent owns no agents")
        agent = self.world.add_agent(owner, name, description)
        return LocalAgent(agent.id, agent.name, agent.handle, agent.description, agent.api_key)

    def connection(self, agent: LocalAgent, **options: Any) -> dict[str, Any]:
        """Return keyword arguments for `Agent.create`: credentials, URLs and a config.

        *options* are those of `AgentConfig`; in memory the transports are added to them.
        """
        return {
            "agent_id": agent.id,
            "api_key": agent.api_key,
            "rest_url": self.rest_url,
            "ws_url": self.ws_url,
            "config": AgentConfig(**{**self._transports, **options}),
        }

    # ------------------------------------------------------------------ looking

    def state(self, message_id: str, agent: Ref) -> str:
        """Return how far a message got with an agent: `none`, `delivered`, `processing`,
        `processed` or `failed`."""
        return self.world.messages[message_id].state(id_of(agent)).value

    def attempts(self, message_id: str, agent: Ref) -> list[str]:
        """Return the status of each attempt: `processing`, `success` or `failed`."""
        delivery = self.world.messages[message_id].deliveries.get(id_of(agent))
        return [each.status for each in delivery.attempts] if delivery is not None else []

    def unprocessed(self, agent: Ref) -> list[str]:
        """Return the ids of all messages that are addressed to an agent and not processed."""
        agent_id = id_of(agent)
        return [
            message.id
            for room in self.world.rooms.values()
            for message in room.messages
            if message.addressed_to(agent_id) and message.state(agent_id) is not State.PROCESSED
        ]

    def watch(self, watcher: Callable[[Push], object]) -> None:
        """Call *watcher*, synchronously, with everything that the platform tells anybody.

        Rows of rooms (`message_created`, `event_created`), changes of their state
        (`message_updated`), of rooms and members, working reports (`activity`) and signals.
        """
        self.world.watchers.append(watcher)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until *condition* holds; it is asked again after every change of the platform."""
        while not condition():
            await self._changes.park()
        await trio.lowlevel.checkpoint()

    # ------------------------------------------------------------------ breaking

    def session(self, agent: Ref) -> Session | None:
        """Return the current socket of an agent."""
        return self.hub.agents.get(id_of(agent))

    def cut(self, agent: Ref, how: Cut = Cut.FIN) -> bool:
        """Cut an agent's socket below the protocol; False if it has none."""
        session = self.session(agent)
        if session is None:
            return False
        session.ending = session.ending or f"cut: {how}"
        session.line.sever(how)
        return True

    def silence(self, agent: Ref) -> bool:
        """Lose all bytes of an agent's socket from now on; neither side is told."""
        session = self.session(agent)
        if session is not None:
            session.line.silence()
        return session is not None

    def stop_reading(self, agent: Ref) -> bool:
        """Read nothing more from an agent's socket; pushes go on."""
        session = self.session(agent)
        if session is not None:
            session.reading = trio.Event()
        return session is not None

    def close(self, agent: Ref, code: int, reason: str = "") -> bool:
        """Close an agent's socket with a code, behind what is queued."""
        session = self.session(agent)
        if session is not None:
            session.end(code, reason, GOODBYE_SECONDS)
        return session is not None

    def send_raw(self, agent: Ref, text: str) -> bool:
        """Put any text on an agent's socket as one message."""
        session = self.session(agent)
        return session is not None and session.send(text)

    def send_frame(
        self, agent: Ref, topic: str, event: str, payload: dict[str, Any], **refs: str | None
    ) -> bool:
        """Push any event on a topic; `join_ref` and `ref` may be chosen.

        With `phx_error` or `phx_close` of the current join the topic is over on this side too.
        """
        session = self.session(agent)
        if session is None:
            return False
        join_ref = refs.get("join_ref", session.joined.get(topic))
        if event in ("phx_error", "phx_close") and join_ref == session.joined.get(topic):
            self.hub.part(session, topic)
        return session.send(Frame(join_ref, refs.get("ref"), topic, event, payload).dump())

    def signal(
        self,
        agent: Ref,
        mode: Mode,
        *,
        room_id: str | None = None,
        correlation_id: str | None = None,
    ) -> str:
        """Push a control signal without any change of state; return its correlation id."""
        with api_errors():
            party = self.world.parties[id_of(agent)]
        if not isinstance(party, Agent):
            raise TypeError("signals are for agents")
        return control.signal(
            self.world, party, mode, room_id=room_id, correlation_id=correlation_id
        )


def _clock() -> Callable[[], datetime]:
    """Return a clock that runs with trio's: a virtual clock moves the platform's time too."""
    began, start = datetime.now(UTC), trio.current_time()
    return lambda: began + timedelta(seconds=trio.current_time() - start)


@asynccontextmanager
async def open_local_band(
    *,
    memory: bool = False,
    port: int = 0,
    now: Callable[[], datetime] | None = None,
    new_id: Callable[[], str] | None = None,
    user_name: str = "Demo User",
    idle_seconds: float = 60.0,
    offer: Offer | None = None,
) -> AsyncGenerator[LocalBand]:
    """Open a platform with one person on it.

    Args:
        memory: No sockets: clients use the transports of `LocalBand.connection`. Else the
            platform listens on 127.0.0.1.
        port: 0 picks a free one.
        now: The platform's time, with a zone; by default it runs with trio's clock.
        new_id: Makes unique ids; UUIDs by default.
        user_name: The person's name.
        idle_seconds: A socket whose peer is silent for this long is closed.
        offer: What there is beside rooms, and its limits; everything by default.

    Raises:
        OSError: the port is taken.
    """
    world = World(now or _clock(), new_id or (lambda: str(uuid4())), offer or Offer())
    world.elapsed()
    user = world.add_user(user_name)
    faults = Faults()
    with hide_nursery("open_local_band"):
        async with trio.open_nursery() as nursery:
            hub = Hub(world, faults, nursery, idle_seconds, GOODBYE_SECONDS)
            world.publish, world.is_online = hub.publish, hub.is_online
            open_face = _in_memory if memory else partial(_on_loopback, port=port)
            async with open_face(hub, nursery) as face:
                band = LocalBand(
                    **face,
                    user_key=user.api_key,
                    user=LocalUser(world, user),
                    faults=faults,
                    world=world,
                    hub=hub,
                )
                world.log.changed = band._changes.unpark_all  # noqa: SLF001
                world.watchers.append(lambda _: world.log.changed())
                yield band
            nursery.cancel_scope.cancel(reason="the platform is closed")


@asynccontextmanager
async def _in_memory(hub: Hub, nursery: trio.Nursery) -> AsyncGenerator[dict[str, Any]]:
    sockets = MemorySockets(hub, nursery)
    app = make_app(hub.world, hub.faults)
    transports = {
        "rest_transport": MemoryTransport(app, nursery, hub.world.clock),
        "open_stream": sockets.open_stream,
    }
    yield {
        "rest_url": f"http://{MEMORY_HOST}",
        "ws_url": f"ws://{MEMORY_HOST}{SOCKET_PATH}",
        "transports": transports,
    }
    await _say_goodbye(hub)


@asynccontextmanager
async def _on_loopback(
    hub: Hub, nursery: trio.Nursery, port: int
) -> AsyncGenerator[dict[str, Any]]:
    async with open_server(make_app(hub.world, hub.faults), hub, port) as bound:
        yield {
            "rest_url": f"http://127.0.0.1:{bound}",
            "ws_url": f"ws://127.0.0.1:{bound}{SOCKET_PATH}",
        }
        await _say_goodbye(hub)


async def _say_goodbye(hub: Hub) -> None:
    """Close the sockets, and let what hangs end."""
    hub.stop()
    hub.faults.clear()
    with trio.move_on_after(GOODBYE_SECONDS):
        await hub.empty.wait()

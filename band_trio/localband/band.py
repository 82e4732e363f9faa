"""`open_local_band`: a whole platform inside one `async with`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import attrs
import trio

from band_trio.config.agent import AgentConfig
from band_trio.config.endpoints import SOCKET_PATH
from band_trio.kit.nurseries import hide_nursery
from band_trio.localband import control, posting
from band_trio.localband.delivery import State
from band_trio.localband.fault_rules import Cut
from band_trio.localband.faults import Faults
from band_trio.localband.hub import Hub, Session
from band_trio.localband.memory import MemorySockets, MemoryTransport
from band_trio.localband.offer import Offer
from band_trio.localband.party import Agent, Party, Ref, UserRole, id_of
from band_trio.localband.push import Push
from band_trio.localband.records import Log
from band_trio.localband.rest import make_app
from band_trio.localband.seed import plant, read_seed
from band_trio.localband.server import open_server
from band_trio.localband.user import LocalUser
from band_trio.localband.world import World
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

    def add_user(self, name: str, role: UserRole = "user") -> LocalUser:
        """Create another person. Rooms, agents and contacts are that person's own."""
        return LocalUser(self.world, self.world.add_user(name, role))

    def register_agent(
        self, name: str, description: str = "An agent", *, owner: LocalUser | None = None
    ) -> LocalAgent:
        """Create an agent, of the person `user` unless an *owner* is named."""
        agent = self.world.add_agent((owner or self.user).party, name, description)
        return LocalAgent(agent.id, agent.name, agent.handle, agent.description, agent.api_key)

    def agents(self) -> list[LocalAgent]:
        """Return all agents of the platform, oldest first."""
        return [
            LocalAgent(p.id, p.name, p.handle, p.description, p.api_key)
            for p in self.world.parties.values()
            if isinstance(p, Agent)
        ]

    async def say_as(
        self,
        who: Ref,
        room: Ref,
        content: str,
        mentions: Sequence[Ref] = (),
        *,
        message_type: str = "text",
        metadata: dict[str, Any] | None = None,
    ) -> str:
        """Post as anybody who is in a room, running or not: how a history is written.

        Args:
            who: An agent or a person: an object with an `id`, an id, or a handle.
            room: Where; an id or an object with one.
            content: The text.
            mentions: For a message: objects, ids or handles.
            message_type: `text`, or the kind of an event: `thought`, `tool_call` …
            metadata: Of an event.

        Returns:
            The id of the message or event.

        Raises:
            BandApiError: the platform refuses it.
        """
        await trio.lowlevel.checkpoint()
        party = self._party(who)
        with api_errors():
            found = self.world.room_of(party, id_of(room))
            if message_type == "text":
                return posting.say(self.world, found, party, content, mentions).id
            body = {"content": content, "message_type": message_type, "metadata": metadata}
            return posting.post_event(self.world, found, party, {"event": body}).id

    def _party(self, who: Ref) -> Party:
        name = id_of(who)
        party = self.world.parties.get(name) or self.world.by_handle(name)
        if party is None:
            raise LookupError(f"nobody here is {who!r}: give an agent, a person, an id or a handle")
        return party

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

    def transcript(self, room: Ref) -> list[str]:
        """Return what was said in a room, a line each: `Ann: @scribe hello`, `Scribe (thought): …`."""
        found = self.world.rooms[id_of(room)]
        lines = []
        for row in found.messages:
            kind = "" if row.message_type == "text" else f" ({row.message_type})"
            text = row.content
            for mention in row.mentions:
                text = text.replace(f"@[[{mention.party.id}]]", f"@{mention.party.handle}")
            lines.append(f"{row.sender.name}{kind}: {text}")
        return lines

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
    host: str = "127.0.0.1",
    port: int = 0,
    seed: str | Path | Mapping[str, Any] | None = None,
    now: Callable[[], datetime] | None = None,
    new_id: Callable[[], str] | None = None,
    user_name: str = "Demo User",
    idle_seconds: float = 60.0,
    offer: Offer | None = None,
) -> AsyncGenerator[LocalBand]:
    """Open a platform with one person on it.

    Args:
        memory: No sockets: clients use the transports of `LocalBand.connection`. Else the
            platform listens on *host*, REST and sockets on one port.
        host: The address to listen on. Whoever reaches it is held off by keys only.
        port: 0 picks a free one.
        seed: Who and what is there from the start, with fixed ids and keys: a YAML file, or what
            one would hold (see `band_trio.localband.seed`). Its first person is `user`.
        now: The platform's time, with a zone; by default it runs with trio's clock.
        new_id: Makes unique ids; UUIDs by default.
        user_name: The person's name, where there is no seed. That person is an admin, so that
            others can be created over REST too.
        idle_seconds: A socket whose peer is silent for this long is closed.
        offer: What there is beside rooms, and its limits; everything by default.

    Raises:
        OSError: the port is taken.
        BandConfigError: the seed does not fit.
    """
    world = World(now or _clock(), new_id or (lambda: str(uuid4())), offer=offer or Offer())
    world.elapsed()
    user = plant(world, read_seed(seed)) if seed is not None else world.add_user(user_name, "admin")
    faults = Faults()
    with hide_nursery("open_local_band"):
        async with trio.open_nursery() as nursery:
            hub = Hub(world, faults, nursery, idle_seconds, GOODBYE_SECONDS)
            world.publish, world.is_online = hub.publish, hub.is_online
            world.access_changed = hub.access_changed
            open_face = _in_memory if memory else partial(_on_network, host=host, port=port)
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
async def _on_network(
    hub: Hub, nursery: trio.Nursery, host: str, port: int
) -> AsyncGenerator[dict[str, Any]]:
    name = f"[{host}]" if ":" in host else host
    async with open_server(make_app(hub.world, hub.faults), hub, host, port) as bound:
        yield {
            "rest_url": f"http://{name}:{bound}",
            "ws_url": f"ws://{name}:{bound}{SOCKET_PATH}",
        }
        await _say_goodbye(hub)


async def _say_goodbye(hub: Hub) -> None:
    """Close the sockets, and let what hangs end."""
    hub.stop()
    hub.faults.clear()
    with trio.move_on_after(GOODBYE_SECONDS):
        await hub.empty.wait()

"""All sockets of the platform: who may open one, who joined what, where a push goes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Protocol
from urllib.parse import parse_qsl

import attrs
import trio

from band_trio.localband.fault_rules import Cut, PushAction, PushFacts, PushRule, UpgradeFacts
from band_trio.localband.faults import Faults
from band_trio.localband.outbox import Close, Outbox
from band_trio.localband.party import Agent, Party, User
from band_trio.localband.push import Push
from band_trio.localband.records import TEXT_CHARS, PushRecord, SocketRecord
from band_trio.localband.routes import Reply
from band_trio.localband.world import World
from band_trio.protocol import events
from band_trio.protocol.phoenix import CLOSE, Frame
from band_trio.stores.refusal import Refusal, forbidden

FRAME_BYTES: Final = 1024 * 1024
"""Typical clients drop a connection that sends more in one frame (platform docs, Upgrade)."""
SERIALIZER: Final = "2.0.0"
ROOM_TOPICS: Final = ("chat_room", "room_participants", "room_tasks", "room_activity")
DELETED: Final = "the account was deleted"
LEAVE_SECONDS: Final = 5.0
"""How long clients usually take to leave a topic (platform docs, Join, leave, refs)."""
_TOO_SLOW: Final = 1011


class Line(Protocol):
    """What is below a socket: a client's connection, whose bytes faults can reach."""

    def sever(self, how: Cut) -> None:
        """Cut the bytes, as the client sees it."""

    def silence(self) -> None:
        """Lose all bytes from now on, in both directions; the client notices nothing."""


@attrs.define(eq=False)
class Session:
    """One open socket, as the rest of the platform sees it."""

    party: Party = attrs.field(repr=lambda party: party.handle)
    number: int
    outbox: Outbox = attrs.field(repr=False)
    scope: trio.CancelScope = attrs.field(repr=False)
    """Around everything of this socket; the platform ends it by its deadline."""
    line: Line = attrs.field(repr=False)
    joined: dict[str, str | None] = attrs.field(factory=dict)
    """Topic → reference of its latest join."""
    revoked: dict[str, str | None] = attrs.field(factory=dict, repr=False)
    """Topics that the party may not hear any more, and that its client has not left yet."""
    heard: trio.Event = attrs.field(factory=trio.Event, repr=False)
    """Set at every frame of the peer, then replaced."""
    reading: trio.Event = attrs.field(factory=trio.Event, repr=False)
    """While it is not set, nothing is read from the peer."""
    ending: str = ""
    """Why it is about to end."""
    close_seconds: float = 1.0
    """How long the goodbye to a slow peer may take."""

    def send(self, text: str) -> bool:
        """Queue a frame; a peer that is too far behind loses what waits, and its socket.

        A socket that ended a moment ago gets nothing: its pushes are lost, as on any network.
        """
        sent = self.outbox.put(text)
        if not sent and not self.outbox.closed:
            self.outbox.clear()
            self.end(_TOO_SLOW, "too slow", self.close_seconds)
        return sent

    def end(self, code: int, reason: str, within: float) -> None:
        """Close the socket behind what is queued, within so many seconds."""
        self.ending = self.ending or reason
        self.scope.deadline = min(self.scope.deadline, trio.current_time() + within)
        self.outbox.close(Close(code, reason))


@attrs.frozen
class Ticket:
    """A socket that may be opened."""

    party: Party = attrs.field(repr=lambda party: party.handle)
    serializer_ok: bool
    """Without it the platform accepts and closes with 1011 (platform docs, Upgrade)."""


@attrs.define(eq=False)
class Hub:
    """The sockets of one platform."""

    world: World = attrs.field(repr=False)
    faults: Faults = attrs.field(repr=False)
    nursery: trio.Nursery = attrs.field(repr=False)
    """For pushes that a fault delays."""
    idle_seconds: float = 60.0
    """A peer that is silent for this long is closed."""
    close_seconds: float = 1.0
    """How long a goodbye may take."""
    sessions: dict[int, Session] = attrs.field(factory=dict)
    agents: dict[str, Session] = attrs.field(factory=dict)
    """Agent id → its current socket; an older one that is being closed is in `sessions` only."""
    topics: dict[str, dict[int, Session]] = attrs.field(factory=dict, repr=False)
    opened: int = 0
    closing: bool = False
    empty: trio.Event = attrs.field(factory=trio.Event, repr=False)
    """Set once the platform is closing and the last socket has ended."""

    # ------------------------------------------------------------------ upgrades

    def admit(self, query: str, headers: Mapping[str, str]) -> Ticket | Reply:
        """Decide about an upgrade; *headers* have lower-case names.

        Returns the ticket, or the answer that refuses it: 403 bad credentials, 400 bad policy,
        409 a connection is live, or whatever a fault says.
        """
        params = dict(parse_qsl(query, keep_blank_values=True))
        agent_id = params.get("agent_id")
        rule = self.faults.for_upgrade(UpgradeFacts(agent_id, params))
        if rule is not None:
            self.note(agent_id or "", 0, "refused", str(rule.action.answer.status))
            return rule.action.answer
        try:
            return self._admit(params, headers.get("x-api-key") or params.get("api_key"))
        except Refusal as refusal:
            self.note(agent_id or "", 0, "refused", str(refusal.status))
            return Reply(refusal.status, refusal.body(self.world.new_id()))

    def _admit(self, params: Mapping[str, str], key: str | None) -> Ticket:
        party = self.world.keys.get(key or "")
        if party is None or self.closing:
            raise forbidden("Bad credentials")
        agent_id = params.get("agent_id")
        if agent_id is not None and agent_id != party.id:
            # A person may connect as an agent of theirs.
            agent = self.world.parties.get(agent_id)
            if not isinstance(agent, Agent) or agent.owner is not party:
                raise forbidden("The agent does not belong to this key")
            party = agent
        elif agent_id is None and isinstance(party, Agent):
            raise forbidden("agent_id is missing")
        policy = params.get("on_conflict", "supersede")
        if policy not in ("reject", "supersede"):
            raise Refusal(400, "invalid_on_conflict", "on_conflict must be reject or supersede")
        if policy == "reject" and party.id in self.agents:
            raise Refusal(409, "connection_conflict", "Another connection of this agent is live.")
        return Ticket(party, params.get("vsn") == SERIALIZER)

    def enter(self, session: Session) -> None:
        """Take in a socket; an older one of the same agent is told and closed."""
        self.sessions[session.number] = session
        self.note(session.party.id, session.number, "opened")
        if session.party.id not in self.world.parties:  # deleted since its upgrade was admitted
            session.end(1000, DELETED, self.close_seconds)
            return
        if not isinstance(session.party, Agent):
            return
        older = self.agents.get(session.party.id)
        self.agents[session.party.id] = session
        if older is not None:
            self._supersede(older)

    def leave(self, session: Session) -> None:
        """Forget a socket that has ended."""
        del self.sessions[session.number]
        if self.agents.get(session.party.id) is session:
            del self.agents[session.party.id]
        for topic in list(session.joined):
            self.part(session, topic)
        self.note(session.party.id, session.number, "ended", session.ending or "peer gone")
        self._check_empty()

    def _check_empty(self) -> None:
        if self.closing and not self.sessions:
            self.empty.set()

    def _supersede(self, older: Session) -> None:
        topic = events.agent_control(older.party.id)
        payload = {
            "reason": "session.already_connected",
            "message": "A newer connection took over.",
            "retryable": False,
            "retry_after": None,
            "target_socket_id": f"agent_socket:{older.party.id}",
            "correlation_id": f"evict-{self.world.new_id()}",
        }
        if topic in older.joined:
            self.offer(older, Frame(older.joined[topic], None, topic, "supersede", payload))
        older.end(1000, "superseded", self.close_seconds)

    def is_online(self, party_id: str) -> bool:
        """Tell whether a party has a socket."""
        return party_id in self.agents or any(
            session.party.id == party_id for session in self.sessions.values()
        )

    def stop(self) -> None:
        """Close every socket and admit no more."""
        self.closing = True
        self._check_empty()
        for session in list(self.sessions.values()):
            session.end(1000, "platform stopped", self.close_seconds)

    # ------------------------------------------------------------------ topics

    def may_join(self, party: Party, topic: str) -> bool | None:
        """Tell whether *party* may see a topic; None for a topic that is none."""
        kind, subject = events.split_topic(topic)
        if kind in ("agent_control", "agent_rooms", "agent_contacts"):
            return isinstance(party, Agent) and subject == party.id
        if kind in ("user_rooms", "tasks"):
            return isinstance(party, User) and subject == party.id
        if kind in ROOM_TOPICS:
            try:
                self.world.room_for_reader(party, subject)
            except Refusal:
                return False
            return kind != "room_activity" or isinstance(party, User)
        return None

    def access_changed(self, subject: str) -> None:
        """Close what a party may not have any more: its sockets, or the topics of a room."""
        for session in list(self.sessions.values()):
            if session.party.id == subject and subject not in self.world.parties:
                session.end(1000, DELETED, self.close_seconds)
        for kind in ROOM_TOPICS:
            topic = f"{kind}:{subject}"
            for session in list(self.topics.get(topic, {}).values()):
                if not self.may_join(session.party, topic):
                    reference = session.joined[topic]
                    self.part(session, topic)
                    session.revoked[topic] = reference
                    self.note(session.party.id, session.number, "left", topic)
                    self.nursery.start_soon(self._close_topic, session, topic, reference)

    async def _close_topic(self, session: Session, topic: str, reference: str | None) -> None:
        """Close a topic that a client has not left by itself in the usual time.

        Not at once: clients leave the topics of a room when they are told of its end, and the
        asyncio one takes a topic that is closed before that for lost, also where it is added again.
        """
        await trio.sleep(LEAVE_SECONDS)
        if topic in session.revoked and session.revoked[topic] == reference:
            del session.revoked[topic]
            session.send(Frame(reference, None, topic, CLOSE).dump())

    def join(self, session: Session, topic: str, reference: str | None) -> None:
        """Let a socket hear a topic; a second join replaces the first."""
        session.revoked.pop(topic, None)
        session.joined[topic] = reference
        self.topics.setdefault(topic, {})[session.number] = session
        self.note(session.party.id, session.number, "joined", topic)

    def part(self, session: Session, topic: str) -> None:
        """Let a socket no longer hear a topic."""
        session.joined.pop(topic, None)
        session.revoked.pop(topic, None)
        listeners = self.topics.get(topic, {})
        listeners.pop(session.number, None)
        if not listeners:
            self.topics.pop(topic, None)

    # ------------------------------------------------------------------ pushes

    def publish(self, push: Push) -> Collection[str]:
        """Send a push to the sockets it is for; return the agents that were sent it."""
        listeners = self.topics.get(push.topic)
        if not listeners:
            return ()
        reached = []
        for session in list(listeners.values()):
            is_agent = isinstance(session.party, Agent)
            if session.party.id in push.agents if is_agent else push.users:
                reference = session.joined[push.topic]
                frame = Frame(reference, None, push.topic, push.event, push.payload)
                if self.offer(session, frame) and is_agent:
                    reached.append(session.party.id)
        return reached

    def offer(self, session: Session, frame: Frame) -> bool:
        """Send a frame unless a fault has other plans; tell whether it was queued."""
        if not self.faults.pushes:
            return self._send(session, frame)
        rule = self.faults.for_push(PushFacts(session.party.id, frame))
        return self._send(session, frame) if rule is None else self._disturb(session, frame, rule)

    def _disturb(self, session: Session, frame: Frame, rule: PushRule) -> bool:
        fault = rule.action
        if fault.action is PushAction.DUPLICATE:
            sent = [self._send(session, frame) for _ in range(fault.copies)]
            return all(sent)
        if fault.action is PushAction.ALTER and fault.alter is not None:
            other = fault.alter(frame)
            if isinstance(other, Frame):
                return self._send(session, other)
            return session.send(other) if other is not None else False
        self._note_push(session, frame, sent=False)
        if fault.action is PushAction.HOLD:
            rule.held.append(lambda: self._send_late(session, frame))
        elif fault.action is PushAction.DELAY:
            self.nursery.start_soon(self._delay, session, frame, fault.seconds)
        return False

    async def _delay(self, session: Session, frame: Frame, seconds: float) -> None:
        await trio.sleep(seconds)
        self._send_late(session, frame)

    def _send_late(self, session: Session, frame: Frame) -> None:
        """Send what was kept back, if the topic is still joined on that socket."""
        if frame.topic in session.joined:
            reference = session.joined[frame.topic]
            self._send(session, attrs.evolve(frame, join_ref=reference))

    def _send(self, session: Session, frame: Frame) -> bool:
        text = frame.dump()
        # A frame that would cost the client its connection is not sent: it is listed anyway.
        fits = len(text) * 4 < FRAME_BYTES or len(text.encode()) < FRAME_BYTES
        sent = fits and session.send(text)
        self._note_push(session, frame, sent=sent)
        return sent

    def _note_push(self, session: Session, frame: Frame, *, sent: bool) -> None:
        payload_id = frame.payload.get("id")
        self.world.log.add(
            PushRecord(
                at=self.world.elapsed(),
                party_id=session.party.id,
                session=session.number,
                topic=frame.topic,
                event=frame.event,
                payload_id=payload_id if isinstance(payload_id, str) else None,
                sent=sent,
            )
        )

    def note(self, party_id: str, number: int, what: str, detail: str = "") -> None:
        """Note something about a socket."""
        record = SocketRecord(
            at=self.world.elapsed(),
            party_id=party_id[:TEXT_CHARS],
            session=number,
            what=what,  # type: ignore[arg-type]
            detail=detail[:TEXT_CHARS],
        )
        self.world.log.add(record)

"""One socket's life, whatever carries its bytes: frames in, replies and pushes out."""

from __future__ import annotations

from typing import Final, Protocol

import trio

from band_trio.localband.fault_rules import JoinFacts
from band_trio.localband.hub import Hub, Line, Session, Ticket
from band_trio.localband.outbox import Close, Outbox
from band_trio.protocol.errors import RemoteProtocolError
from band_trio.protocol.phoenix import (
    CLOSE,
    HEARTBEAT,
    JOIN,
    LEAVE,
    REPLY,
    SOCKET_TOPIC,
    Frame,
    parse_frame,
)

_INTERNAL_ERROR: Final = 1011
_NORMAL: Final = 1000


class Wire(Protocol):
    """An accepted socket. `send` and `receive` are each used by one task."""

    async def receive(self) -> str | bytes | None:
        """Return the next message, None once the peer is gone."""

    async def send(self, text: str) -> None:
        """Put one message on the wire.

        Raises:
            trio.BrokenResourceError: the peer is gone.
        """

    async def close(self, code: int, reason: str) -> None:
        """Send the close frame; a peer that is gone is no error."""


async def serve_session(hub: Hub, ticket: Ticket, wire: Wire, line: Line) -> None:
    """Serve an accepted socket until either side ends it."""
    if not ticket.serializer_ok:
        await wire.close(_INTERNAL_ERROR, "unsupported serializer")
        return
    hub.opened += 1
    outbox = Outbox()
    with trio.CancelScope() as scope:
        session = Session(ticket.party, hub.opened, outbox, scope, line)
        session.close_seconds = hub.close_seconds
        session.reading.set()
        hub.enter(session)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_write, outbox, wire, nursery.cancel_scope)
                nursery.start_soon(_watch, hub, session)
                await _read(hub, session, wire)
                nursery.cancel_scope.cancel(reason="the peer is gone")
        finally:
            outbox.closed = True
            hub.leave(session)


async def _write(outbox: Outbox, wire: Wire, everything: trio.CancelScope) -> None:
    """Be the only one who sends on the wire; ends the session with its last frame."""
    while True:
        item = await outbox.take()
        if isinstance(item, Close):
            await wire.close(item.code, item.reason)
            break
        try:
            await wire.send(item)
        except trio.BrokenResourceError:
            break
    everything.cancel(reason="the socket is closed")


async def _watch(hub: Hub, session: Session) -> None:
    """Close a peer that says nothing for too long."""
    while True:
        with trio.move_on_after(hub.idle_seconds) as idle:
            await session.heard.wait()
        if idle.cancelled_caught:
            session.end(_NORMAL, "idle", hub.close_seconds)
            return
        session.heard = trio.Event()


async def _read(hub: Hub, session: Session, wire: Wire) -> None:
    while True:
        await session.reading.wait()
        data = await wire.receive()
        if data is None:
            return
        session.heard.set()
        try:
            frame = parse_frame(data)
        except RemoteProtocolError:
            continue  # what is no frame is ignored; the sender learns nothing, as on the platform
        _handle(hub, session, frame)


def _handle(hub: Hub, session: Session, frame: Frame) -> None:
    if frame.topic == SOCKET_TOPIC and frame.event == HEARTBEAT:
        hub.note(session.party.id, session.number, "heartbeat")
        if not hub.faults.mutes(JoinFacts(session.party.id, frame.topic)):
            session.send(_reply(frame, None).dump())
    elif frame.event == JOIN:
        _join(hub, session, frame)
    elif frame.event == LEAVE and frame.topic in session.joined.keys() | session.revoked.keys():
        hub.part(session, frame.topic)
        hub.note(session.party.id, session.number, "left", frame.topic)
        session.send(_reply(frame, None).dump())
        session.send(Frame(frame.join_ref, frame.ref, frame.topic, CLOSE).dump())
    else:
        known = frame.topic in session.joined
        session.send(_reply(frame, None if known else "unmatched topic").dump())


def _join(hub: Hub, session: Session, frame: Frame) -> None:
    rule = hub.faults.for_join(JoinFacts(session.party.id, frame.topic))
    if rule is not None and rule.action.reason is None:
        hub.note(session.party.id, session.number, "rejected", f"{frame.topic}: ignored")
        return
    admitted = hub.may_join(session.party, frame.topic)
    reason = None
    if rule is not None:
        reason = rule.action.reason
    elif admitted is None:
        reason = "unmatched topic"
    elif not admitted:
        reason = "unauthorized"
    # Queued before the topic is joined: the reply must come before any push.
    session.send(_reply(frame, reason).dump())
    if reason is None:
        hub.join(session, frame.topic, frame.join_ref)
    else:
        hub.note(session.party.id, session.number, "rejected", f"{frame.topic}: {reason}")


def _reply(frame: Frame, reason: str | None) -> Frame:
    status = "ok" if reason is None else "error"
    response = {} if reason is None else {"reason": reason}
    payload = {"status": status, "response": response}
    return Frame(frame.join_ref, frame.ref, frame.topic, REPLY, payload)

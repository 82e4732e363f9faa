"""What is said in rooms and what becomes of it: messages, events, marks, working reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from band_trio.localband import validate
from band_trio.localband.delivery import Delivery, State
from band_trio.localband.mentions import Mentioned, resolve, rewrite
from band_trio.localband.party import Agent, Party, Ref, id_of
from band_trio.localband.records import ActivityRecord
from band_trio.localband.room import Message, Room
from band_trio.localband.world import World
from band_trio.protocol import events
from band_trio.stores.bodies import BLANK, section, text
from band_trio.stores.files import File
from band_trio.stores.refusal import Refusal, invalid, not_found, stopped


def post_message(world: World, room: Room, sender: Party, body: Any) -> Message:
    """Store a message and push it to whom it mentions.

    Raises:
        Refusal: 403 the sender is stopped here, 422 content or mentions do not fit.
    """
    if room.is_stopped(sender.id):
        raise stopped()
    message = section(body, "message")
    content = validate.message_content(message.get("content"))
    members = {party_id: member.party for party_id, member in room.members.items()}
    mentions = resolve(message.get("mentions"), members, sender)
    files = _attached(world, room, validate.attachment_ids(message))
    content = rewrite(content, mentions)
    return _append(world, room, sender, content, "text", mentions, {}, files)


def _attached(world: World, room: Room, ids: list[str]) -> list[File]:
    if ids and not world.offer.files:
        raise validate.unknown_attachment()
    try:
        return [world.files.find(room.id, each) for each in ids]
    except Refusal:
        raise validate.unknown_attachment() from None


def say(
    world: World,
    room: Room,
    sender: Party,
    content: str,
    mentions: Sequence[Ref],
    attachment_ids: Sequence[str] = (),
) -> Message:
    """Post for a program: who is mentioned is given as objects, ids or handles.

    Raises:
        Refusal: as `post_message`.
    """
    names = [id_of(each) for each in mentions]
    items = [{"id" if name in world.parties else "handle": name} for name in names]
    message = {"content": content, "mentions": items, "attachment_ids": list(attachment_ids)}
    body = {"message": message}
    return post_message(world, room, sender, body)


def post_event(world: World, room: Room, sender: Party, body: Any) -> Message:
    """Store an event: shown to persons, never delivered to agents.

    Raises:
        Refusal: 403 the sender is stopped here, 422.
    """
    if room.is_stopped(sender.id):
        raise stopped()
    content, kind, metadata = validate.event(body)
    return _append(world, room, sender, content, kind, [], metadata)


def _append(
    world: World,
    room: Room,
    sender: Party,
    content: str,
    kind: str,
    mentions: list[Mentioned],
    metadata: dict[str, Any],
    files: Sequence[File] = (),
) -> Message:
    at = world.stamp()
    message = Message(
        id=world.new_id(),
        number=len(room.messages),
        room_id=room.id,
        content=content,
        message_type=kind,
        sender=sender,
        mentions=mentions,
        metadata=metadata,
        files=list(files),
        inserted_at=at,
        updated_at=at,
    )
    world.messages[message.id] = message
    recipients = room.append(message)
    topic = events.chat_room(room.id)
    if kind != "text":
        world.push(topic, "event_created", message.render)
        return message
    audience = [agent.id for agent in recipients if not room.is_stopped(agent.id)]
    reached = world.push(topic, "message_created", message.render, agents=audience)
    for agent_id in reached:
        _change(world, room, message, agent_id, lambda d: d.deliver(world.stamp()))
    return message


def _change(world: World, room: Room, message: Message, agent_id: str, change: Any) -> Delivery:
    """Apply *change* to a delivery, keep the index right, tell observers."""
    delivery = message.deliveries.get(agent_id)
    if delivery is None:
        delivery = Delivery()
    before = delivery.state
    if change(delivery) is False:
        return delivery
    message.deliveries[agent_id] = delivery
    if message.addressed_to(agent_id) and delivery.state is not before:
        room.inboxes[agent_id].move(message.number, before, delivery.state)
    message.updated_at = world.stamp()
    world.push(events.chat_room(room.id), "message_updated", message.render)
    return delivery


# --------------------------------------------------------------------------- the agent's side


def next_message(room: Room, agent: Agent) -> Message | None:
    """Return the oldest message that is not processed; None also while the agent is stopped."""
    inbox = room.inboxes.get(agent.id)
    if inbox is None or room.is_stopped(agent.id) or inbox.oldest is None:
        return None
    return room.messages[inbox.oldest]


def find(room: Room, message_id: str) -> Message:
    """Find a message of the room.

    Raises:
        Refusal: 404.
    """
    message = room.by_id.get(message_id)
    if message is None:
        raise validate.known_or_uuid("id", message_id, not_found("Message"))
    return message


def claim(world: World, room: Room, agent: Agent, message_id: str) -> Delivery | None:
    """Start an attempt, or find the live one; None while the agent is stopped.

    Raises:
        Refusal: 404.
    """
    message = find(room, message_id)
    if room.is_stopped(agent.id):
        return None
    return _change(world, room, message, agent.id, lambda d: d.claim(world.stamp()))


def settle(
    world: World, room: Room, agent: Agent, message_id: str, state: State, body: Any = None
) -> Delivery | None:
    """End the live attempt; None while the agent is stopped.

    Raises:
        Refusal: 404 unknown message, 422 no live attempt or, for `failed`, no error text.
    """
    message = find(room, message_id)
    if room.is_stopped(agent.id):
        return None
    error = None
    if state is State.FAILED:
        if not isinstance(body, dict):
            raise invalid("/error", BLANK)
        error = text(body.get("error"), "/error")
    return _change(world, room, message, agent.id, lambda d: d.settle(state, world.stamp(), error))


def report_activity(world: World, room: Room, agent: Agent, body: Any) -> bool:
    """Note a working report; return the answer: what was reported, but False while stopped.

    Raises:
        Refusal: 422.
    """
    working, kind = validate.activity(body)
    answer = working and not room.is_stopped(agent.id)
    world.working[room.id, agent.id] = answer
    world.log.add(
        ActivityRecord(
            at=world.elapsed(),
            agent_id=agent.id,
            room_id=room.id,
            working=working,
            kind=kind,
            answer=answer,
        )
    )
    world.push(
        f"room_activity:{room.id}",
        "activity",
        lambda: {"agent_id": agent.id, "working": answer, "kind": kind},
    )
    return answer

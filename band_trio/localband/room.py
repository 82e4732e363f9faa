"""A room: members, rows, and the indexes that answer an agent's questions quickly."""

from __future__ import annotations

from typing import Any

import attrs

from band_trio.localband.delivery import Delivery, Inbox, State
from band_trio.localband.mentions import Mentioned
from band_trio.localband.party import Agent, Member, Party
from band_trio.stores.files import File


@attrs.define(eq=False)
class Message:
    """A row of a room: a message (`text`) or an event."""

    id: str
    number: int
    """Place in the room, from 0."""
    room_id: str
    content: str
    message_type: str
    sender: Party
    mentions: list[Mentioned]
    metadata: dict[str, Any]
    inserted_at: str
    updated_at: str
    files: list[File] = attrs.field(factory=list)
    deliveries: dict[str, Delivery] = attrs.field(factory=dict)
    """Agent id → state; agents that never heard of the message have none."""

    def addressed_to(self, agent_id: str) -> bool:
        """Tell whether this is work for that agent."""
        return (
            self.message_type == "text"
            and self.sender.id != agent_id
            and any(m.party.id == agent_id and m.delivers for m in self.mentions)
        )

    def state(self, agent_id: str) -> State:
        """Return how far the message got with that agent."""
        delivery = self.deliveries.get(agent_id)
        return delivery.state if delivery is not None else State.NONE

    def render(self) -> dict[str, Any]:
        """Return the `ChatMessage`, as it is listed and pushed."""
        metadata = dict(self.metadata)
        if self.message_type == "text":
            metadata["status"] = "sent"
            metadata["mentions"] = [mention.render() for mention in self.mentions]
        statuses = {
            agent_id: delivery.render()
            for agent_id, delivery in self.deliveries.items()
            if delivery.state is not State.NONE
        }
        if statuses:
            metadata["delivery_status"] = statuses
        return {
            "id": self.id,
            "content": self.content,
            "message_type": self.message_type,
            "sender_id": self.sender.id,
            "sender_type": self.sender.kind,
            "sender_name": self.sender.name,
            "chat_room_id": self.room_id,
            "thread_id": None,
            "metadata": metadata,
            "attachments": [file.render() for file in self.files if not file.expired],
            "inserted_at": self.inserted_at,
            "updated_at": self.updated_at,
        }


@attrs.define(eq=False)
class Execution:
    """The run of one agent in one room; stop and play are states of it."""

    id: str
    inserted_at: str
    stopped: bool = False


@attrs.define(eq=False)
class Room:
    """Where parties talk."""

    id: str
    title: str | None
    task_id: str | None
    inserted_at: str
    updated_at: str
    last_message_at: str | None = None
    members: dict[str, Member] = attrs.field(factory=dict)
    executions: dict[str, Execution] = attrs.field(factory=dict)
    """Agent id → its execution, for the agents that are members."""
    messages: list[Message] = attrs.field(factory=list, repr=False)
    by_id: dict[str, Message] = attrs.field(factory=dict, repr=False)
    inboxes: dict[str, Inbox] = attrs.field(factory=dict, repr=False)
    """Agent id → what is addressed to it; outlives a membership."""
    contexts: dict[str, list[int]] = attrs.field(factory=dict, repr=False)
    """Agent id → numbers of what it sent or is mentioned in."""

    def append(self, message: Message) -> list[Agent]:
        """Take in a row; return the agents it is addressed to."""
        self.messages.append(message)
        self.by_id[message.id] = message
        self.updated_at = message.inserted_at
        recipients = [
            mention.party
            for mention in message.mentions
            if isinstance(mention.party, Agent) and message.addressed_to(mention.party.id)
        ]
        for agent in recipients:
            self.inboxes.setdefault(agent.id, Inbox()).add(message.number)
            self.contexts.setdefault(agent.id, []).append(message.number)
        if isinstance(message.sender, Agent):
            self.contexts.setdefault(message.sender.id, []).append(message.number)
        if message.message_type == "text":
            self.last_message_at = message.inserted_at
        return recipients

    def is_stopped(self, agent_id: str) -> bool:
        """Tell whether that agent is stopped here."""
        execution = self.executions.get(agent_id)
        return execution is not None and execution.stopped

    def agents(self) -> list[Agent]:
        """Return the agents in the room, longest member first."""
        return [m.party for m in self.members.values() if isinstance(m.party, Agent)]

    def render(self) -> dict[str, Any]:
        """Return the `ChatRoom`, which is also the payload of `room_added`."""
        return {
            "id": self.id,
            "title": self.title,
            "task_id": self.task_id,
            "inserted_at": self.inserted_at,
            "updated_at": self.updated_at,
        }

    def render_for_user(self) -> dict[str, Any]:
        """Return the room as a person's listing has it."""
        return {
            **self.render(),
            "status": "active",
            "type": "direct",
            "last_message_at": self.last_message_at,
        }

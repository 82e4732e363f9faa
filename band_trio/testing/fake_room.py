"""One room in memory, behind the same calls as the REST client; `FakeAgentTools` stands on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import attrs
import trio

from band_trio.errors import BandApiError
from band_trio.link.rest.api import Answer
from band_trio.link.rest.routes import Route
from band_trio.link.rest.sent import IsIt
from band_trio.protocol.rest import (
    ChatMessage,
    ChatRoom,
    EventReceipt,
    Mention,
    MessageReceipt,
    Page,
    Participant,
    Peer,
    Recipient,
)
from band_trio.testing.fake_contacts import FakeContacts, cursor_page, numbered_page
from band_trio.testing.fake_files import FakeFiles
from band_trio.testing.fake_memories import FakeMemories
from band_trio.testing.fake_tasks import FakeTasks
from band_trio.testing.seeds import FAKE_TIME
from band_trio.tools import contacts, memories, people, tasks

R = TypeVar("R")


@attrs.define(eq=False, slots=False, kw_only=True)
class FakeRoom(FakeContacts, FakeMemories, FakeFiles, FakeTasks):
    """One room and what its agent has; what was posted is kept."""

    participants: list[Participant] | None = None
    """None: nothing is known of the roster, and every mention is accepted."""
    peers: list[Peer] = attrs.field(factory=list)
    context: list[ChatMessage] = attrs.field(factory=list)
    on_change: Callable[[], None] = lambda: None
    """Told after each change."""
    messages: list[dict[str, Any]] = attrs.field(factory=list, init=False)
    events: list[dict[str, Any]] = attrs.field(factory=list, init=False)
    added: list[dict[str, Any]] = attrs.field(factory=list, init=False)
    removed: list[dict[str, Any]] = attrs.field(factory=list, init=False)
    rooms: list[ChatRoom] = attrs.field(factory=list, init=False)
    call_seconds: float = attrs.field(default=60.0, init=False)
    secrets: tuple[str, ...] = attrs.field(default=(), init=False)
    context_calls: list[dict[str, Any]] = attrs.field(factory=list, init=False)
    message_error: Exception | None = attrs.field(default=None, init=False)
    event_error: Exception | None = attrs.field(default=None, init=False)
    answers: dict[Route[Any], Callable[..., Any]] = attrs.field(init=False)
    """Route → what the room does with it: `GET_TASK` → the method `get_task`. A route that is not in
    it finds nothing, and each of its changes is a success that answers with what was given."""

    def __attrs_post_init__(self) -> None:
        self.answers = {
            route: getattr(self, name.lower())
            for family in (people, contacts, memories, tasks)
            for name, route in vars(family).items()
            if isinstance(route, Route) and hasattr(self, name.lower())
        }

    async def request(self, route: Route[R], /, **values: Any) -> R:
        """Do what `answers` says."""
        await trio.lowlevel.checkpoint()
        path, rest = route.filled(values)  # raises what the client would
        answer = self.answers.get(route)
        if answer is not None:
            done: R = answer(**values)
        else:
            done = _of_nothing(route, path, rest)
        if route.method != "GET":
            self.on_change()
        return done

    async def list_participants(self, room_id: str, /) -> Page[Participant]:
        """Return who is in the room."""
        await trio.lowlevel.checkpoint()
        return Page(list(self.participants or ()))

    def add_participant(self, room_id: str, participant_id: str, role: str) -> Participant | None:
        """Move a peer into the room; 409 if present, 404 if unknown."""
        present = self.participants or []
        if any(person.id == participant_id for person in present):
            raise BandApiError(409, "conflict", "already a participant")
        peer = next((peer for peer in self.peers if peer.id == participant_id), None)
        if peer is None:
            raise BandApiError(404, "not_found", "no such participant")
        person = Participant(
            peer.id, peer.type, peer.name, peer.handle, peer.description, role, "inactive"
        )
        self.participants = [*present, person]
        self.added.append({"id": peer.id, "name": peer.name, "role": role})
        return person

    def remove_participant(self, room_id: str, participant_id: str) -> None:
        """Take somebody out of the room; 404 if absent."""
        present = self.participants or []
        person = next((each for each in present if each.id == participant_id), None)
        if person is None:
            raise BandApiError(404, "not_found", "no such participant")
        self.participants = [each for each in present if each is not person]
        self.removed.append({"id": person.id, "name": person.name})

    def list_peers(
        self, not_in_chat: str | None = None, page: int = 1, page_size: int = 50
    ) -> Page[Peer]:
        """Return a page of the peers that are not in the room."""
        inside = {person.id for person in self.participants or ()}
        free = [peer for peer in self.peers if peer.id not in inside]
        return numbered_page(free, page, page_size)

    def create_chat(self, task_id: str | None = None) -> ChatRoom | None:
        """Open a room."""
        room = ChatRoom(f"room-{len(self.rooms) + 1}", task_id=task_id, inserted_at=FAKE_TIME)
        self.rooms.append(room)
        return room

    async def get_context(
        self, room_id: str, cursor: str | None = None, limit: int = 100, /
    ) -> Page[ChatMessage]:
        """Return a page of the context, oldest first; the cursor is a number of rows."""
        await trio.lowlevel.checkpoint()
        self.context_calls.append({"room_id": room_id, "cursor": cursor, "limit": limit})
        return cursor_page(self.context, cursor, limit)

    async def post_message(
        self,
        room_id: str,
        content: str,
        mentions: Sequence[Mention],
        attachment_ids: Sequence[str] = (),
        is_it: IsIt | None = None,
        /,
    ) -> MessageReceipt:
        """Take a message; 422 if somebody mentioned is not in the room."""
        await trio.lowlevel.checkpoint()
        if self.message_error is not None:
            raise self.message_error
        present = {person.id: person for person in self.participants or ()}
        if self.participants is not None and any(each.id not in present for each in mentions):
            raise BandApiError(422, "mentioned_participant_not_in_room", "not in this room")
        message_id = f"message-{len(self.messages) + 1}"
        self.messages.append({"id": message_id, "content": content})
        recipients = [
            Recipient(each.id, each.handle, present[each.id].name if each.id in present else None)
            for each in mentions
        ]
        return MessageReceipt(message_id, True, recipients)

    async def post_event(
        self,
        room_id: str,
        content: str,
        message_type: str,
        metadata: dict[str, Any] | None = None,
        is_it: IsIt | None = None,
        /,
    ) -> EventReceipt:
        """Take an event."""
        await trio.lowlevel.checkpoint()
        if self.event_error is not None:
            raise self.event_error
        event_id = f"event-{len(self.events) + 1}"
        self.events.append(
            {
                "id": event_id,
                "content": content,
                "message_type": str(message_type),
                "metadata": metadata,
            }
        )
        return EventReceipt(event_id, True, message_type)


def _of_nothing(route: Route[R], path: str, given: dict[str, Any]) -> R:
    if route.method != "GET":
        return route.read(Answer(200, {"data": {"id": f"{path}#1", **given}}))
    try:
        return route.read(Answer(200, {"data": []}))
    except BandApiError:
        raise BandApiError(404, "not_found", f"a fake room has no {path}") from None

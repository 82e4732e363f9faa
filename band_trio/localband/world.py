"""The platform's state: parties, rooms, memberships. Pure: no I/O, time and ids come from outside.

What is said in rooms is in `posting`, stop and play in `control`; all of them act on a `World`.
A change that somebody may want to hear of is published as a `Push`; who listens is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta
from typing import Any, Final

import attrs

from band_trio.localband.offer import Offer
from band_trio.localband.party import (
    Agent,
    Member,
    Party,
    Role,
    User,
    UserRole,
    arrival,
    free_handle,
    owner_of,
    slug,
)
from band_trio.localband.push import Publish, Push, nobody
from band_trio.localband.records import Log
from band_trio.localband.room import Execution, Message, Room
from band_trio.localband.validate import checked_title, known_or_uuid
from band_trio.protocol import events
from band_trio.protocol.structure import timestamp_text
from band_trio.stores.contacts import Contacts, Person
from band_trio.stores.files import FileStore
from band_trio.stores.memories import MemoryStore
from band_trio.stores.refusal import conflict, forbidden, invalid, not_found
from band_trio.stores.tasks import RoomTasks

_TICK: Final = timedelta(microseconds=1)


@attrs.define(eq=False)
class World:
    """Everything the platform knows."""

    clock: Callable[[], datetime] = attrs.field(repr=False)
    """The time, with a zone."""
    new_id: Callable[[], str] = attrs.field(repr=False)
    """Makes unique ids; UUIDs unless a test wants readable ones."""
    log: Log = attrs.field(factory=Log, repr=False)
    parties: dict[str, Party] = attrs.field(factory=dict, repr=False)
    keys: dict[str, Party] = attrs.field(factory=dict, repr=False)
    rooms: dict[str, Room] = attrs.field(factory=dict, repr=False)
    rooms_of: dict[str, dict[str, Room]] = attrs.field(factory=dict, repr=False)
    """Party id → its rooms, in the order of joining."""
    messages: dict[str, Message] = attrs.field(factory=dict, repr=False)
    working: dict[tuple[str, str], bool] = attrs.field(factory=dict, repr=False)
    """(room id, agent id) → the latest report of activity."""
    publish: Publish = attrs.field(default=nobody, repr=False)
    is_online: Callable[[str], bool] = attrs.field(default=lambda _: False, repr=False)
    access_changed: Callable[[str], object] = attrs.field(default=lambda _: None, repr=False)
    """Told the id of a party that is gone, or of a room that somebody may not see any more."""
    watchers: list[Callable[[Push], object]] = attrs.field(factory=list, repr=False)
    """Called with every push, whoever else listens."""
    drifting_cursors: bool = False
    """Cursors count rows, so that pages shift when rows leave a list; some platforms do that."""
    offer: Offer = attrs.field(factory=Offer)
    tasks: dict[str, RoomTasks] = attrs.field(factory=dict, repr=False)
    """Room id → its tasks and board, where they were ever asked for."""
    files: FileStore = attrs.field(init=False, repr=False)
    memories: MemoryStore = attrs.field(init=False, repr=False)
    contacts: Contacts = attrs.field(init=False, repr=False)
    _handles: dict[str, Party] = attrs.field(factory=dict, repr=False)
    _latest: datetime | None = attrs.field(default=None, repr=False)
    _began: datetime | None = attrs.field(default=None, repr=False)

    def __attrs_post_init__(self) -> None:
        offer = self.offer
        self.files = FileStore(self.new_id, self.clock, offer.file_bytes, offer.file_seconds)
        self.memories = MemoryStore(self.new_id, self.stamp, lambda each: each in self.parties)
        self.contacts = Contacts(lambda _: self.new_id(), self.stamp, self.by_handle)

    # ------------------------------------------------------------------ time and news

    def stamp(self) -> str:
        """Return the time as text; never the same twice, so that rows have one order."""
        now = self.clock()
        if self._latest is not None and now <= self._latest:
            now = self._latest + _TICK
        self._latest = now
        return timestamp_text(now)

    def elapsed(self) -> float:
        """Return the seconds since the first call."""
        now = self.clock()
        if self._began is None:
            self._began = now
        return (now - self._began).total_seconds()

    def push(
        self,
        topic: str,
        event: str,
        make: Callable[[], dict[str, Any]],
        *,
        agents: Collection[str] = (),
        users: bool = True,
    ) -> Collection[str]:
        """Tell whoever listens; return the ids of the agents that were sent it."""
        push = Push(topic, event, make, agents, users)
        reached = self.publish(push)
        for watch in self.watchers:
            watch(push)
        return reached

    # ------------------------------------------------------------------ parties

    def add_user(
        self,
        name: str,
        role: UserRole = "user",
        *,
        party_id: str | None = None,
        handle: str | None = None,
        key: str | None = None,
    ) -> User:
        """Create a person with a key; an admin may create others."""
        user = User(
            id=party_id or self.new_id(),
            name=name,
            handle=handle or free_handle(slug(name), self._handles),
            api_key=key or f"thnv_u_{self.new_id()}",
            inserted_at=self.stamp(),
            role=role,
        )
        self._enter(user)
        return user

    def add_agent(
        self,
        owner: User,
        name: str,
        description: str,
        *,
        party_id: str | None = None,
        handle: str | None = None,
        key: str | None = None,
    ) -> Agent:
        """Create an agent with a key."""
        at = self.stamp()
        agent = Agent(
            id=party_id or self.new_id(),
            name=name,
            handle=handle or free_handle(f"{owner.handle}/{slug(name)}", self._handles),
            description=description,
            owner=owner,
            api_key=key or f"thnv_a_{self.new_id()}",
            inserted_at=at,
            updated_at=at,
        )
        self._enter(agent)
        return agent

    def _enter(self, party: Party) -> None:
        self.parties[party.id] = self.keys[party.api_key] = party
        self._handles[party.handle.lower()] = party
        self.rooms_of[party.id] = {}

    def by_handle(self, handle: str) -> Party | None:
        """Find a party by its handle, with or without `@`."""
        return self._handles.get(handle.removeprefix("@").lower())

    def agents_of(self, user: User) -> list[Agent]:
        """Return a person's agents, oldest first."""
        return [p for p in self.parties.values() if isinstance(p, Agent) and p.owner is user]

    def own_agent(self, user: User, agent_id: str) -> Agent:
        """Find an agent of that person.

        Raises:
            Refusal: 404 unknown, 403 somebody else's.
        """
        party = self.parties.get(agent_id)
        if not isinstance(party, Agent):
            raise known_or_uuid("id", agent_id, not_found("Agent"))
        if party.owner is not user:
            raise forbidden("Not your agent")
        return party

    def remove_agent(self, agent: Agent, *, force: bool) -> int:
        """Delete an agent, its key and its memberships; return how many executions went.

        Raises:
            Refusal: 422, it has a history and *force* is not set.
        """
        executions = len(self.rooms_of[agent.id])
        if executions and not force:
            raise invalid("/force", "agent has executions; set force to delete it anyway")
        for room in list(self.rooms_of[agent.id].values()):
            self._take_out(room, room.members[agent.id])
        lost, expired = self.contacts.forget(agent.id)
        for contact in lost:
            self.tell_of_contact([contact.other(agent.id)], "contact_removed", id=contact.id)
        for each in expired:
            news = {"id": each.id, "status": each.status}
            self.tell_of_contact([each.other(agent.id)], "contact_request_updated", **news)
        del self.parties[agent.id], self.keys[agent.api_key], self.rooms_of[agent.id]
        del self._handles[agent.handle.lower()]
        self.access_changed(agent.id)
        return executions

    def may_meet(self, by: Party, party: Party) -> bool:
        """Tell whether *by* may find a party and bring it into rooms: its own people, its contacts
        and those of its owner."""
        owner = owner_of(by)
        return owner_of(party) is owner or any(
            self.contacts.between(each, party.id) is not None for each in {by.id, owner.id}
        )

    def tell_of_contact(self, people: Iterable[Person], event: str, **news: Any) -> None:
        """Tell the agents among some people what became of a contact or a request."""
        for each in people:
            if isinstance(each, Agent):
                topic = events.agent_contacts(each.id)
                self.push(topic, event, lambda: news, agents=[each.id], users=False)

    # ------------------------------------------------------------------ rooms

    def room_of(self, party: Party, room_id: str) -> Room:
        """Find a room by one of its members.

        Raises:
            Refusal: 404, whether the room does not exist or the caller is not in it.
        """
        room = self.rooms.get(room_id)
        if room is None or party.id not in room.members:
            raise known_or_uuid("chat_id", room_id, not_found("Chat room"))
        return room

    def room_for_reader(self, party: Party, room_id: str) -> Room:
        """Find a room that *party* may read: its own, or one of an agent that it owns.

        Raises:
            Refusal: 404.
        """
        room = self.rooms.get(room_id)
        if room is not None and any(agent.owner is party for agent in room.agents()):
            return room
        return self.room_of(party, room_id)

    def room_for_owner(self, party: Party, room_id: str) -> Room:
        """Find a room that *party* may dispose of: it or an agent of it is the owner.

        Raises:
            Refusal: 404 hidden, 403 readable but not owned.
        """
        room = self.room_for_reader(party, room_id)
        owners = [m.party for m in room.members.values() if m.role == "owner"]
        if not any(owner_of(each) is owner_of(party) for each in owners):
            raise forbidden("Only the owner may do that")
        return room

    def tasks_of(self, room: Room) -> RoomTasks:
        """Return the tasks and the board of a room."""
        if room.id not in self.tasks:
            self.tasks[room.id] = RoomTasks(room.id, self.new_id, self.stamp)
        return self.tasks[room.id]

    def create_room(
        self,
        owner: Party,
        title: str | None,
        task_id: str | None = None,
        *,
        room_id: str | None = None,
    ) -> Room:
        """Create a room; its owner hears `room_added` too (platform docs, agent_rooms)."""
        at = self.stamp()
        room = Room(room_id or self.new_id(), title, task_id, at, at)
        self.rooms[room.id] = room
        self._put_in(room, owner, "owner")
        return room

    def rename(self, room: Room, party: Party, title: Any) -> None:
        """Set the title; only the owner may.

        Raises:
            Refusal: 403, 422.
        """
        if room.members[party.id].role != "owner":
            raise forbidden("Only the owner may rename the room")
        room.title, room.updated_at = checked_title(title), self.stamp()
        users = [m.party.id for m in room.members.values() if isinstance(m.party, User)]
        for user_id in users:
            self.push(f"user_rooms:{user_id}", "room_updated", room.render_for_user)

    def delete_room(self, room: Room) -> None:
        """Delete a room for everybody, with its tasks and files."""
        members = list(room.members.values())
        agents = [agent.id for agent in room.agents()]
        del self.rooms[room.id]
        self.tasks.pop(room.id, None)
        self.files.forget(room.id)
        for message in room.messages:
            del self.messages[message.id]
        room.members.clear()
        for member in members:
            del self.rooms_of[member.party.id][room.id]
            self.working.pop((room.id, member.party.id), None)
        topic = events.room_participants(room.id)
        self.push(topic, "room_deleted", lambda: {"id": room.id}, agents=agents)
        for member in members:
            self._tell_of_room(room, member.party, "room_removed")
        self.access_changed(room.id)

    # ------------------------------------------------------------------ participants

    def add_participant(self, room: Room, by: Party, participant_id: str, role: Role) -> Member:
        """Let *by* bring somebody in.

        Raises:
            Refusal: 403 not allowed, 404 unknown, 409 present already.
        """
        party = self.parties.get(participant_id)
        if party is None:
            missing = not_found("Participant")
            raise known_or_uuid("participant/participant_id", participant_id, missing)
        if not self.may_meet(by, party):
            raise forbidden("You may not add this participant")
        # Present already comes before the question of role: the row says what the role is.
        if party.id in room.members:
            raise conflict("Already a participant")
        own = room.members[by.id].role if by.id in room.members else "owner"
        if role != "member" and own == "member":
            raise forbidden("Members may not promote anyone")
        return self._put_in(room, party, role)

    def remove_participant(self, room: Room, by: Party, participant_id: str) -> Member:
        """Let *by* take somebody out, or leave.

        Raises:
            Refusal: 403 not allowed, 404 not in the room.
        """
        member = room.members.get(participant_id)
        if member is None:
            raise known_or_uuid("participant_id", participant_id, not_found("Participant"))
        self._check_removal(room.members[by.id], member)
        self._take_out(room, member)
        return member

    def _check_removal(self, by: Member, member: Member) -> None:
        if member.role == "owner":
            raise forbidden("The owner cannot be removed and cannot leave")
        if member is by:
            return
        if by.role == "member":
            raise forbidden("Only owner and admin may remove others")
        if isinstance(by.party, Agent) and isinstance(member.party, User):
            raise forbidden("Agents may not remove users")

    def _put_in(self, room: Room, party: Party, role: Role) -> Member:
        member = Member(party, role, self.stamp())
        present = [agent.id for agent in room.agents()]
        room.members[party.id] = member
        self.rooms_of[party.id][room.id] = room
        if isinstance(party, Agent):
            room.executions[party.id] = Execution(self.new_id(), self.stamp())
        topic = events.room_participants(room.id)
        self.push(topic, "participant_added", lambda: arrival(party), agents=present)
        self._tell_of_room(room, party, "room_added")
        return member

    def _take_out(self, room: Room, member: Member) -> None:
        party = member.party
        del room.members[party.id], self.rooms_of[party.id][room.id]
        room.executions.pop(party.id, None)
        self.working.pop((room.id, party.id), None)
        present = [agent.id for agent in room.agents()]
        topic = events.room_participants(room.id)
        self.push(topic, "participant_removed", lambda: arrival(party), agents=present)
        self._tell_of_room(room, party, "room_removed")
        self.access_changed(room.id)

    def _tell_of_room(self, room: Room, party: Party, event: str) -> None:
        if isinstance(party, Agent):
            self.push(events.agent_rooms(party.id), event, room.render, agents=[party.id])
        else:
            self.push(f"user_rooms:{party.id}", event, room.render_for_user)

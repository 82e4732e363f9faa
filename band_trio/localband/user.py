"""A person at the platform, for programs: what the REST routes for persons do, without HTTP."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import trio

from band_trio.localband import contacts, control, posting
from band_trio.localband.party import Agent, Ref, Role, User, id_of
from band_trio.localband.world import World
from band_trio.stores.contacts import Action
from band_trio.stores.files import NAME, SHA256
from band_trio.stores.refusal import api_errors


@attrs.frozen
class LocalRoom:
    """A room, as its creator knows it."""

    id: str
    title: str | None = None


@attrs.define(eq=False)
class LocalUser:
    """Acts as a person. Every method goes through the same code as the REST routes.

    Rooms and agents may be given as ids or as objects with an `id`. A refusal is a `BandApiError`.
    """

    _world: World = attrs.field(repr=False)
    party: User
    """The person in the platform's state."""

    @property
    def api_key(self) -> str:
        """The person's key, for the REST routes under `/api/v1/me`."""
        return self.party.api_key

    @property
    def id(self) -> str:
        """The person's id."""
        return self.party.id

    @property
    def name(self) -> str:
        """The person's name."""
        return self.party.name

    @property
    def handle(self) -> str:
        """The person's handle, without `@`."""
        return self.party.handle

    async def create_room(self, title: str | None = None, members: Iterable[Ref] = ()) -> LocalRoom:
        """Create a room that this person owns, and bring *members* in."""
        await trio.lowlevel.checkpoint()
        with api_errors():
            room = self._world.create_room(self.party, title)
            for member in members:
                self._world.add_participant(room, self.party, id_of(member), "member")
        return LocalRoom(room.id, room.title)

    async def add(self, room: Ref, member: Ref, role: Role = "member") -> None:
        """Bring somebody in."""
        await trio.lowlevel.checkpoint()
        with api_errors():
            found = self._world.room_of(self.party, id_of(room))
            self._world.add_participant(found, self.party, id_of(member), role)

    async def remove(self, room: Ref, member: Ref) -> None:
        """Take somebody out."""
        await trio.lowlevel.checkpoint()
        with api_errors():
            found = self._world.room_of(self.party, id_of(room))
            self._world.remove_participant(found, self.party, id_of(member))

    async def put_file(self, room: Ref, name: str, content: bytes) -> str:
        """Bring a file into a room, where a message has to carry it; return its id."""
        await trio.lowlevel.checkpoint()
        headers = {NAME: name, SHA256: hashlib.sha256(content).hexdigest()}
        with api_errors():
            found = self._world.room_of(self.party, id_of(room))
            self._world.offer.check("files")
            return self._world.files.put(found.id, content, headers).id

    async def send(
        self,
        room: Ref,
        content: str,
        mentions: Sequence[Ref],
        *,
        attachment_ids: Sequence[str] = (),
    ) -> str:
        """Say something to somebody: objects, ids or handles. Return the message's id.

        *attachment_ids* are those of `put_file`.
        """
        await trio.lowlevel.checkpoint()
        with api_errors():
            found = self._world.room_of(self.party, id_of(room))
            return posting.say(self._world, found, self.party, content, mentions, attachment_ids).id

    async def messages(self, room: Ref) -> list[dict[str, Any]]:
        """Return everything in a room, events included, oldest first, as it is listed."""
        await trio.lowlevel.checkpoint()
        with api_errors():
            found = self._world.room_for_reader(self.party, id_of(room))
        return [message.render() for message in found.messages]

    async def participants(self, room: Ref) -> list[dict[str, Any]]:
        """Return who is in a room."""
        await trio.lowlevel.checkpoint()
        with api_errors():
            found = self._world.room_for_reader(self.party, id_of(room))
        is_online = self._world.is_online
        return [m.render(online=is_online(m.party.id)) for m in found.members.values()]

    async def stop(self, room: Ref) -> None:
        """Stop all agents of a room."""
        await trio.lowlevel.checkpoint()
        with api_errors():
            control.stop_room(self._world, self._world.room_for_owner(self.party, id_of(room)))

    async def play(self, room: Ref) -> None:
        """Let all agents of a room go on."""
        await trio.lowlevel.checkpoint()
        with api_errors():
            control.play_room(self._world, self._world.room_for_owner(self.party, id_of(room)))

    async def interrupt(self, agent: Ref) -> str:
        """End what an agent is running, in all its rooms; return the signal's correlation id."""
        await trio.lowlevel.checkpoint()
        with api_errors():
            found: Agent = self._world.own_agent(self.party, id_of(agent))
            rows = control.executions(self._world, found)
            if not rows:
                return control.signal(self._world, found, "interrupt", room_id=None)
            return control.interrupt(self._world, found, rows[0]["id"])

    async def delete_room(self, room: Ref) -> None:
        """Delete a room for everybody."""
        await trio.lowlevel.checkpoint()
        with api_errors():
            self._world.delete_room(self._world.room_for_owner(self.party, id_of(room)))

    # ------------------------------------------------------------------ contacts

    async def request_contact(self, handle: str, message: str | None = None) -> str:
        """Ask somebody to become a contact; return the request's id."""
        await trio.lowlevel.checkpoint()
        with api_errors():
            return contacts.ask(self._world, self.party, handle, message).id

    async def answer_contact(self, request_id: str, action: Action) -> None:
        """Approve or reject a request that was received, or cancel one that was sent."""
        await trio.lowlevel.checkpoint()
        with api_errors():
            contacts.respond(self._world, self.party, action, request_id=request_id)

    async def remove_contact(self, handle: str) -> None:
        """End a contact, for both sides."""
        await trio.lowlevel.checkpoint()
        with api_errors():
            contacts.remove(self._world, self.party, handle=handle)

    async def contacts(self) -> list[str]:
        """Return the handles of the person's contacts."""
        await trio.lowlevel.checkpoint()
        found = self._world.contacts.of(self.id)
        return [contact.other(self.id).handle for contact in found]

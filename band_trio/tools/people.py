"""Who is in the room and who could be: looking up, adding, removing, and opening new rooms.

The docstrings and descriptions of the inputs are what a model reads.
"""

# ruff: noqa: RUF009 - `argument` declares an attrs field

from __future__ import annotations

import logging
from typing import Any, Final, Literal

import attrs

from band_trio import texts
from band_trio.errors import (
    BandApiError,
    BandConnectionError,
    BandToolError,
    OutcomeUnknownError,
)
from band_trio.link.rest.pages import PageWalk
from band_trio.link.rest.routes import Route, nothing, page_of, written
from band_trio.protocol.rest import PAGE, ChatMessage, ChatRoom, Page, Participant, Peer
from band_trio.protocol.structure import unstructure
from band_trio.tools.conversation import bare_handle
from band_trio.tools.core import ToolCore, fenced, platform_tool, roster_entry
from band_trio.tools.definitions import argument
from band_trio.tools.mentions import find_person
from band_trio.tools.results import cursor_metadata, page_metadata, page_result, without_nulls
from band_trio.types import ToolCategory, TurnEffect

_log: Final = logging.getLogger(__name__)
_CHAT, _OBSERVE, _ACT = ToolCategory.CHAT, TurnEffect.OBSERVE, TurnEffect.ACT

PEER_PAGES: Final = 50
"""Most pages of peers that are searched for somebody to add."""

_PARTICIPANT_FIELDS: Final = (
    "id", "name", "type", "handle", "role", "status", "online", "avatar_url",
)  # fmt: skip
_MEMBER_FIELDS: Final = ("id", "name", "role")

# --------------------------------------------------------------------------- routes

_PARTICIPANTS: Final = "/chats/{room_id}/participants"
ADD_PARTICIPANT: Final = Route("POST", _PARTICIPANTS, written(Participant), under="participant")
"""409 where they are in the room."""
REMOVE_PARTICIPANT: Final = Route("DELETE", f"{_PARTICIPANTS}/{{participant_id}}", nothing)
LIST_PEERS: Final = Route("GET", "/peers", page_of(Peer))
CREATE_CHAT: Final = Route("POST", "/chats", written(ChatRoom), under="chat")

# --------------------------------------------------------------------------- inputs

Role = Literal["owner", "admin", "member"]


@attrs.frozen
class AddParticipantInput:
    """Bring a user or an agent into this room. Find them with band_lookup_peers first and pass the
    id it gave you."""

    identifier: str = argument(
        "Whom to add: the exact id (best), a handle, or a name that only one peer has.",
        visible=True,
        aliases=["name"],
    )
    role: Role = argument("The role in the room; almost always member.", default="member")


@attrs.frozen
class RemoveParticipantInput:
    """Take a participant out of this room."""

    identifier: str = argument(
        "Whom to remove: the id, a handle, or a name that only one participant has.",
        visible=True,
        aliases=["name"],
    )


@attrs.frozen
class LookupPeersInput:
    """List the users and agents who could be added to this room, page by page; those already
    present are left out. Use it also to answer who could help with something. Entries are under
    `data`, counts under `metadata`."""

    page: int = argument("Which page, from 1.", default=1, low=1)
    page_size: int = argument("Entries per page, 1 to 100.", default=50, low=1, high=100)


@attrs.frozen
class GetParticipantsInput:
    """List who is in this room now, with ids and handles."""


@attrs.frozen
class CreateChatroomInput:
    """Open a new room that you own and get its id. It starts empty, and this room is not
    affected."""

    task_id: str | None = argument(
        "Id of a task that the room is for, if there is one.", default=None
    )


# --------------------------------------------------------------------------- tools


class People(ToolCore):
    """The tools about participants, peers and rooms."""

    @platform_tool(GetParticipantsInput, _CHAT, _OBSERVE, room_bound=True)
    async def get_participants(self) -> list[dict[str, Any]]:
        """Return who is in the room now, and bring the roster up to date.

        Raises:
            BandApiError: the platform said no.
            BandToolError: it was not reached, or did not answer in time.
        """
        page = await self._refresh_roster(self._deadline())
        listed = {row.id: _shown(row) for row in page.items}
        unlisted = [each for each in self.participants if each.get("id") not in listed]
        return [*listed.values(), *unlisted]

    @platform_tool(LookupPeersInput, _CHAT, _OBSERVE, room_bound=True)
    async def lookup_peers(self, page: int = 1, page_size: int = 50) -> dict[str, Any]:
        """Return one page of users and agents who could be added: `data` and `metadata`.

        Errors: see `get_participants`.
        """
        peers = await self._ask(
            LIST_PEERS, not_in_chat=self.room_id, page=page, page_size=page_size
        )
        return page_result(peers, page_metadata(peers, page, page_size))

    @platform_tool(AddParticipantInput, _CHAT, _ACT, room_bound=True)
    async def add_participant(self, identifier: str, role: str = "member") -> dict[str, Any]:
        """Bring somebody into the room, by id, handle or name.

        Returns `id`, `name`, `role` and `status`: `added` or `already_in_room`.

        Raises:
            BandToolError: nobody or several people fit, or nobody knows whether it worked.
            BandApiError: the platform said no.
            RoomExecutionStoppedError: the agent is stopped in this room.
        """
        deadline = self._deadline()
        await self._refresh_roster(deadline)
        present = find_person(identifier, self._roster, error=BandToolError)
        if present is not None:
            return _membership(present, "already_in_room")
        peer = await self._find_peer(identifier, deadline)
        entry = roster_entry(peer)
        status, lost = "added", None
        try:
            with self._writing(deadline, _ACT):
                row = await self.rest.request(
                    ADD_PARTICIPANT, room_id=self.room_id, participant_id=peer.id, role=role
                )
                role = (row.role if row is not None else None) or role
        except OutcomeUnknownError as exc:
            lost = exc
        except BandApiError as exc:
            if exc.status != 409:
                raise
            status = "already_in_room"
        if lost is not None and not await self._is_present(peer.id, "added", lost):
            raise BandToolError(texts.membership_unchanged(identifier, "added")) from lost
        self._note_present(entry)
        return _membership({**entry, "role": role}, status)

    @platform_tool(RemoveParticipantInput, _CHAT, _ACT, room_bound=True)
    async def remove_participant(self, identifier: str) -> dict[str, Any]:
        """Take somebody out of the room, by id, handle or name.

        Returns `id`, `name` and `status`. Errors: see `add_participant`.
        """
        deadline = self._deadline()
        await self._refresh_roster(deadline)
        person = find_person(identifier, self._roster, error=BandToolError)
        if person is None:
            handles = self.available_mention_handles()
            listed = f" In it are: {', '.join(handles)}." if handles else ""
            raise BandToolError(texts.not_in_this_room(identifier) + listed)
        person_id = str(person["id"])
        lost = None
        try:
            with self._writing(deadline, _ACT, repeated=True):
                await self.rest.request(
                    REMOVE_PARTICIPANT, room_id=self.room_id, participant_id=person_id
                )
        except OutcomeUnknownError as exc:
            lost = exc
        if lost is not None and await self._is_present(person_id, "removed", lost):
            raise BandToolError(texts.membership_unchanged(identifier, "removed")) from lost
        self._note_absent(person_id)
        return _membership(person, "removed")

    @platform_tool(CreateChatroomInput, _CHAT, _ACT)
    async def create_chatroom(self, task_id: str | None = None) -> str:
        """Open a new room that the agent owns; return its id.

        Raises:
            BandToolError: nobody knows whether the room exists, or the platform was not reached.
            BandApiError: the platform said no.
        """
        try:
            with self._writing(self._deadline(), _ACT):
                room = await self.rest.request(CREATE_CHAT, task_id=task_id or None)
        except OutcomeUnknownError as exc:
            self.turn.record(_ACT)
            raise BandToolError(texts.ROOM_MAY_EXIST) from exc
        return room.id if room is not None else texts.ROOM_ID_UNKNOWN

    @fenced
    async def fetch_room_context(
        self, *, room_id: str | None = None, cursor: str | None = None, limit: int = 50
    ) -> dict[str, Any]:
        """Return one page of what was said, oldest first: `data` and `metadata`.

        Without *cursor* it is the oldest page; `metadata.next_cursor` leads on. *limit* is at
        most 100. Errors: see `get_participants`.
        """
        size = max(1, min(limit, PAGE))
        with self._reading(self._deadline()):
            page: Page[ChatMessage] = await self.rest.get_context(
                room_id or self.room_id, cursor, size
            )
        rows = [unstructure(row) for row in page.items]
        return {"data": rows, "metadata": cursor_metadata(page, size)}

    # ----------------------------------------------------------------- looking for people

    async def _find_peer(self, identifier: str, deadline: float) -> Peer:
        """Search the peers, page by page; an exact handle or id ends the search at once."""
        wanted = bare_handle(identifier)
        peers: dict[str, Peer] = {}
        walk = PageWalk("the agent's peers", most=PEER_PAGES)
        while not walk.ended:
            with self._reading(deadline):
                page = await self.rest.request(
                    LIST_PEERS, not_in_chat=self.room_id, page=walk.number, page_size=PAGE
                )
            self.turn.check_open()
            peers.update((peer.id, peer) for peer in page.items)
            if any(wanted in (peer.id, bare_handle(peer.handle)) for peer in page.items):
                break
            walk.follow_number(page)
        entries = [roster_entry(peer) for peer in peers.values()]
        hit = find_person(identifier, entries, error=BandToolError)
        if hit is None:
            raise BandToolError(texts.peer_not_found(identifier))
        return peers[hit["id"]]

    async def _is_present(self, person_id: str, done: str, lost: BaseException) -> bool:
        """Look once whether somebody is in the room, after an answer was lost."""
        page: Page[Participant] = Page([])
        try:
            # A deadline of its own: the one of the call may be what was missed.
            page = await self._refresh_roster(self._deadline(), after_a_write=True)
        except (BandApiError, BandConnectionError, BandToolError) as exc:
            _log.warning("room %s: the participants could not be read: %s", self.room_id, exc)
        present = any(row.id == person_id for row in page.items)
        if not present and (page.dropped or not page.items):
            self.turn.record(_ACT)
            raise BandToolError(texts.membership_unknown(person_id, done)) from lost
        return present


def _shown(row: Participant) -> dict[str, Any]:
    return without_nulls({name: getattr(row, name) for name in _PARTICIPANT_FIELDS})


def _membership(person: Any, status: str) -> dict[str, Any]:
    return without_nulls({name: person.get(name) for name in _MEMBER_FIELDS} | {"status": status})

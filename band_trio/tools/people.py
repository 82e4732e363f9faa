"""Who is in the room and who could be: looking up, adding, removing, and opening new rooms."""

from __future__ import annotations

import logging
from typing import Any, Final

from band_trio import texts
from band_trio.errors import (
    BandApiError,
    BandConnectionError,
    BandToolError,
    OutcomeUnknownError,
)
from band_trio.link.rest.pages import PageWalk
from band_trio.protocol.rest import PAGE, ChatMessage, Page, Participant, Peer
from band_trio.protocol.structure import unstructure
from band_trio.tools import chat_inputs as chat
from band_trio.tools.conversation import bare_handle
from band_trio.tools.core import ToolCore, fenced, platform_tool, roster_entry
from band_trio.tools.mentions import find_person
from band_trio.tools.results import cursor_metadata, page_metadata, page_result, without_nulls
from band_trio.types import ToolCategory, TurnEffect

_log: Final = logging.getLogger(__name__)
_CHAT: Final = ToolCategory.CHAT

PEER_PAGES: Final = 50
"""Most pages of peers that are searched for somebody to add."""

_PARTICIPANT_FIELDS: Final = (
    "id", "name", "type", "handle", "role", "status", "online", "avatar_url",
)  # fmt: skip
_MEMBER_FIELDS: Final = ("id", "name", "role")


class People(ToolCore):
    """The tools about participants, peers and rooms."""

    @platform_tool(chat.GetParticipantsInput, _CHAT, TurnEffect.OBSERVE, room_bound=True)
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

    @platform_tool(chat.LookupPeersInput, _CHAT, TurnEffect.OBSERVE, room_bound=True)
    async def lookup_peers(self, page: int = 1, page_size: int = 50) -> dict[str, Any]:
        """Return one page of users and agents who could be added: `data` and `metadata`.

        Errors: see `get_participants`.
        """
        with self._reading(self._deadline()):
            peers = await self.rest.list_peers(self.room_id, page, page_size)
        return page_result(peers, page_metadata(peers, page, page_size))

    @platform_tool(chat.AddParticipantInput, _CHAT, TurnEffect.ACT, room_bound=True)
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
            with self._writing(deadline, TurnEffect.ACT):
                row = await self.rest.add_participant(self.room_id, peer.id, role)
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

    @platform_tool(chat.RemoveParticipantInput, _CHAT, TurnEffect.ACT, room_bound=True)
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
            with self._writing(deadline, TurnEffect.ACT, repeated=True):
                await self.rest.remove_participant(self.room_id, person_id)
        except OutcomeUnknownError as exc:
            lost = exc
        if lost is not None and await self._is_present(person_id, "removed", lost):
            raise BandToolError(texts.membership_unchanged(identifier, "removed")) from lost
        self._note_absent(person_id)
        return _membership(person, "removed")

    @platform_tool(chat.CreateChatroomInput, _CHAT, TurnEffect.ACT)
    async def create_chatroom(self, task_id: str | None = None) -> str:
        """Open a new room that the agent owns; return its id.

        Raises:
            BandToolError: nobody knows whether the room exists, or the platform was not reached.
            BandApiError: the platform said no.
        """
        try:
            with self._writing(self._deadline(), TurnEffect.ACT):
                room = await self.rest.create_chat(task_id)
        except OutcomeUnknownError as exc:
            self.turn.record(TurnEffect.ACT)
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
                page = await self.rest.list_peers(self.room_id, walk.number, PAGE)
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
            self.turn.record(TurnEffect.ACT)
            raise BandToolError(texts.membership_unknown(person_id, done)) from lost
        return present


def _shown(row: Participant) -> dict[str, Any]:
    return without_nulls({name: getattr(row, name) for name in _PARTICIPANT_FIELDS})


def _membership(person: Any, status: str) -> dict[str, Any]:
    return without_nulls({name: person.get(name) for name in _MEMBER_FIELDS} | {"status": status})

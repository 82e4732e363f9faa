"""The agent's one hub room: found again after a restart, made if there is none."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Final

import attrs
import trio

from band_trio.errors import BandApiError, BandError
from band_trio.kit.backoff import half_jitter
from band_trio.kit.logs import RepeatedLog
from band_trio.link.rest.rest import RestClient
from band_trio.protocol.rest import ChatRoom
from band_trio.runtime.contacts.words import HUB_TITLE
from band_trio.runtime.listing import read_rooms
from band_trio.tools.people import CREATE_CHAT

_repeated: Final = RepeatedLog(logging.getLogger(__name__))

TRY_BASE: Final = 1.0
TRY_CAP: Final = 60.0
"""Seconds between two tries. A room whose creation had no answer has that long to appear."""
_LAST: Final = datetime.max.replace(tzinfo=UTC)


@attrs.define(eq=False)
class HubFinder:
    """Finds or makes the hub room."""

    _rest: RestClient
    _agent_id: str
    _task_id: str | None
    """Marks the hub room; None: found by its title and our ownership."""

    async def find(self) -> str | None:
        """Look for the hub room in the listing: the oldest one that fits.

        Raises:
            BandError: the listing, or who owns a candidate, could not be read.
        """
        listed = await read_rooms(self._rest)
        candidates = [row for row in listed.rows.values() if self._fits(row)]
        for row in sorted(candidates, key=lambda row: (row.inserted_at or _LAST, row.id)):
            if self._task_id is not None or await self._is_ours(row.id):
                return row.id
        return None

    async def get(self) -> str:
        """Find or make the hub room, for as long as that takes.

        The listing is read before each creation: the answer to the last one may have been lost.
        """
        tries = 0
        while True:
            told = 0.0
            try:
                return await self.find() or await self._create()
            except BandError as exc:
                _repeated.warning("the contact hub room is not there yet: %s", exc)
                told = (exc.retry_after if isinstance(exc, BandApiError) else None) or 0.0
            await trio.sleep(max(told, half_jitter(tries, TRY_BASE, TRY_CAP)))
            tries += 1

    async def _create(self) -> str:
        values = {"task_id": self._task_id} if self._task_id is not None else {}
        room = await self._rest.request(CREATE_CHAT, title=HUB_TITLE, **values)
        if room is None:
            raise BandError("The answer to the creation of the contact hub room cannot be read.")
        return room.id

    def _fits(self, row: ChatRoom) -> bool:
        if self._task_id is not None:
            return row.task_id is not None and row.task_id.casefold() == self._task_id.casefold()
        return row.title == HUB_TITLE

    async def _is_ours(self, room_id: str) -> bool:
        """Tell whether we own a room: anybody may give one our title."""
        page = await self._rest.list_participants(room_id)
        return any(each.id == self._agent_id and each.role == "owner" for each in page.items)

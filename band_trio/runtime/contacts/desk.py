"""What happens to the agent's contacts, taken in at once and handled one after the other.

Everything runs in one task of its own: no room and no frame waits for it. An event stays at the
head of the queue until its callback, or the hub room's turn, has worked, or has failed too often.
"""

from __future__ import annotations

import logging
import math
from datetime import UTC, datetime
from functools import partial
from typing import Final

import attrs
import trio

from band_trio import texts
from band_trio.config.agent import ContactEventConfig, ContactStrategy
from band_trio.errors import BandApiError, BandError
from band_trio.kit.backoff import half_jitter
from band_trio.kit.bell import Bell
from band_trio.kit.logs import RepeatedLog
from band_trio.link.rest.pages import read_numbered
from band_trio.link.rest.rest import RestClient
from band_trio.protocol.events import ContactEvent
from band_trio.protocol.holdings import ContactRequest
from band_trio.protocol.rest import Page
from band_trio.runtime.contacts.book import LISTED, ContactBook, Lists
from band_trio.runtime.contacts.hub import HubFinder
from band_trio.runtime.contacts.words import (
    HUB_TITLE,
    change_line,
    hub_message,
    hub_metadata,
    hub_text,
)
from band_trio.runtime.journal.verdict import NOT_ACCEPTED, Fate, offer_wait
from band_trio.runtime.membership.presence import RoomPresence
from band_trio.runtime.problems import Problems
from band_trio.runtime.room.execution import ExecutionContext
from band_trio.runtime.turn.services import RoomServices
from band_trio.tools.contact_tools import ContactTools
from band_trio.tools.contacts import LIST_CONTACT_REQUESTS, LIST_CONTACTS
from band_trio.trace import ContactHandled, Posted, Read

_log: Final = logging.getLogger(__name__)
_repeated: Final = RepeatedLog(_log)

QUEUE: Final = 256
"""Events that wait to be handled; beyond that the lists are read again once there is room."""
AGAIN: Final = (1.0, 5.0, 30.0)
"""Seconds before an event that failed is handled again."""
READ_BASE: Final = 1.0
READ_CAP: Final = 60.0
"""Seconds between two tries to read the lists."""
SERVED_SECONDS: Final = 30.0
"""Longest wait for the hub room to be served; then it is looked for again."""
PAGE: Final = 100


@attrs.define(eq=False)
class ContactDesk:
    """See the module."""

    _config: ContactEventConfig
    _hook_seconds: float
    _services: RoomServices
    _presence: RoomPresence
    _problems: Problems
    book: ContactBook = attrs.field(init=False)
    _finder: HubFinder = attrs.field(init=False)
    _bell: Bell = attrs.field(factory=Bell, init=False)
    _failures: int = attrs.field(default=0, init=False)
    """Tries in a row to read the lists that failed."""
    _read_at: float = attrs.field(default=-math.inf, init=False)
    """When they may be read again, in trio's time."""
    _told_until: float = attrs.field(default=-math.inf, init=False)
    """Not before then, whatever happens, as the platform said."""
    _greeted: ExecutionContext | None = attrs.field(default=None, init=False)
    """The child of the hub room that was told what the room is for."""

    def __attrs_post_init__(self) -> None:
        handled = self._config.strategy is not ContactStrategy.DISABLED
        self.book = ContactBook(QUEUE if handled else 0)
        services = self._services
        self._finder = HubFinder(services.rest, services.me.id, self._config.hub_task_id)

    # ------------------------------------------------------------------ told by the dispatcher: sync

    def pushed(self, event: ContactEvent) -> None:
        """A contact or a request has changed."""
        self._tell(self.book.pushed(event))
        self._tell_lost()

    def relist(self) -> None:
        """The connection or the topic is new: something may have been missed."""
        self.book.stale, self._read_at = True, self._told_until
        self._bell.ring()

    def _tell(self, event: ContactEvent | None) -> None:
        """Tell the rooms that are served now of a change, and have it handled."""
        if event is None:
            return
        self._bell.ring()
        line = change_line(event) if self._config.broadcast_changes else None
        if line is not None:
            for room in self._presence.rooms():
                if room.room_id != self._services.hub.room_id:  # it has a turn for it
                    room.briefing.inject_system_message(line)

    def _tell_lost(self) -> None:
        for _ in range(self.book.lost):
            _repeated.warning(
                "a contact event found no place behind %d others; the lists are read again later",
                QUEUE,
            )
        self.book.lost = 0

    # ------------------------------------------------------------------ the task

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Handle events, until cancelled; nothing new is begun once the run ends."""
        task_status.started()
        if self._config.strategy is ContactStrategy.HUB_ROOM:
            await self._look_for_hub()
        while not self._services.lifecycle.closing:
            if self.book.waiting:
                await self._handle(self.book.waiting[0])
                self.book.waiting.popleft()
            elif self.book.stale and trio.current_time() >= self._read_at:
                await self._catch_up()
            else:
                await self._bell.wait_until(self._read_at if self.book.stale else math.inf)
        await trio.sleep_forever()  # its end would be that of a part

    async def _look_for_hub(self) -> None:
        """Find the hub room of an earlier run: its turns have the contact tools from the start."""
        try:
            self._services.hub.room_id = await self._finder.find()
        except BandError as exc:
            _repeated.warning("looking for the contact hub room failed: %s", exc)

    async def _catch_up(self) -> None:
        """Read the lists, and handle what was missed."""
        self.book.reading()
        try:
            lists = await read_lists(self._services.rest)
        except BandError as exc:
            _repeated.warning("the contacts could not be read, it is tried again: %s", exc)
            told = (exc.retry_after if isinstance(exc, BandApiError) else None) or 0.0
            self.book.failed()
            now = trio.current_time()
            self._told_until = now + told
            wait = half_jitter(self._failures, READ_BASE, READ_CAP)
            self._read_at = max(now + wait, self._told_until)
            self._failures += 1
        else:
            self._failures = 0
            self._services.tracer(Read("", "contacts"))
            for event in self.book.listed(lists):
                self._tell(event)
            self._tell_lost()

    # ------------------------------------------------------------------ one event

    async def _handle(self, event: ContactEvent) -> None:
        in_hub = self._config.strategy is ContactStrategy.HUB_ROOM
        worked = False
        for wait in (0.0, *AGAIN):
            await trio.sleep(wait)
            worked = await (self._in_hub(event, again=wait > 0) if in_hub else self._call(event))
            if worked:
                break
        self._services.tracer(ContactHandled(event.kind, event.id, worked))
        if not worked:
            text = (
                f"{event.kind} {event.id} is not handled any more: it failed {1 + len(AGAIN)} times"
            )
            _log.error("%s", text)
            self._problems.note(text)

    async def _call(self, event: ContactEvent) -> bool:
        """Call the application; tell whether that worked."""
        hook = self._config.on_event
        if hook is None:  # the options were checked
            raise RuntimeError("there is no on_event")
        return await self._services.app.hooks.guard(
            f"on_event for {event.kind} {event.id}", hook,
            (event, ContactTools(self._services.rest)),
            bound=trio.move_on_after(self._hook_seconds),  # noqa: ASYNC122 - entered at once
        )  # fmt: skip

    async def _in_hub(self, event: ContactEvent, *, again: bool) -> bool:
        """Have the hub room's turn about it; tell whether that worked.

        A turn that was stopped, or was not accepted, has not failed. A room that ended before is
        looked for again.
        """
        offers = 0
        while True:
            room = await self._hub_room()
            if not again:
                await self._post(event, room.room_id)
                again = True
            message = hub_message(event, room.room_id, datetime.now(UTC))
            verdict = await room.unclaimed.run(message)
            if verdict is None:
                self._services.hub.room_id = None
                if self._services.lifecycle.closing:
                    await trio.sleep_forever()  # until the run has ended
            elif verdict.fate is not Fate.RELEASED:
                return verdict.fate is Fate.PROCESSED
            elif verdict.reason == NOT_ACCEPTED:
                await trio.sleep(offer_wait(offers))
                offers += 1

    async def _post(self, event: ContactEvent, room_id: str) -> None:
        """Leave the event in the hub room, for people who look."""
        outcome = "ok"
        try:
            await self._services.rest.post_event(
                room_id, hub_text(event), "task", hub_metadata(event)
            )
        except BandError as exc:
            outcome = type(exc).__name__
            _repeated.warning("a contact event was not posted in the hub room: %s", exc)
        self._services.tracer(Posted(room_id, "task", outcome))

    async def _hub_room(self) -> ExecutionContext:
        """Return the child of the hub room, however long it takes until there is one."""
        hub = self._services.hub
        while True:
            if hub.room_id is None:
                hub.room_id = await self._finder.get()
                self._presence.added(hub.room_id, HUB_TITLE)
            with trio.move_on_after(SERVED_SECONDS):
                room = await self._presence.wait_served(hub.room_id)
                if room is not self._greeted:
                    room.briefing.inject_system_message(texts.CONTACT_HUB)
                    self._greeted = room
                return room
            hub.room_id = None


# --------------------------------------------------------------------------- lists


async def read_lists(rest: RestClient) -> Lists:
    """Read the pending requests that were received, and all contacts.

    Raises:
        BandError: one of them could not be read.
    """
    most = LISTED // PAGE
    requests = await read_numbered("the contact requests", partial(_read_requests, rest), most=most)
    contacts = await read_numbered(
        "the contacts", lambda n: rest.request(LIST_CONTACTS, page=n, page_size=PAGE), most=most
    )
    pending = {id_: row for id_, row in requests.rows.items() if row.status in (None, "pending")}
    return Lists(pending, contacts.rows if contacts.complete else None)


async def _read_requests(rest: RestClient, number: int) -> Page[ContactRequest]:
    """Read a page of the requests that were received; those in the other direction have their own
    count."""
    answer = await rest.request(
        LIST_CONTACT_REQUESTS, page=number, page_size=PAGE, sent_status="pending"
    )
    counts = answer.metadata.get("received")
    total = counts.get("total_pages") if isinstance(counts, dict) else None
    return Page(answer.received, total_pages=total if isinstance(total, int) else 1)

"""Reading a room's list and finding what is to be done, in the platform's order.

A pass goes over the list page by page, past what is not runnable, and ends at the last page where
nothing is left (platform docs, Listing and next). A poll, which nothing has asked for, ends where
`next` says that there is nothing. The room does what is found before it asks for more.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Final, TypeVar

import attrs
import trio

from band_trio.errors import BandApiError, BandError, RoomExecutionStoppedError
from band_trio.kit.backoff import half_jitter
from band_trio.kit.logs import RepeatedLog
from band_trio.link.rest.pages import PageWalk
from band_trio.link.rest.routes import says_stopped
from band_trio.protocol.rest import ChatMessage, Page
from band_trio.runtime.journal.journal import Journal
from band_trio.runtime.journal.reads import Dirty
from band_trio.runtime.journal.todo import Run, Settle
from band_trio.runtime.turn.services import RoomServices
from band_trio.trace import Read

_log: Final = logging.getLogger(__name__)
_repeated: Final = RepeatedLog(_log)

T = TypeVar("T")

READ_BASE: Final = 0.5
READ_CAP: Final = 30.0
"""Seconds between two tries of a read that fails."""
FAILS_AFTER: Final = 3
"""Tries in a row after which a read that fails is told as a warning."""


class PassAbandoned(Exception):
    """The pass cannot go on: something was told that its answers do not know of."""


@attrs.define(eq=False)
class Pass:
    """One way over the list."""

    cause: Dirty
    walk: PageWalk
    rows: deque[ChatMessage] = attrs.field(factory=deque)
    """Those of the page that was read and have not been looked at."""
    answered: bool = False
    """Whether it has its first page."""
    epoch: int = 0
    served_at: datetime | None = None
    """The platform's clock when the first page was read."""
    found: bool = False
    """Whether it has found anything to do."""
    shifted: bool = False
    """Whether it has since the page was read: settling shifts the list, so that the cursor of that
    page may skip rows."""

    @property
    def is_poll(self) -> bool:
        """Whether nothing has asked for it."""
        return self.cause is Dirty.POLL

    @property
    def over(self) -> bool:
        """Whether it has come to the end of the list. A list of one page is read once: what has
        come since is pushed, or asks for a read of its own."""
        return self.walk.ended and (not self.shifted or self.walk.number == 1)


@attrs.define(eq=False)
class Drain:
    """The passes over one room's list."""

    _services: RoomServices
    _journal: Journal
    failing_since: float | None = attrs.field(default=None, init=False)
    """When the first of the tries failed that have failed in a row, in trio's time."""
    _failures: int = attrs.field(default=0, init=False)
    """How many they are."""
    _refused: int = attrs.field(default=0, init=False)
    """Tries in a row that were answered with 403 or 404."""
    _aborted: bool = attrs.field(default=False, init=False)
    _waits: trio.CancelScope | None = attrs.field(default=None, init=False)
    """Around whatever it waits for."""
    queued: bool = attrs.field(default=False, init=False)
    """Whether it waits for its place among the first reads."""
    _hurried: bool = attrs.field(default=False, init=False)
    """Whether a hint has come while it did."""

    def abort(self) -> None:
        """Give up the pass: a control, leave, stop or new connection makes its answers useless."""
        self._aborted = True
        if self._waits is not None:
            self._waits.cancel(reason="a control, leave, stop or new connection")

    def hurry(self) -> None:
        """A hint is there: do not wait for a place any longer."""
        if self._waits is not None:
            self._hurried = True
            self._waits.cancel(reason="a hint says that there is work")

    def begin(self, cause: Dirty) -> Pass:
        """Begin a pass; nothing is read yet, and the room stays as dirty as it is."""
        self._aborted = False
        return Pass(cause, PageWalk(f"the list of room {self._journal.room_id}"))

    async def find(self, current: Pass) -> Run | Settle | None:
        """Return what is to be done next; None at the end of the list.

        Raises:
            PassAbandoned: something was told meanwhile, or what was found has to be waited for.
            RoomExecutionStoppedError: an answer says that the agent is stopped here.
        """
        while True:
            if self._aborted or not self._journal.free:
                raise PassAbandoned
            while current.rows:
                todo = self._journal.listed(current.rows.popleft(), trio.current_time())
                if todo is not None:
                    current.found = current.shifted = True
                    return todo
            if current.over or await self._read_on(current):
                self._journal.read_ended(
                    current.epoch, trio.current_time(), current.served_at, found=current.found
                )
                return None

    async def _read_on(self, current: Pass) -> bool:
        """Read the next page; the first one again where the list has shifted since the last.

        A poll asks for `next` first; tell whether that says that there is nothing.
        """
        if current.is_poll and not current.answered:
            head = partial(self._services.rest.get_next, self._journal.room_id)
            page = await self._read(current, "next", head)
            current.rows.extend(page.items)
            return not page.items and not page.dropped
        if current.shifted:
            current.walk, current.shifted = PageWalk(current.walk.what), False
        walk = current.walk
        await walk.pace()
        ask = partial(self._services.rest.list_messages, self._journal.room_id, walk.cursor)
        page = await self._read(current, "messages", ask)
        current.rows.extend(page.items)
        walk.follow(page)
        return False

    async def probe(self) -> bool:
        """Ask a stopped room's `next`; a message says that it was resumed meanwhile."""
        self._aborted = False
        ask = partial(self._services.rest.get_next, self._journal.room_id)
        try:
            head = await self._once("next", ask)
        except PassAbandoned:
            return False
        except BandError as exc:
            with suppress(RoomExecutionStoppedError):  # that much is known
                self._note_failure(exc)
            return False
        return bool(head.items)

    # ------------------------------------------------------------------ reads

    async def _read(
        self, current: Pass, kind: str, ask: Callable[[], Awaitable[Page[ChatMessage]]]
    ) -> Page[ChatMessage]:
        """Read until there is an answer, or something is told."""
        first_reads = self._services.first_reads
        while True:
            placed = await self._place(current)
            try:
                page = await self._once(kind, partial(self._ask, current, ask))
            except BandError as exc:
                told = self._note_failure(exc)
                # The other answers say something about one room, not about the platform.
                if placed and (not isinstance(exc, BandApiError) or exc.is_transient):
                    first_reads.failed(told)
            else:
                if placed:
                    first_reads.answered()
                return page
            finally:
                if placed:
                    first_reads.release()
            wait = max(half_jitter(self._failures - 1, READ_BASE, READ_CAP), told)
            if current.is_poll:
                self._journal.reads.poll.set(trio.current_time() + wait)
                raise PassAbandoned
            with trio.CancelScope() as self._waits:
                await trio.sleep(wait)

    async def _place(self, current: Pass) -> bool:
        """Wait for a place among the first reads, and no longer than until something is told.

        Tell whether it has to be given back.
        """
        if current.answered or current.cause is not Dirty.FIRST:
            return False
        self.queued = True
        with trio.CancelScope() as self._waits:
            await self._services.first_reads.acquire()
        has_place, self.queued = not self._waits.cancelled_caught, False
        if self._hurried:
            current.cause, self._hurried = Dirty.CAUSED, False
        return has_place

    async def _ask(
        self, current: Pass, ask: Callable[[], Awaitable[Page[ChatMessage]]]
    ) -> Page[ChatMessage]:
        """Ask for a page; with the first one the pass begins: what was told before is in it."""
        if not current.answered:
            current.epoch = self._journal.reads.epoch
            self._journal.read_began(trio.current_time())
        page = await ask()
        if not current.answered:
            current.answered, current.served_at = True, page.served_at
        return page

    async def _once(self, kind: str, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask once, unless something is told meanwhile: the answer would be thrown away."""
        answer = None
        if not self._aborted:
            with trio.CancelScope() as self._waits:
                answer = await ask()
            self._waits = None
        if self._aborted or answer is None:
            raise PassAbandoned
        self._failures, self._refused, self.failing_since = 0, 0, None
        self._services.tracer(Read(self._journal.room_id, kind))
        return answer

    def _note_failure(self, error: BandError) -> float:
        """Take note of a try that failed; return the told wait.

        Raises:
            RoomExecutionStoppedError: it says that the agent is stopped here.
        """
        room_id = self._journal.room_id
        status = error.status if isinstance(error, BandApiError) else None
        if isinstance(error, BandApiError) and says_stopped(error.status, error):
            raise RoomExecutionStoppedError(room_id) from error
        self._failures += 1
        if self.failing_since is None:
            self.failing_since = trio.current_time()
        self._refused = self._refused + 1 if status in (403, 404) else 0
        if self._refused.bit_count() == 1:  # 1, 2, 4 … in a row: what it asks for costs a listing
            self._services.lister.doubt(room_id, unknown=status == 404)
        if self._failures < FAILS_AFTER:
            _log.debug("room %s: its list could not be read: %s", room_id, error)
        else:
            _repeated.warning(
                "room %s: its list could not be read %d times in a row: %s",
                room_id, self._failures, error,
            )  # fmt: skip
        return (error.retry_after or 0.0) if isinstance(error, BandApiError) else 0.0

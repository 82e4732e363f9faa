"""What a room's context holds around a message, found by walking it from the oldest on.

The platform lists context oldest first and has no other order (platform docs, Context), so the
walk keeps a sliding window of what comes before the message. What was reached is kept when a read
fails, and the next load goes on from there. Where the pages go round, or do not end, what was reached is what there is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Final

import attrs

from band_trio.errors import BandApiError
from band_trio.link.rest.pages import PageWalk
from band_trio.link.rest.routes import UNREADABLE
from band_trio.protocol.rest import ChatMessage, Page

ReadPage = Callable[[str | None], Awaitable[Page[ChatMessage]]]
"""Read the page of a cursor; None is the first one."""

_CONTEXT: Final = "a room's context"
_BEGINNING: Final = datetime.min.replace(tzinfo=UTC)


@attrs.define(eq=False)
class HistoryWalk:
    """The load of one room's bootstrap, until it is committed."""

    size: int
    """Newest items to keep."""
    _newest: deque[ChatMessage] = attrs.field(init=False)
    """The last rows that were read: the answer if the trigger comes next."""
    _earlier: deque[ChatMessage] = attrs.field(init=False)
    """The last rows that by their time come before the trigger: the answer if it never comes."""
    _pages: PageWalk = attrs.field(init=False)
    _of_page: set[str] = attrs.field(factory=set, init=False)
    """Ids of the walk's page that have been read already."""
    _trigger: ChatMessage | None = attrs.field(default=None, init=False)
    _result: list[ChatMessage] | None = attrs.field(default=None, init=False)
    """What was found for the trigger."""

    def __attrs_post_init__(self) -> None:
        self._restart()

    @property
    def place(self) -> str | None:
        """Cursor of the page that was read last, on which the trigger is if it is listed."""
        return self._pages.cursor

    async def before(self, trigger: ChatMessage, read: ReadPage) -> list[ChatMessage]:
        """Return at most *size* items strictly before *trigger*, oldest first.

        Errors of *read* come out, also for a page that does not say where the next one is; the
        next call goes on from the page that failed.
        """
        self._turn_to(trigger)
        while self._result is None:
            await self._pages.pace()
            page = await read(self._pages.cursor)
            if self._take(page, trigger):
                self._result = list(self._newest)
            elif page.cut:
                raise _unreadable()
            else:
                self._follow(page)
        return self._result

    def _follow(self, page: Page[ChatMessage]) -> None:
        self._pages.follow(page)
        if self._pages.ended:
            self._result = list(self._earlier)
        else:
            self._of_page = set()

    def _turn_to(self, trigger: ChatMessage) -> None:
        """Go on from where the last load ended, or from the beginning if that is too far on."""
        if self._trigger is not None and self._trigger.id == trigger.id:
            return
        pages = self._pages
        if any(row.id == trigger.id or not _before(row, trigger) for row in self._newest):
            self._restart()
        elif pages.complete:  # there may be more on its last page by now
            self._pages = PageWalk(pages.what, pages.cursor)
        elif pages.ended:
            self._restart()
        self._trigger, self._result = trigger, None
        self._earlier = deque(self._newest, maxlen=self.size)

    def _restart(self) -> None:
        self._newest, self._earlier = deque(maxlen=self.size), deque(maxlen=self.size)
        self._pages, self._of_page = PageWalk(_CONTEXT), set()

    def _take(self, page: Page[ChatMessage], trigger: ChatMessage) -> bool:
        """Read a page's rows up to the trigger; tell whether it was met."""
        for row in page.items:
            if row.id == trigger.id:
                return True
            if row.id in self._of_page:
                continue
            self._of_page.add(row.id)
            self._newest.append(row)
            if _place(row) < _place(trigger):
                self._earlier.append(row)
        return False


@attrs.define(eq=False)
class SaidSince:
    """What the agent itself has said since a message: one walk to the end of the context.

    A read that fails comes out, and the next call of `read` goes on from that page.
    """

    trigger: ChatMessage
    agent_id: str
    size: int
    """Newest items to keep."""
    _start: str | None
    """Cursor of the page to begin with; None is the first one."""
    place: str | None = attrs.field(default=None, init=False)
    """Cursor of the last page that was read and begins before the trigger, or has it."""
    _said: deque[ChatMessage] = attrs.field(init=False)
    _pages: PageWalk = attrs.field(init=False)
    _met: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._said = deque(maxlen=self.size)
        self._pages = PageWalk(_CONTEXT, self._start)

    async def read(self, read: ReadPage) -> list[ChatMessage]:
        """Return at most *size* of our items behind the trigger, oldest first."""
        while not self._pages.ended:
            await self._pages.pace()
            page = await read(self._pages.cursor)
            if page.cut:
                raise _unreadable()
            early = bool(page.items) and self._is_early(page.items[0])
            if early:
                self.place = self._pages.cursor
            elif self._pages.number == 1 and self._pages.cursor is not None:
                self._pages = PageWalk(_CONTEXT)  # the trigger may stand before the page
                continue
            for row in page.items:
                self._take(row)
            self._pages.follow(page)
        return list(self._said)

    def _is_early(self, row: ChatMessage) -> bool:
        return row.id == self.trigger.id or _before(row, self.trigger)

    def _take(self, row: ChatMessage) -> None:
        if row.id == self.trigger.id:
            self._met = True
            self._said.clear()
        elif row.sender_id == self.agent_id and (self._met or _place(row) > _place(self.trigger)):
            self._said.append(row)


def _unreadable() -> BandApiError:
    return BandApiError(200, UNREADABLE, "the cursor of the next page")


def _before(row: ChatMessage, trigger: ChatMessage) -> bool:
    """Tell whether a row is older for sure; of one instant, the list alone knows."""
    return _place(row)[0] < _place(trigger)[0]


def _place(row: ChatMessage) -> tuple[datetime, str]:
    return row.inserted_at or _BEGINNING, row.id

"""The newest items of a room before a message, found by walking its context from the oldest on.

The platform lists context oldest first and has no other order (platform docs, Context), so the
walk keeps a sliding window. What was reached is kept when a read fails, and the next load goes on
from there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import attrs

from band_trio.protocol.rest import ChatMessage, Page

ReadPage = Callable[[str | None], Awaitable[Page[ChatMessage]]]
"""Read the page of a cursor; None is the first one."""

_BEGINNING = datetime.min.replace(tzinfo=UTC)


@attrs.define(eq=False)
class HistoryWalk:
    """The load of one room's bootstrap, until it is committed."""

    size: int
    """Newest items to keep."""
    _window: deque[ChatMessage] = attrs.field(init=False)
    _cursor: str | None = attrs.field(default=None, init=False)
    _of_page: set[str] = attrs.field(factory=set, init=False)
    """Ids of the cursor's page that are in the window already."""
    _loaded_for: str | None = attrs.field(default=None, init=False)
    _result: list[ChatMessage] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self._window = deque(maxlen=self.size)

    async def before(self, trigger: ChatMessage, read: ReadPage) -> list[ChatMessage]:
        """Return at most *size* items strictly before *trigger*, oldest first.

        Errors of *read* come out; the next call goes on from the page that failed.
        """
        if self._loaded_for == trigger.id:
            return self._result
        # Rows that by their time belong behind the trigger: kept only if the trigger follows.
        behind: deque[ChatMessage] = deque(maxlen=self.size)
        while True:
            page = await read(self._cursor)
            found = self._take(page, trigger, behind)
            if found or page.next_cursor is None or page.next_cursor == self._cursor:
                break
            self._cursor, self._of_page = page.next_cursor, set()
        self._result = [*self._window, *behind][-self.size :] if found else list(self._window)
        self._loaded_for = trigger.id
        return self._result

    def _take(
        self, page: Page[ChatMessage], trigger: ChatMessage, behind: deque[ChatMessage]
    ) -> bool:
        """Move a page's rows into the window; tell whether the trigger was met."""
        for row in page.items:
            if row.id == trigger.id:
                return True
            if row.id in self._of_page:
                continue
            if _place(row) >= _place(trigger):
                behind.append(row)
            else:
                self._of_page.add(row.id)
                self._window.append(row)
        return False


def _place(row: ChatMessage) -> tuple[datetime, str]:
    return row.inserted_at or _BEGINNING, row.id

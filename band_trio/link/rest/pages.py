"""The way over the pages of a list, which ends whatever the platform answers.

Lists have cursors or numbered pages (platform docs, Pagination). Both may go round, go on for
ever, or claim more and give nothing. Such a walk ends as incomplete: what it has met is there, what
it has not met may be there all the same. What that means is the caller's business.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, Protocol, TypeVar

import attrs
import trio

from band_trio.kit.logs import RepeatedLog
from band_trio.protocol.rest import Page

_repeated: Final = RepeatedLog(logging.getLogger(__name__))

MAX_PAGES: Final = 10_000
"""A platform that has more is not believed: a million rooms, or messages of one room."""
FREE_PAGES: Final = 100
"""Pages that are read as fast as they come."""
PAGE_SECONDS: Final = 0.025
"""Least time from one page to the next after that: no delay for who reads from a platform that is
as far away, and less than what one agent may ask for on speculation (`resync_rate`)."""


@attrs.define(eq=False)
class PageWalk:
    """Which page of a list comes next, and when the walk over it has ended.

    No page is asked for twice, and none of the marks that are kept for that is longer than a
    number: memory is bounded by the most pages of a walk.

        walk = PageWalk("the files of a room")
        while not walk.ended:
            await walk.pace()
            page = await read(walk.cursor)
            walk.follow(page)
    """

    what: str
    """The list, for the log."""
    cursor: str | None = None
    """Of the page to read next; None is the first one."""
    most: int = MAX_PAGES
    number: int = attrs.field(default=1, init=False)
    """How many pages this walk has come to, the next one included: where pages are numbered, its
    number."""
    ended: bool = attrs.field(default=False, init=False)
    complete: bool = attrs.field(default=False, init=False)
    """Whether it ended at the last page."""
    _seen: set[int] = attrs.field(factory=set, init=False)
    """Hashes of the cursors that were followed, and of the rows of each page."""
    _due: float = attrs.field(default=0.0, init=False)

    def __attrs_post_init__(self) -> None:
        if self.cursor is not None:
            self._seen.add(hash(self.cursor))

    async def pace(self) -> None:
        """Wait until the next page may be asked for."""
        if self.number > FREE_PAGES:
            await trio.sleep_until(self._due)
        self._due = trio.current_time() + PAGE_SECONDS

    def follow(self, page: Page[Any]) -> None:
        """Go on from the *page* that was read to the one its cursor leads to, or end."""
        if page.next_cursor is None:
            self._end("its next cursor cannot be read" if page.cut else None)
        elif self._goes_on(page, page.next_cursor):
            self.cursor = page.next_cursor

    def follow_number(self, page: Page[Any]) -> None:
        """Go on from the *page* that was read to the one with the next number, or end."""
        if self.number >= page.total_pages:
            self._end(None)
        else:
            self._goes_on(page, None)

    def _goes_on(self, page: Page[Any], cursor: str | None) -> bool:
        marks = set[int]()
        # By number, pages of which nothing can be read are alike: one may be bad, not all of them.
        if page.items or cursor is None:
            marks.add(hash(tuple(row.id for row in page.items)))
        if cursor is not None:
            marks.add(hash(cursor))
        if not page.items and not page.dropped:
            self._end("it is empty and claims more")
        elif not self._seen.isdisjoint(marks):
            self._end("the pages go round")
        elif self.number >= self.most:
            self._end("no more are read")
        else:
            self._seen |= marks
            self.number += 1
        return not self.ended

    def _end(self, problem: str | None) -> None:
        self.ended, self.complete = True, problem is None
        if problem is not None:
            _repeated.warning(
                "page %d of %s is taken for its last: %s", self.number, self.what, problem
            )


# --------------------------------------------------------------------------- numbered lists


class Row(Protocol):
    """What is known by an id."""

    @property
    def id(self) -> str: ...


R = TypeVar("R", bound=Row)


@attrs.frozen
class Listed(Generic[R]):
    """A numbered list that was walked over."""

    rows: dict[str, R]
    """By id."""
    complete: bool
    """Whether absence from it means something. Such pages are counted, not anchored: a row that
    goes away while they are read shifts the others, and one may hide in what cannot be read."""


async def read_numbered(
    what: str, read: Callable[[int], Awaitable[Page[R]]], *, most: int = MAX_PAGES
) -> Listed[R]:
    """Read all pages of a numbered list; errors of the requests come out."""
    rows: dict[str, R] = {}
    totals, dropped = set[int | None](), 0
    walk = PageWalk(what, most=most)
    while not walk.ended:
        await walk.pace()
        page = await read(walk.number)
        rows.update({row.id: row for row in page.items})
        totals.add(page.total_count)
        dropped += page.dropped
        walk.follow_number(page)
    return Listed(rows, walk.complete and totals == {len(rows)} and not dropped)

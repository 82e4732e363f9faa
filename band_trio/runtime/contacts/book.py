"""What is known of the agent's contacts and requests, and which events wait: without I/O.

Pushes may be lost, doubled, late or out of order; lists are read after each outage and compared
with what is known. Either way an event is taken in when it tells something new of its subject, so a
copy is nothing, and a contact that is added, removed and added again is two that were added. Where
a push may be news or a late copy, and where it finds no place, it is not taken in: the book is
stale then, and the lists tell.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from typing import Final, TypeVar

import attrs

from band_trio.protocol.events import (
    ContactAdded,
    ContactEvent,
    ContactRemoved,
    ContactRequestReceived,
    ContactRequestUpdated,
)
from band_trio.protocol.holdings import Contact, ContactRequest

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

LISTED: Final = 10_000
"""Contacts, and pending requests, that are known; of a longer list nothing is concluded."""
KNOWN: Final = 1000
"""Requests that are answered, and contacts that are gone, that are remembered; the oldest is
forgotten, and a copy of its push that comes later than so many others is taken for news."""


@attrs.frozen
class Lists:
    """What the platform listed."""

    requests: dict[str, ContactRequest]
    """Received ones that are pending, by id."""
    contacts: dict[str, Contact] | None
    """By id; None: not all of them were listed, and absence means nothing."""


@attrs.define(eq=False)
class ContactBook:
    """See the module."""

    capacity: int
    """Events that may wait; 0: nobody handles them."""
    stale: bool = attrs.field(default=True, init=False)
    """Whether the lists have to be read."""
    waiting: deque[ContactEvent] = attrs.field(factory=deque, init=False)
    """Events that are not handled yet, oldest first."""
    lost: int = attrs.field(default=0, init=False)
    """Events that found no place, since the last look."""
    _pending: dict[str, None] = attrs.field(factory=dict, init=False)
    """Received requests that were told of and are not answered as far as known."""
    _answered: dict[tuple[str, str], None] = attrs.field(factory=dict, init=False)
    """(request id, status) that was told of."""
    _contacts: dict[str, ContactAdded] | None = attrs.field(default=None, init=False)
    """id → contact; None before the first complete list: nothing was missed before that."""
    _early: dict[str, ContactAdded] = attrs.field(factory=dict, init=False)
    """Contacts that were told of before it."""
    _gone: dict[str, str | None] = attrs.field(factory=dict, init=False)
    """Contacts that were removed, some of them added again since → when those had been added."""
    _heard: set[str] | None = attrs.field(default=None, init=False)
    """Ids that pushes spoke of since the reading of the lists began."""

    def pushed(self, event: ContactEvent) -> ContactEvent | None:
        """Take in a push; return it, with what is known of its subject, unless it is no news."""
        if self._heard is not None:
            self._heard.add(event.id)
        return self._take(event)

    def reading(self) -> None:
        """The lists are about to be read."""
        self.stale, self._heard = False, set()

    def listed(self, lists: Lists) -> list[ContactEvent]:
        """Compare the lists that were read with what is known; return what is news."""
        heard, self._heard = self._heard or set(), None  # those pushes know better
        news = [
            *self._new_requests(lists.requests, heard),
            *self._changed_contacts(lists.contacts, heard),
        ]
        return [event for each in news if (event := self._take(each, listed=True)) is not None]

    def failed(self) -> None:
        """The lists could not be read."""
        self.stale, self._heard = True, None

    # ------------------------------------------------------------------ lists

    def _new_requests(
        self, requests: dict[str, ContactRequest], heard: set[str]
    ) -> Iterable[ContactEvent]:
        for request in requests.values():
            if request.id not in heard:
                yield ContactRequestReceived(
                    request.id, request.status or "pending", request.inserted_at,
                    request.from_handle, request.from_name, request.message,
                )  # fmt: skip
        for id_ in self._pending.keys() - requests.keys() - heard:
            del self._pending[id_]
            _remember(self._answered, (id_, ""), None, KNOWN)

    def _changed_contacts(
        self, contacts: dict[str, Contact] | None, heard: set[str]
    ) -> Iterable[ContactEvent]:
        if contacts is None:
            return
        listed = {row.id: _as_event(row) for row in contacts.values()}
        if self._contacts is None:  # what is listed first is no news
            over = heard & self._gone.keys()
            first = {id_: row for id_, row in listed.items() if id_ not in over}
            self._contacts, self._early = first | self._early, {}
        for id_ in listed.keys() - self._contacts.keys() - heard:
            yield listed[id_]
        for id_ in self._contacts.keys() - listed.keys() - heard:
            yield ContactRemoved(id_)

    # ------------------------------------------------------------------ events

    def _take(self, event: ContactEvent, *, listed: bool = False) -> ContactEvent | None:
        """Note an event and let it wait, if it is news and there is a place."""
        if not self._is_news(event, listed=listed):
            return None
        if self.capacity and len(self.waiting) >= self.capacity:
            self.stale, self.lost = True, self.lost + 1
            return None
        event = self._completed(event)
        if self.capacity:
            self.waiting.append(event)
        self._note(event)
        return event

    @property
    def _known(self) -> dict[str, ContactAdded]:
        return self._early if self._contacts is None else self._contacts

    def _is_news(self, event: ContactEvent, *, listed: bool) -> bool:
        match event:
            case ContactRequestReceived(id=id_):
                return id_ not in self._pending and (id_, "") not in self._answered
            case ContactRequestUpdated(id=id_, status=status):
                return (id_, status) not in self._answered
            case ContactAdded(id=id_) if id_ in self._known:
                return False
            case _ if listed or event.id not in self._gone:
                return True
            case ContactAdded(id=id_, inserted_at=at):
                before = self._gone[id_]
                self.stale |= before is None  # a late push of the one that was removed?
                return before not in (None, at)
            case ContactRemoved(id=id_):
                self.stale |= id_ in self._known  # a late copy of its first removal?
                return False

    def _completed(self, event: ContactEvent) -> ContactEvent:
        """Fill in who a contact was that is gone."""
        known = self._known.get(event.id) if isinstance(event, ContactRemoved) else None
        return event if known is None else ContactRemoved(event.id, known.handle, known.name)

    def _note(self, event: ContactEvent) -> None:
        match event:
            case ContactRequestReceived(id=id_):
                _remember(self._pending, id_, None, LISTED)
            case ContactRequestUpdated(id=id_, status=status):
                self._pending.pop(id_, None)
                _remember(self._answered, (id_, status), None, KNOWN)
                _remember(self._answered, (id_, ""), None, KNOWN)  # so that a late push is no news
            case ContactAdded(id=id_):
                _remember(self._known, id_, event, LISTED)
            case ContactRemoved(id=id_):
                was = self._known.pop(id_, None)
                _remember(self._gone, id_, was.inserted_at if was else None, KNOWN)


def _remember(known: dict[K, V], key: K, value: V, most: int) -> None:
    known.pop(key, None)
    known[key] = value
    if len(known) > most:
        del known[next(iter(known))]


def _as_event(row: Contact) -> ContactAdded:
    return ContactAdded(row.id, row.type, row.handle, row.name, row.description, row.inserted_at)

"""Contacts of a fake room's agent: the routes, over the platform's own store."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any, Final, TypeVar, cast

import attrs

from band_trio.protocol.holdings import Contact, ContactRequest, ContactRequests, ContactStatus
from band_trio.protocol.rest import Page
from band_trio.stores import contacts as store
from band_trio.stores.refusal import api_errors
from band_trio.testing.seeds import FAKE_TIME_TEXT
from band_trio.tools.conversation import bare_handle

T = TypeVar("T")


@attrs.frozen
class Stranger:
    """Somebody who has a handle; of most nothing else is known."""

    id: str
    handle: str
    name: str = ""
    kind: str = "User"


_OWN: Final = Stranger("the agent itself", "")


@attrs.define(eq=False, slots=False, kw_only=True)
class FakeContacts:
    """The routes of contacts. Any handle exists: there is no directory."""

    first_contacts: list[Contact] = attrs.field(factory=list)
    first_received: list[ContactRequest] = attrs.field(factory=list)
    first_sent: list[ContactRequest] = attrs.field(factory=list)
    _strangers: dict[str, Stranger] = attrs.field(factory=dict, init=False)
    book: store.Contacts = attrs.field(init=False)

    @book.default
    def _new_book(self) -> store.Contacts:
        """Return a store with the seeds, whatever the rules would say of them together."""
        numbers = {
            "contact": count(len(self.first_contacts) + 1),
            "request": count(len(self.first_received) + len(self.first_sent) + 1),
        }
        book = store.Contacts(
            lambda kind: f"{kind}-{next(numbers[kind])}", lambda: FAKE_TIME_TEXT, self._meet
        )
        for each in self.first_contacts:
            pair = (_OWN, self._meet(each.handle, each.name, each.type))
            book.put_contact(store.Contact(each.id, pair, each.inserted_at or FAKE_TIME_TEXT))
        for row in (*self.first_received, *self.first_sent):
            book.put_request(self._request(row))
        return book

    def _meet(
        self, handle: str | None, name: str | None = None, kind: str | None = None
    ) -> Stranger:
        bare = bare_handle(handle)
        new = Stranger(f"party-{bare.casefold()}", bare, name or "", kind or "User")
        return self._strangers.setdefault(new.id, new)

    def _request(self, row: ContactRequest) -> store.Request:
        came = row.from_handle is not None
        other = self._meet(
            *((row.from_handle, row.from_name) if came else (row.to_handle, row.to_name))
        )
        requester, recipient = (other, _OWN) if came else (_OWN, other)
        at, status = row.inserted_at or FAKE_TIME_TEXT, cast("store.Status", row.status)
        return store.Request(row.id, requester, recipient, row.message, at, status)

    # ----------------------------------------------------------------- what there is

    @property
    def contacts(self) -> list[Contact]:
        """The agent's contacts, with what a seed says of them."""
        seeds = {each.id: each for each in self.first_contacts}
        return [seeds.get(each.id) or _contact(each) for each in self.book.of(_OWN.id)]

    @property
    def received(self) -> list[ContactRequest]:
        """Requests of others, answered ones included."""
        return [_received(each) for each in self.book.received(_OWN.id, "all")]

    @property
    def sent(self) -> list[ContactRequest]:
        """Requests of the agent, answered ones included."""
        return [_sent(each) for each in self.book.sent(_OWN.id)]

    # ----------------------------------------------------------------- routes

    def list_contacts(self, page: int = 1, page_size: int = 50) -> Page[Contact]:
        """Return a page of contacts."""
        return numbered_page(self.contacts, page, page_size)

    def add_contact(self, handle: str, message: str | None = None) -> ContactStatus | None:
        """Ask somebody; approved at once where they have asked. 409 if known or asked already."""
        with api_errors():
            request, _ = self.book.ask(_OWN, handle, message)
        return ContactStatus(request.id, request.status)

    def remove_contact(
        self, handle: str | None = None, contact_id: str | None = None
    ) -> ContactStatus | None:
        """End a contact; 404 if there is none."""
        with api_errors():
            self.book.remove(_OWN, handle=handle, contact_id=contact_id)
        return ContactStatus(None, "removed")

    def list_contact_requests(
        self, page: int = 1, page_size: int = 50, sent_status: str = "pending"
    ) -> ContactRequests:
        """Return a page in each direction; of the received ones, those that are pending."""
        received = numbered_page(self.book.received(_OWN.id), page, page_size)
        sent = numbered_page(self.book.sent(_OWN.id, sent_status), page, page_size)
        counts = {
            name: {"total": each.total_count, "total_pages": each.total_pages}
            for name, each in (("received", received), ("sent", sent))
        }
        metadata: dict[str, Any] = {"page": page, "page_size": page_size, **counts}
        return ContactRequests(
            [_received(each) for each in received.items],
            [_sent(each) for each in sent.items],
            metadata,
        )

    def respond_contact_request(
        self, action: str, handle: str | None = None, request_id: str | None = None
    ) -> ContactStatus | None:
        """Answer a received request, or cancel a sent one; 403 the other way round, 404 if
        unknown, 409 if not pending."""
        with api_errors():
            request = self.book.respond(
                _OWN, cast("store.Action", action), handle=handle, request_id=request_id
            )
        return ContactStatus(request.id, request.status)


def _contact(contact: store.Contact) -> Contact:
    other = contact.other(_OWN.id)
    return Contact(
        contact.id, other.handle, other.name or None, other.kind, inserted_at=contact.inserted_at
    )


def _received(request: store.Request) -> ContactRequest:
    by = request.requester
    return attrs.evolve(_row(request), from_handle=by.handle, from_name=by.name or None)


def _sent(request: store.Request) -> ContactRequest:
    to = request.recipient
    return attrs.evolve(_row(request), to_handle=to.handle, to_name=to.name or None)


def _row(request: store.Request) -> ContactRequest:
    return ContactRequest(
        request.id, request.status, request.message, inserted_at=request.inserted_at
    )


def numbered_page(rows: Sequence[T], page: int, page_size: int) -> Page[T]:
    """Return one page of a counted list, pages from 1."""
    first = (page - 1) * page_size
    pages = max(1, -(-len(rows) // page_size))
    return Page(list(rows[first : first + page_size]), None, page, pages, len(rows))


def cursor_page(rows: Sequence[T], cursor: str | None, limit: int) -> Page[T]:
    """Return one page of a list with cursors; the cursor is a number of rows."""
    first = int(cursor or 0)
    after = first + limit
    return Page(list(rows[first:after]), str(after) if after < len(rows) else None)

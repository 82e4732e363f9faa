"""Contacts of a fake room's agent: the handshake, with both directions of requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import attrs

from band_trio.errors import BandApiError
from band_trio.protocol.holdings import Contact, ContactRequest, ContactRequests, ContactStatus
from band_trio.protocol.rest import Page
from band_trio.testing.seeds import FAKE_TIME_TEXT
from band_trio.tools.conversation import bare_handle

_DONE: Final = {"approve": "approved", "reject": "rejected", "cancel": "cancelled"}

T = TypeVar("T")


@attrs.define(eq=False, slots=False, kw_only=True)
class FakeContacts:
    """The routes of contacts. Any handle exists: there is no directory."""

    contacts: list[Contact] = attrs.field(factory=list)
    received: list[ContactRequest] = attrs.field(factory=list)
    sent: list[ContactRequest] = attrs.field(factory=list)

    def list_contacts(self, page: int = 1, page_size: int = 50) -> Page[Contact]:
        """Return a page of contacts."""
        return numbered_page(self.contacts, page, page_size)

    def add_contact(self, handle: str, message: str | None = None) -> ContactStatus | None:
        """Ask somebody; approved at once where they have asked. 409 if known or asked already."""
        if any(_same(contact.handle, handle) for contact in self.contacts):
            raise BandApiError(409, "conflict", "already a contact")
        if any(_same(each.to_handle, handle) and _pending(each) for each in self.sent):
            raise BandApiError(409, "conflict", "a request is pending")
        mutual = next(
            (each for each in self.received if _same(each.from_handle, handle) and _pending(each)),
            None,
        )
        if mutual is not None:
            return self._close(self.received, mutual, "approved")
        request = ContactRequest(
            f"request-{len(self.sent) + len(self.received) + 1}",
            "pending",
            message,
            to_handle=bare_handle(handle),
            inserted_at=FAKE_TIME_TEXT,
        )
        self.sent.append(request)
        return ContactStatus(request.id, "pending")

    def remove_contact(
        self, handle: str | None = None, contact_id: str | None = None
    ) -> ContactStatus | None:
        """End a contact; 404 if there is none."""
        found = next(
            (
                each
                for each in self.contacts
                if each.id == contact_id or (handle and _same(each.handle, handle))
            ),
            None,
        )
        if found is None:
            raise BandApiError(404, "not_found", "no such contact")
        self.contacts.remove(found)
        return ContactStatus(None, "removed")

    def list_contact_requests(
        self, page: int = 1, page_size: int = 50, sent_status: str = "pending"
    ) -> ContactRequests:
        """Return a page in each direction; of the received ones, those that are pending."""
        received = numbered_page([r for r in self.received if _pending(r)], page, page_size)
        sent = numbered_page(
            [r for r in self.sent if sent_status in ("all", r.status)], page, page_size
        )
        counts = {
            name: {"total": each.total_count, "total_pages": each.total_pages}
            for name, each in (("received", received), ("sent", sent))
        }
        metadata: dict[str, Any] = {"page": page, "page_size": page_size, **counts}
        return ContactRequests(received.items, sent.items, metadata)

    def respond_contact_request(
        self, action: str, handle: str | None = None, request_id: str | None = None
    ) -> ContactStatus | None:
        """Answer a received request, or cancel a sent one; 404 if unknown, 409 if not pending."""
        side = self.sent if action == "cancel" else self.received
        hits = [
            each
            for each in side
            if each.id == request_id
            or (handle and any(_same(h, handle) for h in (each.from_handle, each.to_handle)))
        ]
        if not hits:
            raise BandApiError(404, "not_found", "no such request")
        pending = [each for each in hits if _pending(each)]
        if not pending:
            raise BandApiError(409, "conflict", f"the request is {hits[-1].status}")
        return self._close(side, pending[0], _DONE[action])

    def _close(
        self, side: list[ContactRequest], request: ContactRequest, status: str
    ) -> ContactStatus:
        side[side.index(request)] = attrs.evolve(request, status=status)
        if status == "approved":
            self.contacts.append(
                Contact(
                    f"contact-{request.id}",
                    request.from_handle or request.to_handle,
                    request.from_name or request.to_name,
                    "User",
                    inserted_at=FAKE_TIME_TEXT,
                )
            )
        return ContactStatus(request.id, status)


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


def _same(handle: str | None, other: str) -> bool:
    return bare_handle(handle).casefold() == bare_handle(other).casefold() != ""


def _pending(request: ContactRequest) -> bool:
    return request.status == "pending"

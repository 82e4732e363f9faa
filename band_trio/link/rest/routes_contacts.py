"""The agent's contacts: list, ask, answer, end (platform docs, Peers and contacts)."""

from __future__ import annotations

from typing import Final

import attrs

from band_trio.link.rest.routes import Routes, given, query, read_page, read_written, unreadable
from band_trio.protocol.errors import RemoteProtocolError
from band_trio.protocol.holdings import Contact, ContactRequests, ContactStatus
from band_trio.protocol.rest import API, Page

_CONTACTS: Final = f"{API}/contacts"


@attrs.frozen
class ContactRoutes(Routes):
    """Reads raise what `Api.repeat` raises, everything else what `Api.post` raises."""

    async def list_contacts(self, page: int = 1, page_size: int = 50) -> Page[Contact]:
        """Return one page of contacts, pages from 1."""
        params = {"page": page, "page_size": page_size}
        return read_page(await self.api.repeat("GET", _CONTACTS, params=params), Contact)

    async def add_contact(self, handle: str, message: str | None = None) -> ContactStatus | None:
        """Ask somebody to become a contact; None when the answer cannot be read.

        *message* has at most 500 characters. 409 when it is a contact, or was asked, already.
        """
        body = given(handle=handle, message=message)
        answer = await self.api.post("POST", f"{_CONTACTS}/add", json=body)
        return read_written(answer, ContactStatus)

    async def remove_contact(
        self, handle: str | None = None, contact_id: str | None = None
    ) -> ContactStatus | None:
        """End a contact, named by one of the two."""
        body = given(handle=handle, contact_id=contact_id)
        answer = await self.api.post("POST", f"{_CONTACTS}/remove", json=body)
        return read_written(answer, ContactStatus)

    async def list_contact_requests(
        self, page: int = 1, page_size: int = 50, sent_status: str = "pending"
    ) -> ContactRequests:
        """Return one page of requests in each direction; *sent_status* filters the sent ones."""
        params = query(page=page, page_size=page_size, sent_status=sent_status)
        answer = await self.api.repeat("GET", f"{_CONTACTS}/requests", params=params)
        try:
            return ContactRequests.read(answer.body)
        except RemoteProtocolError as exc:
            raise unreadable(answer, exc) from None

    async def respond_contact_request(
        self, action: str, handle: str | None = None, request_id: str | None = None
    ) -> ContactStatus | None:
        """Approve, reject or cancel a request, named by one of the two.

        409 when it is not pending any more.
        """
        body = given(action=action, handle=handle, request_id=request_id)
        answer = await self.api.post("POST", f"{_CONTACTS}/requests/respond", json=body)
        return read_written(answer, ContactStatus)

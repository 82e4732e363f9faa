"""Contacts: the people and agents that an agent knows beyond its rooms."""

from __future__ import annotations

from typing import Any, Final

from band_trio import texts
from band_trio.errors import BandApiError, BandToolError
from band_trio.protocol.structure import unstructure
from band_trio.tools.core import ToolCore, platform_tool
from band_trio.tools.definitions import BandTool
from band_trio.tools.results import page_metadata, page_result, without_nulls

REQUEST_MESSAGE_CHARS: Final = 500
"""Most characters of the message of a contact request (platform docs, Peers and contacts)."""

_DONE: Final = {"approve": "approved", "reject": "rejected", "cancel": "cancelled"}


class Contacts(ToolCore):
    """The tools about contacts. All of them raise:

    BandApiError: the platform said no.
    BandToolError: it was not reached or did not answer in time; after a change: nobody knows
        whether it took effect.
    """

    @platform_tool(BandTool.LIST_CONTACTS)
    async def list_contacts(self, page: int = 1, page_size: int = 50) -> dict[str, Any]:
        """Return one page of contacts: `data` and `metadata`."""
        with self._reading(self._deadline()):
            contacts = await self.rest.list_contacts(page, page_size)
        return page_result(contacts, page_metadata(contacts, page, page_size))

    @platform_tool(BandTool.ADD_CONTACT)
    async def add_contact(self, handle: str, message: str | None = None) -> dict[str, Any]:
        """Ask somebody to become a contact; the result has `id` and `status`.

        The status is `approved` where they had asked before, else `pending`. *message* has at
        most 500 characters.
        """
        if message is not None and len(message) > REQUEST_MESSAGE_CHARS:
            raise BandToolError(texts.MESSAGE_OF_REQUEST_TOO_LONG)
        with self._changing():
            answer = await self.rest.add_contact(handle, message or None)
        return without_nulls(unstructure(answer)) if answer else {"status": "pending"}

    @platform_tool(BandTool.REMOVE_CONTACT)
    async def remove_contact(
        self, handle: str | None = None, contact_id: str | None = None
    ) -> dict[str, Any]:
        """End a contact, named by one of the two; the result has `status`."""
        if not handle and not contact_id:
            raise BandToolError(texts.CONTACT_NOT_NAMED)
        with self._changing():
            await self.rest.remove_contact(handle or None, contact_id or None)
        return {"status": "removed"}

    @platform_tool(BandTool.LIST_CONTACT_REQUESTS)
    async def list_contact_requests(
        self, page: int = 1, page_size: int = 50, sent_status: str = "pending"
    ) -> dict[str, Any]:
        """Return one page of requests: `data` with `received` and `sent`, and `metadata`.

        Those received are pending ones; *sent_status* says which of the sent ones are listed.
        """
        with self._reading(self._deadline()):
            requests = await self.rest.list_contact_requests(page, page_size, sent_status)
        return {
            "data": {
                "received": [unstructure(each) for each in requests.received],
                "sent": [unstructure(each) for each in requests.sent],
            },
            "metadata": without_nulls({"page": page, "page_size": page_size, **requests.metadata}),
        }

    @platform_tool(BandTool.RESPOND_CONTACT_REQUEST)
    async def respond_contact_request(
        self, action: str, handle: str | None = None, request_id: str | None = None
    ) -> dict[str, Any]:
        """Approve, reject or cancel a request, named by one of the two: `id` and `status`.

        `approve` and `reject` are for requests that were received, `cancel` for one that was
        sent; *handle* is the other party's.
        """
        if not handle and not request_id:
            raise BandToolError(texts.REQUEST_NOT_NAMED)
        try:
            with self._changing():
                answer = await self.rest.respond_contact_request(
                    action, handle or None, request_id or None
                )
        except BandApiError as exc:
            if exc.status == 409:
                raise BandToolError(texts.REQUEST_NOT_PENDING) from exc
            raise
        known = {"id": request_id, "status": _DONE.get(action)}
        return without_nulls({**known, **(unstructure(answer) if answer else {})})

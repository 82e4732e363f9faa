"""`ContactTools`: contacts for code that runs outside of rooms, such as contact callbacks."""

from __future__ import annotations

from typing import Any

from band_trio.tools.contacts import Contacts
from band_trio.tools.direct import AnswersNames
from band_trio.tools.rest_port import ToolRest


class ContactTools(AnswersNames):
    """The agent's contacts, bound to no room and no turn.

    All methods raise `BandApiError` where the platform says no, and `BandToolError` where it is
    not reached or where nobody knows what was done.
    """

    def __init__(self, rest: ToolRest) -> None:
        self._calls = Contacts("", rest)

    async def list_contacts(self, page: int = 1, page_size: int = 50) -> dict[str, Any]:
        """Return one page: `contacts` and `metadata`."""
        result = await self._calls.list_contacts(page, page_size)
        return {"contacts": result["data"], "metadata": result["metadata"]}

    async def add_contact(self, handle: str, message: str | None = None) -> dict[str, Any]:
        """Ask somebody to become a contact: `id` and `status`, `pending` or `approved`."""
        return await self._calls.add_contact(handle, message)

    async def remove_contact(
        self, handle: str | None = None, contact_id: str | None = None
    ) -> dict[str, Any]:
        """End a contact, named by one of the two: `status`."""
        return await self._calls.remove_contact(handle, contact_id)

    async def list_contact_requests(
        self, page: int = 1, page_size: int = 50, sent_status: str = "pending"
    ) -> dict[str, Any]:
        """Return one page of requests: `received`, `sent` and `metadata`."""
        result = await self._calls.list_contact_requests(page, page_size, sent_status)
        return {**result["data"], "metadata": result["metadata"]}

    async def respond_contact_request(
        self, action: str, handle: str | None = None, request_id: str | None = None
    ) -> dict[str, Any]:
        """Approve, reject or cancel a request, named by one of the two: `id` and `status`."""
        return await self._calls.respond_contact_request(action, handle, request_id)

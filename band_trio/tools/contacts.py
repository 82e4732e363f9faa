"""Contacts: the people and agents that an agent knows beyond its rooms.

The docstrings and descriptions of the inputs are what a model reads.
"""

# ruff: noqa: RUF009 - `argument` declares an attrs field

from __future__ import annotations

from typing import Any, Final, Literal

import attrs

from band_trio import texts
from band_trio.errors import BandApiError, BandToolError
from band_trio.link.rest.api import Answer
from band_trio.link.rest.routes import Route, page_of, unreadable, written
from band_trio.protocol.errors import RemoteProtocolError
from band_trio.protocol.holdings import Contact, ContactRequests, ContactStatus
from band_trio.protocol.structure import unstructure
from band_trio.tools.core import ToolCore, platform_tool
from band_trio.tools.definitions import argument, need_one_of
from band_trio.tools.results import object_result, page_metadata, page_result, without_nulls
from band_trio.types import ToolCategory, TurnEffect

REQUEST_MESSAGE_CHARS: Final = 500
"""Most characters of the message of a contact request (platform docs, Peers and contacts)."""

_DONE: Final = {"approve": "approved", "reject": "rejected", "cancel": "cancelled"}
_CONTACTS, _OBSERVE, _ACT = ToolCategory.CONTACTS, TurnEffect.OBSERVE, TurnEffect.ACT

# --------------------------------------------------------------------------- routes


def _requests(answer: Answer) -> ContactRequests:
    try:
        return ContactRequests.read(answer.body)
    except RemoteProtocolError as exc:
        raise unreadable(answer, exc) from None


LIST_CONTACTS: Final = Route("GET", "/contacts", page_of(Contact))
ADD_CONTACT: Final = Route("POST", "/contacts/add", written(ContactStatus))
REMOVE_CONTACT: Final = Route("POST", "/contacts/remove", written(ContactStatus))
LIST_CONTACT_REQUESTS: Final = Route("GET", "/contacts/requests", _requests)
RESPOND_CONTACT_REQUEST: Final = Route("POST", "/contacts/requests/respond", written(ContactStatus))

# --------------------------------------------------------------------------- inputs

SentStatus = Literal["pending", "approved", "rejected", "cancelled", "all"]
ContactAction = Literal["approve", "reject", "cancel"]


@attrs.frozen
class ListContactsInput:
    """List your contacts: the people and agents you know beyond this room. Entries are under
    `data`, counts under `metadata`."""

    page: int = argument("Which page, from 1.", default=1, low=1)
    page_size: int = argument("Entries per page, 1 to 100.", default=50, low=1, high=100)


@attrs.frozen
class AddContactInput:
    """Ask a user or an agent to become a contact. If they have already asked you, it is approved
    at once."""

    handle: str = argument("Whom to ask, by handle: `@user` or `@user/agent`.", visible=True)
    message: str | None = argument(
        "A few words to go with the request, at most 500 characters.",
        default=None,
        longest=REQUEST_MESSAGE_CHARS,
    )


@attrs.frozen
class RemoveContactInput:
    """End a contact, named by its handle or by the id of the contact. One of the two is needed."""

    handle: str | None = argument("The handle of the contact.", default=None)
    contact_id: str | None = argument("The id that band_list_contacts gives.", default=None)

    def __attrs_post_init__(self) -> None:
        need_one_of(self, texts.CONTACT_NOT_NAMED, "handle", "contact_id", blank=False)


@attrs.frozen
class ListContactRequestsInput:
    """List the contact requests that wait for your answer (`received`) and those that you have
    sent (`sent`), with their ids."""

    page: int = argument("Which page, from 1.", default=1, low=1)
    page_size: int = argument(
        "Entries per page and direction, 1 to 100.", default=50, low=1, high=100
    )
    sent_status: SentStatus = argument("Which of the sent requests to list.", default="pending")


@attrs.frozen
class RespondContactRequestInput:
    """Answer a contact request that is pending: approve or reject what others asked of you, or
    cancel what you asked of them. Name it by its id or by the other party's handle; one of the
    two is needed."""

    action: ContactAction = argument("What to do with the request.")
    handle: str | None = argument("The handle of the other party.", default=None)
    request_id: str | None = argument("The id that band_list_contact_requests gives.", default=None)

    def __attrs_post_init__(self) -> None:
        need_one_of(self, texts.REQUEST_NOT_NAMED, "handle", "request_id", blank=False)


# --------------------------------------------------------------------------- tools


class Contacts(ToolCore):
    """The tools about contacts. All of them raise:

    BandApiError: the platform said no.
    BandToolError: it was not reached or did not answer in time; after a change: nobody knows
        whether it took effect.
    """

    @platform_tool(ListContactsInput, _CONTACTS, _OBSERVE)
    async def list_contacts(self, page: int = 1, page_size: int = 50) -> dict[str, Any]:
        """Return one page of contacts: `data` and `metadata`."""
        contacts = await self._ask(LIST_CONTACTS, page=page, page_size=page_size)
        return page_result(contacts, page_metadata(contacts, page, page_size))

    @platform_tool(AddContactInput, _CONTACTS, _ACT)
    async def add_contact(self, handle: str, message: str | None = None) -> dict[str, Any]:
        """Ask somebody to become a contact; the result has `id` and `status`.

        The status is `approved` where they had asked before, else `pending`. *message* has at
        most 500 characters.
        """
        if message is not None and len(message) > REQUEST_MESSAGE_CHARS:
            raise BandToolError(texts.MESSAGE_OF_REQUEST_TOO_LONG)
        answer = await self._change(ADD_CONTACT, handle=handle, message=message or None)
        return object_result(answer, {"status": "pending"})

    @platform_tool(RemoveContactInput, _CONTACTS, _ACT)
    async def remove_contact(
        self, handle: str | None = None, contact_id: str | None = None
    ) -> dict[str, Any]:
        """End a contact, named by one of the two; the result has `status`."""
        named = {"handle": handle or None, "contact_id": contact_id or None}
        await self._change(REMOVE_CONTACT, **named)
        return {"status": "removed"}

    @platform_tool(ListContactRequestsInput, _CONTACTS, _OBSERVE)
    async def list_contact_requests(
        self, page: int = 1, page_size: int = 50, sent_status: str = "pending"
    ) -> dict[str, Any]:
        """Return one page of requests: `data` with `received` and `sent`, and `metadata`.

        Those received are pending ones; *sent_status* says which of the sent ones are listed.
        """
        requests = await self._ask(
            LIST_CONTACT_REQUESTS, page=page, page_size=page_size, sent_status=sent_status
        )
        return {
            "data": {
                "received": [unstructure(each) for each in requests.received],
                "sent": [unstructure(each) for each in requests.sent],
            },
            "metadata": without_nulls({"page": page, "page_size": page_size, **requests.metadata}),
        }

    @platform_tool(RespondContactRequestInput, _CONTACTS, _ACT)
    async def respond_contact_request(
        self, action: str, handle: str | None = None, request_id: str | None = None
    ) -> dict[str, Any]:
        """Approve, reject or cancel a request, named by one of the two: `id` and `status`.

        `approve` and `reject` are for requests that were received, `cancel` for one that was
        sent; *handle* is the other party's.
        """
        named = {"handle": handle or None, "request_id": request_id or None}
        try:
            answer = await self._change(RESPOND_CONTACT_REQUEST, action=action, **named)
        except BandApiError as exc:
            if exc.status == 409:
                raise BandToolError(texts.REQUEST_NOT_PENDING) from exc
            raise
        known = {"id": request_id, "status": _DONE.get(action)}
        return without_nulls({**known, **(unstructure(answer) if answer else {})})

"""Arguments of the contact tools. The docstrings and descriptions are what a model reads."""

# ruff: noqa: RUF009 - `argument` declares an attrs field

from __future__ import annotations

from typing import Literal

import attrs

from band_trio import texts
from band_trio.tools.definitions import argument, need_one_of

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
        "A few words to go with the request, at most 500 characters.", default=None, longest=500
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

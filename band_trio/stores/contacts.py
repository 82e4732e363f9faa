"""Contacts and requests between parties (platform docs, Peers and contacts).

One record for both sides. A pair has one pending request at most; asking somebody who has asked
already is an approval. What is answered stays answered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, Protocol

import attrs

from band_trio.stores.refusal import bad_request, conflict, forbidden, invalid, not_found

MESSAGE_CHARS: Final = 500
"""Most characters of the message of a request (platform docs, Limits)."""

Status = Literal["pending", "approved", "rejected", "cancelled", "expired"]
Action = Literal["approve", "reject", "cancel"]
_DONE: Final[dict[Action, Status]] = {
    "approve": "approved",
    "reject": "rejected",
    "cancel": "cancelled",
}


class Person(Protocol):
    """Anybody who may have contacts."""

    @property
    def id(self) -> str: ...
    @property
    def handle(self) -> str: ...


@attrs.frozen
class Contact:
    """Two parties who know each other."""

    id: str
    pair: tuple[Person, Person]
    inserted_at: str

    def other(self, party_id: str) -> Person:
        """Return the other side."""
        one, two = self.pair
        return two if one.id == party_id else one

    def has(self, party_id: str) -> bool:
        """Tell whether that party is one of the two."""
        return party_id in (self.pair[0].id, self.pair[1].id)


@attrs.define(eq=False)
class Request:
    """What one party asks of another."""

    id: str
    requester: Person
    recipient: Person
    message: str | None
    inserted_at: str
    status: Status = "pending"
    responded_at: str | None = None

    def other(self, party_id: str) -> Person:
        """Return the other side."""
        return self.recipient if self.requester.id == party_id else self.requester


@attrs.define(eq=False)
class Contacts:
    """All contacts and requests of a platform."""

    _new_id: Callable[[], str]
    _stamp: Callable[[], str]
    _find: Callable[[str], Person | None]
    """Finds a party by its handle, without `@`."""
    contacts: dict[str, Contact] = attrs.field(factory=dict, init=False)
    requests: dict[str, Request] = attrs.field(factory=dict, init=False)

    # ------------------------------------------------------------------ looking

    def of(self, party_id: str) -> list[Contact]:
        """Return the contacts of a party, oldest first."""
        return [each for each in self.contacts.values() if each.has(party_id)]

    def between(self, one_id: str, other_id: str) -> Contact | None:
        """Return the contact of two parties."""
        found = (each for each in self.of(one_id) if each.other(one_id).id == other_id)
        return next(found, None)

    def received(self, party_id: str) -> list[Request]:
        """Return the pending requests that a party received, oldest first."""
        return [
            each
            for each in self.requests.values()
            if each.recipient.id == party_id and each.status == "pending"
        ]

    def sent(self, party_id: str, status: str = "all") -> list[Request]:
        """Return the requests that a party sent, oldest first."""
        return [
            each
            for each in self.requests.values()
            if each.requester.id == party_id and status in ("all", each.status)
        ]

    def resolve(self, handle: str) -> Person:
        """Find somebody by handle, with or without `@`.

        Raises:
            Refusal: 404.
        """
        person = self._find(handle.removeprefix("@"))
        if person is None:
            raise not_found("Handle")
        return person

    # ------------------------------------------------------------------ changes

    def ask(self, by: Person, handle: object, message: object = None) -> tuple[Request, bool]:
        """Ask somebody; tell also whether that made them a contact, as they had asked already.

        Raises:
            Refusal: 400, 404, 409, 422.
        """
        if not isinstance(handle, str) or not handle.strip("@ "):
            raise bad_request("A handle is needed")
        if message is not None and not isinstance(message, str):
            raise invalid("/message", "must be a string")
        if message is not None and len(message) > MESSAGE_CHARS:
            raise invalid("/message", f"should be at most {MESSAGE_CHARS} character(s)")
        person = self.resolve(handle)
        if person.id == by.id:
            raise conflict("Nobody is a contact of itself")
        if self.between(by.id, person.id) is not None:
            raise conflict("Already a contact")
        for each in self.received(by.id):
            if each.requester.id == person.id:
                return self._answer(each, "approve"), True
        if any(each.recipient.id == person.id for each in self.sent(by.id, "pending")):
            raise conflict("A request is pending")
        request = Request(self._new_id(), by, person, message, self._stamp())
        self.requests[request.id] = request
        return request, False

    def respond(
        self,
        by: Person,
        action: Action,
        *,
        handle: str | None = None,
        request_id: str | None = None,
    ) -> Request:
        """Approve or reject what was received, or cancel what was sent.

        Raises:
            Refusal: 400 not named, 403 the other side's to do, 404 unknown, 409 not pending.
        """
        request = self._named(by, action, handle, request_id)
        if (request.requester.id == by.id) is not (action == "cancel"):
            raise forbidden(
                "Only who sent a request cancels it; only who received it approves or rejects"
            )
        if request.status != "pending":
            raise conflict(f"The request is {request.status}")
        return self._answer(request, action)

    def remove(
        self, by: Person, *, handle: str | None = None, contact_id: str | None = None
    ) -> Contact:
        """End a contact, for both sides.

        Raises:
            Refusal: 400 not named, 404 no such contact.
        """
        if not handle and not contact_id:
            raise bad_request("handle or contact_id is needed")
        for each in self.of(by.id):
            named = each.id == contact_id if contact_id else _same(each.other(by.id), handle)
            if named:
                del self.contacts[each.id]
                return each
        raise not_found("Contact")

    def forget(self, party_id: str) -> list[Contact]:
        """Drop everything of a party that is gone; return the contacts that it had."""
        lost = self.of(party_id)
        for contact in lost:
            del self.contacts[contact.id]
        for request in list(self.requests.values()):
            if party_id in (request.requester.id, request.recipient.id):
                del self.requests[request.id]
        return lost

    def _named(
        self, by: Person, action: Action, handle: str | None, request_id: str | None
    ) -> Request:
        if request_id:
            request = self.requests.get(request_id)
            if request is not None and by.id in (request.requester.id, request.recipient.id):
                return request
            raise not_found("Contact request")
        if not handle:
            raise bad_request("handle or request_id is needed")
        mine = self.sent(by.id) if action == "cancel" else self._all_received(by.id)
        found = [each for each in mine if _same(each.other(by.id), handle)]
        if not found:
            raise not_found("Contact request")
        return next((each for each in found if each.status == "pending"), found[-1])

    def _all_received(self, party_id: str) -> list[Request]:
        return [each for each in self.requests.values() if each.recipient.id == party_id]

    def _answer(self, request: Request, action: Action) -> Request:
        request.status, request.responded_at = _DONE[action], self._stamp()
        if action == "approve":
            pair = (request.requester, request.recipient)
            contact = Contact(self._new_id(), pair, self._stamp())
            self.contacts[contact.id] = contact
        return request


def _same(person: Person, handle: str | None) -> bool:
    return handle is not None and person.handle == handle.removeprefix("@")

"""Contacts and requests between parties (platform docs, Peers and contacts).

One record for both sides. A pair has one pending request at most; asking somebody who has asked
already is an approval. What is answered stays answered.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
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
    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...


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

    _new_id: Callable[[Literal["contact", "request"]], str]
    """Makes a unique id; told what for."""
    _stamp: Callable[[], str]
    _find: Callable[[str], Person | None]
    """Finds a party by its handle, without `@`."""
    contacts: dict[str, Contact] = attrs.field(factory=dict, init=False)
    requests: dict[str, Request] = attrs.field(factory=dict, init=False)
    _known: dict[str, dict[str, Contact]] = attrs.field(
        factory=lambda: defaultdict(dict), init=False
    )
    """Party → the other side → what they share."""
    _received: dict[str, list[Request]] = attrs.field(factory=lambda: defaultdict(list), init=False)
    _sent: dict[str, list[Request]] = attrs.field(factory=lambda: defaultdict(list), init=False)

    # ------------------------------------------------------------------ looking

    def of(self, party_id: str) -> list[Contact]:
        """Return the contacts of a party, oldest first."""
        return list(self._known[party_id].values()) if party_id in self._known else []

    def between(self, one_id: str, other_id: str) -> Contact | None:
        """Return the contact of two parties."""
        return self._known[one_id].get(other_id) if one_id in self._known else None

    def received(self, party_id: str, status: str = "pending") -> list[Request]:
        """Return the requests that a party received, oldest first."""
        return _having(status, self._received.get(party_id, ()))

    def sent(self, party_id: str, status: str = "all") -> list[Request]:
        """Return the requests that a party sent, oldest first."""
        return _having(status, self._sent.get(party_id, ()))

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

    def ask(
        self, by: Person, handle: object, message: object = None, *, at: str = ""
    ) -> tuple[Request, bool]:
        """Ask somebody; tell also whether that made them a contact, as they had asked already.

        *at* is the JSON pointer of what holds the two in the body of a request.

        Raises:
            Refusal: 400, 404, 409, 422.
        """
        if not isinstance(handle, str) or not handle.strip("@ "):
            raise bad_request("A handle is needed")
        if message is not None and not isinstance(message, str):
            raise invalid(f"{at}/message", "must be a string")
        if message is not None and len(message) > MESSAGE_CHARS:
            raise invalid(f"{at}/message", f"should be at most {MESSAGE_CHARS} character(s)")
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
        request = Request(self._new_id("request"), by, person, message, self._stamp())
        self.put_request(request)
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
        """End a contact, for both sides; *contact_id* is its own id, or that of the other side.

        Raises:
            Refusal: 400 not named, 404 no such contact.
        """
        if contact_id:
            contact = self.contacts.get(contact_id) or self.between(by.id, contact_id)
        elif handle:
            contact = self.between(by.id, self.resolve(handle).id)
        else:
            raise bad_request("handle or contact_id is needed")
        if contact is None or self.between(by.id, contact.other(by.id).id) is not contact:
            raise not_found("Contact")
        self._end(contact)
        return contact

    def forget(self, party_id: str) -> tuple[list[Contact], list[Request]]:
        """End the contacts of a party that is gone, and let its pending requests expire.

        Returns what has ended so; what was answered before stays in the other side's lists.
        """
        lost = self.of(party_id)
        for contact in lost:
            self._end(contact)
        waiting = [*self.received(party_id), *self.sent(party_id, "pending")]
        for request in waiting:
            request.status, request.responded_at = "expired", self._stamp()
        return lost, waiting

    def put_contact(self, contact: Contact) -> None:
        """Keep a contact, whatever the rules say."""
        one, other = contact.pair
        self.contacts[contact.id] = contact
        self._known[one.id][other.id] = self._known[other.id][one.id] = contact

    def put_request(self, request: Request) -> None:
        """Keep a request, whatever the rules say."""
        self.requests[request.id] = request
        self._sent[request.requester.id].append(request)
        self._received[request.recipient.id].append(request)

    # ------------------------------------------------------------------ details

    def _end(self, contact: Contact) -> None:
        one, other = contact.pair
        del self.contacts[contact.id], self._known[one.id][other.id], self._known[other.id][one.id]

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
        person = self.resolve(handle)
        mine = self.sent(by.id) if action == "cancel" else self.received(by.id, "all")
        found = [each for each in mine if each.other(by.id).id == person.id]
        if not found:
            raise not_found("Contact request")
        return next((each for each in found if each.status == "pending"), found[-1])

    def _answer(self, request: Request, action: Action) -> Request:
        request.status, request.responded_at = _DONE[action], self._stamp()
        if action == "approve":
            pair = (request.requester, request.recipient)
            self.put_contact(Contact(self._new_id("contact"), pair, self._stamp()))
        return request


def _having(status: str, requests: Iterable[Request]) -> list[Request]:
    return [each for each in requests if status in ("all", each.status)]

"""The REST routes of contacts, for agents and for persons (platform docs, Peers and contacts)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, cast

from band_trio.localband import contacts as world_contacts
from band_trio.localband.contacts import agent_contact, received_push
from band_trio.localband.paging import MAX, NUMBER, choice, numbered, numbers
from band_trio.localband.party import User
from band_trio.localband.routes import Call, Reply, Route, data, listed
from band_trio.localband.validate import known_or_uuid
from band_trio.stores.bodies import section
from band_trio.stores.contacts import Action, Person, Request
from band_trio.stores.refusal import bad_request, invalid, not_found

ACTIONS: Final = ("approve", "reject", "cancel")
STATUSES: Final = ("pending", "approved", "rejected", "cancelled", "all")
ROWS_PAGE: Final = 20


def _object(call: Call) -> dict[str, Any]:
    if not isinstance(call.body, dict):
        raise bad_request("An object is needed")
    return call.body


def _name(row: dict[str, Any], key: str) -> str | None:
    """Take a name out of a body; nothing, or an empty text, is none.

    Raises:
        Refusal: 400, it is no text.
    """
    value = row.get(key)
    if value is not None and not isinstance(value, str):
        raise bad_request(f"{key} must be a string")
    return value or None


# --------------------------------------------------------------------------- agents


def contacts(call: Call) -> Reply:
    """List the caller's contacts."""
    page, metadata = numbered(call.world.contacts.of(call.party.id), call.query, MAX)
    return listed([agent_contact(call.world, each, call.party.id) for each in page], metadata)


def add_contact(call: Call) -> Reply:
    """Ask somebody to become a contact."""
    row = _object(call)
    request = world_contacts.ask(call.world, call.party, row.get("handle"), row.get("message"))
    return data({"id": request.id, "status": request.status}, 201)


def remove_contact(call: Call) -> Reply:
    """End a contact."""
    row = _object(call)
    world_contacts.remove(
        call.world, call.party, handle=_name(row, "handle"), contact_id=_name(row, "contact_id")
    )
    return data({"status": "removed"})


def contact_requests(call: Call) -> Reply:
    """List what the caller was asked and has not answered, and what it has asked."""
    store, query, own = call.world.contacts, call.query, call.party.id
    page, size = query.get("page", 1), query.get("page_size", MAX)
    both = {
        "received": store.received(own),
        "sent": store.sent(own, query.get("sent_status", "pending")),
    }
    rows = {
        "received": [received_push(each) for each in _part(both["received"], page, size)],
        "sent": [_sent_row(each) for each in _part(both["sent"], page, size)],
    }
    counts = {name: numbers(page, size, len(found)) for name, found in both.items()}
    totals = {
        name: {"total": each["total_count"], "total_pages": each["total_pages"]}
        for name, each in counts.items()
    }
    return listed(cast("Any", rows), {"page": page, "page_size": size, **totals})


def _part(rows: Sequence[Request], page: int, size: int) -> Sequence[Request]:
    return rows[(page - 1) * size : page * size]


def _sent_row(request: Request) -> dict[str, Any]:
    return {
        "id": request.id,
        "status": request.status,
        "to_handle": request.recipient.handle,
        "to_name": request.recipient.name,
        "message": request.message,
        "inserted_at": request.inserted_at,
    }


def respond(call: Call) -> Reply:
    """Answer a request, or take one back."""
    row = _object(call)
    action = row.get("action")
    if action not in ACTIONS:
        raise bad_request(f"action must be one of {', '.join(ACTIONS)}")
    request = world_contacts.respond(
        call.world,
        call.party,
        cast("Action", action),
        handle=_name(row, "handle"),
        request_id=_name(row, "request_id"),
    )
    return data({"id": request.id, "status": request.status})


# --------------------------------------------------------------------------- persons


def _side(person: Person) -> dict[str, Any]:
    """Return who a contact is, as a person's list has it; agents have no address."""
    row = _person_row(person)
    if isinstance(person, User):
        return {"user": {**row, "email": person.email}}
    return {"agent": row}


def _person_row(person: Person) -> dict[str, Any]:
    return {"id": person.id, "handle": person.handle, "name": person.name}


def my_contacts(call: Call) -> Reply:
    """List the contacts of a person."""
    found = call.world.contacts.of(call.party.id)
    page, metadata = numbered(found, call.query, ROWS_PAGE)
    rows = []
    for contact in page:
        other = contact.other(call.party.id)
        rows.append(
            {
                "id": contact.id,
                "contact_id": other.id,
                "contact_type": other.kind,
                "inserted_at": contact.inserted_at,
                "online": call.world.is_online(other.id),
                "status": "active",
                "source": "request",
                **_side(other),
            }
        )
    return listed(rows, metadata)


def resolve(call: Call) -> Reply:
    """Tell who has a handle; no id and no address."""
    handle = _name(_object(call), "handle")
    if handle is None:
        raise bad_request("A handle is needed")
    party = call.world.contacts.resolve(handle)
    return data({"type": party.kind, "handle": party.handle, "name": party.name})


def _request_row(request: Request) -> dict[str, Any]:
    one, other = request.requester, request.recipient
    return {
        "id": request.id,
        "inserted_at": request.inserted_at,
        "requester_id": one.id,
        "recipient_id": other.id,
        "status": request.status,
        "message": request.message,
        "requester": _person_row(one),
        "recipient": _person_row(other),
        "requester_type": one.kind,
        "recipient_type": other.kind,
        "responded_at": request.responded_at,
    }


def my_requests(call: Call) -> Reply:
    """List what a person was asked and has not answered."""
    found = call.world.contacts.received(call.party.id)
    page, metadata = numbered(found, call.query, ROWS_PAGE)
    return listed([_request_row(each) for each in page], metadata)


def my_sent_requests(call: Call) -> Reply:
    """List what a person has asked."""
    found = call.world.contacts.sent(call.party.id, call.query.get("status", "all"))
    page, metadata = numbered(found, call.query, ROWS_PAGE)
    return listed([_request_row(each) for each in page], metadata)


def my_ask(call: Call) -> Reply:
    """Ask somebody to become a contact of a person."""
    row = section(call.body, "contact_request")
    handle = row.get("recipient_handle")
    if not isinstance(handle, str) or not handle:
        raise invalid("/contact_request/recipient_handle", "can't be blank")
    request = world_contacts.ask(
        call.world, call.party, handle, row.get("message"), at="/contact_request"
    )
    return data(_request_row(request), 201)


def my_answer(call: Call, action: Action) -> Reply:
    """Answer a person's request, or take it back."""
    request_id = call.path["id"]
    if request_id not in call.world.contacts.requests:
        raise known_or_uuid("id", request_id, not_found("Contact request"))
    request = world_contacts.respond(call.world, call.party, action, request_id=request_id)
    return data({"id": request.id, "status": request.status})


# --------------------------------------------------------------------------- the tables

_AGENT: Final = "/api/v1/agent/contacts"
_ME: Final = "/api/v1/me/contacts"
_agent: Final = partial(Route, caller="Agent")
_person: Final = partial(Route, caller="User")
_status: Final = choice(*STATUSES)

_AGENT_ROUTES: Final = (
    _agent("contacts", "GET", _AGENT, contacts, query=NUMBER),
    _agent("add_contact", "POST", f"{_AGENT}/add", add_contact, reads_body=True),
    _agent("remove_contact", "POST", f"{_AGENT}/remove", remove_contact, reads_body=True),
    _agent(
        "contact_requests",
        "GET",
        f"{_AGENT}/requests",
        contact_requests,
        query={**NUMBER, "sent_status": _status},
    ),
    _agent("respond_contact", "POST", f"{_AGENT}/requests/respond", respond, reads_body=True),
)
_USER_ROUTES: Final = (
    _person("user_contacts", "GET", _ME, my_contacts, query=NUMBER),
    _person("user_remove_contact", "POST", f"{_ME}/remove", remove_contact, reads_body=True),
    _person("resolve_handle", "POST", f"{_ME}/resolve", resolve, reads_body=True),
    _person("user_requests", "GET", f"{_ME}/requests", my_requests, query=NUMBER),
    _person(
        "user_sent_requests",
        "GET",
        f"{_ME}/requests/sent",
        my_sent_requests,
        query={**NUMBER, "status": _status},
    ),
    _person("user_ask", "POST", f"{_ME}/requests", my_ask, reads_body=True),
    _person(
        "user_approve",
        "POST",
        f"{_ME}/requests/{{id}}/approve",
        partial(my_answer, action="approve"),
    ),
    _person(
        "user_reject", "POST", f"{_ME}/requests/{{id}}/reject", partial(my_answer, action="reject")
    ),
    _person("user_cancel", "DELETE", f"{_ME}/requests/{{id}}", partial(my_answer, action="cancel")),
)
ROUTES: Final = (*_AGENT_ROUTES, *_USER_ROUTES)

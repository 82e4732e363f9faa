"""Contacts of the platform's parties: the store's changes, told to whom they concern."""

from __future__ import annotations

from typing import Any

from band_trio.localband.party import Agent, Party
from band_trio.localband.world import World
from band_trio.protocol import events
from band_trio.stores.contacts import Action, Contact, Person, Request


def ask(world: World, by: Party, handle: object, message: object = None) -> Request:
    """Ask somebody to become a contact; approved at once where they have asked.

    Raises:
        Refusal: 400, 404, 409, 422.
    """
    request, approved = world.contacts.ask(by, handle, message)
    if approved:
        _tell_answer(world, request)
    else:
        _push(world, request.recipient, "contact_request_received", received_push(request))
    return request


def respond(
    world: World,
    by: Party,
    action: Action,
    *,
    handle: str | None = None,
    request_id: str | None = None,
) -> Request:
    """Answer a request, or take one back.

    Raises:
        Refusal: 400, 403, 404, 409.
    """
    request = world.contacts.respond(by, action, handle=handle, request_id=request_id)
    _tell_answer(world, request)
    return request


def remove(
    world: World, by: Party, *, handle: str | None = None, contact_id: str | None = None
) -> Contact:
    """End a contact.

    Raises:
        Refusal: 400, 404.
    """
    contact = world.contacts.remove(by, handle=handle, contact_id=contact_id)
    tell_removed(world, contact)
    return contact


def tell_removed(world: World, contact: Contact) -> None:
    """Tell both sides that a contact has ended."""
    for person in contact.pair:
        _push(world, person, "contact_removed", {"id": contact.id})


def _tell_answer(world: World, request: Request) -> None:
    for person in (request.requester, request.recipient):
        payload = {"id": request.id, "status": request.status}
        _push(world, person, "contact_request_updated", payload)
    contact = world.contacts.between(request.requester.id, request.recipient.id)
    if request.status == "approved" and contact is not None:
        for person in contact.pair:
            _push(world, person, "contact_added", added_push(world, contact, person))


def _push(world: World, to: Person, event: str, payload: dict[str, Any]) -> None:
    if isinstance(to, Agent):
        world.push(events.agent_contacts(to.id), event, lambda: payload, agents=[to.id])


# --------------------------------------------------------------------------- payloads


def received_push(request: Request) -> dict[str, Any]:
    """Return the payload of `contact_request_received`, which is also the row of a list."""
    return {
        "id": request.id,
        "status": request.status,
        "from_handle": request.requester.handle,
        "from_name": getattr(request.requester, "name", None),
        "message": request.message,
        "inserted_at": request.inserted_at,
    }


def added_push(world: World, contact: Contact, to: Person) -> dict[str, Any]:
    """Return the payload of `contact_added`: what clients reject as null is left out."""
    row = agent_contact(world, contact, to.id)
    return {
        name: value for name, value in row.items() if value is not None and name != "avatar_url"
    }


def agent_contact(world: World, contact: Contact, party_id: str) -> dict[str, Any]:
    """Return an `AgentContact`: the other side, as a party's list has it."""
    other = world.parties[contact.other(party_id).id]
    return {
        "id": contact.id,
        "handle": other.handle,
        "name": other.name,
        "type": other.kind,
        "online": world.is_online(other.id),
        "description": other.description if isinstance(other, Agent) else None,
        "is_external": isinstance(other, Agent),
        "listed_in_directory": False,
        "tags": [],
        "avatar_url": None,
        "inserted_at": contact.inserted_at,
    }

"""Contacts of the platform's parties: the store's changes, told to whom they concern."""

from __future__ import annotations

from typing import Any

from band_trio.localband.party import Agent, Party
from band_trio.localband.world import World
from band_trio.stores.contacts import Action, Contact, Person, Request


def ask(
    world: World, by: Party, handle: object, message: object = None, *, at: str = ""
) -> Request:
    """Ask somebody to become a contact; approved at once where they have asked. *at* is the JSON
    pointer of what holds the two in the body of a request.

    Raises:
        Refusal: 400, 404, 409, 422.
    """
    request, approved = world.contacts.ask(by, handle, message, at=at)
    if approved:
        _tell_answer(world, request)
    else:
        news = received_push(request)
        world.tell_of_contact([request.recipient], "contact_request_received", **news)
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
    world.tell_of_contact(contact.pair, "contact_removed", id=contact.id)
    return contact


def _tell_answer(world: World, request: Request) -> None:
    pair = (request.requester, request.recipient)
    world.tell_of_contact(pair, "contact_request_updated", id=request.id, status=request.status)
    contact = world.contacts.between(request.requester.id, request.recipient.id)
    if request.status == "approved" and contact is not None:
        for person in pair:
            news = added_push(world, contact, person)
            world.tell_of_contact([person], "contact_added", **news)


# --------------------------------------------------------------------------- payloads


def received_push(request: Request) -> dict[str, Any]:
    """Return the payload of `contact_request_received`, which is also the row of a list."""
    return {
        "id": request.id,
        "status": request.status,
        "from_handle": request.requester.handle,
        "from_name": request.requester.name,
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
    other = contact.other(party_id)
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

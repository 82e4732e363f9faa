"""The REST routes of memories, for agents and for persons (platform docs, Memories)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from band_trio.localband import routes
from band_trio.localband.paging import (
    CURSOR,
    NUMBER,
    SUNSET,
    Page,
    Parse,
    View,
    choice,
    whole,
)
from band_trio.localband.party import Party, owner_of
from band_trio.localband.routes import Call, Reply, Route, data
from band_trio.localband.world import World
from band_trio.protocol.holdings import TYPES_OF_SYSTEM
from band_trio.stores.memories import SCOPES, SEGMENTS, STATUSES, TYPES, Memory, Reader

MEMORIES_PAGE: Final = 20
MEMORIES_PAGE_SIZE: Final = 50
"""Largest page by number."""
_PAGING: Final = ("cursor", "limit", "page", "page_size")


def reader(party: Party) -> Reader:
    """Return whose eyes a request has. There are no organizations here."""
    return Reader(party.id, owner_of(party).id)


def _page(query: Mapping[str, Any], found: list[Memory]) -> Page:
    filters = sorted((k, v) for k, v in query.items() if k not in _PAGING)
    # A digest: a cursor holds the filters it is good for, and these may be long.
    name = hashlib.sha256(repr(filters).encode("utf-8", "replace")).hexdigest()[:16]
    return View(f"memories:{name}", [memory.number for memory in found]).page(query, MEMORIES_PAGE)


def _listed(rows: list[dict[str, Any]], page: Page) -> Reply:
    reply = routes.paged(rows, page, SUNSET)
    reply.body["meta"] = reply.body["metadata"]  # the twin under the older name
    return reply


def _rows(found: list[Memory], page: Page) -> list[Memory]:
    by_number = {memory.number: memory for memory in found}
    return [by_number[number] for number in page.rows]


# --------------------------------------------------------------------------- agents


def memories(call: Call) -> Reply:
    """List what the caller sees, oldest first."""
    found = call.world.memories.search(reader(call.party), call.query)
    page = _page(call.query, found)
    return _listed([memory.render() for memory in _rows(found, page)], page)


def store_memory(call: Call) -> Reply:
    """Keep something."""
    return data(call.world.memories.store(reader(call.party), call.body).render(), 201)


def memory(call: Call) -> Reply:
    """Show a memory."""
    return data(call.world.memories.find(reader(call.party), call.path["memory_id"]).render())


def put_away(call: Call, status: str) -> Reply:
    """Mark a memory as replaced, or hide it."""
    memory_id = call.path["memory_id"]
    return data(call.world.memories.put_away(reader(call.party), memory_id, status).render())


# --------------------------------------------------------------------------- persons


def _render_for_person(world: World, found: Memory) -> dict[str, Any]:
    """Return the `UserMemory`."""
    names = {
        f"{role}_name": world.parties[party_id].name if party_id in world.parties else None
        for role, party_id in (("source_agent", found.source.id), ("subject", found.subject_id))
    }
    more = {"updated_at": found.updated_at, "chat_room_id": None}
    return {**found.render(), **more, **names}


def user_memories(call: Call) -> Reply:
    """List what is about the caller, oldest first."""
    found = call.world.memories.search_for_person(reader(call.party), call.query)
    page = _page(call.query, found)
    return _listed([_render_for_person(call.world, m) for m in _rows(found, page)], page)


def user_memory(call: Call) -> Reply:
    """Show a memory."""
    found = call.world.memories.find_for_person(reader(call.party), call.path["memory_id"])
    return data(_render_for_person(call.world, found))


def change_user_memory(call: Call, status: str) -> Reply:
    """Mark a memory as replaced, hide it, or bring it back."""
    store, memory_id = call.world.memories, call.path["memory_id"]
    changed = store.change_for_person(reader(call.party), memory_id, status)
    return data(_render_for_person(call.world, changed))


def delete_user_memory(call: Call) -> Reply:
    """Delete a memory for good."""
    call.world.memories.delete(reader(call.party), call.path["memory_id"])
    return Reply(204)


# --------------------------------------------------------------------------- the table

_FILTERS: Final[dict[str, Parse]] = {
    **CURSOR,
    **NUMBER,
    "page_size": whole(1, MEMORIES_PAGE_SIZE),
    "system": choice(*TYPES_OF_SYSTEM),
    "type": choice(*TYPES),
    "segment": choice(*SEGMENTS),
    "content_query": str,
    "status": choice(*STATUSES, "all"),
}
_OWN: Final = "/api/v1/agent/memories"
_MINE: Final = "/api/v1/me/memories"
_agent: Final = partial(Route, caller="Agent", offer="memories")
_person: Final = partial(Route, caller="User", offer="memories")

ROUTES: Final = (
    _agent(
        "memories",
        "GET",
        _OWN,
        memories,
        query=_FILTERS
        | {
            "subject_id": str,
            "scope": choice(*SCOPES, "all"),
            "memory_scope": choice("me", "org"),
        },
    ),
    _agent("store_memory", "POST", _OWN, store_memory, reads_body=True),
    _agent("memory", "GET", f"{_OWN}/{{memory_id}}", memory),
    _agent(
        "supersede_memory",
        "POST",
        f"{_OWN}/{{memory_id}}/supersede",
        partial(put_away, status="superseded"),
    ),
    _agent(
        "archive_memory",
        "POST",
        f"{_OWN}/{{memory_id}}/archive",
        partial(put_away, status="archived"),
    ),
    _person(
        "user_memories",
        "GET",
        _MINE,
        user_memories,
        query=_FILTERS
        | {
            "scope": choice("about_me", "organization", "room", "all"),
            "chat_room_id": str,
        },
    ),
    _person("user_memory", "GET", f"{_MINE}/{{memory_id}}", user_memory),
    _person("delete_memory", "DELETE", f"{_MINE}/{{memory_id}}", delete_user_memory),
    *(
        _person(
            f"user_{verb}_memory",
            "POST",
            f"{_MINE}/{{memory_id}}/{verb}",
            partial(change_user_memory, status=status),
        )
        for verb, status in (
            ("supersede", "superseded"),
            ("archive", "archived"),
            ("restore", "active"),
        )
    ),
)

"""The REST routes of memories, for agents and for persons (platform docs, Memories)."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import attrs

from band_trio.localband import routes
from band_trio.localband.paging import CURSOR, NUMBER, SUNSET, Parse, View, choice, whole
from band_trio.localband.party import owner_of
from band_trio.localband.routes import Call, Reply, Route, data
from band_trio.localband.validate import known_or_uuid, section
from band_trio.protocol.holdings import Memory
from band_trio.protocol.structure import unstructure
from band_trio.stores.memories import SCOPES, SEGMENTS, STATUSES, SYSTEMS, find, matching
from band_trio.stores.refusal import Refusal, invalid

PAGE: Final = 20
_FILTERS: Final = ("subject_id", "scope", "system", "type", "segment", "status", "content_query")


def _seen(call: Call) -> list[Memory]:
    world, agent = call.world, call.agent
    siblings = [each.id for each in world.agents_of(owner_of(agent))]
    return world.memories.seen_by(agent.id, siblings)


def _mine(call: Call) -> list[Memory]:
    return call.world.memories.about(call.party.id)


def _found(call: Call, memories: list[Memory]) -> Memory:
    try:
        return find(memories, call.path["id"])
    except Refusal as missing:
        raise known_or_uuid("id", call.path["id"], missing) from None


def _listing(call: Call, memories: list[Memory]) -> Reply:
    wanted = {name: call.query.get(name) for name in _FILTERS}
    found = matching(memories, wanted)
    keys = [f"{memory.inserted_at}|{memory.id}" for memory in found]
    name = "memories:" + ":".join(f"{value}" for value in wanted.values())
    page = View(name, range(len(found)), keys).page(call.query, PAGE)
    rows = [render(call, found[number]) for number in page.rows]
    reply = routes.paged(rows, page, SUNSET)
    # The twin under the older name; some clients read only that.
    reply.body["meta"] = reply.body["metadata"]
    return reply


def render(call: Call, memory: Memory) -> dict[str, Any]:
    """Return a memory, for a person with what only persons see."""
    row = unstructure(memory)
    if call.party.kind == "User":
        source = call.world.parties.get(memory.source_agent_id or "")
        row |= {
            "updated_at": memory.inserted_at,
            "chat_room_id": None,
            "source_agent_name": source.name if source is not None else None,
        }
    return row


def memories(call: Call) -> Reply:
    """List what the caller may see."""
    found = _seen(call)
    if call.query.get("memory_scope") == "org":
        found = [memory for memory in found if memory.scope == "organization"]
    return _listing(call, found)


def store(call: Call) -> Reply:
    """Keep a memory."""
    memory = call.world.memories.store(call.agent.id, section(call.body, "memory"))
    return data(render(call, memory), 201)


def memory(call: Call) -> Reply:
    """Show a memory."""
    return data(render(call, _found(call, _seen(call))))


def retire(call: Call, status: str) -> Reply:
    """Supersede or archive a memory that the caller keeps."""
    found = _found(call, _seen(call))
    return data(render(call, call.world.memories.retire(found, call.agent.id, status)))


# --------------------------------------------------------------------------- persons


def my_memories(call: Call) -> Reply:
    """List what is kept about a person; there are no others here."""
    shared = call.query.get("scope", "about_me") in ("about_me", "all")
    return _listing(call, _mine(call) if shared else [])


def my_memory(call: Call) -> Reply:
    """Show a memory about the caller."""
    return data(render(call, _found(call, _mine(call))))


def my_status(call: Call, status: str) -> Reply:
    """Supersede, archive or restore a memory about the caller."""
    found = _found(call, _mine(call))
    if status == "active" and found.status != "archived":
        raise invalid("/status", "only an archived memory can be restored")
    return data(render(call, call.world.memories.put(attrs.evolve(found, status=status))))


def my_delete(call: Call) -> Reply:
    """Drop a memory about the caller, for good."""
    call.world.memories.delete(_found(call, _mine(call)))
    return Reply(204)


# --------------------------------------------------------------------------- the tables

_AGENT: Final = "/api/v1/agent/memories"
_ME: Final = "/api/v1/me/memories"
_TYPES: Final = sorted({kind for kinds in SYSTEMS.values() for kind in kinds})
_QUERY: Final[dict[str, Parse]] = {
    **CURSOR,
    **NUMBER,
    "page_size": whole(1, 50),
    "subject_id": str,
    "system": choice(*SYSTEMS),
    "type": choice(*_TYPES),
    "segment": choice(*SEGMENTS),
    "content_query": str,
    "status": choice(*STATUSES, "all"),
}
_agent: Final = partial(Route, caller="Agent", feature="memories")
_person: Final = partial(Route, caller="User", feature="memories")

AGENT_ROUTES: Final = (
    _agent(
        "memories",
        "GET",
        _AGENT,
        memories,
        query={**_QUERY, "scope": choice(*SCOPES, "all"), "memory_scope": choice("me", "org")},
    ),
    _agent("store_memory", "POST", _AGENT, store, reads_body=True),
    _agent("memory", "GET", f"{_AGENT}/{{id}}", memory),
    _agent(
        "supersede_memory",
        "POST",
        f"{_AGENT}/{{id}}/supersede",
        partial(retire, status="superseded"),
    ),
    _agent(
        "archive_memory", "POST", f"{_AGENT}/{{id}}/archive", partial(retire, status="archived")
    ),
)
USER_ROUTES: Final = (
    _person(
        "user_memories",
        "GET",
        _ME,
        my_memories,
        query={
            **_QUERY,
            "scope": choice("about_me", "organization", "room", "all"),
            "chat_room_id": str,
        },
    ),
    _person("user_memory", "GET", f"{_ME}/{{id}}", my_memory),
    _person("user_delete_memory", "DELETE", f"{_ME}/{{id}}", my_delete),
    *(
        _person(
            f"user_{verb}_memory", "POST", f"{_ME}/{{id}}/{verb}", partial(my_status, status=status)
        )
        for verb, status in (
            ("supersede", "superseded"),
            ("archive", "archived"),
            ("restore", "active"),
        )
    ),
)

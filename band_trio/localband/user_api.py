"""The REST interface for persons, `/api/v1/me`: what a test or an operator needs to drive agents
(platform docs, Human API)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from operator import itemgetter
from typing import Any, Final, TypeVar

from band_trio.localband import control, posting, routes
from band_trio.localband.agent_api import (
    MESSAGES_PAGE,
    add_participant,
    peers,
    receipt,
    remove_participant,
    render_members,
)
from band_trio.localband.paging import CURSOR, NUMBER, SUNSET, View, choice, switch
from band_trio.localband.party import Agent
from band_trio.localband.room import Room
from band_trio.localband.routes import Call, Reply, Route, data
from band_trio.localband.validate import MESSAGE_BODY_BYTES, new_chat
from band_trio.localband.world import World
from band_trio.protocol.structure import timestamp_text
from band_trio.stores.bodies import section, text
from band_trio.stores.refusal import forbidden, invalid

ROWS_PAGE: Final = 20

T = TypeVar("T", Agent, Room)


def profile(call: Call) -> Reply:
    """Tell the caller who it is."""
    user = call.user
    first, _, last = user.name.partition(" ")
    row = {
        "id": user.id,
        "name": user.name,
        "email": user.email,
        "handle": user.handle,
        "role": user.role,
        "first_name": first or None,
        "last_name": last or None,
    }
    return data(row)


def update_profile(call: Call) -> Reply:
    """Change the caller's name; the handle stays."""
    row, (first, _, last) = section(call.body, "user"), call.user.name.partition(" ")
    names = (
        text(row[key], f"/user/{key}") if row.get(key) is not None else known
        for key, known in (("first_name", first), ("last_name", last))
    )
    call.user.name = " ".join(filter(None, names))
    return profile(call)


def create_user(call: Call) -> Reply:
    """Create a person; for admins, and of this platform alone. The key is shown this once."""
    if call.user.role != "admin":
        raise forbidden("Only an admin may create people")
    row = section(call.body, "user")
    role = row.get("role", "user")
    if role not in ("user", "admin"):
        raise invalid("/user/role", "Invalid value for enum")
    user = call.world.add_user(text(row.get("name"), "/user/name"), role)
    body = {"id": user.id, "name": user.name, "handle": user.handle, "role": user.role}
    return data({"user": body, "credentials": {"api_key": user.api_key}}, 201)


# --------------------------------------------------------------------------- agents


def register_agent(call: Call) -> Reply:
    """Create an agent; its key is shown this once."""
    row = section(call.body, "agent")
    name, description = (text(row.get(key), f"/agent/{key}") for key in ("name", "description"))
    agent = call.world.add_agent(call.user, name, description)
    body = {
        "agent": {
            "id": agent.id,
            "name": agent.name,
            "handle": agent.handle,
            "owner_id": agent.owner.id,
            "description": agent.description,
            "inserted_at": agent.inserted_at,
        },
        "credentials": {"api_key": agent.api_key},
    }
    return data(body, 201)


def _render_agent(agent: Agent) -> dict[str, Any]:
    return {
        "id": agent.id,
        "name": agent.name,
        "handle": agent.handle,
        "slug": agent.handle.partition("/")[2],
        "description": agent.description,
        "is_external": True,
        "listed_in_directory": False,
        "tags": [],
        "inserted_at": agent.inserted_at,
        "updated_at": agent.updated_at,
    }


def _sorted(rows: Iterable[T], field: str) -> tuple[list[T], list[str]]:
    """Sort rows by a field, and return what each is known by in that order."""
    keyed = sorted(((f"{getattr(row, field)}|{row.id}", row) for row in rows), key=itemgetter(0))
    return [row for _, row in keyed], [key for key, _ in keyed]


def agents(call: Call) -> Reply:
    """List the caller's agents."""
    query = call.query
    found = call.world.agents_of(call.user)
    wanted = query.get("name", "").lower()
    found = [agent for agent in found if wanted in agent.name.lower()]
    if query.get("is_external") is False or query.get("listed_in_directory") is True:
        found = []
    sort, order = query.get("sort", "inserted_at"), query.get("order", "desc")
    found, keys = _sorted(found, sort)
    filters = [
        {"label": "Name", "param": "name", "type": "string"},
        {"label": "External", "param": "is_external", "type": "boolean"},
        {"label": "Listed", "param": "listed_in_directory", "type": "boolean"},
    ]
    sortable = [{"label": s, "param": s} for s in ("name", "inserted_at", "updated_at")]
    name = f"agents:{sort}:{order}:{wanted}"
    view = View(name, range(len(found)), keys, descending=order == "desc")
    page = view.page(query, ROWS_PAGE)
    rows = [_render_agent(found[number]) for number in page.rows]
    return routes.paged(rows, page, SUNSET, available_filters=filters, sortable_fields=sortable)


def delete_agent(call: Call) -> Reply:
    """Delete an agent and its key."""
    agent = call.world.own_agent(call.user, call.path["id"])
    gone = call.world.remove_agent(agent, force=call.query.get("force", False))
    return data({"id": agent.id, "name": agent.name, "executions_deleted": gone})


def executions(call: Call) -> Reply:
    """List the executions of an agent, one per room."""
    agent = call.world.own_agent(call.user, call.path["id"])
    return data(control.executions(call.world, agent))


def interrupt(call: Call) -> Reply:
    """End what an agent is running."""
    agent = call.world.own_agent(call.user, call.path["id"])
    control.interrupt(call.world, agent, call.path["execution_id"])
    return data({"status": "interrupted"})


# --------------------------------------------------------------------------- rooms


def chats(call: Call) -> Reply:
    """List the caller's rooms, and on demand those of its agents."""
    query, world = call.query, call.world
    rooms = dict(world.rooms_of[call.party.id])
    if query.get("include") == "agent_rooms":
        for agent in world.agents_of(call.user):
            rooms |= world.rooms_of[agent.id]
    # Every room here is active and direct.
    if query.get("status", "active") != "active" or query.get("type", "direct") != "direct":
        rooms = {}
    sort, order = query.get("sort_by", "inserted_at"), query.get("order", "desc")
    found, keys = _sorted(rooms.values(), sort)
    view = View(f"chats:{sort}:{order}", range(len(found)), keys, descending=order == "desc")
    page = view.page(query, ROWS_PAGE)
    return routes.paged([found[n].render_for_user() for n in page.rows], page, SUNSET)


def create_chat(call: Call) -> Reply:
    """Create a room that the caller owns."""
    title, task_id = new_chat(call.body)
    return data(call.world.create_room(call.party, title, task_id).render_for_user(), 201)


def chat(call: Call) -> Reply:
    """Show a room."""
    return data(call.room.render_for_user())


def rename_chat(call: Call) -> Reply:
    """Set the title of a room."""
    call.world.rename(call.room, call.party, section(call.body, "chat").get("title"))
    return data(call.room.render_for_user())


def delete_chat(call: Call) -> Reply:
    """Delete a room for everybody."""
    call.world.delete_room(call.room)
    return data(call.room.render_for_user())


def participants(call: Call) -> Reply:
    """List who is in the room."""
    kind = call.query.get("participant_type")
    members = [m for m in call.room.members.values() if kind in (None, m.party.kind)]
    members.sort(key=lambda member: member.joined_at)
    keys = [member.joined_at for member in members]
    page = View(f"participants:{kind}", range(len(members)), keys).page(call.query, MESSAGES_PAGE)
    rows = render_members(call.world, [members[number] for number in page.rows])
    return routes.paged(rows, page, SUNSET)


def post_message(call: Call) -> Reply:
    """Say something."""
    return receipt(posting.post_message(call.world, call.room, call.party, call.body))


def messages(call: Call) -> Reply:
    """List everything in the room, newest first."""
    name, rows = _filtered(call.room, call.query)
    page = View(name, rows, descending=True).page(call.query, MESSAGES_PAGE)
    return routes.paged([call.room.messages[n].render() for n in page.rows], page, SUNSET)


def _filtered(room: Room, query: Any) -> tuple[str, Sequence[int]]:
    given = [k for k in ("message_type", "message_types", "exclude_message_types") if k in query]
    if len(given) > 1:
        raise invalid(f"/{given[1]}", f"cannot be combined with {given[0]}")
    if "since" in query and "cursor" in query:
        raise invalid("/since", "cannot be combined with cursor")
    rows: Sequence[int] = range(len(room.messages))
    if "since" in query:
        rows = [n for n in rows if room.messages[n].inserted_at >= query["since"]]
    if not given:
        return "all", rows
    types = query[given[0]]
    keep = given[0] != "exclude_message_types"
    rows = [n for n in rows if (room.messages[n].message_type in types) is keep]
    return f"{given[0]}:{','.join(sorted(types))}", rows


def stop(call: Call) -> Reply:
    """Stop all agents of the room."""
    control.stop_room(call.world, call.room)
    return data({"status": "stopped"})


def play(call: Call) -> Reply:
    """Let all agents of the room go on."""
    control.play_room(call.world, call.room)
    return data({"status": "running"})


# --------------------------------------------------------------------------- the table


def _comma_list(value: str) -> frozenset[str]:
    items = value.split(",")
    if not all(items) or any(item != item.strip() for item in items):
        raise ValueError("must be a comma-separated list without blanks")
    return frozenset(items)


def _one_type(value: str) -> frozenset[str]:
    return frozenset({value})


def _time(value: str) -> str:
    try:
        when = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError("must be an ISO 8601 time") from None
    return timestamp_text(when if when.tzinfo else when.replace(tzinfo=UTC))


_PREFIX: Final = "/api/v1/me"
_ROOM: Final = f"{_PREFIX}/chats/{{chat_id}}"
_PAGES: Final = CURSOR | NUMBER
_ORDER: Final = {"order": choice("asc", "desc")}

_global: Final = partial(Route, caller="User")
_as_reader: Final = partial(Route, caller="User", room=World.room_for_reader)
_as_member: Final = partial(Route, caller="User", room=World.room_of)
_as_owner: Final = partial(Route, caller="User", room=World.room_for_owner)

ROUTES: Final = (
    _as_member(
        "user_post_message",
        "POST",
        f"{_ROOM}/messages",
        post_message,
        reads_body=True,
        body_bytes=MESSAGE_BODY_BYTES,
    ),
    _as_reader(
        "user_messages",
        "GET",
        f"{_ROOM}/messages",
        messages,
        query=_PAGES
        | {
            "message_type": _one_type,
            "message_types": _comma_list,
            "exclude_message_types": _comma_list,
            "since": _time,
        },
    ),
    _global("user_profile", "GET", f"{_PREFIX}/profile", profile),
    _global("update_profile", "PUT", f"{_PREFIX}/profile", update_profile, reads_body=True),
    _global("create_user", "POST", f"{_PREFIX}/users", create_user, reads_body=True),
    _global(
        "user_peers",
        "GET",
        f"{_PREFIX}/peers",
        peers,
        query=NUMBER | {"not_in_chat": str, "type": choice("User", "Agent")},
    ),
    _global(
        "register_agent", "POST", f"{_PREFIX}/agents/register", register_agent, reads_body=True
    ),
    _global(
        "user_agents",
        "GET",
        f"{_PREFIX}/agents",
        agents,
        query=_PAGES
        | _ORDER
        | {
            "name": str,
            "is_external": switch,
            "listed_in_directory": switch,
            "sort": choice("name", "inserted_at", "updated_at"),
        },
    ),
    _global("executions", "GET", f"{_PREFIX}/agents/{{id}}/executions", executions),
    _global(
        "interrupt",
        "POST",
        f"{_PREFIX}/agents/{{id}}/executions/{{execution_id}}/interrupt",
        interrupt,
    ),
    _global(
        "delete_agent", "DELETE", f"{_PREFIX}/agents/{{id}}", delete_agent, query={"force": switch}
    ),
    _global(
        "user_chats",
        "GET",
        f"{_PREFIX}/chats",
        chats,
        query=_PAGES
        | _ORDER
        | {
            "status": choice("active", "archived", "closed"),
            "type": choice("direct", "group", "task"),
            "sort_by": choice("inserted_at", "updated_at"),
            "include": choice("agent_rooms"),
        },
    ),
    _global("user_create_chat", "POST", f"{_PREFIX}/chats", create_chat, reads_body=True),
    _as_reader(
        "user_participants",
        "GET",
        f"{_ROOM}/participants",
        participants,
        query=_PAGES | {"participant_type": choice("User", "Agent")},
    ),
    _as_member(
        "user_add_participant", "POST", f"{_ROOM}/participants", add_participant, reads_body=True
    ),
    _as_member(
        "user_remove_participant",
        "DELETE",
        f"{_ROOM}/participants/{{participant_id}}",
        remove_participant,
    ),
    _as_owner("stop", "POST", f"{_ROOM}/agents/stop", stop),
    _as_owner("play", "POST", f"{_ROOM}/agents/play", play),
    _as_reader("user_chat", "GET", _ROOM, chat),
    _as_member("user_rename_chat", "PATCH", _ROOM, rename_chat, reads_body=True),
    _as_owner("delete_chat", "DELETE", _ROOM, delete_chat),
)

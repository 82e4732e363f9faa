"""The REST interface for agents, `/api/v1/agent` (platform docs, Agent API)."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, cast

from band_trio.localband import posting, routes
from band_trio.localband.delivery import Delivery, Inbox, Shelf, State
from band_trio.localband.paging import (
    CURSOR,
    MAX,
    NUMBER,
    SUNSET,
    Parse,
    View,
    choice,
    is_uuid,
    numbered,
)
from band_trio.localband.party import Agent, Party, Role, owner_of
from band_trio.localband.room import Message
from band_trio.localband.routes import Call, Reply, Route, data, listed
from band_trio.localband.validate import MESSAGE_BODY_BYTES, new_chat
from band_trio.localband.world import World
from band_trio.stores.bodies import section
from band_trio.stores.refusal import invalid

ROLES: Final = ("owner", "admin", "member")
MESSAGES_PAGE: Final = 20
CONTEXT_PAGE: Final = 50
PEERS_PAGE: Final = 20
"""That of a person's list (platform docs, Human API)."""


def me(call: Call) -> Reply:
    """Tell the caller who it is; also how clients check a key."""
    agent = call.agent
    row = {
        "id": agent.id,
        "name": agent.name,
        "handle": agent.handle,
        "description": agent.description,
        "owner_uuid": agent.owner.id,
        "feature_flags": call.world.offer.flags(),
        "tags": [],
        "listed_in_directory": False,
        "avatar_url": None,
        "inserted_at": agent.inserted_at,
        "updated_at": agent.updated_at,
    }
    return data(row)


# --------------------------------------------------------------------------- rooms


def chats(call: Call) -> Reply:
    """List the caller's rooms."""
    rooms = list(call.world.rooms_of[call.party.id].values())
    page, metadata = numbered(rooms, call.query)
    rows = [room.render() for room in page]
    if call.query.get("include") == "participants":
        for row, room in zip(rows, page, strict=True):
            row["participants"] = render_members(call.world, room.members.values())
    return listed(rows, metadata)


def create_chat(call: Call) -> Reply:
    """Create a room that the caller owns."""
    title, task_id = new_chat(call.body)
    return data(call.world.create_room(call.party, title, task_id).render(), 201)


def chat(call: Call) -> Reply:
    """Show a room."""
    return data(call.room.render())


def rename_chat(call: Call) -> Reply:
    """Set the title of a room."""
    title = section(call.body, "chat").get("title")
    call.world.rename(call.room, call.party, title)
    return data(call.room.render())


# --------------------------------------------------------------------------- participants


def render_members(world: World, members: Any) -> list[dict[str, Any]]:
    """Return the rows of participants."""
    return [member.render(online=world.is_online(member.party.id)) for member in members]


def participants(call: Call) -> Reply:
    """List who is in the room; not paged."""
    return data(render_members(call.world, call.room.members.values()))


def add_participant(call: Call) -> Reply:
    """Bring somebody in."""
    row = section(call.body, "participant")
    participant_id, role = row.get("participant_id"), row.get("role", "member")
    if not isinstance(participant_id, str) or not participant_id:
        raise invalid("/participant/participant_id", "can't be blank")
    if role not in ROLES:
        raise invalid("/participant/role", "Invalid value for enum")
    member = call.world.add_participant(call.room, call.party, participant_id, cast("Role", role))
    return data(render_members(call.world, [member])[0], 201)


def remove_participant(call: Call) -> Reply:
    """Take somebody out, or leave."""
    member = call.world.remove_participant(call.room, call.party, call.path["participant_id"])
    return data(render_members(call.world, [member])[0])


def render_peer(world: World, party: Party, caller: Party) -> dict[str, Any]:
    """Return the row of somebody who could be added."""
    external = isinstance(party, Agent)
    is_contact = world.contacts.between(caller.id, party.id) is not None
    return {
        "id": party.id,
        "name": party.name,
        "handle": party.handle,
        "type": party.kind,
        "source": "registry" if owner_of(party) is owner_of(caller) else "contact",
        "is_contact": is_contact,
        "online": world.is_online(party.id),
        "description": party.description if isinstance(party, Agent) else None,
        "is_external": external,
        "listed_in_directory": False,
        "tags": [],
        "avatar_url": None,
    }


def peers(call: Call) -> Reply:
    """List whom the caller could add to a room; not itself, nobody who is in the room named."""
    room_id = call.query.get("not_in_chat")
    room = call.world.rooms_of[call.party.id].get(room_id) if room_id else None
    if room_id and room is None and not is_uuid(room_id):
        raise invalid("/not_in_chat", "Invalid format. Expected :uuid")
    kind, present = call.query.get("type"), room.members if room is not None else {}
    found = [
        party
        for party in call.world.parties.values()
        if party is not call.party
        and party.id not in present
        and kind in (None, party.kind)
        and call.world.may_meet(call.party, party)
    ]
    page, metadata = numbered(found, call.query, MAX if call.party.kind == "Agent" else PEERS_PAGE)
    return listed([render_peer(call.world, party, call.party) for party in page], metadata)


# --------------------------------------------------------------------------- messages


def receipt(message: Message) -> Reply:
    """Return the answer to a message that was posted; references are no recipients."""
    recipients = [
        {"id": m.party.id, "handle": m.party.handle, "name": m.party.name}
        for m in message.mentions
        if m.delivers
    ]
    return data({"id": message.id, "success": True, "recipients": recipients}, 201)


def post_message(call: Call) -> Reply:
    """Say something."""
    return receipt(posting.post_message(call.world, call.room, call.party, call.body))


def post_event(call: Call) -> Reply:
    """Leave an event."""
    row = posting.post_event(call.world, call.room, call.party, call.body)
    answer = {"id": row.id, "success": True, "message_type": row.message_type}
    return data(answer, 201)


def next_message(call: Call) -> Reply:
    """Return the oldest message that is not processed, or 204."""
    message = posting.next_message(call.room, call.agent)
    return Reply(204) if message is None else data(message.render())


def messages(call: Call) -> Reply:
    """List what is addressed to the caller; without a status, what is not processed."""
    shelf = Shelf(call.query.get("status", Shelf.OPEN))
    order = call.query.get("sort_order", "asc")
    inbox = call.room.inboxes.get(call.party.id) or Inbox()
    view = View(
        f"messages:{shelf}:{order}",
        inbox.rows(shelf),
        descending=order == "desc",
        drifting=call.world.drifting_cursors,
    )
    page = view.page(call.query, MESSAGES_PAGE)
    rows = [call.room.messages[number].render() for number in page.rows]
    return routes.paged(rows, page, SUNSET, status_filter=call.query.get("status"))


def context(call: Call) -> Reply:
    """List what the caller sent or is mentioned in, oldest first."""
    rows = call.room.contexts.get(call.party.id, [])
    page = View("context", rows).page(call.query, CONTEXT_PAGE)
    reply = routes.paged([call.room.messages[n].render() for n in page.rows], page, SUNSET)
    # The twin under the older name; some clients read only that.
    reply.body["meta"] = reply.body["metadata"]
    return reply


def _marked(call: Call, delivery: Delivery | None) -> Reply:
    if delivery is None:
        return Reply(204)
    answer = {
        "id": call.path["id"],
        "success": True,
        "status": delivery.state.value,
        "attempt_number": delivery.attempt_number,
    }
    return data(answer)


def processing(call: Call) -> Reply:
    """Claim a message."""
    delivery = posting.claim(call.world, call.room, call.agent, call.path["id"])
    return _marked(call, delivery)


def settle(call: Call, state: State) -> Reply:
    """Settle a message."""
    marked = posting.settle(call.world, call.room, call.agent, call.path["id"], state, call.body)
    return _marked(call, marked)


def activity(call: Call) -> Reply:
    """Take a working report; the answer says `false` to an agent that is stopped."""
    answer = posting.report_activity(call.world, call.room, call.agent, call.body)
    return data({"working": answer})


# --------------------------------------------------------------------------- the table

_PREFIX: Final = "/api/v1/agent"
_ROOM: Final = f"{_PREFIX}/chats/{{chat_id}}"
_LIST: Final[dict[str, Parse]] = {
    **CURSOR,
    **NUMBER,
    "status": choice("pending", "processing", "processed", "failed", "all"),
    "sort_order": choice("asc", "desc"),
}

_global: Final = partial(Route, caller="Agent")
_in_room: Final = partial(Route, caller="Agent", room=World.room_of)

# Ordered by how often they are called: the router tries them one after the other.
ROUTES: Final = (
    _in_room("processing", "POST", f"{_ROOM}/messages/{{id}}/processing", processing),
    _in_room(
        "processed",
        "POST",
        f"{_ROOM}/messages/{{id}}/processed",
        partial(settle, state=State.PROCESSED),
    ),
    _in_room(
        "post_message",
        "POST",
        f"{_ROOM}/messages",
        post_message,
        reads_body=True,
        body_bytes=MESSAGE_BODY_BYTES,
        posts=True,
    ),
    _in_room("activity", "POST", f"{_ROOM}/activity", activity, reads_body=True),
    _in_room("next", "GET", f"{_ROOM}/messages/next", next_message),
    _in_room("messages", "GET", f"{_ROOM}/messages", messages, query=_LIST),
    _in_room("context", "GET", f"{_ROOM}/context", context, query=CURSOR | NUMBER),
    _in_room("participants", "GET", f"{_ROOM}/participants", participants),
    _in_room("post_event", "POST", f"{_ROOM}/events", post_event, reads_body=True, posts=True),
    _in_room(
        "failed",
        "POST",
        f"{_ROOM}/messages/{{id}}/failed",
        partial(settle, state=State.FAILED),
        reads_body=True,
    ),
    _in_room("add_participant", "POST", f"{_ROOM}/participants", add_participant, reads_body=True),
    _in_room(
        "remove_participant",
        "DELETE",
        f"{_ROOM}/participants/{{participant_id}}",
        remove_participant,
    ),
    _global("me", "GET", f"{_PREFIX}/me", me),
    _global(
        "chats",
        "GET",
        f"{_PREFIX}/chats",
        chats,
        query={**NUMBER, "include": choice("participants")},
    ),
    _global("create_chat", "POST", f"{_PREFIX}/chats", create_chat, reads_body=True),
    _global("peers", "GET", f"{_PREFIX}/peers", peers, query={**NUMBER, "not_in_chat": str}),
    _in_room("chat", "GET", _ROOM, chat),
    _in_room("rename_chat", "PATCH", _ROOM, rename_chat, reads_body=True),
)

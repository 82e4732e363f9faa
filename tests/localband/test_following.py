"""The platform's sockets and lists follow what happens to rooms and parties (C87, C88)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import pytest
import trio
import trio.testing

from band_trio.localband import LocalBand, open_local_band
from band_trio.localband.hub import LEAVE_SECONDS, Session, Ticket
from band_trio.localband.outbox import Outbox
from tests.localband.kit import Gone, Rest, Socket, open_rest, open_socket, refused
from tests.marks import case
from tests.support.for_each import for_each

SORTS: Final = ("name", "inserted_at", "updated_at")


async def _frames(socket: Socket) -> list[str]:
    """Return the events that are there; a heartbeat shows that there are no more."""
    ref = socket.ref()
    await socket.send(None, ref, "phoenix", "heartbeat", {})
    found = list[str]()
    while (frame := await socket.receive())[2] != "phoenix":
        found.append(f"{frame[2].partition(':')[0]} {frame[3]}")
    return found


@case("C88")
async def test_who_is_removed_hears_nothing_more_of_the_room(band: LocalBand) -> None:
    scribe, other = band.register_agent("Scribe"), band.register_agent("Other")
    room = await band.user.create_room("One", [scribe, other])
    topics = [f"chat_room:{room.id}", f"room_participants:{room.id}"]
    async with open_socket(band, scribe) as socket, open_socket(band, None) as person:
        for topic in topics:
            await socket.join(topic)
            await person.join(topic)
        await band.user.remove(room, scribe)
        await band.user.add(room, band.register_agent("Third"))
        assert await _frames(socket) == []
        assert await _frames(person) == ["room_participants participant_removed",
                                         "room_participants participant_added"]  # fmt: skip
        for topic in topics:
            assert (await socket.join(topic))["response"] == {"reason": "unauthorized"}


@case("C88")
async def test_who_does_not_leave_a_lost_topic_is_told_that_it_is_closed(
    memory_band: LocalBand, autojump_clock: trio.testing.MockClock
) -> None:
    band, scribe = memory_band, memory_band.register_agent("Scribe")
    rooms = [await band.user.create_room(f"{n}", [scribe]) for n in range(4)]
    lost, left, again, deleted = rooms
    async with open_socket(band, scribe) as socket:
        for room in rooms:
            await socket.join(f"chat_room:{room.id}")
        for room in rooms[:3]:
            await band.user.remove(room, scribe)
        await band.user.delete_room(deleted)
        await socket.send("2", "90", f"chat_room:{left.id}", "phx_leave", {})
        assert (await socket.receive())[4]["status"] == "ok"
        assert (await socket.receive())[3] == "phx_close"
        await band.user.add(again, scribe)
        await socket.join(f"chat_room:{again.id}")
        assert await _frames(socket) == []
        await trio.sleep(LEAVE_SECONDS + 1)
        closed = [await socket.receive() for _ in range(2)]
        assert sorted(frame[:4] for frame in closed) == [
            ["1", None, f"chat_room:{lost.id}", "phx_close"],
            ["4", None, f"chat_room:{deleted.id}", "phx_close"],
        ]
        assert await _frames(socket) == []
        heard = await band.user.send(again, "welcome back", [scribe])
        assert (await socket.receive())[4]["id"] == heard
        session = band.session(scribe)
        assert session is not None
        assert not session.revoked


@case("C88")
async def test_who_is_deleted_loses_socket_and_key(band: LocalBand) -> None:
    scribe, other = band.register_agent("Scribe"), band.register_agent("Other")
    room = await band.user.create_room("One", [scribe, other])
    async with (
        open_rest(band) as rest,
        open_socket(band, scribe) as socket,
        open_socket(band, None, f"vsn=2.0.0&agent_id={other.id}") as spared,
    ):
        await socket.join(f"agent_rooms:{scribe.id}")
        ticket = band.hub.admit(f"vsn=2.0.0&agent_id={scribe.id}", {"x-api-key": scribe.api_key})
        await rest.data("DELETE", f"/me/agents/{scribe.id}?force=true")
        assert (await socket.receive())[3:5] == [
            "room_removed",
            {**band.world.rooms[room.id].render()},
        ]
        with pytest.raises(Gone, match="1000"):
            await socket.receive()
        refused(await rest("GET", "/agent/me", key=scribe.api_key), 401, "unauthorized")
        refused(await rest("GET", "/agent/me", key="thnv_a_never"), 401, "unauthorized")
        assert await _frames(spared) == []
        await band.until(lambda: band.session(scribe) is None)
        assert isinstance(ticket, Ticket)
        line = band.hub.agents[other.id].line
        late = Session(ticket.party, 99, Outbox(), trio.CancelScope(), line)
        band.hub.enter(late)
        assert (late.ending, late.outbox.closed) == ("the account was deleted", True)
        assert band.session(scribe) is None
        band.hub.leave(late)


@case("C88")
async def test_nothing_of_deleted_rooms_is_kept(memory_band: LocalBand) -> None:
    band, scribe = memory_band, memory_band.register_agent("Scribe")
    world, hub = band.world, band.hub
    async with open_socket(band, scribe) as socket, open_rest(band, scribe) as rest:
        for _ in range(200):
            room = await band.user.create_room("T", [scribe])
            topic = f"chat_room:{room.id}"
            await socket.join(topic)
            await band.user.send(room, "hello", [scribe])
            await socket.receive()
            await rest.data("POST", f"/agent/chats/{room.id}/activity", {"working": True})
            await band.user.delete_room(room)
            await socket.send(str(socket.refs), "90", topic, "phx_leave", {})
            assert (await socket.receive())[4]["status"] == "ok"
            assert (await socket.receive())[3] == "phx_close"
    for kept in (world.rooms, world.messages, world.working, world.rooms_of[scribe.id], hub.topics):
        assert not kept


async def _walk(
    rest: Rest, path: str, remove: Callable[[str], Awaitable[object]], limit: int = 2
) -> list[str]:
    """Return all ids of a list; each row is removed as soon as it was seen."""
    seen, cursor = list[str](), ""
    while True:
        page = (await rest("GET", f"{path}limit={limit}{cursor}")).json()
        for row in page["data"]:
            seen.append(row["id"])
            await remove(row["id"])
        if not page["metadata"]["has_more"]:
            return seen
        cursor = f"&cursor={page['metadata']['next_cursor']}"


@case("C87")
async def test_a_walk_over_participants_skips_nobody_who_goes(memory_band: LocalBand) -> None:
    band = memory_band
    agents = [band.register_agent(f"A{n}") for n in range(7)]
    room = await band.user.create_room("All", agents)
    await band.user.remove(room, agents[0])
    await band.user.add(room, agents[0])

    async def remove(party_id: str) -> None:
        if party_id != band.user.id:
            await band.user.remove(room, party_id)

    async with open_rest(band) as rest:
        seen = await _walk(rest, f"/me/chats/{room.id}/participants?", remove)
    assert seen == [band.user.id, *(each.id for each in (*agents[1:], agents[0]))]


@case("C87")
@for_each("query", [f"sort={s}&order={o}&" for s in SORTS for o in ("asc", "desc")])
async def test_a_walk_over_agents_skips_none_that_goes(query: str) -> None:
    async with open_local_band(memory=True) as band, open_rest(band) as rest:
        ids = [band.register_agent(name).id for name in ("Bo", "Al", "Bo", "Cy", "Al")]
        seen = await _walk(
            rest, f"/me/agents?{query}", lambda each: rest("DELETE", f"/me/agents/{each}")
        )
        assert sorted(seen) == sorted(ids)
        if "name" not in query:
            assert seen == (ids if "asc" in query else ids[::-1])


@case("C87")
@for_each("query", [f"sort_by={s}&order={o}&" for s in SORTS[1:] for o in ("asc", "desc")])
async def test_a_walk_over_rooms_skips_none_that_goes(query: str) -> None:
    async with open_local_band(memory=True) as band, open_rest(band) as rest:
        ids = [(await band.user.create_room(f"{n}")).id for n in range(7)]
        seen = await _walk(rest, f"/me/chats?{query}", band.user.delete_room)
        assert seen == (ids if "asc" in query else ids[::-1])

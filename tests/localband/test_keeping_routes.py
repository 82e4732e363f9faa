"""Memories, tasks and files over REST: every status that a route is documented with, once."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs
import httpx  # noqa: ASYNC127 - a client that is not ours
import pytest

from band_trio.errors import BandApiError
from band_trio.localband import LocalAgent, LocalBand, LocalRoom, Offer, open_local_band
from band_trio.localband.rest import ROUTES
from tests.localband.kit import NOBODY, Rest, furnish, open_rest, open_socket, refused
from tests.support.for_each import for_each

MEMORY = {
    "content": "Maria likes tea", "system": "long_term", "type": "semantic", "segment": "user",
    "thought": "asked twice",
}  # fmt: skip

# Platform docs, sections 6.8, 6.10 and 7; 403 where an agent's key and a person's differ, or where
# the plan has no memories; 503 is for faults.
DOCUMENTED: Mapping[str, set[int]] = {
    "memories": {200, 401, 403, 422},
    "store_memory": {201, 401, 403, 422},
    "memory": {200, 401, 403, 404},
    "supersede_memory": {200, 401, 403, 404},
    "archive_memory": {200, 401, 403, 404},
    "user_memories": {200, 401, 403, 422},
    "user_memory": {200, 401, 403, 404},
    "delete_memory": {204, 401, 403, 404},
    "user_supersede_memory": {200, 401, 403, 404},
    "user_archive_memory": {200, 401, 403, 404},
    "user_restore_memory": {200, 401, 403, 404, 422},
    "tasks": {200, 401, 404, 422},
    "create_task": {201, 401, 404, 422},
    "task": {200, 401, 404},
    "update_task": {200, 401, 404, 422},
    "task_history": {200, 401, 404, 422},
    "board": {200, 401, 404},
    "set_board": {200, 401, 404, 422},
    "put_file": {200, 400, 401, 403, 404, 413, 422, 503},
    "get_file": {200, 206, 401, 404, 416, 503},
    "user_put_file": {200, 400, 401, 403, 404, 413, 422, 503},
}


def file_headers(content: bytes, name: str = "a.txt", **more: str) -> dict[str, str]:
    digest = hashlib.sha256(content).hexdigest()
    return {"x-file-name": name, "x-file-sha256": digest, "content-type": "text/plain", **more}


@attrs.frozen
class House:
    """Two agents of the person in one room, and clients of all three."""

    band: LocalBand
    agent: LocalAgent
    other: LocalAgent
    room: LocalRoom
    rest: Rest
    other_rest: Rest
    person: Rest

    @property
    def path(self) -> str:
        return f"/agent/chats/{self.room.id}"

    async def put(
        self, content: bytes, *, who: str = "agent", room_id: str = "", **more: str
    ) -> httpx.Response:
        rest = self.rest if who == "agent" else self.person
        url = f"/api/v1/{who}/chats/{room_id or self.room.id}/files"
        headers = {k: v for k, v in file_headers(content, **more).items() if v}
        return await rest.http.put(url, content=content, headers=headers)

    async def memory(self, rest: Rest | None = None, **fields: Any) -> str:
        row = await (rest or self.rest).data("POST", "/agent/memories", {"memory": MEMORY | fields})
        return str(row["id"])


@asynccontextmanager
async def open_house(**offer: Any) -> AsyncGenerator[House]:
    async with open_local_band(memory=True, offer=Offer(**offer)) as band:
        agent, other, room = await furnish(band)
        await band.user.add(room, other)
        async with (
            open_rest(band, agent) as rest,
            open_rest(band, other) as other_rest,
            open_rest(band) as person,
        ):
            yield House(band, agent, other, room, rest, other_rest, person)


# --------------------------------------------------------------------------- every status


async def test_every_documented_status_is_reached() -> None:
    async with open_house(file_bytes=8) as house:
        await _knock_with_a_wrong_key(house)
        await _memories(house)
        await _tasks(house)
        await _files(house)
        log = house.band.log.requests()

    reached: dict[str, set[int | None]] = {}
    for row in log:
        reached.setdefault(row.route, set()).add(row.status)
    missing = {route: want - reached[route] for route, want in DOCUMENTED.items()}
    assert {route: statuses for route, statuses in missing.items() if statuses} == {}
    assert {r.name for r in ROUTES if r.offer} == DOCUMENTED.keys()


async def _knock_with_a_wrong_key(house: House) -> None:
    """401 on each route, and where that is documented 403 with a key of the other kind."""
    for route in ROUTES:
        if route.name not in DOCUMENTED:
            continue
        path = route.path.removeprefix("/api/v1").format(
            chat_id=house.room.id, memory_id=NOBODY, task="1", file_id=NOBODY
        )
        refused(await house.rest(route.method, path, key="wrong"), 401, "unauthorized")
        alien = house.person if route.caller == "Agent" else house.rest
        refused(await alien(route.method, path), 403, "forbidden")


async def _memories(house: House) -> None:
    rest, person = house.rest, house.person
    first = await house.memory()
    about = await house.memory(subject_id=house.band.user.id)
    theirs = await house.memory(house.other_rest, subject_id=house.band.user.id)
    refused(await rest("POST", "/agent/memories", {"memory": {}}), 422, "validation_error")
    shared = {"memory": MEMORY | {"scope": "organization"}}
    code = "org_scope_requires_organization"
    assert refused(await rest("POST", "/agent/memories", shared), 422, code)["message"] == code
    for verb in ("supersede", "archive"):
        assert (await rest.data("POST", f"/agent/memories/{first}/{verb}"))["status"] == f"{verb}d"
        refused(await rest("POST", f"/agent/memories/{theirs}/{verb}"), 403, "forbidden")
        refused(await rest("POST", f"/agent/memories/{NOBODY}/{verb}"), 404, "not_found")
    assert (await rest.data("GET", f"/agent/memories/{first}"))["id"] == first
    refused(await rest("GET", f"/agent/memories/{NOBODY}"), 404, "not_found")
    assert [row["id"] for row in await rest.data("GET", "/agent/memories")] == [about, theirs]
    for listing in (rest("GET", "/agent/memories?limit=101"), person("GET", "/me/memories?x=1")):
        refused(await listing, 422, "validation_error")
    assert [row["id"] for row in await person.data("GET", "/me/memories")] == [about, theirs]
    refused(await person("POST", f"/me/memories/{about}/restore"), 422, "validation_error")
    for verb, status in (
        ("supersede", "superseded"),
        ("archive", "archived"),
        ("restore", "active"),
    ):
        row = await person.data("POST", f"/me/memories/{about}/{verb}")
        assert (row["status"], row["source_agent_name"]) == (status, "Scribe")
        refused(await person("POST", f"/me/memories/{first}/{verb}"), 404, "not_found")
    assert (await person.data("GET", f"/me/memories/{about}"))["chat_room_id"] is None
    refused(await person("GET", f"/me/memories/{first}"), 404, "not_found")
    refused(await person("DELETE", f"/me/memories/{first}"), 404, "not_found")
    gone = await person("DELETE", f"/me/memories/{about}")
    assert (gone.status_code, gone.content) == (204, b"")
    refused(await rest("GET", f"/agent/memories/{about}"), 404, "not_found")


async def _tasks(house: House) -> None:
    rest, path = house.rest, house.path
    away = f"/agent/chats/{NOBODY}"
    for route in ROUTES:
        if route.offer == "tasks":
            alien = route.path.removeprefix("/api/v1").format(chat_id=NOBODY, task="1")
            refused(await rest(route.method, alien), 404, "not_found")
    task = await rest.data("POST", f"{path}/tasks", {"subject": "dig"})
    assert (await rest("POST", f"{path}/tasks", {"subject": "dig more"})).status_code == 201
    refused(await rest("POST", f"{path}/tasks", {}), 422, "validation_error")
    assert [row["number"] for row in await rest.data("GET", f"{path}/tasks?limit=1")] == [1]
    refused(await rest("GET", f"{path}/tasks?state=new"), 422, "validation_error")
    shown = await rest.data("GET", f"{path}/tasks/1?include=history")
    assert shown == await rest.data("GET", f"{path}/tasks/{task['id']}?include=history")
    assert [event["event"] for event in shown["history"]] == ["created"]
    changed = await rest.data("POST", f"{path}/tasks/1", {"status": "in_progress"})
    assert changed["overall_status"] == "in_progress"
    refused(await rest("POST", f"{path}/tasks/1", {"status": "x"}), 422, "validation_error")
    refused(await rest("POST", f"{path}/tasks/9", {"status": "failed"}), 404, "not_found")
    events = await rest("GET", f"{path}/tasks/1/history?limit=1")
    assert events.json()["metadata"]["has_more"] is True
    refused(await rest("GET", f"{path}/tasks/1/history?limit=0"), 422, "validation_error")
    assert (await rest.data("GET", f"{path}/board"))["goal_title"] is None
    board = await rest.data("PUT", f"{path}/board", {"goal_title": "win"})
    assert (board["goal_title"], board["created_by"]["handle"]) == ("win", house.agent.handle)
    refused(await rest("PUT", f"{path}/board", {}), 422, "validation_error")
    refused(await rest("GET", f"{away}/board"), 404, "not_found")


async def _files(house: House) -> None:
    faults, url = house.band.faults, ""
    for who in ("agent", "me"):
        row = (await house.put(b"abcdef", who=who)).json()["data"]
        url = f"/api/v1{house.path}/files/{row['id']}"
        assert (row["bytes"], row["content_type"], row["has_thumb"]) == (6, "text/plain", False)
        refused(await house.put(b"abc", who=who, **{"x-file-name": ""}), 400, "bad_request")
        refused(await house.put(b"abc", who=who, **{"x-file-sha256": "0"}), 422, "validation_error")
        refused(await house.put(b"123456789", who=who), 413, "payload_too_large")
        refused(await house.put(b"abc", who=who, room_id=NOBODY), 404, "not_found")
        faults.refuse(503, route="put_file" if who == "agent" else "user_put_file")
        assert (await house.put(b"abc", who=who)).status_code == 503

    async def get(**headers: str) -> httpx.Response:
        return await house.rest.http.get(url, headers=headers)

    whole = await get()
    assert (whole.status_code, whole.content) == (200, b"abcdef")
    assert whole.headers["content-type"] == "text/plain"
    part = await get(range="bytes=2-3")
    assert (part.status_code, part.content) == (206, b"cd")
    assert part.headers["content-range"] == "bytes 2-3/6"
    bad = await get(range="bytes=6-")
    assert (bad.status_code, bad.headers["content-range"]) == (416, "bytes */6")
    assert bad.text == "The file has 6 bytes"
    assert (await get(range="bytes=x")).content == b"abcdef"
    refused(await house.rest("GET", f"{house.path}/files/{NOBODY}"), 404, "not_found")
    elsewhere = url.removeprefix("/api/v1").replace(house.room.id, NOBODY)
    refused(await house.rest("GET", elsewhere), 404, "not_found")
    faults.refuse(503, route="get_file")
    assert (await get()).status_code == 503


async def test_a_method_that_a_path_has_not_is_told_those_that_it_has() -> None:
    async with open_house() as house:
        for path, allowed in ((f"{house.path}/board", "GET, PUT"), ("/agent/me", "GET")):
            answer = await house.rest("DELETE", path)
            refused(answer, 405, "method_not_allowed")
            assert answer.headers["allow"] == allowed
            refused(await house.rest("DELETE", path, key="wrong"), 401, "unauthorized")


# --------------------------------------------------------------------------- what is offered


@for_each(
    ("feature", "status", "code", "flag"),
    [
        ("files", 404, "not_found", "ff_file_transfer"),
        ("tasks", 404, "not_found", "ff_room_tasks"),
        ("memories", 403, "forbidden", None),
    ],
)
async def test_what_is_not_offered_is_refused(
    feature: str, status: int, code: str, flag: str | None
) -> None:
    async with open_house(**{feature: False}) as house:
        flags = (await house.rest.data("GET", "/agent/me"))["feature_flags"]
        assert flags == {name: name != flag for name in ("ff_file_transfer", "ff_room_tasks")}
        for route in ROUTES:
            if route.offer != feature:
                continue
            path = route.path.removeprefix("/api/v1").format(
                chat_id=house.room.id, memory_id=NOBODY, task="1", file_id=NOBODY
            )
            rest = house.rest if route.caller == "Agent" else house.person
            refused(await rest(route.method, path), status, code)

        setattr(house.band.world.offer, feature, True)
        assert set((await house.rest.data("GET", "/agent/me"))["feature_flags"].values()) == {True}
        assert await house.rest.data("GET", "/agent/memories") == []
        assert (await house.put(b"abc")).status_code == 200


# --------------------------------------------------------------------------- attachments


async def test_a_message_carries_files_for_as_long_as_they_are_kept() -> None:
    async with open_house(file_seconds=60.0) as house:
        row = (await house.put(b"abc")).json()["data"]
        theirs = await house.band.user.put_file(house.room, "b.txt", b"xyz")
        message = await house.band.user.send(
            house.room, "look", [house.agent], attachment_ids=[row["id"], theirs, theirs]
        )
        [listed] = await house.rest.data("GET", f"{house.path}/context")
        assert [each["name"] for each in listed["attachments"]] == ["a.txt", "b.txt"]
        assert listed["attachments"][0] == row
        [shown] = [m for m in await house.band.user.messages(house.room) if m["id"] == message]
        assert shown["attachments"] == listed["attachments"]

        house.band.world.files.rooms[house.room.id][theirs].expires_at = house.band.world.clock()
        [listed] = await house.rest.data("GET", f"{house.path}/context")
        assert [each["id"] for each in listed["attachments"]] == [row["id"]]


async def test_a_message_with_an_unknown_file_is_not_written() -> None:
    async with open_house() as house:
        user_id = house.band.user.id
        own = (await house.put(b"abc")).json()["data"]["id"]
        elsewhere = await house.band.user.create_room("Other", [house.agent])
        alien = await house.band.user.put_file(elsewhere, "b.txt", b"xyz")
        url = f"{house.path}/messages"

        async def send(*ids: Any) -> httpx.Response:
            message = {"content": "x", "mentions": [{"id": user_id}], "attachment_ids": list(ids)}
            return await house.rest("POST", url, {"message": message})

        for ids in ([alien], [own, NOBODY]):
            refused(await send(*ids), 422, "unknown_attachment")
        refused(await send(*["x"] * 11), 422, "validation_error")
        assert await house.band.user.messages(house.room) == []
        assert (await send(own)).status_code == 201
        house.band.world.offer.files = False
        refused(await send(own), 422, "unknown_attachment")
        with pytest.raises(BandApiError, match="404"):
            await house.band.user.put_file(house.room, "b.txt", b"xyz")


async def test_the_tasks_and_files_of_a_room_go_with_it() -> None:
    async with open_house() as house:
        await house.put(b"abc")
        await house.rest.data("POST", f"{house.path}/tasks", {"subject": "dig"})
        await house.band.user.delete_room(house.room)
        world = house.band.world
        assert (world.files.rooms, world.tasks) == ({}, {})


# --------------------------------------------------------------------------- pages


async def test_memories_come_in_pages_under_their_filter_only() -> None:
    async with open_house() as house:
        ids = [await house.memory(content=f"tea {n}") for n in range(3)]
        first = (await house.rest("GET", "/agent/memories?limit=2&content_query=TEA")).json()
        cursor = first["metadata"]["next_cursor"]
        assert [row["id"] for row in first["data"]] == ids[:2]
        assert first["meta"] == first["metadata"]
        path = f"/agent/memories?cursor={cursor}"
        again = await house.rest.data("GET", f"{path}&content_query=TEA")
        assert [row["id"] for row in again] == ids[2:]
        refused(await house.rest("GET", path), 422, "validation_error")

        numbered = await house.rest("GET", "/agent/memories?page=2&page_size=2")
        assert [row["id"] for row in numbered.json()["data"]] == ids[2:]
        assert numbered.json()["metadata"]["total_count"] == 3
        assert "sunset" in numbered.headers
        refused(await house.rest("GET", "/agent/memories?page_size=51"), 422, "validation_error")


# --------------------------------------------------------------------------- pushes


@pytest.mark.parametrize("who", ["agent", "person"])
async def test_who_joined_hears_of_tasks_and_the_board(who: str) -> None:
    async with open_house() as house:
        topic = f"room_tasks:{house.room.id}"
        agent = house.other if who == "agent" else None
        async with open_socket(house.band, agent) as socket:
            assert (await socket.join(topic))["status"] == "ok"
            if who == "person":
                await socket.join(f"tasks:{house.band.user.id}")
            first = await house.rest.data("POST", f"{house.path}/tasks", {"subject": "dig"})
            await house.rest.data("POST", f"{house.path}/tasks/1", {"comment": "well"})
            await house.rest.data("POST", f"{house.path}/tasks/1", {"detail": ""})  # as it is
            await house.rest.data(
                "POST", f"{house.path}/tasks", {"subject": "more", "supersedes_id": 1}
            )
            await house.rest.data("PUT", f"{house.path}/board", {"goal_title": "win"})
            await house.rest.data("PUT", f"{house.path}/board", {"goal_title": "win"})
            heard: list[list[Any]] = []
            while not heard or heard[-1][3] != "board_updated":
                heard.append(await socket.receive())
            assert (await socket.heartbeat())[3] == "phx_reply"  # nothing more

        events = [frame[3] for frame in heard if frame[2] == topic]
        once = ["task_created", "task_updated", "task_updated", "task_created"]
        assert events == [*once, "board_updated"]
        payloads = [frame[4] for frame in heard if frame[2] == topic]
        assert (payloads[0]["id"], payloads[2]["state"]) == (first["id"], "superseded")
        assert (payloads[4]["goal_title"], payloads[4]["chat_room_id"]) == ("win", house.room.id)
        everywhere = [frame[3] for frame in heard if frame[2] != topic]
        assert everywhere == (once if who == "person" else [])


async def test_who_is_not_in_the_room_may_not_listen() -> None:
    async with open_local_band(memory=True) as band:
        _, other, room = await furnish(band)
        async with open_socket(band, other) as socket:
            reply = await socket.join(f"room_tasks:{room.id}")
            assert reply == {"status": "error", "response": {"reason": "unauthorized"}}

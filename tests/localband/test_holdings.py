"""Memories, tasks, the board and files: every documented status, and the tools of an agent."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import pytest
import trio
import trio.testing

from band_trio.errors import BandApiError, BandConfigError
from band_trio.localband import LocalBand, open_local_band
from tests.localband.kit import open_rest, open_socket, refused
from tests.runtime.harness import Call, stage
from tests.support.for_each import for_each

MEMORY: Final = {
    "content": "Ann likes tea",
    "system": "long_term",
    "type": "semantic",
    "segment": "user",
    "thought": "she said so",
}
PNG: Final = b"\x89PNG\r\n\x1a\n" + b"0" * 100


def upload(content: bytes, name: str = "notes.txt", digest: str | None = None) -> dict[str, str]:
    """Return the headers of an upload."""
    return {
        "x-file-name": name,
        "x-file-sha256": digest or hashlib.sha256(content).hexdigest(),
        "content-type": "text/plain",
    }


# --------------------------------------------------------------------------- memories


async def test_who_sees_a_memory_and_who_changes_it(memory_band: LocalBand) -> None:
    band, ann = memory_band, memory_band.add_user("Ann")
    scribe, sibling = band.register_agent("Scribe"), band.register_agent("Sibling")
    foreign = band.register_agent("Foreign", owner=ann)
    async with (
        open_rest(band, scribe) as rest,
        open_rest(band, sibling) as second,
        open_rest(band, foreign) as third,
        open_rest(band, ann) as person,
    ):
        path = "/agent/memories"
        private = await rest.data("POST", path, {"memory": MEMORY})
        about = await rest.data("POST", path, {"memory": {**MEMORY, "subject_id": ann.id}})
        assert (private["scope"], about["scope"]) == ("agent", "subject")
        assert private["source_agent_id"] == scribe.id
        for client, expected in ((rest, 2), (second, 1), (third, 0)):
            assert len((await client("GET", path)).json()["data"]) == expected
        assert (await second("GET", f"{path}/{private['id']}")).status_code == 404
        assert (await second("GET", f"{path}/{about['id']}")).status_code == 200
        assert (await second("POST", f"{path}/{about['id']}/archive")).status_code == 403
        gone = await rest.data("POST", f"{path}/{about['id']}/supersede")
        assert gone["status"] == "superseded"
        listed = (await rest("GET", f"{path}?status=all")).json()
        assert len(listed["data"]) == 2
        assert listed["meta"] == listed["metadata"]
        mine = (await person("GET", "/me/memories?status=all")).json()["data"]
        assert [(row["id"], row["source_agent_name"]) for row in mine] == [(about["id"], "Scribe")]
        own = f"/me/memories/{about['id']}"
        assert (await person("POST", f"{own}/restore")).status_code == 422, "it is not archived"
        assert (await person.data("POST", f"{own}/archive"))["status"] == "archived"
        assert (await person.data("POST", f"{own}/restore"))["status"] == "active"
        assert (await person("GET", f"/me/memories/{private['id']}")).status_code == 404
        assert (await person("DELETE", own)).status_code == 204
        assert (await rest("GET", f"{path}/{about['id']}")).status_code == 404


@for_each(
    ("change", "pointer"),
    [
        ({"content": " "}, "/memory/content"),
        ({"thought": None}, "/memory/thought"),
        ({"system": "short"}, "/memory/system"),
        ({"type": "iconic"}, "/memory/type"),
        ({"segment": "x"}, "/memory/segment"),
        ({"scope": "x"}, "/memory/scope"),
        ({"scope": "subject"}, "/memory/subject_id"),
        ({"scope": "organization"}, "/memory/scope"),
        ({"subject_id": 5}, "/memory/subject_id"),
        ({"metadata": []}, "/memory/metadata"),
    ],
)
async def test_a_memory_that_does_not_fit_is_refused(
    memory_band: LocalBand, change: dict[str, Any], pointer: str
) -> None:
    scribe = memory_band.register_agent("Scribe")
    async with open_rest(memory_band, scribe) as rest:
        answer = await rest("POST", "/agent/memories", {"memory": {**MEMORY, **change}})
    assert answer.status_code == 422
    assert list(answer.json()["error"]["details"]) == [pointer]


async def test_filters_and_pages_of_memories(memory_band: LocalBand) -> None:
    scribe = memory_band.register_agent("Scribe")
    async with open_rest(memory_band, scribe) as rest:
        for number in range(5):
            content = f"fact {number}"
            await rest.data("POST", "/agent/memories", {"memory": {**MEMORY, "content": content}})
        first = (await rest("GET", "/agent/memories?limit=3")).json()
        cursor = first["metadata"]["next_cursor"]
        second = (await rest("GET", f"/agent/memories?limit=3&cursor={cursor}")).json()
        rows = first["data"] + second["data"]
        assert [row["content"] for row in rows] == [f"fact {n}" for n in range(5)]
        found = (await rest("GET", "/agent/memories?content_query=FACT%203")).json()["data"]
        assert [row["content"] for row in found] == ["fact 3"]
        assert (await rest("GET", "/agent/memories?segment=agent")).json()["data"] == []
        refused(await rest("GET", "/agent/memories?page_size=51"), 422, "validation_error")


# --------------------------------------------------------------------------- tasks and board


async def test_tasks_have_numbers_work_states_and_a_history(memory_band: LocalBand) -> None:
    band = memory_band
    scribe, finder = band.register_agent("Scribe"), band.register_agent("Finder")
    room = await band.user.create_room("Work", [scribe, finder])
    path = f"/agent/chats/{room.id}/tasks"
    async with (
        open_rest(band, scribe) as rest,
        open_rest(band, finder) as other,
        open_socket(band, finder) as socket,
    ):
        await socket.join(f"room_tasks:{room.id}")
        first = await rest("POST", path, {"subject": "Write", "detail": "all of it"})
        assert first.status_code == 201
        assert (await socket.receive())[3] == "task_created"
        second = await rest.data("POST", path, {"subject": "Write again", "supersedes_id": "1"})
        assert second["number"] == 2
        (old,) = (await rest("GET", f"{path}?state=superseded")).json()["data"]
        assert (old["number"], old["superseded_by_id"]) == (1, second["id"])
        await rest.data("POST", f"{path}/2", {"status": "in_progress", "active_form": "Writing"})
        done = await other.data("POST", f"{path}/2", {"status": "completed", "comment": "mine is"})
        assert done["overall_status"] == "in_progress"
        assert {a["assignee"]["name"]: a["status"] for a in done["assignments"]} == {
            "Scribe": "in_progress",
            "Finder": "completed",
        }
        closed = await rest.data("POST", f"{path}/2", {"status": "completed", "state": "archived"})
        assert (closed["overall_status"], closed["state"]) == ("completed", "archived")
        refused(await rest("POST", f"{path}/2", {"status": "failed"}), 422, "validation_error")
        refused(await rest("POST", f"{path}/2", {}), 422, "validation_error")
        refused(await rest("POST", path, {"subject": ""}), 422, "validation_error")
        refused(await rest("GET", f"{path}/3"), 404, "not_found")
        shown = await rest.data("GET", f"{path}/2?include=history")
        events = (await rest("GET", f"{path}/2/history?limit=2")).json()
        assert [row["event"] for row in shown["history"]] == [
            "created", "status_changed", "status_changed", "commented", "status_changed", "archived",
        ]  # fmt: skip
        assert [row["event"] for row in events["data"]] == ["created", "status_changed"]
        assert events["metadata"]["has_more"]
        board = f"/agent/chats/{room.id}/board"
        assert (await rest.data("GET", board))["goal_title"] is None
        await rest.data("PUT", board, {"goal_title": "Ship"})
        goal = await other.data("PUT", board, {"goal_summary": "in May"})
        assert (goal["goal_title"], goal["goal_summary"]) == ("Ship", "in May")
        assert goal["created_by"]["name"] == "Scribe"
        seen = await rest.data("GET", f"{board}?include=history")
        assert [row["event"] for row in seen["history"]] == ["goal_set", "goal_edited"]
        refused(await rest("PUT", board, {}), 422, "validation_error")


# --------------------------------------------------------------------------- files


async def test_files_are_kept_once_and_given_in_parts(memory_band: LocalBand) -> None:
    band, scribe = memory_band, memory_band.register_agent("Scribe")
    room = await band.user.create_room("Files", [scribe])
    path = f"/api/v1/agent/chats/{room.id}/files"
    async with open_rest(band, scribe) as rest:
        put = rest.http.put
        text = (await put(path, content=b"hello", headers=upload(b"hello"))).json()["data"]
        again = (await put(path, content=b"hello", headers=upload(b"hello", "b.txt"))).json()[
            "data"
        ]
        picture = (await put(path, content=PNG, headers=upload(PNG, "p"))).json()["data"]
        assert text == again
        assert (text["bytes"], text["content_type"]) == (5, "text/plain")
        assert picture["content_type"] == "image/png", "what the bytes are, not what was said"
        whole = await rest.http.get(f"{path}/{text['id']}")
        assert (whole.content, whole.headers["content-type"]) == (b"hello", "text/plain")
        for header, status, content in (
            ("bytes=1-2", 206, b"el"),
            ("bytes=-2", 206, b"lo"),
            ("bytes=3-", 206, b"lo"),
            ("bytes=9-", 416, None),
            ("lines=1-2", 200, b"hello"),
        ):
            part = await rest.http.get(f"{path}/{text['id']}", headers={"range": header})
            assert part.status_code == status, header
            assert content is None or part.content == content, header
        for content, headers, status in (
            (b"x", upload(b"y"), 400),
            (b"x", upload(b"x", "ä"), 422),
            (b"x", upload(b"x", digest="0"), 422),
            (b"", upload(b""), 422),
        ):
            raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
            assert (await put(path, content=content, headers=raw)).status_code == status
        assert (await rest.http.get(f"{path}/nothing")).status_code == 404
        body = {"content": "look", "mentions": [{"id": band.user.id}], "attachment_ids": ["x"]}
        unknown = await rest("POST", f"/agent/chats/{room.id}/messages", {"message": body})
        refused(unknown, 422, "unknown_attachment")
        body["attachment_ids"] = [text["id"]]
        await rest.data("POST", f"/agent/chats/{room.id}/messages", {"message": body})
    (row,) = await band.user.messages(room)
    assert [each["name"] for each in row["attachments"]] == ["notes.txt"]


async def test_a_platform_may_be_without_them() -> None:
    async with open_local_band(memory=True, without=["files", "tasks", "memories"]) as band:
        scribe = band.register_agent("Scribe")
        room = await band.user.create_room("Plain", [scribe])
        async with open_rest(band, scribe) as rest:
            flags = (await rest.data("GET", "/agent/me"))["feature_flags"]
            assert flags == {"ff_file_transfer": False, "ff_room_tasks": False}
            refused(await rest("GET", f"/agent/chats/{room.id}/tasks"), 404, "not_found")
            refused(await rest("GET", f"/agent/chats/{room.id}/files/x"), 404, "not_found")
            refused(await rest("GET", "/agent/memories"), 403, "forbidden")
    with pytest.raises(BandConfigError, match="has no feature 'memory'"):
        async with open_local_band(memory=True, without=["memory"]):
            pass


# --------------------------------------------------------------------------- the tools of an agent


async def test_an_agent_uses_all_of_them_in_a_turn(autojump_clock: trio.testing.MockClock) -> None:
    found: dict[str, Any] = {}

    async def work(call: Call) -> None:
        tools: Any = call.tools
        stored = await tools.store_memory(**MEMORY, scope="agent")
        found["memories"] = (await tools.list_memories(content_query="tea"))["data"]
        await tools.archive_memory(stored["id"])
        task = await tools.create_task("Write it down")
        await tools.update_task(str(task["number"]), status="completed", comment="done")
        found["history"] = (await tools.get_task_history("1"))["data"]
        await tools.set_board(goal_title="Remember")
        found["board"] = await tools.get_board()
        sent = await tools.send_room_file("tea, tea", "list.txt", mentions=[call.msg.sender_id])
        found["files"] = (await tools.list_room_files())["data"]
        found["text"] = (await tools.read_room_file(sent["attachment"]["id"]))["text"]
        with pytest.raises(BandApiError, match="404"):
            await tools.get_task("7")

    async with stage(work) as here, here.running():
        room = await here.room()
        await here.settled(await here.say(room, "do it"))
    assert [row["content"] for row in found["memories"]] == [MEMORY["content"]]
    assert [row["event"] for row in found["history"]] == ["created", "status_changed", "commented"]
    assert found["board"]["goal_title"] == "Remember"
    assert [row["name"] for row in found["files"]] == ["list.txt"]
    assert found["text"] == "tea, tea"
    assert trio.current_time() < 1e9

"""Seeds of memories, files and tasks stand in the platform's own stores, and its rules hold."""

from __future__ import annotations

from typing import Any

import pytest

from band_trio.errors import BandApiError, BandToolError
from band_trio.testing import FakeAgentTools, make_message, run_turn
from tests.support.for_each import for_each

MEMORY: dict[str, Any] = {
    "content": "Maria likes tea", "system": "long_term", "type": "semantic", "segment": "user",
    "thought": "asked twice",
}  # fmt: skip


async def test_a_memory_of_another_agent_is_not_ones_own() -> None:
    seeds = [
        {"content": "shared", "scope": "subject", "subject_id": "u", "source_agent_id": "other"},
        {"content": "hidden", "source_agent_id": "other"},
        {"content": "mine"},
    ]
    tools = FakeAgentTools(memories=seeds, agent_id="me")

    assert [each["content"] for each in (await tools.list_memories())["data"]] == ["shared", "mine"]
    assert tools.memory_contents == ["shared", "hidden", "mine"]
    assert tools.memories[2]["source_agent_id"] == "me"
    with pytest.raises(BandApiError, match="403"):
        await tools.archive_memory("memory-1")
    with pytest.raises(BandApiError, match="404"):
        await tools.archive_memory("memory-2")
    assert (await tools.archive_memory("memory-3"))["status"] == "archived"


async def test_without_an_agent_id_every_seed_is_ones_own() -> None:
    tools = FakeAgentTools(memories=[{"content": "mine"}])

    assert (await tools.supersede_memory("memory-1"))["status"] == "superseded"
    assert "source_agent_id" not in tools.memories[0]


async def test_a_fake_agent_has_an_organization() -> None:
    stored = await FakeAgentTools().store_memory(**MEMORY, scope="organization")

    assert stored["organization_id"] == "fake-organization"


@for_each("expires_at", ["2024-12-31T23:59:59", "2025-01-01T00:00:00Z"])
async def test_an_expired_file_makes_room_for_the_same_bytes(expires_at: str) -> None:
    sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    old = {"name": "a.txt", "sha256": sha256, "expires_at": expires_at}
    tools = FakeAgentTools(files=[old, {"name": "b.txt", "sha256": "0" * 64, "has_thumb": True}])
    assert [file.get("has_thumb") for file in tools.files] == [None, True]
    await tools.send_room_file("abc", "c.txt", mentions=["maria"])

    assert [file["name"] for file in tools.files] == ["b.txt", "c.txt"]


async def test_a_seeded_task_keeps_what_it_is_given() -> None:
    task = {
        "subject": "dig", "number": 7, "overall_status": "blocked", "detail": "deep",
        "created_by": {"id": "maria", "type": "User"},
    }  # fmt: skip
    work = {"assignee": {"id": "bob"}, "status": "in_progress", "active_form": "digging"}
    tools = FakeAgentTools(tasks=[task, {"subject": "fill", "assignments": [work]}])

    shown = await tools.get_task("7")
    assert (shown["overall_status"], shown["detail"]) == ("blocked", "deep")
    assert shown["created_by"] == {"id": "maria", "name": "maria", "type": "User"}
    changed = await tools.update_task("2", status="completed")
    assert changed["overall_status"] == "in_progress"
    assert [each["assignee"]["id"] for each in changed["assignments"]] == ["bob", "fake-agent"]
    assert (await tools.create_task("more"))["number"] == 8


async def test_progress_without_a_status_joins_nobody() -> None:
    tools = FakeAgentTools(tasks=[{"subject": "dig"}])
    value = await tools.execute_tool_call("band_update_task", {"id": "1", "active_form": "digging"})

    assert "join the task first" in value
    assert tools.tasks[0]["assignments"] == []


async def test_the_board_is_empty_until_there_is_a_goal() -> None:
    tools = FakeAgentTools(board={"created_by": {"id": "maria", "type": "User"}})
    assert tools.board == {}

    await tools.set_board("win")
    assert tools.board["created_by"]["id"] == "maria"
    assert tools.board["updated_by"]["id"] == "fake-agent"


async def test_tasks_are_of_the_room_that_the_tools_are_in() -> None:
    class Worker:
        async def on_event(self, inp: Any) -> None:
            await inp.tools.create_task("dig")
            await inp.tools.set_board("win")
            await inp.tools.no_reply()

        async def on_started(self, agent_name: str, agent_description: str) -> None: ...

        async def on_cleanup(self, room_id: str) -> None: ...

    tools = FakeAgentTools()
    await run_turn(Worker(), make_message("hi", room_id="room-7"), tools)

    assert tools.tasks[0]["chat_room_id"] == tools.board["chat_room_id"] == "room-7"


async def test_what_the_platform_refuses_is_told_as_it_would_tell() -> None:
    tools = FakeAgentTools(tasks=[{"subject": "dig", "state": "archived"}])
    with pytest.raises(BandApiError) as caught:
        await tools.update_task("1", status="pending")
    assert "the task is archived" in str(caught.value)
    with pytest.raises(BandToolError, match="no such file"):
        await tools.read_room_file("file-1")

"""The tools of memories, tasks and files against the embedded platform, end to end."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from trio.testing import MockClock

from band_trio import Agent, Capability, SimpleAdapter
from band_trio.localband import LocalAgent, LocalBand, LocalRoom, Offer, open_local_band
from band_trio.tools.agent_tools import AgentTools
from tests.localband.kit import furnish, open_rest, open_tools, refused
from tests.support.for_each import for_each

MEMORY = {
    "content": "Maria likes tea", "system": "long_term", "type": "semantic", "segment": "user",
    "thought": "asked twice", "scope": "agent",
}  # fmt: skip
PNG = b"\x89PNG\r\n\x1a\n" + bytes(50)


@asynccontextmanager
async def two_at_work() -> AsyncGenerator[tuple[LocalBand, LocalRoom, AgentTools, AgentTools]]:
    async with open_local_band(memory=True) as band:
        agent, other, room = await furnish(band)
        await band.user.add(room, other)
        async with open_tools(band, agent, room) as one, open_tools(band, other, room) as two:
            yield band, room, one, two


async def call(tools: AgentTools, tool: str, **arguments: Any) -> Any:
    outcome = await tools.execute_tool_call_structured(f"band_{tool}", arguments)
    assert outcome.ok, outcome.value
    return outcome.value


async def test_a_memory_from_the_first_thought_to_the_archive() -> None:
    async with two_at_work() as (band, _, one, two):
        stored = await call(
            one, "store_memory", content="Maria likes tea", system="long_term", type="semantic",
            segment="user", thought="asked twice", scope="subject", subject_id=band.user.id,
            metadata={"cups": 2},
        )  # fmt: skip
        private = await call(
            one, "store_memory", content="I was slow", system="working", type="episodic",
            segment="agent", thought="to improve", scope="agent",
        )  # fmt: skip
        assert stored["status"] == "active"
        assert stored["metadata"] == {"cups": 2}

        seen = await call(two, "list_memories", content_query="TEA")
        assert [each["id"] for each in seen["data"]] == [stored["id"]]
        assert (await call(two, "get_memory", memory_id=stored["id"]))["thought"] == "asked twice"
        assert private["id"] not in str(await call(two, "list_memories", status="all"))

        await call(one, "supersede_memory", memory_id=stored["id"])
        await call(one, "archive_memory", memory_id=private["id"])
        assert (await call(one, "list_memories"))["data"] == []
        everything = await call(one, "list_memories", status="all", page_size=1)
        assert everything["metadata"]["has_more"] is True
        archived = await call(one, "list_memories", status="archived")
        assert [each["content"] for each in archived["data"]] == ["I was slow"]


async def test_two_agents_work_through_a_board() -> None:
    async with two_at_work() as (_, room, one, two):
        await call(one, "set_board", goal_title="Dig a well")
        await call(two, "set_board", goal_summary="before summer")
        board = await call(one, "get_board", include="history")
        assert (board["goal_title"], board["goal_summary"]) == ("Dig a well", "before summer")
        assert [each["event"] for each in board["history"]] == ["goal_set", "goal_edited"]

        task = await call(one, "create_task", subject="dig")
        assert (task["number"], task["chat_room_id"]) == (1, room.id)
        await call(one, "update_task", id="#1", status="completed", active_form="resting")
        both = await call(two, "update_task", id=task["id"], status="in_progress", comment="me too")
        assert both["overall_status"] == "in_progress"
        assert [each["status"] for each in both["assignments"]] == ["completed", "in_progress"]
        await call(two, "update_task", id="1", status="completed", state="archived")
        assert (await call(one, "list_tasks"))["data"] == []

        newer = await call(one, "create_task", subject="fill it", supersedes_id="1")
        [old] = (await call(one, "list_tasks", state="superseded"))["data"]
        assert old["superseded_by_id"] == newer["id"]
        page = await call(two, "get_task_history", id="1", limit=4)
        rest = await call(two, "get_task_history", id="1", cursor=page["metadata"]["next_cursor"])
        events = [each["event"] for each in [*page["data"], *rest["data"]]]
        assert events == [
            "created", "status_changed", "status_changed", "commented", "status_changed",
            "archived", "superseded",
        ]  # fmt: skip
        assert len((await call(two, "get_task", id="1", include="history"))["history"]) == 7


async def test_files_go_from_hand_to_hand() -> None:
    async with two_at_work() as (band, room, one, two):
        other: LocalAgent | str = two.agent_id or ""
        sent = await call(
            one, "send_room_file", content="grüße", filename="hello.txt", mentions=[other]
        )
        assert sent["attachment"]["content_type"] == "text/plain"
        picture = await band.user.put_file(room, "dot.png", PNG)
        archive = await band.user.put_file(room, "all.zip", b"PK\x03\x04")
        await band.user.send(room, "two more", [other], attachment_ids=[picture, archive])

        listed = await call(two, "list_room_files")
        assert [each["name"] for each in listed["data"]] == ["hello.txt", "dot.png", "all.zip"]
        read = await call(two, "read_room_file", file_id=sent["attachment"]["id"])
        assert read["text"] == "grüße"
        [image] = (await call(two, "read_room_file", file_id=picture))["content"]
        assert (image["mimeType"], base64.b64decode(image["data"])) == ("image/png", PNG)
        assert (
            "application/zip" in (await call(two, "read_room_file", file_id=archive))["description"]
        )
        again = await call(
            one, "send_room_file", content="grüße", filename="other.txt", mentions=[other]
        )
        assert again["attachment"]["id"] == sent["attachment"]["id"]


# --------------------------------------------------------------------------- a whole agent


class Reader(SimpleAdapter[Any]):
    """Reads the file of each message, and keeps a task and a memory of it."""

    SUPPORTED_CAPABILITIES = frozenset(Capability)

    def __init__(self) -> None:
        super().__init__(capabilities=[Capability.FILES, Capability.TASKS, Capability.MEMORY])
        self.offered: set[str] = set()
        self.results: list[Any] = []

    async def on_message(self, msg: Any, tools: Any, *args: Any, **kwargs: Any) -> None:
        self.offered = set(tools.tool_models)
        files = await tools.execute_tool_call("band_list_room_files", {})
        if isinstance(files, dict):
            [file] = files["data"]
            self.results.append(await call(tools, "read_room_file", file_id=file["id"]))
            self.results.append(await call(tools, "create_task", subject="answer"))
            self.results.append(await call(tools, "store_memory", **MEMORY))
        await tools.send_message("read", mentions=[msg.sender_id])


@for_each("offered", [True, False])
async def test_an_agent_works_with_what_the_platform_offers(
    offered: bool, autojump_clock: MockClock
) -> None:
    offer = Offer(files=offered, tasks=offered)
    async with open_local_band(memory=True, offer=offer) as band:
        agent = band.register_agent("Reader")
        room = await band.user.create_room("Hall", [agent])
        ids = [await band.user.put_file(room, "a.txt", b"abc")] if offered else []
        message = await band.user.send(room, "read this", [agent], attachment_ids=ids)
        reader = Reader()
        async with Agent.create(adapter=reader, **band.connection(agent)):
            await band.until(lambda: band.state(message, agent) == "processed")

    assert ("band_read_room_file" in reader.offered) is offered
    assert ("band_set_board" in reader.offered) is offered
    assert "band_store_memory" in reader.offered
    if offered:
        read, task, memory = reader.results
        assert (read["text"], task["number"], memory["scope"]) == ("abc", 1, "agent")


async def test_a_large_file_crosses_the_wire_whole_and_in_parts(band: LocalBand) -> None:
    agent, _, room = await furnish(band)
    content = bytes(range(256)) * 12_000
    digest = hashlib.sha256(content).hexdigest()
    async with open_rest(band, agent) as rest:
        url = f"/api/v1/agent/chats/{room.id}/files"
        headers = {"x-file-name": "all.bin", "x-file-sha256": digest}
        row = (await rest.http.put(url, content=content, headers=headers)).json()["data"]
        assert (row["sha256"], row["bytes"]) == (digest, len(content))
        url = f"{url}/{row['id']}"
        assert (await rest.http.get(url)).content == content
        part = await rest.http.get(url, headers={"range": "bytes=-1000"})
        assert (part.status_code, part.content) == (206, content[-1000:])
        refused(await rest("PUT", f"/agent/chats/{room.id}/files", key="x"), 401, "unauthorized")

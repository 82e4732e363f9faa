"""The asyncio client, unmodified and in a process of its own, works against the platform."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio

from band_trio.localband import LocalAgent, LocalBand, open_local_band
from tests.marks import case

CLIENT = """
import asyncio, sys
from band import Agent
from band.core import SimpleAdapter

class Echo(SimpleAdapter):
    async def on_message(
        self, msg, tools, history, participants_msg, contacts_msg, *, is_session_bootstrap, room_id
    ):
        if "fail" in msg.content:
            raise RuntimeError("as told")
        await tools.send_message("You said: " + msg.content, mentions=[msg.sender_id])

agent_id, api_key, rest_url, ws_url = sys.argv[1:]
agent = Agent.create(
    adapter=Echo(), agent_id=agent_id, api_key=api_key, rest_url=rest_url, ws_url=ws_url
)
asyncio.run(agent.run())
"""


KEEPER = """
import asyncio, json, sys
from band import Agent
from band.core import SimpleAdapter

CALLS = json.loads(sys.argv.pop())

class Keeper(SimpleAdapter):
    async def on_message(
        self, msg, tools, history, participants_msg, contacts_msg, *, is_session_bootstrap, room_id
    ):
        made = {}
        for name, arguments in CALLS:
            given = {k: made.get(v, v) if isinstance(v, str) else v for k, v in arguments.items()}
            try:
                result = await tools.execute_tool_call("band_" + name, given)
            except Exception as exc:
                result = type(exc).__name__
            if isinstance(result, dict):
                made["$" + name] = result.get("id") or result.get("attachment", {}).get("id")
            await tools.send_event(json.dumps([name, result]), "thought")
        await tools.send_message("done", mentions=[msg.sender_id])

agent_id, api_key, rest_url, ws_url = sys.argv[1:]
agent = Agent.create(
    adapter=Keeper(), agent_id=agent_id, api_key=api_key, rest_url=rest_url, ws_url=ws_url
)
asyncio.run(agent.run())
"""
MEMORY = {
    "content": "tea", "system": "long_term", "type": "semantic", "segment": "user", "thought": "t",
}  # fmt: skip


@asynccontextmanager
async def open_client(
    band: LocalBand, agent: LocalAgent, program: str = CLIENT, *arguments: str
) -> AsyncGenerator[trio.Process]:
    """Run the asyncio client; it is told to stop at the end and must end well."""
    urls = (band.rest_url, band.ws_url)
    command = [sys.executable, "-c", program, agent.id, agent.api_key, *urls, *arguments]
    async with trio.open_nursery() as nursery:
        run = partial(trio.run_process, command, check=False, stdout=None, stderr=None)
        process: trio.Process = await nursery.start(run)
        try:
            yield process
        finally:
            if process.returncode is None:
                process.terminate()
            with trio.move_on_after(10, shield=True):
                await process.wait()
            nursery.cancel_scope.cancel(reason="the client had its time")


@pytest.mark.slow
async def test_the_asyncio_client_lives_here() -> None:
    with trio.fail_after(50):
        async with open_local_band() as band:
            agent = band.register_agent("Scribe", "Repeats what it hears")
            room = await band.user.create_room("Hall", [agent])
            backlog = await band.user.send(room, "from before", [agent])
            async with open_client(band, agent):
                await band.until(lambda: band.state(backlog, agent) == "processed")
                live = await band.user.send(room, "live", [agent])
                await band.until(lambda: band.state(live, agent) == "processed")

                late = await band.user.create_room("Annex", [agent])
                there = await band.user.send(late, "in a new room", [agent])
                await band.until(lambda: band.state(there, agent) == "processed")

                first = band.session(agent)
                assert band.cut(agent)
                unseen = await band.user.send(room, "while away", [agent])
                await band.until(lambda: band.state(unseen, agent) == "processed")
                assert band.session(agent) is not first

                await band.user.stop(room)
                waiting = await band.user.send(room, "while stopped", [agent])
                await band.user.play(room)
                await band.until(lambda: band.state(waiting, agent) == "processed")

                bad = await band.user.send(late, "please fail", [agent])
                await band.until(lambda: band.state(bad, agent) == "failed")
            replies = [
                row["content"].rpartition("You said: ")[2]
                for row in await band.user.messages(room)
                if row["sender_id"] == agent.id and row["message_type"] == "text"
            ]
            ended = band.session(agent)
            unhappy = [row for row in band.log.requests() if (row.status or 0) >= 400]

    assert [text.rpartition(" ")[2] for text in replies] == ["before", "live", "away", "stopped"]
    assert ended is None
    assert unhappy == []
    assert band.attempts(bad, agent) == ["failed"]


def test_the_client_is_the_one_that_was_released() -> None:
    show = [
        sys.executable,
        "-c",
        "from importlib.metadata import version as v; print(v('band-sdk'))",
    ]
    assert (
        subprocess.run(show, capture_output=True, text=True, check=True).stdout.strip() == "6.0.1"
    )


@pytest.mark.slow
async def test_its_tools_of_memories_tasks_and_files_work_here() -> None:
    """It reads every answer strictly: a field that is missing or of the wrong type is an error."""
    with trio.fail_after(50):
        async with open_local_band() as band:
            agent = band.register_agent("Scribe", "Keeps everything")
            room = await band.user.create_room("Hall", [agent])
            calls: list[tuple[str, dict[str, Any]]] = [
                ("store_memory", MEMORY | {"scope": "subject", "subject_id": band.user.id}),
                ("list_memories", {"content_query": "TEA"}),
                ("get_memory", {"memory_id": "$store_memory"}),
                ("supersede_memory", {"memory_id": "$store_memory"}),
                ("archive_memory", {"memory_id": "$store_memory"}),
                ("store_memory", MEMORY | {"scope": "organization"}),
                ("create_task", {"subject": "dig"}),
                ("create_task", {"subject": "more", "supersedes_id": "1"}),
                ("update_task", {"id": "2", "status": "in_progress", "comment": "well"}),
                ("get_task", {"id": "2", "include": "history"}),
                ("get_task_history", {"id": "2"}),
                ("list_tasks", {"state": "all"}),
                ("get_board", {"include": "history"}),
                ("set_board", {"goal_title": "win"}),
                ("get_board", {"include": "history"}),
                ("send_room_file", {"content": "grüße", "filename": "a.txt",
                                    "mentions": [band.user.id]}),
                ("list_room_files", {}),
                ("read_room_file", {"file_id": "$send_room_file"}),
            ]  # fmt: skip
            async with open_client(band, agent, KEEPER, json.dumps(calls)):
                message = await band.user.send(room, "go", [agent])
                await band.until(lambda: band.state(message, agent) == "processed")

            rows = await band.user.messages(room)
            said = [json.loads(r["content"]) for r in rows if r["message_type"] == "thought"]
            assert [name for name, _ in said] == [name for name, _ in calls]
            refused = [name for name, result in said if isinstance(result, str)]
            assert refused == ["store_memory"]  # there is no organization
            results = dict(said[:5] + said[6:])
            assert results["archive_memory"]["status"] == "archived"
            assert [t["state"] for t in results["list_tasks"]["data"]] == ["superseded", "active"]
            assert results["get_board"]["goal_title"] == "win"
            assert results["read_room_file"]["text"] == "grüße"


@pytest.mark.slow
@case("C88")
async def test_the_asyncio_client_hears_a_room_that_it_is_added_to_again() -> None:
    """It takes a topic that is closed before it has left for lost, until it connects again."""
    with trio.fail_after(30):
        async with open_local_band() as band:
            agent = band.register_agent("Scribe", "Repeats what it hears")
            room = await band.user.create_room("Hall", [agent])
            first = await band.user.send(room, "one", [agent])
            async with open_client(band, agent):
                await band.until(lambda: band.state(first, agent) == "processed")
                session = band.session(agent)
                assert session is not None
                await band.user.remove(room, agent)
                await band.until(lambda: not session.revoked)
                await band.user.add(room, agent)
                await band.until(lambda: f"chat_room:{room.id}" in session.joined)
                second = await band.user.send(room, "two", [agent])
                await band.until(lambda: band.state(second, agent) == "processed")
                assert band.session(agent) is session

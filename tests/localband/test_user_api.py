"""The REST interface for persons, and the person of a program."""

from __future__ import annotations

from typing import Any

import pytest

from band_trio.errors import BandApiError
from band_trio.localband import LocalBand
from tests.localband.kit import NOBODY, Rest, furnish, open_rest, refused
from tests.support.for_each import for_each


async def register(rest: Rest) -> tuple[str, str]:
    body = {"agent": {"name": "Bot", "description": "d"}}
    made = await rest.data("POST", "/me/agents/register", body)
    return made["agent"]["id"], made["credentials"]["api_key"]


async def open_room(rest: Rest, agent_id: str) -> str:
    room: str = (await rest.data("POST", "/me/chats", {"chat": {"title": "Hello"}}))["id"]
    body = {"participant": {"participant_id": agent_id}}
    await rest.data("POST", f"/me/chats/{room}/participants", body)
    return room


async def test_a_person_talks_to_an_agent(band: LocalBand) -> None:
    async with open_rest(band) as rest:
        assert (await rest.data("GET", "/me/profile"))["handle"] == "demo-user"
        agent_id, agent_key = await register(rest)
        room = await open_room(rest, agent_id)
        text = {"message": {"content": "hi", "mentions": [{"id": agent_id}]}}
        receipt = await rest.data("POST", f"/me/chats/{room}/messages", text)
        assert receipt["recipients"] == [{"id": agent_id, "handle": "demo-user/bot", "name": "Bot"}]
        found = await rest("GET", f"/agent/chats/{room}/messages/next", key=agent_key)
        assert found.json()["data"]["id"] == receipt["id"]
        listed = await rest.data("GET", f"/me/chats/{room}/messages")
        assert [row["id"] for row in listed] == [receipt["id"]]
        await rest.data("DELETE", f"/me/chats/{room}")
        refused(await rest("GET", f"/me/chats/{room}"), 404, "not_found")


async def test_a_person_disposes_of_agents(band: LocalBand) -> None:
    async with open_rest(band) as rest:
        agent_id, agent_key = await register(rest)
        room = await open_room(rest, agent_id)
        people = await rest.data("GET", f"/me/chats/{room}/participants?participant_type=Agent")
        assert [row["id"] for row in people] == [agent_id]
        base = f"/me/agents/{agent_id}"
        runs = await rest.data("GET", f"{base}/executions")
        assert [row["chat_room_id"] for row in runs] == [room]
        await rest.data("POST", f"{base}/executions/{runs[0]['id']}/interrupt")
        unknown = await rest("POST", f"{base}/executions/{NOBODY}/interrupt")
        refused(unknown, 404, "not_found")
        for verb, state in (("stop", True), ("play", False)):
            await rest.data("POST", f"/me/chats/{room}/agents/{verb}")
            assert band.world.rooms[room].is_stopped(agent_id) is state
        listed = (await rest("GET", "/me/agents?name=BO")).json()
        assert [row["id"] for row in listed["data"]] == [agent_id]
        assert listed["metadata"]["available_filters"]
        refused(await rest("DELETE", base), 422, "validation_error")
        assert (await rest.data("DELETE", f"{base}?force=true"))["executions_deleted"] == 1
        refused(await rest("GET", "/agent/me", key=agent_key), 401, "unauthorized")


@for_each(
    "agent", [{}, {"name": "x"}, {"name": " ", "description": "d"}, {"name": 5, "description": "d"}]
)
async def test_an_agent_needs_name_and_description(
    memory_band: LocalBand, agent: dict[str, Any]
) -> None:
    async with open_rest(memory_band) as rest:
        answer = await rest("POST", "/me/agents/register", {"agent": agent})
    refused(answer, 422, "validation_error")


async def test_a_person_reads_rooms_of_own_agents_only_on_demand(memory_band: LocalBand) -> None:
    agent = memory_band.register_agent("Scribe")
    async with open_rest(memory_band, agent) as rest:
        room = (await rest.data("POST", "/agent/chats", {"chat": {}}))["id"]
    async with open_rest(memory_band) as rest:
        assert await rest.data("GET", "/me/chats") == []
        wide = await rest.data("GET", "/me/chats?include=agent_rooms")
        assert [row["id"] for row in wide] == [room]
        assert await rest.data("GET", f"/me/chats/{room}/messages") == []
        text = {"message": {"content": "x", "mentions": [{"id": agent.id}]}}
        refused(await rest("POST", f"/me/chats/{room}/messages", text), 404, "not_found")


async def test_messages_of_a_room_newest_first_and_filtered(memory_band: LocalBand) -> None:
    agent, _, room = await furnish(memory_band)
    async with open_rest(memory_band, agent) as rest:
        for kind in ("thought", "error", "thought"):
            event = {"event": {"content": kind, "message_type": kind}}
            await rest.data("POST", f"/agent/chats/{room.id}/events", event)
    await memory_band.user.send(room, "hi", [agent])
    base = f"/me/chats/{room.id}/messages"

    async with open_rest(memory_band) as rest:

        async def kinds(query: str) -> list[str]:
            return [row["message_type"] for row in await rest.data("GET", f"{base}?{query}")]

        assert await kinds("") == ["text", "thought", "error", "thought"]
        assert await kinds("message_type=thought") == ["thought", "thought"]
        assert await kinds("message_types=error,text") == ["text", "error"]
        assert await kinds("exclude_message_types=text") == ["thought", "error", "thought"]
        newest = (await rest.data("GET", f"{base}?limit=1"))[0]["inserted_at"]
        assert await kinds(f"since={newest}") == ["text"]
        for bad in ("message_type=a&message_types=b", "message_types=a,%20b", "since=soon"):
            refused(await rest("GET", f"{base}?{bad}"), 422, "validation_error")


async def test_the_person_of_a_program_gets_typed_refusals(memory_band: LocalBand) -> None:
    agent, other, room = await furnish(memory_band)
    with pytest.raises(BandApiError, match="mentioned_participant_not_in_room"):
        await memory_band.user.send(room, "x", [other])
    with pytest.raises(BandApiError) as caught:
        await memory_band.user.add(room, agent)
    assert caught.value.status == 409
    await memory_band.user.delete_room(room)
    with pytest.raises(BandApiError) as caught:
        await memory_band.user.messages(room)
    assert caught.value.status == 404

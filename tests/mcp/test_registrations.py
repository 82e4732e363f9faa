"""What an MCP server offers, which turn a call lands on, and what is refused."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import trio
from mcp.client.client import Client
from mcp.types import AudioContent, ImageContent

from band_trio.errors import BandConfigError, RoomExecutionStoppedError
from band_trio.mcp import MCPServer, MCPToolRegistration, OpenTurns, build_mcp_registrations
from band_trio.mcp.server import as_mcp_result
from band_trio.testing import FakeAgentTools
from band_trio.tools.catalogue import iter_tool_definitions
from band_trio.tools.custom import CustomTools
from band_trio.types import Capability, ToolCallOutcome
from tests.mcp.kit import CHAT, open_turn, text_of
from tests.support.for_each import for_each

HELLO = {"chat_id": "r1", "content": "hello", "mentions": ["u1"]}


def by_name(rows: list[MCPToolRegistration]) -> dict[str, MCPToolRegistration]:
    return {row.name: row for row in rows}


async def double(value: int) -> int:
    """Double a number."""
    await trio.lowlevel.checkpoint()
    return 2 * value


def test_tools_of_rooms_need_a_chat_id() -> None:
    tools = iter_tool_definitions(capabilities=frozenset(Capability))
    rows = by_name(build_mcp_registrations(OpenTurns().get, tools, [double]))
    assert rows.keys() == {row.name for row in tools} | {"double"}
    with_room = {n for n, row in rows.items() if "chat_id" in row.input_schema["properties"]}
    assert with_room == {row.name for row in tools if row.room_bound} | {"band_no_reply", "double"}
    assert all(rows[name].input_schema["required"][0] == "chat_id" for name in with_room)
    assert "band_list_contacts" not in with_room
    assert "room_id" not in rows["band_send_message"].input_schema["properties"]


def test_where_the_connection_names_the_room_no_tool_takes_it() -> None:
    rows = build_mcp_registrations(OpenTurns().get, CHAT, room_from_connection=True)
    assert all("chat_id" not in row.input_schema["properties"] for row in rows)


async def clash(chat_id: str) -> str:
    """Clash."""
    await trio.lowlevel.checkpoint()
    return chat_id


def test_names_are_there_once() -> None:
    get = OpenTurns().get
    with pytest.raises(BandConfigError, match="band_send_message"):
        build_mcp_registrations(get, [*CHAT, CHAT[0]])
    with pytest.raises(BandConfigError, match="chat_id"):
        build_mcp_registrations(get, CHAT, [clash])
    rows = build_mcp_registrations(get, CHAT)
    with pytest.raises(BandConfigError, match="band_send_message"):
        MCPServer([*rows, rows[0]])


async def test_a_call_lands_on_the_turn_of_its_room() -> None:
    turns = OpenTurns()
    send = by_name(build_mcp_registrations(turns.get, CHAT))["band_send_message"]
    async with open_turn(turns, "r1") as one, open_turn(turns, "r2") as two:
        outcome = await send.execute(HELLO, None)
        assert outcome.ok
        alias = {**HELLO, "room_id": "r2"}
        del alias["chat_id"]
        assert (await send.execute(alias, None)).ok
        assert one.tools.chat == two.tools.chat == ["hello"]
        assert one.tools.turn.replied
    late = await send.execute(HELLO, None)
    assert not late.ok
    assert "no work under way" in str(late.error_message)


@for_each("chat_id", [None, "", "a/b", "x" * 256, 5, "a\n"])
async def test_a_chat_id_that_is_none_is_refused(chat_id: Any) -> None:
    send = by_name(build_mcp_registrations(OpenTurns().get, CHAT))["band_send_message"]
    outcome = await send.execute({**HELLO, "chat_id": chat_id}, None)
    assert not outcome.ok
    assert outcome.value.startswith("Invalid arguments for band_send_message: chat_id: ")


async def test_a_room_bound_server_takes_the_room_of_the_connection() -> None:
    turns = OpenTurns()
    rows = by_name(build_mcp_registrations(turns.get, CHAT, room_from_connection=True))
    send = rows["band_send_message"]
    async with open_turn(turns, "r1") as one, open_turn(turns, "r2") as two:
        # A chat_id of the model's own is no way into another room.
        assert (await send.execute({**HELLO, "chat_id": "r2"}, "r1")).ok
        assert (one.tools.chat, two.tools.chat) == (["hello"], [])
        assert not (await send.execute(HELLO, None)).ok


async def test_errors_are_those_of_the_tools() -> None:
    turns = OpenTurns()
    rows = by_name(build_mcp_registrations(turns.get, CHAT))
    async with open_turn(turns):
        nobody = await rows["band_send_message"].execute({**HELLO, "mentions": ["x"]}, None)
        assert "@maria" in nobody.value
        blank = await rows["band_send_message"].execute({**HELLO, "content": " "}, None)
        assert "can't be blank" in blank.value


async def test_custom_tools_run_in_the_turn() -> None:
    turns = OpenTurns()
    rows = by_name(build_mcp_registrations(turns.get, CHAT, [double]))
    async with open_turn(turns) as turn:
        turn.tools.use_custom_tools(CustomTools.of([double]))
        outcome = await rows["double"].execute({"chat_id": "r1", "value": "4"}, None)
        assert (outcome.ok, outcome.value) == (True, 8)


async def test_a_stop_is_told(autojump_clock: trio.testing.MockClock) -> None:
    turns = OpenTurns()
    rows = by_name(build_mcp_registrations(turns.get, CHAT))
    async with open_turn(turns) as turn:
        turn.tools.send_message_error = RoomExecutionStoppedError("r1")
        outcome = await rows["band_send_message"].execute(HELLO, None)
        assert not outcome.ok
        assert "stopped" in outcome.value


async def test_the_end_of_the_turn_ends_a_call(autojump_clock: trio.testing.MockClock) -> None:
    turns = OpenTurns()
    send = by_name(build_mcp_registrations(turns.get, CHAT))["band_send_message"]
    outcomes: list[ToolCallOutcome] = []

    async def call() -> None:
        outcomes.append(await send.execute(HELLO, None))

    async with trio.open_nursery() as server:
        async with open_turn(turns) as turn, turn.tools.hold_message("hello") as hold:
            server.start_soon(call)
            await hold.reached()
            turn.end()
    assert not outcomes[0].ok
    assert turn.tools.chat == []


async def test_a_client_that_gives_up_ends_its_call_alone(
    autojump_clock: trio.testing.MockClock,
) -> None:
    turns = OpenTurns()
    send = by_name(build_mcp_registrations(turns.get, CHAT))["band_send_message"]
    async with open_turn(turns) as turn, turn.tools.hold_message("hello") as hold:
        with trio.move_on_after(1) as scope:
            await send.execute(HELLO, None)
        assert scope.cancelled_caught
        await trio.testing.wait_all_tasks_blocked()
        hold.release()
        assert trio.current_effective_deadline() == math.inf
        assert (await send.execute({**HELLO, "content": "again"}, None)).ok
        assert turn.tools.chat == ["again"]


async def test_tools_without_a_turn_that_runs_work_where_they_are_called() -> None:
    tools = FakeAgentTools(room_id="r1")
    send = by_name(build_mcp_registrations(lambda _: tools, CHAT))["band_send_message"]
    assert (await send.execute(HELLO, None)).ok
    tools.turn.close()
    assert not (await send.execute(HELLO, None)).ok
    assert tools.chat == ["hello"]


def test_a_turn_is_open_once() -> None:
    turns = OpenTurns()
    with turns.open(FakeAgentTools(room_id="r1")):
        assert turns.get(None) is turns.get("r1")
        with pytest.raises(BandConfigError), turns.open(FakeAgentTools(room_id="r1")):
            raise AssertionError
        with turns.open(FakeAgentTools(room_id="r2")):
            assert turns.get(None) is None
    assert turns.get("r1") is None


async def test_over_the_protocol() -> None:
    turns = OpenTurns()
    server = MCPServer(build_mcp_registrations(turns.get, CHAT), instructions="Be kind.")
    async with open_turn(turns) as turn, Client(server.protocol()) as client:
        listed = await client.list_tools()
        assert [tool.name for tool in listed.tools] == [row.name for row in CHAT]
        assert all(tool.output_schema is None for tool in listed.tools)
        assert listed.tools[0].input_schema["required"] == ["chat_id", "content", "mentions"]
        good = await client.call_tool("band_send_message", HELLO)
        assert not good.is_error
        assert '"success": true' in text_of(good)
        bad = await client.call_tool("band_send_message", {**HELLO, "mentions": ["x"]})
        assert bad.is_error
        assert "@maria" in text_of(bad)
        unknown = await client.call_tool("band_fly")
        assert unknown.is_error
    assert turn.tools.chat == ["hello"]


def test_a_picture_becomes_a_picture() -> None:
    value = {
        "content": [
            {"type": "text", "text": "a cat"},
            {"type": "image", "data": "QUJD", "mimeType": "image/jpeg"},
        ]
    }
    result = as_mcp_result(ToolCallOutcome(value, ok=True))
    text, picture = result.content
    assert isinstance(picture, ImageContent)
    assert (picture.data, picture.mime_type) == ("QUJD", "image/jpeg")
    assert text.type == "text"
    sound = {"type": "audio", "data": "QUJD", "mime_type": "audio/mp3"}
    (heard,) = as_mcp_result(ToolCallOutcome({"content": [sound]}, ok=True)).content
    assert isinstance(heard, AudioContent)
    assert heard.mime_type == "audio/mp3"


def test_data_that_has_content_stays_data() -> None:
    page = {"total": 1, "content": [{"id": 1, "title": "Alpha"}]}

    assert text_of(as_mcp_result(ToolCallOutcome(page, ok=True))) == json.dumps(page)


def test_a_long_result_is_shortened() -> None:
    long = as_mcp_result(ToolCallOutcome("x" * 100_000, ok=True))
    assert len(text_of(long)) <= 50_000


@for_each(
    "value",
    [
        "Mar\ud800ia",
        {"name\ud800": ["Mar\ud800ia"]},
        {"content": [{"type": "text", "text": "Mar\ud800ia"}]},
        {"content": [{"type": "image", "data": "\ud800", "mimeType": "\ud800"}]},
        {"content": [{"type": "audio", "data": "\ud800", "mimeType": "\ud800"}]},
        {"content": [{"type": "resource_link", "uri": "a:\ud800", "name": "x"}]},
    ],
)
@for_each("ok", [True, False])
def test_every_result_can_be_sent(value: Any, ok: bool) -> None:
    sent = as_mcp_result(ToolCallOutcome(value, ok=ok)).model_dump_json()

    assert "\ufffd" in sent
    assert "\\ud800" not in sent
    sent.encode()

"""Calls by name: what is offered, what is refused, and what runs only once (case C27)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import attrs
import httpx  # noqa: ASYNC127 - the transport of the tests
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from band_trio.errors import BandConfigError, BandError, RoomExecutionStoppedError
from band_trio.testing import FakeAgentTools
from band_trio.tools.agent_tools import AgentTools
from band_trio.tools.catalogue import (
    TOOL_DEFINITIONS,
    checked_members,
    filter_tool_schemas,
    iter_tool_definitions,
    selected_tool_definitions,
)
from band_trio.tools.definitions import BandTool
from band_trio.tools.results import tool_result_text
from band_trio.types import AdapterFeatures, Capability, ToolCallOutcome, ToolCategory
from tests.marks import case, guarantee
from tests.support.for_each import for_each
from tests.tools.kit import KEY, ROOM, Platform, open_tools, refusal

SEND: dict[str, Any] = {"content": "hi", "mentions": ["maria"]}
CHAT = [row.name for row in iter_tool_definitions()]


async def test_a_call_returns_the_result_and_the_outcome_says_that_it_is_one() -> None:
    async with open_tools(Platform()) as tools:
        value = await tools.execute_tool_call("band_send_message", SEND)
        outcome = await tools.execute_tool_call_structured("band_no_reply", {"reason": "x"})

    assert value["success"] is True
    assert (outcome.value, outcome.ok, outcome.error_message) == (
        {"status": "no_reply"},
        True,
        None,
    )


@for_each("name", ["send_message", "band_nothing", "BAND_NO_REPLY", "", "list_my_chats"])
async def test_names_are_exact(name: str) -> None:
    async with open_tools(Platform()) as tools:
        outcome = await tools.execute_tool_call_structured(name, {})

    assert (outcome.ok, outcome.value) == (False, f"Unknown tool: {name}")
    assert outcome.error_message == outcome.value


@case("C30")
async def test_bad_arguments_are_answered_and_nothing_is_requested() -> None:
    platform = Platform()
    async with open_tools(platform) as tools:
        args = {"mentions": ["@maria"]}
        outcome = await tools.execute_tool_call_structured("band_send_message", args)

    assert not outcome.ok
    assert outcome.value == "Invalid arguments for band_send_message: content: is required"
    assert platform.requests == []


@case("C30")
async def test_whom_to_mention_is_told_where_nobody_is_mentioned() -> None:
    platform = Platform()
    async with open_tools(platform) as tools:
        outcome = await tools.execute_tool_call_structured("band_send_message", {"content": "x"})

    assert not outcome.ok
    assert outcome.value.endswith("@maria.")
    assert platform.requests == []


async def test_errors_of_the_platform_are_told_without_headers_and_urls() -> None:
    platform = Platform()
    details = {"/message/content": ["is odd"]}
    answer = refusal(422, "validation_error", f"no {KEY} here", details=details)
    answer.headers["x-secret"] = "secret-header"
    platform.answer("POST", "messages", answer)
    async with open_tools(platform) as tools:
        outcome = await tools.execute_tool_call_structured("band_send_message", SEND)

    assert outcome.value == (
        "Error executing band_send_message: 422 validation_error: no [REDACTED] here "
        "(/message/content: is odd). Correct the arguments and call it again."
    )


async def test_an_unforeseen_error_shows_only_its_class(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        call_seconds = 60.0
        secrets = ()

        async def list_participants(self, room_id: str, /) -> Any:
            await trio.lowlevel.checkpoint()
            raise ZeroDivisionError("the inner secret of it")

    tools = AgentTools(ROOM, Broken())  # type: ignore[arg-type]
    outcome = await tools.execute_tool_call_structured("band_get_participants", {})

    assert outcome.value == "Error executing band_get_participants: ZeroDivisionError"
    assert "the inner secret of it" in caplog.text


async def test_a_stop_is_raised_out_of_dispatch() -> None:
    platform = Platform()
    platform.answer("POST", "messages", refusal(403, "execution_stopped", "stopped"))
    async with open_tools(platform) as tools:
        with pytest.raises(RoomExecutionStoppedError):
            await tools.execute_tool_call("band_send_message", SEND, call_id="c1")


# --------------------------------------------------------------------------- once per call id


@case("C27")
async def test_one_call_id_runs_once(autojump_clock: MockClock) -> None:
    platform = Platform()
    values: list[Any] = []

    async def slow(_: httpx.Request) -> httpx.Response:
        await trio.sleep(10)
        return httpx.Response(201, json={"data": {"id": "m"}})

    platform.answer("POST", "messages", slow)
    async with open_tools(platform) as tools:

        async def call(call_id: str) -> None:
            values.append(await tools.execute_tool_call("band_send_message", SEND, call_id=call_id))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, "T1")
            nursery.start_soon(call, "T1")  # the framework was impatient
            nursery.start_soon(call, "T2")  # the same content, in flight
        await call("T1")
        assert len(platform.bodies("messages")) == 1
        await call("T3")  # on purpose, later

    assert [value["id"] for value in values] == ["m", "m", "m", "m", "message-1"]
    assert len(platform.bodies("messages")) == 2


async def test_a_failed_call_is_not_run_again_either() -> None:
    platform = Platform()
    platform.answer("POST", "events", refusal(422, "validation_error", "first"))
    args = {"content": "x", "message_type": "thought"}
    async with open_tools(platform) as tools:
        first = await tools.execute_tool_call("band_send_event", args, call_id="c")
        second = await tools.execute_tool_call("band_send_event", args, call_id="c")

    assert first == second
    assert "first" in first
    assert len(platform.requests) == 1


@pytest.mark.parametrize(
    ("name", "path", "runs"),
    [("band_create_chatroom", "chats", 1), ("band_lookup_peers", "peers", 2)],
)
async def test_a_call_that_was_cut_off_is_repeated_only_if_it_changes_nothing(
    name: str, path: str, runs: int, autojump_clock: MockClock
) -> None:
    platform = Platform()

    async def hang(_: httpx.Request) -> httpx.Response:
        await trio.sleep_forever()
        raise AssertionError

    platform.answer("POST", path, hang)
    platform.answer("GET", path, hang)
    async with open_tools(platform) as tools:
        with trio.move_on_after(1):
            await tools.execute_tool_call(name, {}, call_id="c")
        outcome = await tools.execute_tool_call_structured(name, {}, call_id="c")

    assert outcome.ok is (runs == 2)
    assert outcome.ok or "do not simply repeat it" in outcome.value
    assert len(platform.requests) == runs


# --------------------------------------------------------------------------- the fence


@for_each("name", CHAT)
async def test_a_closed_turn_refuses_every_tool_by_name(name: str) -> None:
    platform = Platform()
    arguments = {
        **SEND, "message_type": "task", "identifier": "helper",
    }  # fmt: skip
    async with open_tools(platform) as tools:
        tools.turn.close()
        outcome = await tools.execute_tool_call_structured(name, arguments)

    assert not outcome.ok
    assert "This turn is over" in outcome.value
    assert platform.requests == []


# --------------------------------------------------------------------------- what is offered


def test_tools_without_features_offer_the_chat_tools() -> None:
    tools = AgentTools(ROOM, None)  # type: ignore[arg-type]

    assert [s["name"] for s in tools.get_anthropic_tool_schemas()] == CHAT
    assert [s["function"]["name"] for s in tools.get_openai_tool_schemas()] == CHAT
    assert list(tools.tool_models) == CHAT


async def test_what_filters_leave_out_is_neither_offered_nor_callable() -> None:
    features = AdapterFeatures(
        include_tools=("band_send_message", "band_no_reply", "band_send_event"),
        exclude_tools=("band_send_event",),
    )
    async with open_tools(Platform(), features=features) as tools:
        offered = [schema["name"] for schema in tools.get_tool_schemas("anthropic")]
        refused = await tools.execute_tool_call("band_send_event", {})

    assert offered == ["band_send_message", "band_no_reply"]
    assert refused == "Unknown tool: band_send_event"


def test_filters_narrow_one_after_the_other() -> None:
    nothing = AdapterFeatures(include_categories=(ToolCategory.MEMORY,))
    some = AdapterFeatures(
        include_categories=(ToolCategory.CHAT,), exclude_tools=("band_no_reply",)
    )

    assert selected_tool_definitions(nothing) == ()
    assert [row.name for row in selected_tool_definitions(some)] == [
        name for name in CHAT if name != "band_no_reply"
    ]
    assert selected_tool_definitions(AdapterFeatures(), is_hub_room=True)
    assert filter_tool_schemas(["mine"], nothing, get_name=str) == ["mine"], "custom tools pass"


def test_a_typo_in_a_filter_is_an_error() -> None:
    with pytest.raises(BandConfigError, match=r"no tool.* Did you mean 'band_send_message'"):
        checked_members(["band_send_mesage"], BandTool, "exclude_tools", called="tool")
    with pytest.raises(BandConfigError, match=r"there are chat.* Did you mean 'memory'"):
        checked_members(["memry"], ToolCategory, "include_categories")
    assert checked_members("band_no_reply", BandTool, "x") == ("band_no_reply",)
    assert checked_members([BandTool.STORE_MEMORY], BandTool, "x") == ("band_store_memory",)
    assert checked_members("chat", ToolCategory, "x") == (ToolCategory.CHAT,)


def test_the_hub_room_is_known() -> None:
    hub = AgentTools(ROOM, None, hub_room_id=ROOM)  # type: ignore[arg-type]
    room = AgentTools(ROOM, None)  # type: ignore[arg-type]

    assert (hub.is_hub_room, room.is_hub_room) == (True, False)
    assert Capability.CONTACTS not in AdapterFeatures().capabilities


def test_the_hub_room_always_offers_contacts() -> None:
    hub = AgentTools(ROOM, None, hub_room_id=ROOM)  # type: ignore[arg-type]
    contacts = [
        name for name, row in TOOL_DEFINITIONS.items() if row.category is ToolCategory.CONTACTS
    ]

    assert [row.name for row in hub.tool_definitions()] == CHAT + contacts
    asked = hub.tool_definitions(capabilities=[Capability.FILES])
    assert [row.name for row in asked if row.category is ToolCategory.CONTACTS] == contacts


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


@case("C30")
@given(st.data(), st.sampled_from(list(TOOL_DEFINITIONS.values())))
def test_any_arguments_of_any_tool_have_an_outcome(data: st.DataObject, row: Any) -> None:
    names = [field.name for field in attrs.fields(row.input_model)]
    args = data.draw(_json | st.dictionaries(st.sampled_from([*names, "x"]), _json | _WORDS))

    async def call() -> ToolCallOutcome:
        tools = FakeAgentTools(peers=[{"id": "p1"}], tasks=[{"subject": "s"}])
        return await tools.execute_tool_call_structured(row.name, args)

    outcome = trio.run(call)
    assert outcome.ok or outcome.value == outcome.error_message
    assert tool_result_text(outcome.value)


_WORDS = st.sampled_from(
    ["1", "#1", "a", "agent", "long_term", "semantic", "approve", "history", "active", "thought"]
)


BY_ID: list[tuple[str, dict[str, Any]]] = [
    ("band_add_participant", {"identifier": "?"}),
    ("band_remove_participant", {"identifier": "?"}),
    ("band_send_message", {"content": "hi", "mentions": ["?"]}),
    ("band_create_chatroom", {"task_id": "?"}),
    ("band_remove_contact", {"contact_id": "?"}),
    ("band_respond_contact_request", {"action": "approve", "request_id": "?"}),
    ("band_list_memories", {"subject_id": "?", "content_query": "?"}),
    ("band_get_memory", {"memory_id": "?"}),
    ("band_archive_memory", {"memory_id": "?"}),
    ("band_list_room_files", {"cursor": "?"}),
    ("band_read_room_file", {"file_id": "?"}),
    ("band_send_room_file", {"content": "x", "filename": "?", "mentions": ["@ann"]}),
    ("band_list_tasks", {"cursor": "?"}),
    ("band_get_task", {"id": "?"}),
    ("band_update_task", {"id": "?", "status": "blocked"}),
    ("band_get_task_history", {"id": "3", "cursor": "?"}),
]


@guarantee(87)
@case("C69")
@for_each("odd", ["x" * 70_000, "a\0b", "\ud800", "\r\n"], ids=lambda o: ascii(o[:6]))
async def test_ids_and_cursors_of_a_model_fail_their_call_alone(odd: str) -> None:
    """Directly and by dispatch; with and without the check of the tool's own schema."""
    platform = Platform()
    async with open_tools(platform) as tools:
        for name, arguments in BY_ID:
            given = {
                key: [odd] if value == ["?"] else odd if value == "?" else value
                for key, value in arguments.items()
            }
            outcome = await tools.execute_tool_call_structured(name, given)
            assert isinstance(outcome.value, str | dict | list), name
            with suppress(BandError):
                await getattr(tools, name.removeprefix("band_"))(**given)
        assert not tools.turn.closed
    assert all(len(path) < 20_000 for _, path, _ in platform.requests)

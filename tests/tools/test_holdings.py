"""Contacts, memories and tasks by name, on recorded requests: what goes out and what is said."""

from __future__ import annotations

from typing import Any

import httpx  # noqa: ASYNC127 - the transport of the tests
import pytest
import trio
from trio.testing import MockClock

from band_trio import texts
from band_trio.errors import BandApiError, BandToolError, RoomExecutionStoppedError
from band_trio.tools.contact_tools import ContactTools
from band_trio.tools.refusals import refusal_advice
from band_trio.types import TurnEffect
from tests.support.for_each import for_each
from tests.tools.kit import Ear, Platform, open_rest, open_tools, refusal

MEMORY = {
    "content": "Maria likes tea", "system": "long_term", "type": "semantic", "segment": "user",
    "thought": "asked twice", "scope": "agent",
}  # fmt: skip
TASK = {"id": "t1", "number": 3, "subject": "dig", "superseded_by_id": None,
        "assignments": [{"status": "pending", "active_form": None}]}  # fmt: skip
PAGE = {"page": 1, "page_size": 50, "total_count": 1, "total_pages": 1}
REQUESTS = {"received": [{"id": "q1", "from_handle": "bob", "message": None}], "sent": []}

# tool · arguments · method and path · body sent · data answered · value for the model
CALLS: list[tuple[str, Any, str, str, Any, Any, Any]] = [
    ("band_list_contacts", {}, "GET", "/contacts", None,
     {"data": [{"id": "c1", "handle": "bob", "name": None}], "metadata": PAGE},
     {"data": [{"id": "c1", "handle": "bob"}], "metadata": PAGE}),
    ("band_add_contact", {"handle": "@bob", "message": None}, "POST", "/contacts/add",
     {"handle": "@bob"}, {"data": {"id": "q1", "status": "approved"}},
     {"id": "q1", "status": "approved"}),
    ("band_add_contact", {"handle": "@bob", "message": "hi"}, "POST", "/contacts/add",
     {"handle": "@bob", "message": "hi"}, {}, {"status": "pending"}),
    ("band_remove_contact", {"handle": "", "contact_id": "c1"}, "POST", "/contacts/remove",
     {"contact_id": "c1"}, {"data": {"status": "removed"}}, {"status": "removed"}),
    ("band_list_contact_requests", {"sent_status": "all"}, "GET", "/contacts/requests", None,
     {"data": REQUESTS, "metadata": {"received": {"total": 1, "total_pages": 1}}},
     {"data": {"received": [{"id": "q1", "from_handle": "bob"}], "sent": []},
      "metadata": {"page": 1, "page_size": 50, "received": {"total": 1, "total_pages": 1}}}),
    ("band_respond_contact_request", {"action": "reject", "request_id": "q1"}, "POST",
     "/contacts/requests/respond", {"action": "reject", "request_id": "q1"}, {},
     {"id": "q1", "status": "rejected"}),
    ("band_list_memories", {"scope": "all", "page_size": "7"}, "GET", "/memories", None,
     {"data": [{"id": "m1", "thought": None}], "metadata": {"next_cursor": "c"}},
     {"data": [{"id": "m1"}], "metadata": {"has_more": True, "limit": 7, "next_cursor": "c"}}),
    ("band_store_memory", MEMORY, "POST", "/memories", {"memory": MEMORY},
     {"data": {"id": "m1", "status": "active"}}, {"id": "m1", "status": "active"}),
    ("band_store_memory", {**MEMORY, "metadata": '{"a": "\\ud800"}'}, "POST", "/memories",
     {"memory": {**MEMORY, "metadata": {"a": "\ufffd"}}}, [],
     {**MEMORY, "metadata": {"a": "\ufffd"}, "status": "active"}),
    ("band_get_memory", {"memory_id": "m1"}, "GET", "/memories/m1", None,
     {"data": {"id": "m1"}}, {"id": "m1"}),
    ("band_supersede_memory", {"memory_id": "m1"}, "POST", "/memories/m1/supersede", None, {},
     {"id": "m1", "status": "superseded"}),
    ("band_archive_memory", {"memory_id": "m1"}, "POST", "/memories/m1/archive", None,
     {"data": {"id": "m1", "status": "archived"}}, {"id": "m1", "status": "archived"}),
    ("band_list_tasks", {"limit": "5"}, "GET", "/chats/room-1/tasks", None,
     {"data": [TASK], "metadata": {"has_more": False}},
     {"data": [{"id": "t1", "number": 3, "subject": "dig", "assignments": [{"status": "pending"}]}],
      "metadata": {"has_more": False, "limit": 5}}),
    ("band_create_task", {"subject": "dig\x00\nnow", "supersedes_id": "#3"}, "POST",
     "/chats/room-1/tasks", {"subject": "dig now", "supersedes_id": "3"}, {},
     {"subject": "dig now", "state": "active"}),
    ("band_get_task", {"id": "#3"}, "GET", "/chats/room-1/tasks/3", None, {"data": TASK},
     {"id": "t1", "number": 3, "subject": "dig", "assignments": [{"status": "pending"}]}),
    ("band_update_task", {"id": 3, "status": "blocked", "detail": None}, "POST",
     "/chats/room-1/tasks/3", {"status": "blocked"}, {}, {"id": "3", "status": "blocked"}),
    ("band_get_task_history", {"id": "3"}, "GET", "/chats/room-1/tasks/3/history", None,
     {"data": [{"event": "created", "payload": {"a": None, "b": 1}}]},
     {"data": [{"event": "created", "payload": {"b": 1}}],
      "metadata": {"has_more": False, "limit": 50}}),
    ("band_get_board", {}, "GET", "/chats/room-1/board", None,
     {"data": {"chat_room_id": "room-1", "goal_title": None}}, {"chat_room_id": "room-1"}),
    ("band_set_board", {"goal_title": "win"}, "PUT", "/chats/room-1/board",
     {"goal_title": "win"}, {}, {"chat_room_id": "room-1", "goal_title": "win"}),
]  # fmt: skip


@for_each(
    ("tool", "args", "method", "path", "body", "answer", "value"), CALLS, ids=lambda v: str(v)[:30]
)
async def test_calls_by_name(
    tool: str, args: Any, method: str, path: str, body: Any, answer: Any, value: Any
) -> None:
    platform = Platform()
    platform.answer(method, path, httpx.Response(200, json=answer))
    async with open_tools(platform) as tools:
        outcome = await tools.execute_tool_call_structured(tool, args)
        effects = set(tools.turn.effects)

    assert (outcome.ok, outcome.value) == (True, value)
    assert platform.requests == [(method, path, body)]
    assert effects == {TurnEffect.OBSERVE if method == "GET" else TurnEffect.ACT}


# --------------------------------------------------------------------------- refused before asking

BAD: list[tuple[str, Any, str]] = [
    ("band_add_contact", {"handle": " "}, "handle: can't be blank"),
    ("band_add_contact", {"handle": "a", "message": "x" * 501},
     "message: must have at most 500 characters, not 501"),
    ("band_remove_contact", {"handle": ""},
     f"Invalid arguments for band_remove_contact: {texts.CONTACT_NOT_NAMED}"),
    ("band_respond_contact_request", {"action": "approve"}, texts.REQUEST_NOT_NAMED),
    ("band_respond_contact_request", {"action": "eat", "handle": "x"}, "approve, reject, cancel"),
    ("band_list_contacts", {"page": 0}, "page: must be at least 1"),
    ("band_list_memories", {"page_size": 51}, "from 1 to 50"),
    ("band_store_memory", {**MEMORY, "type": "iconic"},
     "a memory of system long_term has the type episodic, semantic, procedural, not iconic"),
    ("band_store_memory", {**MEMORY, "scope": "subject"}, "use scope agent; never make an id up"),
    ("band_get_memory", {"memory_id": "m/../1"}, "characters that are not possible"),
    ("band_get_memory", {"memory_id": "m1\n"}, "characters that are not possible"),
    ("band_get_task", {"id": "##3"}, "characters that are not possible"),
    ("band_get_task", {"id": True}, "must be text"),
    ("band_update_task", {"id": "3"}, texts.TASK_UNCHANGED),
    ("band_update_task", {"id": "3", "status": "superseded"}, "must be one of pending"),
    ("band_set_board", {}, texts.BOARD_UNCHANGED),
    ("band_read_room_file", {"file_id": "a b"}, "characters that are not possible"),
]  # fmt: skip


@for_each(("tool", "args", "text"), BAD)
async def test_bad_arguments_request_nothing(tool: str, args: Any, text: str) -> None:
    platform = Platform()
    async with open_tools(platform) as tools:
        outcome = await tools.execute_tool_call_structured(tool, args)

    assert not outcome.ok
    assert outcome.value.startswith(f"Invalid arguments for {tool}: ")
    assert text in outcome.value
    assert platform.requests == []


async def test_direct_calls_check_as_well() -> None:
    platform = Platform()
    async with open_tools(platform) as tools:
        with pytest.raises(BandToolError, match="500 characters"):
            await tools.add_contact("a", "x" * 501)
        with pytest.raises(BandToolError, match="name the contact"):
            await tools.remove_contact()
        with pytest.raises(BandToolError, match="name the request"):
            await tools.respond_contact_request("approve")
        with pytest.raises(BandToolError, match="iconic, echoic, haptic, not semantic"):
            await tools.store_memory("x", "sensory", "semantic", "user", "why", "agent")
        with pytest.raises(BandToolError, match="use scope agent"):
            await tools.store_memory("x", "working", "semantic", "user", "why", "subject")
        with pytest.raises(BandToolError, match="sensory, working, long_term, not 'mid_term'"):
            await tools.store_memory("x", "mid_term", "semantic", "user", "why", "agent")
        with pytest.raises(BandToolError, match="say what to change"):
            await tools.update_task("3")
        with pytest.raises(BandToolError, match="say what to change"):
            await tools.set_board()
        with pytest.raises(TypeError, match=r"store_memory\(\) missing"):
            await tools.store_memory("x")  # type: ignore[call-arg]

    assert platform.requests == []


async def test_a_blank_message_is_left_out() -> None:
    platform = Platform()
    platform.answer("POST", "/add", httpx.Response(201, json={}))
    async with open_tools(platform) as tools:
        await tools.add_contact("bob", "")

    assert platform.bodies("/add") == [{"handle": "bob"}]


# --------------------------------------------------------------------------- the platform says no


async def test_refusals_that_mean_something_are_worded() -> None:
    platform = Platform()
    platform.answer("POST", "/memories", refusal(422, "org_scope_requires_organization", "no"))
    platform.answer("POST", "/respond", refusal(409, "conflict", "not pending"))
    platform.answer("POST", "/add", refusal(409, "conflict", "already a contact"))
    async with open_tools(platform) as tools:
        for name, args, text in (
            ("band_store_memory", {**MEMORY, "scope": "organization"}, texts.NO_ORGANIZATION),
            ("band_respond_contact_request", {"action": "approve", "handle": "b"},
             texts.REQUEST_NOT_PENDING),
            ("band_add_contact", {"handle": "b"},
             f"409 conflict: already a contact. {refusal_advice('band_add_contact', 409)}"),
        ):  # fmt: skip
            outcome = await tools.execute_tool_call_structured(name, args)
            assert outcome.value == f"Error executing {name}: {text}"
        assert tools.turn.effects == set()


WRITES: list[tuple[str, Any, str]] = [
    ("add_contact", ("bob",), "/contacts/add"),
    ("remove_contact", ("bob",), "/contacts/remove"),
    ("respond_contact_request", ("approve", "bob"), "/respond"),
    ("store_memory", tuple(MEMORY.values()), "/memories"),
    ("archive_memory", ("m1",), "/archive"),
    ("create_task", ("dig",), "/tasks"),
    ("update_task", ("3", "blocked"), "/tasks/3"),
]


@for_each(("method", "args", "path"), WRITES)
async def test_an_unknown_outcome_counts_as_an_act_and_says_so(
    method: str, args: Any, path: str
) -> None:
    platform = Platform()
    platform.answer("POST", path, refusal(502, "bad_gateway", "lost"))
    async with open_tools(platform) as tools:
        with pytest.raises(BandToolError, match="may have taken effect"):
            await getattr(tools, method)(*args)
        assert tools.turn.effects == {TurnEffect.ACT}

    assert len(platform.requests) == 1


async def test_a_put_is_repeated_before_its_outcome_is_unknown(autojump_clock: MockClock) -> None:
    platform = Platform()
    for _ in range(200):
        platform.answer("PUT", "/board", refusal(503, "later", "busy"))
    async with open_tools(platform) as tools:
        with pytest.raises(BandToolError, match="may have taken effect"):
            await tools.set_board("win")
        assert tools.turn.effects == {TurnEffect.ACT}

    assert len(platform.requests) > 2


async def test_an_unreachable_platform_has_done_nothing(autojump_clock: MockClock) -> None:
    platform = Platform()
    for _ in range(200):
        platform.answer("POST", "/tasks", httpx.ConnectError("no route"))
    async with open_tools(platform) as tools:
        with pytest.raises(BandToolError, match="could not be reached, so nothing was done"):
            await tools.create_task("dig")
        assert tools.turn.effects == set()


async def test_a_stop_in_an_answer_ends_the_turn() -> None:
    platform, ear = Platform(), Ear()
    platform.answer("GET", "/board", refusal(403, "execution_stopped", "stopped"))
    async with open_tools(platform, ear=ear) as tools:
        with pytest.raises(RoomExecutionStoppedError):
            await tools.execute_tool_call("band_get_board", {})

    assert ear.heard == ["stop"]


async def test_a_closed_turn_requests_nothing() -> None:
    platform = Platform()
    async with open_tools(platform) as tools:
        tools.turn.close()
        for method, args, _ in WRITES:
            with pytest.raises(BandToolError, match="turn is over"):
                await getattr(tools, method)(*args)

    assert platform.requests == []


async def test_a_cancelled_write_leaves_its_effect(autojump_clock: MockClock) -> None:
    async def hang(_: httpx.Request) -> httpx.Response:
        await trio.sleep_forever()
        raise AssertionError

    platform = Platform()
    platform.answer("POST", "/tasks", hang)
    async with open_tools(platform) as tools:
        with trio.move_on_after(1):
            await tools.create_task("dig")
        assert tools.turn.effects == {TurnEffect.ACT}


# --------------------------------------------------------------------------- outside of rooms


async def test_contacts_outside_of_rooms() -> None:
    platform = Platform()
    answers: list[tuple[str, str, Any]] = [
        ("GET", "/contacts", {"data": [{"id": "c1"}], "metadata": PAGE}),
        ("POST", "/add", {"data": {"id": "q1", "status": "pending"}}),
        ("POST", "/remove", {"data": {"status": "removed"}}),
        ("GET", "/requests", {"data": REQUESTS, "metadata": {}}),
        ("POST", "/respond", {"data": {"id": "q1", "status": "approved"}}),
    ]
    for method, path, body in answers:
        platform.answer(method, path, httpx.Response(200, json=body))
    async with open_rest(platform) as rest:
        tools = ContactTools(rest)
        assert await tools.list_contacts() == {"contacts": [{"id": "c1"}], "metadata": PAGE}
        assert await tools.add_contact("bob") == {"id": "q1", "status": "pending"}
        assert await tools.remove_contact("bob") == {"status": "removed"}
        assert await tools.list_contact_requests() == {
            "received": [{"id": "q1", "from_handle": "bob"}],
            "sent": [],
            "metadata": {"page": 1, "page_size": 50},
        }
        assert await tools.respond_contact_request("approve", request_id="q1") == {
            "id": "q1",
            "status": "approved",
        }
        platform.answer("POST", "/add", refusal(404, "not_found", "nobody"))
        with pytest.raises(BandApiError, match="nobody"):
            await tools.add_contact("bob")

"""Contacts, memories, files and tasks of a fake room: what a platform would do with them."""

from __future__ import annotations

from typing import Any

import pytest

from band_trio.errors import BandApiError, BandConfigError, BandToolError
from band_trio.testing import FakeAgentTools
from band_trio.tools.catalogue import TOOL_DEFINITIONS
from band_trio.types import TurnEffect
from tests.support.for_each import for_each

MEMORY: dict[str, Any] = {
    "content": "Maria likes tea", "system": "long_term", "type": "semantic", "segment": "user",
    "thought": "asked twice", "scope": "agent",
}  # fmt: skip


# --------------------------------------------------------------------------- contacts


async def test_a_request_is_sent_and_cancelled() -> None:
    tools = FakeAgentTools()
    asked = await tools.add_contact("@bob", "hi")

    assert asked == {"id": "request-1", "status": "pending"}
    assert tools.sent_contact_requests[0]["to_handle"] == "bob"
    with pytest.raises(BandApiError, match="pending"):
        await tools.add_contact("BOB")
    done = await tools.respond_contact_request("cancel", handle="@Bob")
    assert done == {"id": "request-1", "status": "cancelled"}
    with pytest.raises(BandToolError, match="no longer pending"):
        await tools.respond_contact_request("cancel", request_id="request-1")
    assert tools.contacts == []
    assert (await tools.list_contact_requests())["data"] == {"received": [], "sent": []}
    listed = await tools.list_contact_requests(sent_status="all")
    assert [each["status"] for each in listed["data"]["sent"]] == ["cancelled"]
    assert listed["metadata"]["sent"] == {"total": 1, "total_pages": 1}


async def test_a_mutual_request_is_approved_at_once() -> None:
    tools = FakeAgentTools(received_contact_requests=[{"from_handle": "bob", "from_name": "Bob"}])

    assert (await tools.add_contact("@bob"))["status"] == "approved"
    assert [(each["handle"], each["name"]) for each in tools.contacts] == [("bob", "Bob")]
    assert tools.received_contact_requests[0]["status"] == "approved"
    with pytest.raises(BandApiError, match="Already a contact"):
        await tools.add_contact("bob")
    assert await tools.remove_contact("bob") == {"status": "removed"}
    with pytest.raises(BandApiError, match="404"):
        await tools.remove_contact(contact_id="contact-1")


@pytest.mark.parametrize(("action", "status", "known"), [("approve", "approved", 1),
                                                         ("reject", "rejected", 0)])  # fmt: skip
async def test_received_requests_are_answered(action: str, status: str, known: int) -> None:
    tools = FakeAgentTools(received_contact_requests=[{"id": "q", "from_handle": "bob"}])
    assert len((await tools.list_contact_requests())["data"]["received"]) == 1

    assert await tools.respond_contact_request(action, request_id="q") == {
        "id": "q",
        "status": status,
    }
    assert len(tools.contacts) == known
    assert (await tools.list_contact_requests())["data"]["received"] == []
    with pytest.raises(BandApiError, match="404"):
        await tools.respond_contact_request(action, request_id="other")
    with pytest.raises(BandApiError, match="403"):
        await tools.respond_contact_request("cancel", request_id="q")
    assert tools.turn.effects == {TurnEffect.OBSERVE, TurnEffect.ACT}


async def test_seeds_of_contacts_keep_what_they_say() -> None:
    """Whatever the rules would say of them together; the rules hold for what is done then."""
    tools = FakeAgentTools(
        contacts=[{"handle": "@Ann", "id": "c", "description": "Plants", "type": "Agent"}],
        received_contact_requests=[{"from_handle": "ann", "status": "approved"},
                                   {"from_handle": "bob", "message": "hi"}],
        sent_contact_requests=[{"to_handle": "bob"}, {"to_handle": "cy", "status": "expired"}],
    )  # fmt: skip
    (known,) = tools.contacts
    assert (known["id"], known["handle"], known["description"]) == ("c", "@Ann", "Plants")
    assert [each["status"] for each in tools.received_contact_requests] == ["approved", "pending"]
    assert [each["to_handle"] for each in tools.sent_contact_requests] == ["bob", "cy"]
    with pytest.raises(BandApiError, match="Already a contact"):
        await tools.add_contact("ANN")
    assert (await tools.add_contact("cy"))["id"] == "request-5"
    assert (await tools.respond_contact_request("approve", handle="Bob"))["status"] == "approved"
    assert [each["id"] for each in tools.contacts] == ["c", "contact-2"]
    await tools.remove_contact(contact_id="c")
    assert (await tools.add_contact("ann"))["status"] == "pending"


async def test_contacts_come_in_pages() -> None:
    tools = FakeAgentTools(contacts=[{"handle": f"c{n}"} for n in range(5)])
    page = await tools.list_contacts(page=2, page_size=2)

    assert [each["handle"] for each in page["data"]] == ["c2", "c3"]
    assert page["metadata"] == {"page": 2, "page_size": 2, "total_count": 5, "total_pages": 3}


# --------------------------------------------------------------------------- memories


async def test_memories_are_stored_filtered_and_put_away() -> None:
    tools = FakeAgentTools(memories=[{"content": "Old news", "scope": "subject",
                                      "subject_id": "u1"}], agent_id="me")  # fmt: skip
    stored = await tools.execute_tool_call("band_store_memory", MEMORY)
    assert stored["id"] == "memory-2"
    assert stored["source_agent_id"] == "me"
    assert tools.memory_contents == ["Old news", "Maria likes tea"]

    async def found(**filters: Any) -> list[str]:
        return [each["id"] for each in (await tools.list_memories(**filters))["data"]]

    assert await found() == ["memory-1", "memory-2"]
    assert await found(scope="agent") == await found(segment="user") == ["memory-2"]
    assert await found(subject_id="u1") == await found(content_query="NEWS") == ["memory-1"]
    assert await found(page_size=1) == ["memory-1"]
    assert (await tools.supersede_memory("memory-1"))["status"] == "superseded"
    assert (await tools.archive_memory("memory-2"))["status"] == "archived"
    assert await found() == []
    assert await found(status="archived") == ["memory-2"]
    assert await found(status="all", scope="all") == ["memory-1", "memory-2"]
    assert (await tools.get_memory("memory-2"))["content"] == "Maria likes tea"
    with pytest.raises(BandApiError, match="404"):
        await tools.get_memory("memory-9")
    assert tools.memories[0]["status"] == "superseded"


# --------------------------------------------------------------------------- files


async def test_files_are_described_and_shared() -> None:
    tools = FakeAgentTools(files=[{"name": "plan.pdf", "content_type": "application/pdf"}])
    result = await tools.send_room_file("abc", "note.txt", mentions=["maria"])
    again = await tools.send_room_file("abc", "note.txt", mentions=["bob"])

    assert result["attachment"]["id"] == again["attachment"]["id"] == "file-2"
    assert [file["name"] for file in tools.files] == ["plan.pdf", "note.txt"]
    assert (await tools.list_room_files())["data"] == tools.files
    shown = await tools.execute_tool_call("band_read_room_file", {"file_id": "file-1"})
    assert shown["name"] == "plan.pdf"
    assert "no content" in shown["description"]
    assert tools.posts[0]["attachment_ids"] == ["file-2"]
    assert tools.chat == ["Shared a file: note.txt"] * 2
    with pytest.raises(BandToolError, match="no such file"):
        await tools.read_room_file("file-9")
    tools.tool_errors["band_read_room_file"] = BandToolError("disk")
    value = await tools.execute_tool_call("band_read_room_file", {"file_id": "file-1"})
    assert value == "Error executing band_read_room_file: disk"


# --------------------------------------------------------------------------- tasks


async def test_the_first_status_joins_a_task() -> None:
    tools = FakeAgentTools(tasks=[{"subject": "dig"}], agent_id="me")
    assert tools.tasks[0]["number"] == 1
    task = await tools.update_task("#1", status="in_progress", active_form="digging")

    [own] = task["assignments"]
    assert own["assignee"]["id"] == "me"
    assert (own["status"], own["active_form"]) == ("in_progress", "digging")
    assert task["overall_status"] == "in_progress"
    done = await tools.update_task("task-1", status="completed", state="archived", comment="dug")
    assert (done["overall_status"], done["state"]) == ("completed", "archived")
    history = await tools.get_task_history("1", limit=2)
    assert [e["event"] for e in history["data"]] == ["status_changed", "status_changed"]
    rest = await tools.get_task_history("1", cursor=history["metadata"]["next_cursor"])
    assert [e["event"] for e in rest["data"]] == ["commented", "archived"]
    assert len((await tools.get_task("1", include="history"))["history"]) == 4
    with pytest.raises(BandApiError, match="422"):
        await tools.update_task("1", status="pending")


async def test_a_task_replaces_another() -> None:
    tools = FakeAgentTools()
    await tools.create_task("dig")
    new = await tools.execute_tool_call(
        "band_create_task", {"subject": "dig deeper", "supersedes_id": "#1"}
    )

    assert new["number"] == 2
    assert new["created_by"]["id"] == "fake-agent"
    assert [task["number"] for task in (await tools.list_tasks())["data"]] == [2]
    [old] = (await tools.list_tasks(state="superseded"))["data"]
    assert old["superseded_by_id"] == new["id"]
    assert [t["number"] for t in (await tools.list_tasks(state="all", limit=1))["data"]] == [1]
    with pytest.raises(BandApiError, match="404"):
        await tools.create_task("x", supersedes_id="9")
    edited = await tools.update_task("2", subject="dig", detail="here")
    assert (edited["subject"], edited["detail"]) == ("dig", "here")


async def test_the_board() -> None:
    tools = FakeAgentTools(board={"goal_title": "win"})
    assert (await tools.get_board())["goal_title"] == "win"
    board = await tools.set_board(goal_summary="all of it")

    assert (board["goal_title"], board["goal_summary"]) == ("win", "all of it")
    assert board["updated_by"]["id"] == "fake-agent"
    assert tools.board["chat_room_id"] == "room-fake"
    history = (await tools.get_board(include="history"))["history"]
    assert [event["event"] for event in history] == ["goal_edited"]


# --------------------------------------------------------------------------- seeds and waiting


@for_each(
    ("seeds", "problem"),
    [
        ({"contacts": [{"name": "x"}]}, "handle is missing"),
        ({"received_contact_requests": [{"to_handle": "x"}]}, "from_handle is missing"),
        ({"sent_contact_requests": [{"from_handle": "x"}]}, "to_handle is missing"),
        ({"memories": [{"text": "x"}]}, "unknown fields"),
        ({"memories": [{"content": ""}]}, "content is missing"),
        ({"files": [{"id": "f"}]}, "name is missing"),
        ({"tasks": ["dig"]}, "an object is needed"),
        ({"tasks": [{"detail": "x"}]}, "subject is missing"),
        ({"board": {"goal": "x"}}, "unknown fields"),
    ],
)
def test_a_bad_seed_is_an_error_at_construction(seeds: Any, problem: str) -> None:
    with pytest.raises(BandConfigError) as caught:
        FakeAgentTools(**seeds)
    assert problem in str(caught.value)


async def test_waiting_sees_every_change() -> None:
    tools = FakeAgentTools(received_contact_requests=[{"from_handle": "a"}])
    changes = [
        lambda: tools.add_contact("a"),
        lambda: tools.remove_contact("a"),
        lambda: tools.store_memory(**MEMORY),
        lambda: tools.archive_memory("memory-1"),
        lambda: tools.create_task("x"),
        lambda: tools.update_task("1", status="pending"),
        lambda: tools.set_board("x"),
    ]
    for change in changes:
        before = tools._changed
        await change()  # type: ignore[no-untyped-call]
        assert before.is_set()


@for_each("name", TOOL_DEFINITIONS)
async def test_every_tool_can_be_made_to_fail(name: str) -> None:
    tools = FakeAgentTools()
    tools.tool_errors[name] = BandApiError(500, "internal", "oops")
    method = getattr(tools, TOOL_DEFINITIONS[name].method_name)

    with pytest.raises(BandApiError, match="oops"):
        await method()

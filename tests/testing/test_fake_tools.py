"""What `FakeAgentTools` adds to the real tools: records, faults, waiting, assertions."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from band_trio.errors import (
    BandApiError,
    BandConfigError,
    BandToolError,
    MentionError,
    MessagePostError,
    TurnClosedError,
)
from band_trio.testing import (
    FakeAgentTools,
    events_of_type,
    failure_reports,
    reported_failures,
)
from band_trio.tools.failures import AgentFailure
from tests.support.for_each import for_each

PEOPLE = [{"id": "me", "handle": "self"}, {"id": "u1", "handle": "maria", "name": "Maria"}]


async def test_without_a_roster_any_mention_is_accepted() -> None:
    tools = FakeAgentTools()
    await tools.send_message("hi", ["@anyone", {"id": "u7"}])

    assert tools.messages_sent == [
        {"id": "message-1", "content": "hi", "mentions": ["@anyone", {"id": "u7"}]}
    ]
    assert tools.posts[0]["recipients"] == [{"id": "anyone"}, {"id": "u7"}]
    with pytest.raises(MentionError):
        await tools.send_message("hi", [])
    with pytest.raises(MentionError):
        await tools.send_message("hi", ["@"])


async def test_everything_posted_is_recorded_in_order() -> None:
    tools = FakeAgentTools(participants=PEOPLE, agent_id="me")
    await tools.send_event("plan", "thought", {"a": 1})
    await tools.send_message("hi", "maria")
    await tools.send_notice("wait", "maria")
    await tools.send_failure(AgentFailure("acme", "broke", "e1"))

    assert [(post["kind"], post["content"]) for post in tools.posts] == [
        ("event", "plan"),
        ("message", "hi"),
        ("notice", "wait"),
        ("failure", "broke"),
    ]
    assert tools.chat == ["hi", "wait"]
    assert events_of_type(tools, "thought") == [
        {"id": "event-1", "content": "plan", "message_type": "thought", "metadata": {"a": 1}}
    ]
    assert failure_reports(tools) == [("acme", "broke")]
    assert reported_failures(tools)[0]["code"] == "e1"


async def test_people_and_context_are_recorded() -> None:
    tools = FakeAgentTools(
        participants=PEOPLE, peers=[{"id": "p1", "handle": "x/p"}], room_context=[{"content": "a"}]
    )
    await tools.add_participant("p1")
    await tools.remove_participant("maria")
    tools.append_room_context({"content": "b"})
    page = await tools.fetch_room_context(limit=1)
    rest = await tools.fetch_room_context(cursor=page["metadata"]["next_cursor"])

    assert tools.participants_added == [{"id": "p1", "name": "x/p", "role": "member"}]
    assert tools.participants_removed == [{"id": "u1", "name": "Maria"}]
    assert [row["content"] for row in page["data"] + rest["data"]] == ["a", "b"]
    assert [row["id"] for row in page["data"] + rest["data"]] == ["context-1", "context-2"]
    assert tools.context_calls[1] == {"room_id": "room-fake", "cursor": "1", "limit": 50}
    tools.set_room_context([])
    assert (await tools.fetch_room_context())["data"] == []


@for_each(
    ("seeds", "problem"),
    [
        ({"participants": [{"name": "x"}]}, "required field missing"),
        ({"participants": [{"id": ""}]}, "1 to 256 printable characters expected"),
        ({"participants": [{"id": 3}]}, "str expected, not int"),
        ({"peers": [{"id": "x", "nmae": "y"}]}, "unknown fields"),
        ({"peers": ["x"]}, "an object is needed"),
        ({"room_context": [{"content": "x", "sender": "y"}]}, "unknown fields"),
    ],
)
def test_a_bad_seed_is_an_error_at_construction(seeds: Any, problem: str) -> None:
    with pytest.raises(BandConfigError) as caught:
        FakeAgentTools(**seeds)

    assert problem in str(caught.value)


# --------------------------------------------------------------------------- faults


async def test_faults_reach_the_caller_as_from_the_platform() -> None:
    tools = FakeAgentTools()
    tools.send_message_error = BandApiError(500, "internal", "oops")
    tools.send_event_error = BandToolError("no events")
    tools.tool_errors["band_lookup_peers"] = BandToolError("no peers")

    with pytest.raises(BandApiError, match="oops"):
        await tools.send_message("hi", ["x"])
    with pytest.raises(BandToolError, match="no events"):
        await tools.send_event("x", "task")
    value = await tools.execute_tool_call("band_lookup_peers", {})
    assert value == "Error executing band_lookup_peers: no peers"
    assert tools.send_message_error is not None
    assert tools.send_event_error is not None
    assert tools.posts == []
    assert not tools.turn.complete

    tools.send_message_error = None
    await tools.send_message("hi", ["x"])
    tools.assert_message_sent(count=1)


# --------------------------------------------------------------------------- waiting


async def test_waiting_ends_when_it_was_said(autojump_clock: MockClock) -> None:
    tools = FakeAgentTools()

    async def talk() -> None:
        for word in ("one", "two", "two again"):
            await trio.sleep(1)
            await tools.send_message(word, ["x"])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(talk)
        began = trio.current_time()
        with trio.fail_after(10):
            await tools.until_said("two", times=2)
            await tools.until(lambda: tools.turn.replied)

    assert trio.current_time() - began == pytest.approx(3)


async def test_waiting_sees_calls_events_and_participants(autojump_clock: MockClock) -> None:
    tools = FakeAgentTools(participants=PEOPLE, peers=[{"id": "p"}])

    async with trio.open_nursery() as nursery:
        with trio.fail_after(5):
            nursery.start_soon(tools.execute_tool_call, "band_no_reply", {})
            await tools.until(lambda: bool(tools.tool_calls))
            nursery.start_soon(tools.send_event, "x", "task")
            await tools.until(lambda: bool(tools.events_sent))
            nursery.start_soon(tools.add_participant, "p")
            await tools.until(lambda: bool(tools.participants_added))


async def test_a_held_message_is_in_flight_until_released(autojump_clock: MockClock) -> None:
    tools = FakeAgentTools()
    async with trio.open_nursery() as nursery:
        with trio.fail_after(5):
            async with tools.hold_message("slow") as hold:
                nursery.start_soon(tools.send_message, "slow one", ["x"])
                await hold.reached()
                await tools.send_message("quick one", ["x"])
                await tools.send_message("slow, but not the next", ["x"])
                assert tools.chat == ["quick one", "slow, but not the next"]
                hold.release()
                await tools.until_said("slow one")

    assert tools.chat == ["quick one", "slow, but not the next", "slow one"]


async def test_leaving_the_block_releases(autojump_clock: MockClock) -> None:
    tools = FakeAgentTools()
    async with trio.open_nursery() as nursery:
        async with tools.hold_message(lambda content: content == "x") as hold:
            nursery.start_soon(tools.send_message, "x", ["x"])
            await hold.reached()

    assert tools.chat == ["x"]


async def test_a_held_message_can_fail(autojump_clock: MockClock) -> None:
    tools = FakeAgentTools()
    async with tools.hold_message("x", error=BandToolError("lost")) as hold:
        hold.release()
        with pytest.raises(BandToolError, match="lost"):
            await tools.send_message("x", ["x"])

    assert not tools.turn.complete


async def test_a_held_message_that_is_cancelled_leaves_no_trace(
    autojump_clock: MockClock,
) -> None:
    tools = FakeAgentTools()
    async with tools.hold_message("x"):
        with trio.move_on_after(1):
            await tools.send_message("x", ["x"])

    assert tools.posts == []
    assert tools.turn.effects == set()


async def test_a_turn_that_ends_while_a_message_is_held_keeps_it_from_being_sent(
    autojump_clock: MockClock,
) -> None:
    tools = FakeAgentTools()
    async with trio.open_nursery() as nursery:
        async with tools.hold_message("x") as hold:

            async def send() -> None:
                with pytest.raises(TurnClosedError):
                    await tools.send_message("x", ["x"])

            nursery.start_soon(send)
            await hold.reached()
            tools.turn.close()

    assert tools.posts == []


async def test_who_joins_a_held_message_that_is_cancelled_learns_that_it_is_unknown(
    autojump_clock: MockClock,
) -> None:
    tools = FakeAgentTools()
    impatient = trio.CancelScope()

    async def first() -> None:
        with impatient:
            await tools.send_message("x", ["x"])

    async def second() -> None:
        with pytest.raises(MessagePostError):
            await tools.send_message("x", ["x"])

    async with trio.open_nursery() as nursery:
        async with tools.hold_message("x") as hold:
            nursery.start_soon(first)
            await hold.reached()
            nursery.start_soon(second)
            await wait_all_tasks_blocked()
            impatient.cancel()
            await wait_all_tasks_blocked()

    assert tools.posts == []
    assert tools.turn.replied


# --------------------------------------------------------------------------- assertions


async def test_assertions_say_what_was_sent() -> None:
    tools = FakeAgentTools(participants=PEOPLE, agent_id="me")
    tools.assert_no_messages_sent()
    await tools.send_message("hi", ["Maria"])
    await tools.send_event("x", "thought")

    for mentions in (["Maria"], ["u1"], ["@maria"], ["maria"]):
        tools.assert_message_sent(content="hi", mentions=mentions, count=1)
    tools.assert_event_sent(message_type="thought", count=1)
    with pytest.raises(AssertionError, match="'hi'"):
        tools.assert_no_messages_sent()
    for wrong in ({"content": "ho"}, {"mentions": ["u2"]}, {"count": 2}):
        with pytest.raises(AssertionError, match="expected; sent"):
            tools.assert_message_sent(**wrong)
    with pytest.raises(AssertionError, match="expected; posted"):
        tools.assert_event_sent(message_type="error")


# --------------------------------------------------------------------------- importing


@pytest.mark.slow  # a second interpreter
def test_the_package_is_importable_without_the_extra() -> None:
    """Neither the embedded platform nor its libraries are loaded before they are asked for."""
    code = """
import sys
for name in ("starlette", "hypercorn", "rich"):
    sys.modules[name] = None
import band_trio.testing as testing
assert not any(name.startswith("band_trio.localband") for name in sys.modules)
try:
    testing.open_local_band()
except ImportError as exc:
    assert "band-trio[local]" in str(exc), exc
else:
    raise AssertionError("no error")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


@pytest.mark.slow  # imports a web framework
def test_the_embedded_platform_is_there_on_first_access() -> None:
    import band_trio.localband
    import band_trio.testing as testing

    assert testing.open_local_band is band_trio.localband.open_local_band
    with pytest.raises(AttributeError):
        testing.nothing  # noqa: B018 - the access is the test

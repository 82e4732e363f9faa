"""One suite for the real tools, on the real REST client, and for the fake ones."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Any

import attrs
import pytest
import trio

from band_trio.errors import BandToolError, MentionError, TurnClosedError
from band_trio.testing import FakeAgentTools
from band_trio.tools.agent_tools import AgentTools
from band_trio.tools.catalogue import TOOL_DEFINITIONS
from band_trio.tools.failures import AgentFailure
from band_trio.tools.protocol import AgentToolsProtocol
from tests.tools.kit import HELPER, MARIA, ME, ROOM, SAM_X, SAM_Y, SELF, Platform, open_tools

PEOPLE = [SELF, MARIA, SAM_X, SAM_Y]


@attrs.frozen
class Subject:
    """Tools of either kind, and how to see what reached the room."""

    tools: AgentTools
    platform: Platform | None

    def said(self) -> list[tuple[str, list[str]]]:
        """Contents and recipients' ids of what was said."""
        if self.platform is not None:
            bodies = [body["message"] for body in self.platform.bodies("messages")]
            return [(b["content"], [m["id"] for m in b["mentions"]]) for b in bodies]
        fake = self.tools
        assert isinstance(fake, FakeAgentTools)
        posts = [post for post in fake.posts if post["kind"] in ("message", "notice")]
        return [(post["content"], [r["id"] for r in post["recipients"]]) for post in posts]

    def noted(self) -> list[tuple[str, str]]:
        """Types and contents of events."""
        if self.platform is not None:
            bodies = [body["event"] for body in self.platform.bodies("events")]
            return [(body["message_type"], body["content"]) for body in bodies]
        fake = self.tools
        assert isinstance(fake, FakeAgentTools)
        return [(event["message_type"], event["content"]) for event in fake.events_sent]


@pytest.fixture(params=["real", "fake"])
async def subject(request: pytest.FixtureRequest) -> AsyncGenerator[Subject]:
    async with AsyncExitStack() as stack:
        if request.param == "real":
            platform = Platform(participants=list(PEOPLE), peers=[HELPER])
            tools = await stack.enter_async_context(open_tools(platform))
            yield Subject(tools, platform)
        else:
            fake = FakeAgentTools(participants=PEOPLE, peers=[HELPER], room_id=ROOM, agent_id=ME)
            yield Subject(fake, None)


def test_both_implement_the_protocol() -> None:
    fake: AgentToolsProtocol = FakeAgentTools()
    real: AgentToolsProtocol = AgentTools(ROOM, FakeAgentTools().room)

    assert fake.get_tool_schemas("openai") == real.get_tool_schemas("openai")


def test_the_protocol_has_every_tool_as_it_is() -> None:
    for row in TOOL_DEFINITIONS.values():
        shown = getattr(AgentToolsProtocol, row.method_name, None)
        assert shown is not None, f"{row.method_name} is missing in the protocol"
        ours = inspect.signature(getattr(AgentTools, row.method_name)).parameters
        theirs = inspect.signature(shown).parameters
        assert [(p.name, p.default) for p in theirs.values()] == [
            (p.name, p.default) for p in ours.values()
        ], row.method_name
        assert shown.__doc__ == getattr(AgentTools, row.method_name).__doc__


CALLS: list[tuple[str, Any, bool, str]] = [
    ("band_send_message", {"content": "hi", "mentions": "@maria, x/sam"}, True, ""),
    ("band_send_message", '{"content": "hi", "mentions": ["[[user-maria]]"]}', True, ""),
    ("band_send_message", {"content": "hi", "mentions": ["Sam"]}, False, "is ambiguous"),
    ("band_send_message", {"content": "hi", "mentions": ["nobody"]}, False,
     "Nobody in this room matches 'nobody'. You can mention: @maria, @x/sam, @y/sam."),
    ("band_send_message", {"content": "hi", "mentions": [ME]}, False, "At least one other"),
    ("band_send_message", {"content": " ", "mentions": ["maria"]}, False, "can't be blank"),
    ("band_send_message", {"mentions": 3}, False, "content: is required; mentions: must be a list"),
    ("band_send_event", {"content": "x", "message_type": "thought"}, True, ""),
    ("band_send_event", {"content": "x", "message_type": "tool_call"}, False, "must be one of"),
    ("band_no_reply", {}, True, ""),
    ("band_add_participant", {"name": "helper"}, True, ""),
    ("band_add_participant", {"identifier": "maria"}, True, ""),
    ("band_add_participant", {"identifier": "nobody"}, False, "Call band_lookup_peers"),
    ("band_add_participant", {"identifier": "x", "role": "king"}, False, "owner, admin, member"),
    ("band_remove_participant", {"identifier": "y/sam"}, True, ""),
    ("band_remove_participant", {"identifier": "nobody"}, False, "In it are: @maria, @x/sam"),
    ("band_lookup_peers", {"page_size": "10"}, True, ""),
    ("band_lookup_peers", {"page_size": 0}, False, "must be from 1 to 100"),
    ("band_get_participants", {}, True, ""),
    ("band_create_chatroom", {}, True, ""),
    ("band_fly", {}, False, "Unknown tool: band_fly"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "ok", "text"), CALLS)
async def test_calls_by_name(subject: Subject, name: str, args: Any, ok: bool, text: str) -> None:
    outcome = await subject.tools.execute_tool_call_structured(name, args)

    assert outcome.ok is ok
    if not ok:
        assert text in outcome.value
        assert subject.tools.turn.effects == set()


async def test_effects_and_records(subject: Subject) -> None:
    tools = subject.tools
    await tools.send_notice("wait", ["maria"])
    await tools.send_event("planning", "thought")
    assert not tools.turn.complete
    await tools.add_participant("helper")
    assert (tools.turn.complete, tools.turn.replied) == (True, False)
    await tools.send_message("hi", ["@x/helper", "maria", {"id": ME}])
    await tools.send_failure(AgentFailure("acme", "broke"))

    assert tools.turn.replied
    assert tools.turn.reported
    assert subject.said() == [("wait", ["user-maria"]), ("hi", ["agent-helper", "user-maria"])]
    assert subject.noted() == [("thought", "planning"), ("error", "broke")]


async def test_the_roster_follows(subject: Subject) -> None:
    tools = subject.tools
    await tools.add_participant("helper")
    await tools.remove_participant("x/sam")

    assert tools.available_mention_handles() == ["@maria", "@y/sam", "@x/helper"]
    rows = await tools.get_participants()
    assert [row["id"] for row in rows] == [ME, "user-maria", "agent-sam-y", "agent-helper"]
    assert (await tools.lookup_peers())["data"] == []


async def test_errors_of_direct_calls(subject: Subject) -> None:
    tools = subject.tools
    with pytest.raises(MentionError):
        await tools.send_message("hi", [])
    with pytest.raises(BandToolError, match="ambiguous"):
        await tools.remove_participant("Sam")
    assert await tools.send_message("\u200b", ["maria"]) is None
    tools.turn.close()
    with pytest.raises(TurnClosedError):
        await tools.get_participants()

    assert subject.said() == []


async def test_a_cancelled_call_does_nothing(subject: Subject) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await subject.tools.send_message("hi", ["maria"])
        raise AssertionError("a tool must notice that it is cancelled")

    assert subject.said() == []


async def test_a_repeated_call_id(subject: Subject) -> None:
    args = {"content": "hi", "mentions": ["maria"]}
    for _ in range(2):
        await subject.tools.execute_tool_call("band_send_message", args, call_id="c1")

    assert len(subject.said()) == 1

"""A new tool, rehearsed: what stands here is all that a tool without a logic of its own needs."""

from __future__ import annotations

import inspect
from typing import Any, Final

import attrs
import httpx  # noqa: ASYNC127 - the transport of the tests
import pytest

from band_trio.errors import BandApiError, BandToolError, TurnClosedError
from band_trio.link.rest.routes import Route, one, page_of, written
from band_trio.testing import FakeAgentTools
from band_trio.tools import catalogue, tasks
from band_trio.tools.agent_tools import AgentTools
from band_trio.tools.core import ToolCore, platform_tool, tools_of
from band_trio.tools.definitions import ID, argument
from band_trio.tools.ledger import Ledger
from band_trio.tools.results import cursor_metadata, object_result, page_result
from band_trio.types import ToolCategory, TurnEffect
from tests.tools.kit import ME, ROOM, Platform, open_rest, refusal

_TASKS, _OBSERVE, _ACT = ToolCategory.TASKS, TurnEffect.OBSERVE, TurnEffect.ACT


@attrs.frozen
class Poll:
    """A question to the room."""

    id: str
    question: str | None = None


LIST_POLLS: Final = Route("GET", "/chats/{room_id}/polls", page_of(Poll))
GET_POLL: Final = Route("GET", "/chats/{room_id}/polls/{poll_id}", one(Poll))
OPEN_POLL: Final = Route("POST", "/chats/{room_id}/polls", written(Poll), under="poll")


@attrs.frozen
class ListPollsInput:
    """List what the room was asked."""


@attrs.frozen
class GetPollInput:
    """Read one question."""

    poll_id: str = argument("The id of the poll.", pattern=ID)


@attrs.frozen
class OpenPollInput:
    """Ask the room a question."""

    question: str = argument("What to ask.", visible=True)


class Polls(ToolCore):
    """The tools about polls."""

    @platform_tool(ListPollsInput, _TASKS, _OBSERVE, room_bound=True)
    async def list_polls(self) -> dict[str, Any]:
        """Return the polls."""
        page = await self._ask(LIST_POLLS, room_id=self.room_id)
        return page_result(page, cursor_metadata(page, 50))

    @platform_tool(GetPollInput, _TASKS, _OBSERVE, room_bound=True)
    async def get_poll(self, poll_id: str) -> dict[str, Any]:
        """Return one poll."""
        return object_result(await self._ask(GET_POLL, room_id=self.room_id, poll_id=poll_id))

    @platform_tool(OpenPollInput, _TASKS, _ACT, room_bound=True)
    async def open_poll(self, question: str) -> dict[str, Any]:
        """Ask; return the poll."""
        poll = await self._change(OPEN_POLL, room_id=self.room_id, question=question)
        return object_result(poll, {"question": question})


class PollTools(Polls, AgentTools):
    """What `AgentTools` is once it has the family."""


class FakePollTools(Polls, FakeAgentTools):
    """What `FakeAgentTools` is then."""


@pytest.fixture(autouse=True)
def _in_a_family(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LIST_POLLS", "GET_POLL", "OPEN_POLL"):
        monkeypatch.setattr(tasks, name, globals()[name], raising=False)
    for row in tools_of(Polls):
        monkeypatch.setitem(catalogue.TOOL_DEFINITIONS, row.name, row)


def test_a_model_sees_it() -> None:
    offered = PollTools(ROOM, FakeAgentTools().room).get_anthropic_tool_schemas(
        capabilities="tasks"
    )

    assert offered[-1] == {
        "name": "band_open_poll",
        "description": "Ask the room a question.",
        "input_schema": {
            "type": "object",
            "properties": {"question": {"type": "string", "description": "What to ask."}},
            "required": ["question"],
        },
    }


def test_an_editor_sees_it() -> None:
    assert (
        str(inspect.signature(PollTools.get_poll)) == "(self, poll_id: 'str') -> 'dict[str, Any]'"
    )
    assert inspect.getdoc(PollTools.get_poll) == "Return one poll."


async def test_a_call_by_name_makes_the_request() -> None:
    platform = Platform()
    platform.answer("POST", "/polls", httpx.Response(201, json={"data": {"id": "p1"}}))
    platform.answer("GET", "/polls", httpx.Response(200, json={"data": [{"id": "p1"}]}))
    platform.answer("GET", "/p1", refusal(404, "not_found", "gone"))
    async with open_rest(platform) as rest:
        tools = PollTools(ROOM, rest, agent_id=ME)
        opened = await tools.execute_tool_call("band_open_poll", '{"question": "Tea?"}')
        assert tools.turn.effects == {TurnEffect.ACT}
        listed = await tools.execute_tool_call("band_list_polls", {})
        with pytest.raises(BandApiError, match="404"):
            await tools.get_poll("p1")
        bad = await tools.execute_tool_call("band_get_poll", {"poll_id": "a b"})
        platform.answer("POST", "/polls", refusal(502, "bad_gateway", "lost"))
        with pytest.raises(BandToolError, match="may have taken effect"):
            await tools.open_poll("Tea?")
        tools.turn.close()
        with pytest.raises(TurnClosedError):
            await tools.list_polls()

    assert opened["id"] == "p1"
    assert [row["id"] for row in listed["data"]] == ["p1"]
    assert bad.startswith("Invalid arguments for band_get_poll: poll_id: has characters")
    assert platform.requests[:3] == [
        ("POST", "/chats/room-1/polls", {"poll": {"question": "Tea?"}}),
        ("GET", "/chats/room-1/polls", None),
        ("GET", "/chats/room-1/polls/p1", None),
    ]
    assert len(platform.requests) == 4


async def test_a_fake_room_has_nothing_and_takes_everything() -> None:
    tools = FakePollTools(turn=Ledger())
    before = tools._changed
    opened = await tools.execute_tool_call("band_open_poll", {"question": "Tea?"})

    assert opened["question"] == "Tea?"
    assert before.is_set()
    assert (await tools.list_polls())["data"] == []
    with pytest.raises(BandApiError, match="404"):
        await tools.get_poll("p1")


async def test_a_fake_room_answers_as_the_test_says() -> None:
    tools = FakePollTools()
    tools.room.answers[GET_POLL] = lambda room_id, poll_id: Poll(poll_id, f"Tea in {room_id}?")

    assert await tools.execute_tool_call("band_get_poll", {"poll_id": "p7"}) == {
        "id": "p7",
        "question": "Tea in room-fake?",
    }

"""From a claimed message to the input of a turn."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from band_trio.protocol.rest import ChatMessage
from band_trio.runtime.turn.preprocessing import DefaultPreprocessor
from band_trio.tools.agent_tools import AgentTools
from band_trio.tools.ledger import Ledger
from band_trio.types import AdapterFeatures
from tests.marks import guarantee
from tests.tools.kit import MARIA, ME, ROOM, SELF


@attrs.define(eq=False)
class Context:
    """A room as a preprocessor sees it."""

    history: list[dict[str, Any]] | None = attrs.field(factory=list)
    is_session_bootstrap: bool = True
    participants_msg: str | None = None
    contacts_msg: str | None = None
    room_id: str = ROOM
    agent_id: str = ME
    hub_room_id: str | None = None
    rest: Any = None
    features: AdapterFeatures = attrs.field(factory=AdapterFeatures)
    turn: Ledger = attrs.field(factory=Ledger)
    attempt: int = 1
    participants: list[dict[str, Any]] = attrs.field(factory=lambda: [SELF, MARIA])
    loads: list[str] = attrs.field(factory=list)
    commits: int = 0

    async def load_history(self, message: Any) -> list[dict[str, Any]] | None:
        self.loads.append(message.id)
        return self.history

    def commit_context(self) -> None:
        self.commits += 1


def _event(**fields: Any) -> ChatMessage:
    base = {
        "id": "m1", "content": f"@[[{ME}]] hi", "message_type": "text",
        "sender_id": MARIA["id"], "sender_type": "User",
    }  # fmt: skip
    return ChatMessage(**{**base, **fields})


async def test_the_input_of_a_first_turn() -> None:
    ctx = Context(history=[{"id": "m0"}], participants_msg="who", contacts_msg="news")

    inp = await DefaultPreprocessor().process(ctx, _event(), ME)

    assert inp is not None
    assert (inp.msg.content, inp.msg.sender_name) == ("@maria/scribe hi", "Maria")
    assert (inp.history.raw, inp.is_session_bootstrap) == ([{"id": "m0"}], True)
    assert (inp.participants_msg, inp.contacts_msg, inp.room_id) == ("who", "news", ROOM)
    assert ctx.loads == ["m1"]
    assert isinstance(inp.tools, AgentTools)
    assert inp.tools.turn is ctx.turn
    assert inp.tools.features is ctx.features
    assert inp.tools.agent_id == ME
    assert ctx.commits == 0
    assert inp.commit_context is not None
    inp.commit_context()
    assert ctx.commits == 1


async def test_a_later_turn_gets_no_history() -> None:
    ctx = Context(history=[{"id": "m0"}], is_session_bootstrap=False)

    inp = await DefaultPreprocessor().process(ctx, _event(), ME)

    assert inp is not None
    assert (len(inp.history), inp.is_session_bootstrap, ctx.loads) == (0, False, [])


@guarantee(81)
async def test_a_turn_that_runs_again_gets_what_was_said_since() -> None:
    since = [{"id": "m2", "since_trigger": True}]
    ctx = Context(history=since, is_session_bootstrap=False, attempt=2)

    inp = await DefaultPreprocessor().process(ctx, _event(), ME)

    assert inp is not None
    assert (inp.attempt, inp.history.raw, inp.is_session_bootstrap) == (2, since, False)


async def test_history_that_cannot_be_loaded_is_no_bootstrap(
    caplog: pytest.LogCaptureFixture,
) -> None:
    inp = await DefaultPreprocessor().process(Context(history=None), _event(), ME)

    assert inp is not None
    assert (len(inp.history), inp.is_session_bootstrap) == (0, False)
    assert "without its history" in caplog.text


async def test_an_empty_history_is_a_bootstrap() -> None:
    inp = await DefaultPreprocessor().process(Context(history=[]), _event(), ME)

    assert inp is not None
    assert inp.is_session_bootstrap


async def test_own_messages_are_declined() -> None:
    ctx = Context()

    assert await DefaultPreprocessor().process(ctx, _event(sender_id=ME), ME) is None
    assert ctx.loads == []

"""An adapter's own tools: given at construction, offered and called in every turn."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from band_trio.adapters.base import SimpleAdapter
from band_trio.errors import BandConfigError
from band_trio.testing import FakeAgentTools, make_message, run_turn
from band_trio.tools.custom import CustomTools, declares_turn_effect
from band_trio.tools.protocol import AgentToolsProtocol
from band_trio.types import HistoryProvider, TurnEffect


class Caller(SimpleAdapter[HistoryProvider]):
    """Calls `book` and keeps what it was offered."""

    async def on_message(self, msg: Any, tools: AgentToolsProtocol, *_: Any, **__: Any) -> None:
        self.offered = [tool["name"] for tool in tools.get_tool_schemas("anthropic")]
        self.outcome = await tools.execute_tool_call_structured("book", {"seat": "7"})


@declares_turn_effect(TurnEffect.ACT)
async def book(seat: int) -> str:
    """Book a seat."""
    await trio.lowlevel.checkpoint()
    return f"booked {seat + 1}"


async def test_additional_tools_are_offered_and_called() -> None:
    adapter = Caller(additional_tools=[book], tool_timeout=5)
    tools = FakeAgentTools()
    for _ in range(2):
        result = await run_turn(adapter, make_message("go"), tools)
        assert adapter.outcome.value == "booked 8"
        assert result.record == "processed"
        assert result.complete
    assert adapter.offered[0] == "band_send_message"
    assert adapter.offered[-1] == "book"
    assert adapter.custom_tools.timeout == 5


async def test_without_them_nothing_is_offered() -> None:
    adapter = Caller()
    await run_turn(adapter, make_message("go"), FakeAgentTools())

    assert adapter.outcome.value == "Unknown tool: book"
    assert not adapter.custom_tools


async def test_filters_do_not_act_on_them() -> None:
    adapter = Caller(additional_tools=[book], include_tools=["band_send_message"])
    tools = FakeAgentTools(features=adapter.features)
    await run_turn(adapter, make_message("go"), tools)

    assert adapter.offered == ["band_send_message", "book"]


def test_a_bad_tool_is_refused_at_construction() -> None:
    with pytest.raises(BandConfigError, match="platform tool"):
        Caller(additional_tools=[_named_like_a_platform_tool()])
    with pytest.raises(BandConfigError, match="above 0"):
        Caller(additional_tools=[book], tool_timeout=-1)


def _named_like_a_platform_tool() -> Any:
    async def band_no_reply() -> None:
        """Not allowed."""

    return band_no_reply


def test_an_adapter_without_super_init_has_none() -> None:
    class Forgetful(Caller):
        def __init__(self) -> None:
            pass

    assert isinstance(Forgetful().custom_tools, CustomTools)

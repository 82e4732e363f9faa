"""An adapter that is open for a test."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from band_trio.adapters import AsyncioAdapter, OpenAIAdapter, OpenAIConfig, SimpleAdapter
from band_trio.errors import BandConfigError
from band_trio.testing import FakeAgentTools, make_message, run_turn, serving


class Held(SimpleAdapter[Any]):
    open = False

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self.open = True
        try:
            task_status.started()
            await trio.sleep_forever()
        finally:
            self.open = False

    async def on_message(self, *args: Any, **options: Any) -> None:
        raise NotImplementedError


async def test_the_adapter_is_open_and_knows_the_agent() -> None:
    async with serving(Held(), agent_name="Scribe", agent_description="notes") as adapter:
        assert adapter.open
        assert (adapter.agent_name, adapter.agent_description) == ("Scribe", "notes")
    assert not adapter.open


async def test_a_bridged_adapter_takes_turns() -> None:
    async def decline(turn: Any) -> None:
        await turn.tool("band_no_reply")()

    async with serving(AsyncioAdapter(handler=decline)) as adapter:
        result = await run_turn(adapter, make_message("hi"), FakeAgentTools())
    assert result.record == "processed"


async def test_a_missing_key_is_told_without_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(BandConfigError, match="needs a key"):
        async with serving(OpenAIAdapter(OpenAIConfig(model="m"))):
            pass


async def test_an_error_of_the_block_comes_out_as_it_is() -> None:
    with pytest.raises(ValueError, match="mine"):
        async with serving(Held()):
            raise ValueError("mine")

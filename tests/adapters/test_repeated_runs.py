"""A message whose run was cut off after the reply, in a room of localband, with a real SDK."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from band_trio import Agent, SessionConfig
from band_trio.adapters.openai import OpenAIAdapter, OpenAIConfig
from band_trio.localband.band import LocalBand, open_local_band
from band_trio.testing.scripted_model import (
    ScriptedModel,
    ScriptTurn,
    SlowTurn,
    TextTurn,
    ToolTurn,
)
from band_trio.testing.scripted_openai import open_scripted_openai
from tests.adapters.kit import NO_REPLY
from tests.marks import case, guarantee
from tests.support.for_each import for_each

AGAIN = "You have worked on the following message before"


class Falls(OpenAIAdapter):
    """Fails once, after its model is done."""

    fallen = False

    async def on_message(self, *args: Any, **options: Any) -> None:
        await super().on_message(*args, **options)
        if not self.fallen:
            self.fallen = True
            raise ValueError("no")


def model_that(waits: bool) -> ScriptedModel:
    """Return one that answers, and waits then; told to work again it declines if it answered."""

    def answer(request: dict[str, Any]) -> ScriptTurn:
        messages = str(request["messages"])
        if AGAIN in messages and "It is 42." in messages:
            return NO_REPLY
        if "It is 42." in messages:
            first = waits and len(model.requests) <= 2
            return SlowTurn(60, TextTurn("done")) if first else TextTurn("done")
        return ToolTurn("band_send_message", {"content": "It is 42.", "mentions": ["@your-name"]})

    model = ScriptedModel(answer)
    return model


async def said(band: LocalBand, room: Any) -> int:
    rows = await band.user.messages(room)
    return sum("It is 42." in row["content"] for row in rows if row["message_type"] == "text")


@guarantee(81)
@case("C63")
@pytest.mark.slow
@for_each("how", ["raises", "is cut off"])
async def test_one_answer_is_in_the_room_when_the_model_declines(how: str) -> None:
    model = model_that(waits=how != "raises")
    session = SessionConfig(
        max_message_retries=2, retry_base_seconds=0.01, report_turn_failures_to_room=False
    )
    async with (
        open_local_band(memory=True, user_name="Your Name") as band,
        open_scripted_openai(model) as server,
    ):
        account = band.register_agent("Scribe")
        room = await band.user.create_room(members=[account])

        def agent() -> Agent:
            config = OpenAIConfig(
                model="m", base_url=server.base_url, provider_key=server.api_key, max_retries=0
            )
            adapter = Falls(config) if how == "raises" else OpenAIAdapter(config)
            options = band.connection(account, single_instance=False)
            return Agent.create(adapter=adapter, session_config=session, **options)

        with trio.fail_after(20):
            async with agent() as first:
                message = await band.user.send(room, "what?", mentions=[account])
                if how != "raises":
                    await band.until(lambda: len(model.requests) == 2)
                    first.stop(grace=0)
                else:
                    await band.until(lambda: band.state(message, account) == "processed")
            async with agent():
                await band.until(lambda: band.state(message, account) == "processed")
        assert AGAIN in str(model.requests[-1])
        assert await said(band, room) == 1

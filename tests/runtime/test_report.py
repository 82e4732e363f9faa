"""`agent.report`: how a run ended, for those who do not get it from `run` itself."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from band_trio import Agent, AgentToolsProtocol, BandAuthError, PlatformMessage, SimpleAdapter
from band_trio.adapters import EchoAdapter
from band_trio.localband import open_local_band
from tests.marks import case


class _Slow(SimpleAdapter[Any]):
    async def on_message(
        self, msg: PlatformMessage, tools: AgentToolsProtocol, *rest: Any, **more: Any
    ) -> None:
        await trio.sleep(5)
        await tools.send_message("done", mentions=[msg.sender_id])


@case("C93")
async def test_after_the_block_and_reset_by_a_new_run(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_local_band(memory=True) as band:
        account = band.register_agent("Slow")
        room = await band.user.create_room(members=[account])
        agent = Agent.create(adapter=_Slow(), **band.connection(account))
        seen: list[object] = [agent.report]
        async with agent:
            message = await band.user.send(room, "hello", mentions=[account])
            await band.until(lambda: band.state(message, account) == "processing")
            await trio.sleep(1)
            seen.append(agent.report)
        first = agent.report
        assert first is not None
        assert (first.graceful, first.turns_finished) == (True, 1)

        async with trio.open_nursery() as nursery:
            await nursery.start(agent.run)
            seen.append(agent.report)
            agent.stop()
        second = agent.report
        assert second is not None
        assert second is not first
        assert second.turns_finished == 0
    assert seen == [None] * 3  # before a run, and during two


@case("C93")
async def test_after_a_cancellation(autojump_clock: trio.testing.MockClock) -> None:
    async with open_local_band(memory=True) as band:
        account = band.register_agent("Slow")
        room = await band.user.create_room(members=[account])
        agent = Agent.create(adapter=_Slow(), **band.connection(account))
        async with trio.open_nursery() as nursery:
            await nursery.start(agent.run)
            message = await band.user.send(room, "hello", mentions=[account])
            await band.until(lambda: band.state(message, account) == "processing")
            await trio.sleep(1)
            nursery.cancel_scope.cancel()
        report = agent.report

    assert report is not None
    assert (report.graceful, report.turns_cancelled) == (False, 1)


@case("C93")
async def test_after_an_error(autojump_clock: trio.testing.MockClock) -> None:
    async with open_local_band(memory=True) as band:
        access = band.connection(band.register_agent("Echo"))
        agent = Agent.create(adapter=EchoAdapter(), **{**access, "api_key": "thnv_a_another"})
        with pytest.raises(BandAuthError):
            await agent.run()

    assert agent.report is not None
    assert agent.report.turns_finished == 0

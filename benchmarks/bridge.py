"""What the bridge to asyncio costs: one call, one callback, a whole turn with a tool call."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from band_trio.adapters.asyncio_host import open_asyncio_host
from band_trio.adapters.base import SimpleAdapter
from band_trio.adapters.bridge import AsyncioAdapter
from band_trio.adapters.bridged import BridgedTurn
from band_trio.testing import FakeAgentTools, make_message, run_turn
from benchmarks.harness import Sample, measure, middle, table

Work = Callable[[], Awaitable[object]]


class Native(SimpleAdapter[Any]):
    """The same turn without a bridge."""

    async def on_message(self, msg: Any, tools: Any, *news: Any, **more: Any) -> None:
        """Decline."""
        await tools.execute_tool_call_structured("band_no_reply", {})


async def _decline(turn: BridgedTurn[str]) -> None:
    await turn.tool("band_no_reply").call({})


async def _nothing() -> None:
    await asyncio.sleep(0)


async def _turn(adapter: SimpleAdapter[Any]) -> None:
    result = await run_turn(adapter, make_message("hello"), FakeAgentTools())
    assert result.record == "processed"


async def _repeat(work: Work, times: int) -> Sample:
    with measure() as sample:
        for _ in range(times):
            await work()
    return sample


async def main(times: int, rounds: int) -> None:
    """Measure, and print the table."""
    bridged = AsyncioAdapter[str](handler=_decline, emit=())
    async with open_asyncio_host() as host, trio.open_nursery() as nursery:
        await nursery.start(bridged.serve)

        async def callbacks() -> None:
            call = host.begin()
            tool = call.hop(trio.lowlevel.checkpoint)

            async def framework() -> None:
                for _ in range(times):
                    await tool()

            await call.run(framework)

        jobs: dict[str, tuple[Work, int]] = {
            "a call": (lambda: host.call(_nothing), times),
            "a callback": (callbacks, 1),
            "a turn without a bridge": (lambda: _turn(Native()), times),
            "a turn over the bridge": (lambda: _turn(bridged), times),
        }
        samples: dict[str, list[Sample]] = {name: [] for name in jobs}
        for _ in range(rounds):
            for name, (work, repeated) in jobs.items():
                samples[name].append(await _repeat(work, repeated))
        nursery.cancel_scope.cancel()
    rows = [
        (
            name,
            f"{1e6 * middle(each, 'wall') / times:.0f}",
            f"{1e6 * middle(each, 'cpu') / times:.0f}",
        )
        for name, each in samples.items()
    ]
    table("The bridge to asyncio", ["microseconds each", "wall", "cpu"], rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=300, help="repetitions in a round")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    trio.run(main, given.times, given.rounds)

"""An adapter that is open, without an agent."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import trio

from band_trio.adapters.base import SimpleAdapter
from band_trio.kit.nurseries import hide_nursery

A = TypeVar("A", bound=SimpleAdapter[Any])


@asynccontextmanager
async def serving(
    adapter: A, *, agent_name: str = "Agent", agent_description: str = ""
) -> AsyncGenerator[A]:
    """Run the `serve` of *adapter* until the block ends, and tell it who the agent is.

    What an agent does at its start; `run_turn` needs it for every adapter that holds a client.

    Raises:
        BandConfigError: `serve` cannot start, for example without a key. An error comes out as it
            was raised, outside of any group.
    """
    with hide_nursery("serving"):
        async with trio.open_nursery() as nursery:
            await nursery.start(adapter.serve)
            try:
                await adapter.on_started(agent_name, agent_description)
                yield adapter
            finally:
                nursery.cancel_scope.cancel(reason="the test is over")

"""Guarantees about order, claims and duplicates, on a running agent."""

from __future__ import annotations

import trio
import trio.testing

from tests.runtime.harness import reply, stage


async def test_g01_calls_of_one_room_never_overlap(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()

        async def slow(call: object) -> None:
            await trio.sleep(1)
            await reply(call)  # type: ignore[arg-type]

        here.adapter.behaviour = slow
        async with here.running():
            messages = [await here.say(room, f"m{n}") for n in range(5)]
            await here.settled(*messages)

        assert here.adapter.texts == [f"m{n}" for n in range(5)]
        assert not here.adapter.overlapped

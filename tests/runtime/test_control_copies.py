"""Copies of control signals, from before and after a room is served: each acts once per room."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio
import trio.testing

from band_trio import Agent, SessionConfig
from band_trio.protocol.events import Mode
from band_trio.protocol.phoenix import Frame
from tests.marks import guarantee
from tests.runtime.harness import Stage, stage
from tests.runtime.views import reads
from tests.support.for_each import for_each

UNPROBED = SessionConfig(stopped_resync_seconds=1e6)
"""No answer of the platform corrects what a copy does."""


async def signal(here: Stage, mode: Mode, id_: str, room: str | None = None) -> None:
    """Push a control, and give it a moment."""
    here.band.signal(here.account, mode, room_id=room, correlation_id=id_)
    await trio.sleep(0.1)


@asynccontextmanager
async def unlisted(here: Stage) -> AsyncGenerator[Agent]:
    """Run an agent whose topics are joined, and whose first listing comes only in some seconds."""
    here.band.faults.delay(5, route="chats", times=2)  # the start asks, and so does a connection
    agent = here.agent(UNPROBED)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(agent.run)  # noqa: ASYNC113 - up with the listing
        await trio.sleep(2)
        assert agent.health().joined_topics == 2
        assert reads(here, "") == [], "the listing is over already"
        yield agent
        agent.stop(grace=0)


def stopped(agent: Agent) -> int:
    """Return how many rooms are stopped."""
    return agent.health().rooms.get("stopped", 0)


@guarantee(24)
async def test_a_copy_of_a_control_from_before_the_room_was_served_does_not_act(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here, here.running(UNPROBED) as agent:
        rule = here.band.faults.hold(event="room_added")
        room = await here.room()
        await signal(here, "stop", "a", room)
        rule.release()
        rule.lift()
        await trio.sleep(1)
        assert stopped(agent) == 1
        await signal(here, "play", "b", room)
        await signal(here, "stop", "a", room)
        assert stopped(agent) == 0
        await signal(here, "stop", "c", room)
        assert stopped(agent) == 1


@guarantee(24)
async def test_a_copy_of_an_agent_wide_stop_from_before_the_listing_does_not_act(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        await here.room()
        async with unlisted(here) as agent:
            await signal(here, "stop", "a")
            await trio.sleep(5)
            assert stopped(agent) == 1
            await signal(here, "play", "b")
            await signal(here, "stop", "a")
            assert stopped(agent) == 0


@guarantee(24)
async def test_a_room_that_comes_later_is_not_stopped_by_what_was_told_before_the_listing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        await here.room()
        async with unlisted(here) as agent:
            await signal(here, "stop", "a")
            await trio.sleep(5)
            assert stopped(agent) == 1
            await signal(here, "play", "b")
            await here.room()  # nothing in it, which would tell that it is not stopped
            await trio.sleep(1)
            assert agent.health().rooms == {"idle": 2}


@guarantee(24)
async def test_an_agent_wide_stop_is_applied_once_although_a_room_is_announced_twice(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        here.band.faults.refuse(503, route="chats", times=None)  # the listing goes on meanwhile
        seen: list[Frame] = []

        def note(frame: Frame) -> Frame:
            seen.append(frame)
            return frame

        here.band.faults.alter(note, event="room_added")
        agent = here.agent(UNPROBED)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(agent.run)
            await trio.sleep(2)
            await signal(here, "stop", "a")
            room = await here.room()
            await trio.sleep(1)
            assert stopped(agent) == 1
            await signal(here, "play", "b", room)
            frame = seen[0]
            here.band.send_frame(here.account, frame.topic, frame.event, frame.payload)
            await trio.sleep(1)
            assert stopped(agent) == 0
            agent.stop(grace=0)


@guarantee(8, 24)
@for_each(
    ("controls", "rooms_stopped"),
    [
        ([("stop", "all"), ("play", "one")], 1),
        ([("stop", "one"), ("play", "all")], 0),
        ([("play", "one"), ("stop", "all")], 2),
        ([("stop", "all"), ("interrupt", "all")], 2),
        ([("stop", "all"), ("play", "all"), ("stop", "all")], 0),  # the last one is a copy
    ],
)
async def test_controls_before_the_listing_are_applied_in_their_order(
    controls: list[tuple[Mode, str]], rooms_stopped: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage() as here:
        one, _other = await here.room(), await here.room()
        async with unlisted(here) as agent:
            for mode, where in controls:
                await signal(here, mode, f"{mode} {where}", one if where == "one" else None)
            await trio.sleep(10)
            assert stopped(agent) == rooms_stopped

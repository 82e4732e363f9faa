"""Callbacks for who came and who went: before the next handler, never for long."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio
import trio.testing

from band_trio import Agent, SessionConfig
from tests.marks import guarantee
from tests.runtime.harness import Call, Stage, reply, stage

QUIET = SessionConfig(idle_resync_seconds=1e7, idle_resync_max_seconds=1e7)
HOOK = 4.0


async def test_callbacks_hear_who_came_and_went_before_the_next_handler(
    autojump_clock: trio.testing.MockClock,
) -> None:
    heard: list[tuple[str, str]] = []

    async def came(room_id: str, person: dict[str, Any]) -> None:
        await trio.sleep(1)
        heard.append(("came", person["name"]))

    async def went(room_id: str, person: dict[str, Any]) -> None:
        await trio.lowlevel.checkpoint()
        heard.append(("went", person["name"]))
        raise ValueError("of no consequence")

    async with stage() as here:
        room = await here.room()
        guest = here.band.register_agent("Guest")

        async def handler(call: Call) -> None:
            heard.append(("turn", call.text))
            await reply(call)

        here.adapter.behaviour = handler
        async with here.running(QUIET, on_participant_added=came, on_participant_removed=went):
            await here.settled(await here.say(room, "m0"))
            await trio.sleep(1)
            await here.band.user.add(room, guest)
            await here.band.user.remove(room, guest)
            await here.settled(await here.say(room, "m1"))
            await here.band.user.add(room, guest)
            await trio.sleep(10)  # no message is needed

    assert heard == [
        ("turn", "m0"), ("came", "Guest"), ("went", "Guest"), ("turn", "m1"), ("came", "Guest"),
    ]  # fmt: skip


# ------------------------------------------------------------------ that hang


@attrs.frozen
class Crowded:
    """A room into which many people have just come; the callback hangs for each of them."""

    here: Stage
    agent: Agent
    room: str
    guests: list[str]
    heard: list[str] = attrs.field(factory=list)
    """For whom the callback was called."""


@asynccontextmanager
async def crowded() -> AsyncGenerator[Crowded]:
    async def came(room_id: str, person: dict[str, Any]) -> None:
        all_.heard.append(person["id"])
        await trio.sleep_forever()

    async with stage() as here:
        room = await here.room()
        guests = [here.band.register_agent(f"g{n}") for n in range(50)]
        session = attrs.evolve(QUIET, hook_seconds=HOOK)
        async with here.running(session, on_participant_added=came) as agent:
            all_ = Crowded(here, agent, room, [guest.id for guest in guests])
            await here.settled(await here.say(room, "warm"))
            await trio.sleep(1)
            for guest in guests:
                await here.band.user.add(room, guest)
            await trio.sleep(HOOK + 1)
            yield all_


@guarantee(26)
async def test_callbacks_are_bounded_in_sum_and_each_is_called_in_the_end(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with crowded() as all_:
        began = trio.current_time()
        await all_.here.settled(await all_.here.say(all_.room, "m"))
        assert trio.current_time() - began <= 2 * HOOK, "the batch that runs, and its own"
        await trio.sleep(len(all_.guests) * HOOK)
        assert all_.heard == all_.guests
        assert len(all_.agent.health().problems) == len(all_.guests)


@guarantee(40)
async def test_an_interrupt_ends_the_callbacks_before_a_handler(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with crowded() as all_:
        message = await all_.here.say(all_.room, "m")
        await trio.sleep(HOOK)
        began = trio.current_time()
        all_.here.band.signal(all_.here.account, "interrupt", room_id=all_.room)
        await all_.here.settled(message)
        assert trio.current_time() - began < 0.1
        assert all_.here.adapter.texts == ["warm"]


@guarantee(50)
async def test_a_stop_ends_callbacks_and_what_it_cut_off_is_told_after_the_play(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with crowded() as all_:
        all_.here.band.signal(all_.here.account, "stop", room_id=all_.room)
        await trio.sleep(0.1)
        assert all_.agent.health().rooms == {"stopped": 1}
        count = len(all_.heard)
        await trio.sleep(30)
        assert len(all_.heard) == count
        all_.here.band.signal(all_.here.account, "play", room_id=all_.room)
        await trio.sleep(0.1)
        assert all_.heard[count:] == all_.heard[count - 1 : count]


@guarantee(54)
async def test_leaving_does_not_wait_for_callbacks(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with crowded() as all_:
        await all_.here.band.user.remove(all_.room, all_.here.account)
        await trio.sleep(0.1)
        assert all_.here.adapter.cleaned == [all_.room]


@guarantee(51)
async def test_a_stop_of_the_agent_does_not_wait_for_callbacks(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with crowded() as all_:
        all_.agent.stop(grace=10)
        await trio.sleep(0.1)
        assert [report.graceful for report in all_.here.reports] == [True]

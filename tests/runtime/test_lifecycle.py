"""Running an agent in its several ways, again and twice: one run knows nothing of another."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
import trio.testing

from band_trio import (
    Agent,
    AgentAlreadyRunningError,
    BandConfigError,
    SessionConfig,
)
from band_trio.errors import TurnClosedError
from band_trio.trace import Started
from tests.marks import case, guarantee
from tests.runtime.harness import Call, reply
from tests.runtime.lifecycle_kit import (
    Ready,
    by_caller,
    by_stop,
    life,
)
from tests.runtime.views import hang

Strike = Callable[[Agent, trio.CancelScope], None]
STRIKES = pytest.mark.parametrize("strike", [by_caller, by_stop])


# ------------------------------------------------------------------ twice, and again


@guarantee(59)
async def test_nothing_of_an_earlier_run_acts_in_a_later_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        room = await here.room()
        agent = here.agent()
        ready = Ready()
        for text in ("first", "second"):
            async with trio.open_nursery() as nursery:
                await nursery.start(agent.run)
                assert agent.health().epoch == 1
                assert agent.health().problems == ()
                await here.settled(await here.say(room, text))
                agent.stop()
            await here.assert_nothing_left()
            assert agent.health().epoch == 0

        old, new = here.adapter.calls
        assert (old.text, old.bootstrap) == ("first", True)
        assert (new.text, new.bootstrap) == ("second", True)
        agent.stop(grace=0)  # between runs: no effect
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: agent.run(task_status=ready))
            await trio.testing.wait_all_tasks_blocked()
            made = len(here.requests())
            for late in (old, new):
                with pytest.raises(TurnClosedError):
                    await late.tools.send_message("late", mentions=[late.msg.sender_id])
                with pytest.raises(TurnClosedError):
                    await late.tools.get_participants()
            assert len(here.requests()) == made
            assert ready.value is agent
            agent.stop()


@guarantee(59)
async def test_a_run_that_is_over_has_left_no_message_behind_in_the_next(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Ids that the first run knew are asked for again, and their state on the platform decides."""
    async with life() as here:
        room = await here.room()
        agent = here.agent()

        async def run(text: str) -> None:
            async with trio.open_nursery() as nursery:
                await nursery.start(agent.run)
                await here.settled(await here.say(room, text))
                agent.stop()

        await run("a")
        await run("b")
        assert [event.message_id for event in here.seen(Started)] == [
            call.msg.id for call in here.adapter.calls
        ]
        assert here.adapter.texts == ["a", "b"]


@case("C54")
async def test_a_running_agent_cannot_be_run_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        room = await here.room()
        async with here.running() as agent:
            with pytest.raises(AgentAlreadyRunningError, match="already"):
                await agent.run()
            with pytest.raises(AgentAlreadyRunningError, match="already"):
                async with agent:
                    raise AssertionError("entered")
            await here.settled(await here.say(room, "unharmed"))
        await here.assert_nothing_left()


async def test_entering_a_running_agent_again_does_not_harm_the_block_around_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        room = await here.room()
        async with here.agent() as agent:
            with pytest.raises(AgentAlreadyRunningError):
                async with agent:
                    raise AssertionError("entered")
            await here.settled(await here.say(room, "unharmed"))
        await here.assert_nothing_left()


# ------------------------------------------------------------------ the ways to run


@guarantee(57)
async def test_nursery_start_returns_the_agent_once_it_is_up(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        async with trio.open_nursery() as nursery:
            agent = here.agent()
            assert await nursery.start(agent.run) is agent
            assert agent.is_connected
            assert agent.name == "Scribe"
            agent.stop()


@guarantee(46)
async def test_leaving_the_block_stops_the_agent_and_waits_for_its_turns(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        room = await here.room()

        async def slow(call: Call) -> None:
            await trio.sleep(10)
            await reply(call)

        here.adapter.behaviour = slow
        async with here.agent() as agent:
            message = await here.say(room, "slow")
            await trio.sleep(1)
        assert not agent.is_connected
        assert here.band.state(message, here.account) == "processed"
        await here.assert_nothing_left()


@guarantee(46)
@case("C18")
async def test_an_error_of_the_block_comes_out_as_itself(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        error = KeyError("mine")
        with pytest.raises(KeyError) as caught:
            async with here.agent():
                raise error
        assert caught.value is error
        await here.assert_nothing_left()


@guarantee(46)
async def test_cancelling_the_block_leaves_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        room = await here.room()

        here.adapter.behaviour = hang
        with trio.move_on_after(5) as scope:
            async with here.agent():
                message = await here.say(room, "m")
                await trio.sleep_forever()
        assert scope.cancelled_caught
        assert here.band.state(message, here.account) == "processing"
        await here.assert_nothing_left()


@pytest.mark.parametrize("grace", [-1, float("nan")])
async def test_a_grace_that_is_no_time_is_refused(grace: float) -> None:
    async with life() as here:
        with pytest.raises(BandConfigError, match="grace"):
            here.agent().stop(grace=grace)


@guarantee(59)
@case("C53")
async def test_stop_before_run_has_no_effect(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        room = await here.room()
        agent = here.agent(SessionConfig())
        agent.stop(grace=0)
        async with agent:
            await here.settled(await here.say(room, "hello"))

"""A run that is cancelled, at any step, ends as a stop without grace."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
import trio.lowlevel
import trio.testing

from band_trio import Agent
from band_trio.trace import (
    Claimed,
    CleanedUp,
    Recorded,
    ShutDown,
)
from tests.marks import guarantee
from tests.runtime.harness import Call, reply
from tests.runtime.lifecycle_kit import (
    OVERHEAD,
    by_caller,
    by_stop,
    lasting,
    life,
    run_and_strike,
    stride,
)
from tests.runtime.views import hang


@guarantee(10, 46)
@pytest.mark.slow
@pytest.mark.parametrize("strike", [by_caller, by_stop])
async def test_a_run_that_is_cut_at_any_step_of_a_turn_leaves_nothing_and_loses_nothing(
    strike: Callable[[Agent, trio.CancelScope], None], autojump_clock: trio.testing.MockClock
) -> None:
    """Struck after each scheduler step of start, turn and settlement; then served again."""

    async def handler(call: Call) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 0.4)
            await reply(call)

    async with life(handler) as here:
        room = await here.room()
        step = 0
        while True:
            step += min(4, stride())
            here.trace.clear()
            message = await here.say(room, f"m{step}")

            def end_later(agent: Agent, message: str = message) -> None:
                nursery.start_soon(end_when_settled, agent, message)

            async def end_when_settled(agent: Agent, message: str) -> None:
                await here.settled(message)
                agent.stop(grace=0)

            async with trio.open_nursery() as nursery:
                outcome = await run_and_strike(here.agent(), step, strike, when_up=end_later)
                nursery.cancel_scope.cancel()
            await here.assert_nothing_left()
            assert outcome.seconds <= OVERHEAD
            claims = [e.message_id for e in here.seen(Claimed) if e.answer == "claimed"]
            records = [e.message_id for e in here.seen(Recorded)]
            assert records == claims, "guarantee 10: one record for each claim"
            kinds = {event.kind for event in here.seen(Recorded)}
            assert kinds <= {"processed", "released:shutdown"}
            if not outcome.struck:
                break
            async with here.running():
                await here.settled(message)
            assert set(here.band.attempts(message, here.account)) == {"success"}
        assert step > 120, "the sweep saw the start, the turn and its settlement"
        assert not here.adapter.overlapped


@guarantee(46)
async def test_cancelling_run_is_a_stop_without_grace_and_goes_on_as_a_cancellation(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life(hang) as here:
        room = await here.room()
        message = await here.say(room, "m")
        with trio.move_on_after(5) as scope:
            await here.agent().run()
        assert scope.cancelled_caught
        assert [event.kind for event in here.seen(Recorded)] == ["released:shutdown"]
        assert here.adapter.cleaned == [room]
        assert "cleaned" in here.noted.notes
        assert here.band.state(message, here.account) == "processing"
        await here.assert_nothing_left()


@guarantee(46)
async def test_a_second_cancellation_does_not_cut_the_end_short(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        room = await here.room()
        here.noted.hooks["on_cleanup"] = lasting(1)
        agent = here.agent()
        began = trio.current_time()
        with trio.move_on_after(5), trio.move_on_after(4.5):
            await agent.run()
        assert trio.current_time() - began == 5.5
        (shut_down,) = here.seen(ShutDown)
        assert shut_down.graceful
        assert [event.room_id for event in here.seen(CleanedUp)] == [room]
        assert "cleaned" in here.noted.notes
        await here.assert_nothing_left()

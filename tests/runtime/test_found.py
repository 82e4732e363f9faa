"""What the state machines have found, as small as it gets."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio
import trio.testing

from band_trio import Agent, SessionConfig
from band_trio.contract import AgentInput
from band_trio.protocol.events import chat_room
from band_trio.runtime.turn.preprocessing import DefaultPreprocessor
from band_trio.trace import Controlled, Recorded, Started, TraceEvent
from tests.marks import guarantee
from tests.runtime.harness import Call, Stage, reply, stage


def records(here: Stage) -> list[str]:
    return [event.kind for event in here.seen(Recorded)]


@guarantee(34)
async def test_a_run_that_a_stop_ends_does_not_lose_the_count_of_failed_ones(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def fail_late(call: Call) -> None:
        await trio.sleep(10)
        raise ValueError("no")

    async with stage(fail_late) as here:
        room = await here.room()
        async with here.running(SessionConfig(max_message_retries=2)):
            message = await here.say(room, "bad")
            await here.settled(message, state="failed")
            await here.adapter.until_running()  # the second run
            await here.band.user.stop(room)
            await trio.sleep(1)
            await here.band.user.play(room)
            await trio.sleep(300)

        assert records(here) == ["failed", "released:stop", "failed"]
        assert here.band.attempts(message, here.account) == ["failed", "failed"]


@guarantee(40)
async def test_an_interrupt_in_the_last_moment_keeps_the_handler_from_starting(
    autojump_clock: trio.testing.MockClock,
) -> None:
    heard = trio.Event()

    async with stage() as here:
        room = await here.room()

        class Preparing(DefaultPreprocessor):
            async def process(self, ctx: Any, event: Any, agent_id: str) -> AgentInput | None:
                inp = await super().process(ctx, event, agent_id)
                await here.band.user.interrupt(here.account)
                await heard.wait()  # and returns: the cancellation came too late for this wait
                return inp

        def observe(event: TraceEvent) -> None:
            here.observe(event)
            if isinstance(event, Controlled):
                heard.set()

        settings = here.agent(observer=observe).settings
        agent = Agent(attrs.evolve(settings, preprocessor=Preparing()))
        async with agent:
            await here.settled(await here.say(room, "work"))

        assert here.seen(Started) == []
        assert here.adapter.calls == []
        assert records(here) == ["processed"]


@guarantee(51, 54, 57)
async def test_a_room_that_runs_before_the_start_is_complete_is_ended_in_order(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The first join of the agent's topic lists the rooms too, and may be quicker."""

    async def slow(call: Call) -> None:
        await trio.sleep(5)
        call.tools.turn.settle()

    async with stage(slow) as here:
        room = await here.room()
        message = await here.say(room, "early")
        here.band.faults.refuse(429, retry_after=30, route="chats")  # strikes the first listing
        agent = here.agent()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(agent.run)
            await here.adapter.until_running()
            agent.stop(grace=20)
        assert records(here) == ["processed"]
        assert here.band.state(message, here.account) == "processed"
        assert here.adapter.cleaned == [room]


@guarantee(19)
async def test_an_old_push_behind_a_given_up_message_of_an_earlier_child_is_not_claimed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def fails_once(call: Call) -> None:
        if call.text == "bad":
            raise ValueError("no")
        await reply(call)

    async with stage(fails_once) as here:
        room = await here.room()
        async with here.running():
            await here.settled(await here.say(room, "bad"), state="failed")
            message = await here.say(room, "good")
            row = here.band.world.messages[message].render()
            await here.settled(message)
            await here.band.user.remove(room, here.account)
            await here.band.user.add(room, here.account)
            await trio.sleep(10)
            here.band.send_frame(here.account, chat_room(room), "message_created", row)
            await trio.sleep(10)
        assert here.band.attempts(message, here.account) == ["success"]
        assert here.adapter.texts == ["bad", "good"]


@guarantee(19)
async def test_an_old_push_behind_a_message_that_was_set_aside_is_not_claimed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def fails_once(call: Call) -> None:
        if call.text == "bad" and len(here.adapter.calls) == 1:
            raise ValueError("no")
        await reply(call)

    async with stage(fails_once) as here:
        room = await here.room()
        config = SessionConfig(
            max_message_retries=2, hold_seconds=1, retry_base_seconds=40, retry_cap_seconds=40
        )
        async with here.running(config):
            first = await here.say(room, "bad")
            await here.settled(first, state="failed")
            message = await here.say(room, "good")
            row = here.band.world.messages[message].render()
            await here.settled(message)
        async with here.running(config):  # runs the first one from its list
            await here.settled(first)
            await trio.sleep(10)
            here.band.send_frame(here.account, chat_room(room), "message_created", row)
            await trio.sleep(10)
        assert here.band.attempts(message, here.account) == ["success"]
        assert here.adapter.texts == ["bad", "good", "bad"]


@guarantee(4, 5)
@pytest.mark.parametrize("play_after", [0.2, 1.2], ids=["before the claim", "after the claim"])
async def test_a_list_that_looked_empty_while_stopped_lets_nothing_overtake(
    play_after: float, autojump_clock: trio.testing.MockClock
) -> None:
    """The agent was stopped by a signal; the platform's own stop is told late."""
    async with stage() as here:
        room = await here.room()
        async with here.running():
            await trio.sleep(1)  # the list was read, so that what comes now is new
            await here.settled(await here.say(room, "first"))
            here.band.signal(here.account, "stop", room_id=room, correlation_id="a stop")
            await trio.sleep(1)
            here.band.faults.delay_push(2.5, event="agent.control", times=2)
            here.band.faults.delay(1, route="messages", skip=1)  # behind the probe
            here.band.faults.delay(1, route="processing")
            await here.say(room, "one")
            await trio.sleep(0.1)
            last = await here.say(room, "two")
            await trio.sleep(0.5)
            await here.band.user.stop(room)
            await trio.sleep(0.5 + play_after)
            await here.band.user.play(room)
            await trio.sleep(30)
            await here.settled(last)
        assert here.adapter.texts == ["first", "one", "two"]

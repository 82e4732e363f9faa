"""A message that runs again: its number, and what its turn knows of what was said before."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio
import trio.testing

from band_trio import AgentInput, SessionConfig
from band_trio.runtime.turn.preprocessing import DefaultPreprocessor
from band_trio.tools.context import RoomContext
from tests.marks import case, guarantee
from tests.runtime.harness import Call, Stage, reply, stage
from tests.runtime.test_history_roster import QUIET, contents, done_before, talk
from tests.runtime.views import reads

TWICE = attrs.evolve(QUIET, max_message_retries=2, report_turn_failures_to_room=False)


def seen(call: Call) -> tuple[int, list[str], list[str]]:
    """Return the attempt of a call, what was said before its message, and what it said since."""
    since = [row.get("since_trigger") is True for row in call.history.raw]
    assert since == sorted(since)  # those come last
    assert all(row["role"] == "assistant" for row in call.history.raw[len(since) - sum(since) :])
    told = contents(call)
    return call.tools.turn.attempt, told[: since.count(False)], told[since.count(False) :]


async def reply_and_raise(call: Call) -> None:
    await reply(call)
    raise ValueError("no")


async def reply_and_hang(call: Call) -> None:
    await reply(call)
    await trio.sleep_forever()


async def decline(call: Call) -> None:
    await call.tools.no_reply()


@guarantee(81)
@case("C63")
async def test_a_run_after_one_that_raised_knows_its_reply(
    autojump_clock: trio.testing.MockClock,
) -> None:
    given: list[AgentInput | None] = []

    class Noted(DefaultPreprocessor):
        async def process(self, ctx: RoomContext, event: Any, agent_id: str) -> AgentInput | None:
            given.append(await super().process(ctx, event, agent_id))
            return given[-1]

    async with stage() as here:
        room = await here.room()
        await done_before(here, room, 2)
        here.adapter.behaviour = reply_and_raise
        async with here.running(TWICE, preprocessor=Noted()):
            message = await here.say(room, "what?")
            await here.band.until(lambda: len(here.adapter.calls) == 1)
            here.adapter.behaviour = decline
            await here.settled(message)
            await here.settled(await here.say(room, "next"))

        assert [seen(call) for call in here.adapter.calls] == [
            (1, ["m0", "m1"], []),
            (2, ["m0", "m1"], ["re: what?"]),
            (1, [], []),
        ]
        assert [inp.attempt for inp in given if inp] == [1, 2, 1]
        assert [call.bootstrap for call in here.adapter.calls] == [True, True, False]
        said = [row for row in await here.band.user.messages(room) if "re:" in row["content"]]
        assert len(said) == 1


@guarantee(81)
@case("C63")
async def test_a_run_after_stop_and_play_knows_its_reply(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(reply_and_hang) as here:
        room = await here.room()
        async with here.running(QUIET):
            message = await here.say(room, "what?")
            await said_by_us(here, room, 1)
            here.adapter.behaviour = decline
            await here.band.user.stop(room)
            await trio.sleep(5)
            await here.band.user.play(room)
            await here.settled(message)

        assert seen(here.adapter.calls[-1]) == (2, [], ["re: what?"])


@guarantee(81)
@case("C63")
async def test_a_run_in_the_next_process_knows_the_reply_of_the_last(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(reply_and_hang) as here:
        room = await here.room()
        async with here.running(QUIET, grace=1):
            message = await here.say(room, "what?")
            await said_by_us(here, room, 1)
        here.adapter.behaviour = decline
        async with here.running(QUIET):
            await here.settled(message)

        assert seen(here.adapter.calls[-1]) == (2, [], ["re: what?"])


async def said_by_us(here: Stage, room: str, count: int) -> None:
    """Wait until the agent has said so many things."""

    def mine() -> int:
        rows = here.band.world.messages.values()
        return sum(row.sender.id == here.account.id and row.room_id == room for row in rows)

    await here.band.until(lambda: mine() >= count)


async def events_and_raise(call: Call) -> None:
    number = len([c for c in call.history.raw if c.get("since_trigger")])
    await call.tools.send_event(f"thought {number}", "thought")
    raise ValueError("no")


@guarantee(81)
async def test_what_was_said_is_read_anew_for_each_run_and_the_rest_is_not(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Events count, others' words do not."""
    session = attrs.evolve(TWICE, max_message_retries=3)
    async with stage() as here:
        room = await here.room()
        await done_before(here, room, 3)
        here.adapter.behaviour = events_and_raise
        async with here.running(session):
            await here.say(room, "m3")
            await here.say(room, "later")
            await here.band.until(lambda: len(here.adapter.calls) == 3)
            here.adapter.behaviour = reply

        before = [f"m{n}" for n in range(3)]
        assert [seen(call) for call in here.adapter.calls[:3]] == [
            (1, before, []),
            (2, before, ["thought 0"]),
            (3, before, ["thought 0", "thought 1"]),
        ]
        assert reads(here, room).count("context") == 3


@guarantee(81)
async def test_a_room_whose_bootstrap_is_committed_gets_only_what_was_said_since(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running(TWICE):
            await here.settled(*await talk(here, room, 3))
            here.adapter.behaviour = reply_and_raise
            message = await here.say(room, "what?")
            await here.band.until(lambda: len(here.adapter.calls) == 4)
            here.adapter.behaviour = decline
            await here.settled(message)

        assert seen(here.adapter.calls[-1]) == (2, [], ["re: what?"])
        assert not here.adapter.calls[-1].bootstrap


@guarantee(81)
async def test_without_hydration_nothing_is_read(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(reply_and_raise) as here:
        room = await here.room()
        async with here.running(attrs.evolve(TWICE, enable_context_hydration=False)):
            await here.say(room, "what?")
            await here.band.until(lambda: len(here.adapter.calls) == 2)

        assert [seen(call) for call in here.adapter.calls] == [(1, [], []), (2, [], [])]
        assert reads(here, room).count("context") == 0


@guarantee(81)
@case("C34")
@pytest.mark.parametrize("committed", [True, False])
async def test_what_was_said_since_and_cannot_be_read_is_a_turn_without_history(
    committed: bool, autojump_clock: trio.testing.MockClock
) -> None:
    session = attrs.evolve(TWICE, max_message_retries=3)
    async with stage() as here:
        room = await here.room()
        async with here.running(session):
            if committed:
                await here.settled(*await talk(here, room, 1))
            here.adapter.calls.clear()
            here.adapter.behaviour = reply_and_raise
            message = await here.say(room, "what?")
            await here.band.until(lambda: len(here.adapter.calls) == 1)
            rule = here.band.faults.refuse(403, route="context", times=None)
            await here.band.until(lambda: len(here.adapter.calls) == 2)
            rule.lift()
            here.adapter.behaviour = decline
            await here.settled(message)

        assert [(*seen(call), call.bootstrap) for call in here.adapter.calls] == [
            (1, [], [], not committed),
            (2, [], [], False),
            (3, [], ["re: what?", "re: what?"], not committed),
        ]


@guarantee(47)
async def test_loading_what_was_said_since_is_not_under_the_limit_of_the_turn(
    autojump_clock: trio.testing.MockClock,
) -> None:
    session = SessionConfig(
        max_cycle_seconds=2, history_seconds=10, max_message_retries=2,
        report_turn_failures_to_room=False,
    )  # fmt: skip
    async with stage() as here:
        room = await here.room()
        async with here.running(session):
            await here.settled(await here.say(room, "m"))
            here.band.faults.hang(route="context", times=None)
            here.adapter.behaviour = reply_and_raise
            message = await here.say(room, "what?")
            await here.band.until(lambda: len(here.adapter.calls) == 2)
            here.adapter.behaviour = decline
            await here.settled(message)

        assert seen(here.adapter.calls[-1]) == (2, [], [])

"""The working indicator: serial, one `false` behind each series, and never in anybody's way."""

from __future__ import annotations

import math
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from band_trio import (
    AgentInput,
    DefaultPreprocessor,
    InputNotAccepted,
    RoomContext,
    SessionConfig,
)
from band_trio.localband.records import ActivityRecord
from band_trio.trace import ActivityReported
from tests.marks import case, guarantee
from tests.runtime.harness import Behaviour, Call, Stage, reply, stage
from tests.runtime.views import fail, hang, lasting, records, sent, started_at
from tests.support.for_each import for_each

QUIET = SessionConfig(idle_resync_seconds=1e7, idle_resync_max_seconds=1e7)


def told(here: Stage, since: float = 0.0) -> list[tuple[float, bool]]:
    """Return (seconds after *since*, working) of all reports that the platform took."""
    return [(round(row.at - since, 3), row.working) for row in here.band.log.of(ActivityRecord)]


def reported(here: Stage) -> list[bool]:
    """Return what was reported, in the order of the answers."""
    return [event.working for event in here.seen(ActivityReported)]


def assert_series(words: list[bool]) -> None:
    """Check that each series of `true` is followed by one `false`, and nothing else is said."""
    assert all(word or words[n - 1] for n, word in enumerate(words) if n), words
    assert not words or (words[0] and not words[-1]), words


@guarantee(71)
@case("C58")
@for_each(
    ("seconds", "expected"),
    [
        (0.0, []),
        (0.24, []),
        (0.3, [(0.25, True), (0.3, False)]),
        (3.2, [(0.25, True), (3.2, False)]),
        (10.0, [(0.25, True), (3.25, True), (6.25, True), (9.25, True), (10.0, False)]),
    ],
)
async def test_a_turn_is_shown_after_the_delay_refreshed_and_ended_once(
    seconds: float, expected: list[tuple[float, bool]], autojump_clock: trio.testing.MockClock
) -> None:
    async with stage(lasting(seconds)) as here:
        room = await here.room()
        async with here.running(QUIET):
            await trio.sleep(1)
            began = here.band.world.elapsed()
            await here.settled(await here.say(room, "m0"))
            await trio.sleep(20)
            assert told(here, began) == expected


@guarantee(71, 72)
async def test_the_delay_begins_with_the_handler(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Slow(DefaultPreprocessor):
        async def process(self, ctx: RoomContext, event: Any, agent_id: str) -> AgentInput | None:
            await trio.sleep(1)
            return await super().process(ctx, event, agent_id)

    async with stage(lasting(0.2)) as here:
        room = await here.room()
        here.band.faults.delay(0.7, route="processing", times=None)
        async with here.running(QUIET, preprocessor=Slow()):
            await here.settled(await here.say(room, "short"))
            assert sent(here, "activity") == []
            here.adapter.behaviour = lasting(0.3)
            await here.settled(await here.say(room, "long"))
            await trio.sleep(1)
        assert reported(here) == [True, False]


@guarantee(71)
@case("C58")
async def test_two_turns_back_to_back_are_two_series(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(lasting(4)) as here:
        room = await here.room()
        async with here.running(QUIET):
            await trio.sleep(1)
            began = here.band.world.elapsed()
            await here.settled(await here.say(room, "m0"), await here.say(room, "m1"))
            await trio.sleep(5)
            assert told(here, began) == [
                (0.25, True), (3.25, True), (4.0, False), (4.25, True), (7.25, True), (8.0, False),
            ]  # fmt: skip


async def not_accepted_once(call: Call) -> None:
    await trio.sleep(1)
    raise InputNotAccepted("busy")


@guarantee(71)
@case("C58")
@for_each("end", ["raise", "not accepted", "interrupt", "stop", "leave", "shutdown"])
async def test_however_the_turn_ends_the_last_word_is_false(
    end: str, autojump_clock: trio.testing.MockClock
) -> None:
    async def late_failure(call: Call) -> None:
        await trio.sleep(1)
        raise ValueError("no")

    behaviour: Behaviour = {"raise": late_failure, "not accepted": not_accepted_once}.get(end, hang)
    async with stage(behaviour) as here:
        room = await here.room()
        async with here.running(QUIET, grace=0):
            await here.say(room, "m0")
            await here.adapter.until_running()
            here.adapter.behaviour = reply
            await trio.sleep(1)
            if end == "interrupt":
                await here.band.user.interrupt(here.account)
            elif end == "stop":
                await here.band.user.stop(room)
            elif end == "leave":
                await here.band.user.remove(room, here.account)
            await trio.sleep(0 if end == "shutdown" else 1)

        if end != "leave":
            assert_series(reported(here))
        assert reported(here)[0] is True


@guarantee(72)
@case("C58")
@for_each("how", ["slow", "hang", "500", "403", "cut", "unreachable"])
@for_each("seconds", [0.0, 0.3, 1.0, 7.0])
async def test_a_slow_or_broken_indicator_delays_neither_turn_nor_record_nor_mark(
    how: str, seconds: float, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage(lasting(seconds)) as here:
        room = await here.room()
        faults = here.band.faults
        {
            "slow": lambda: faults.delay(1.9, route="activity", times=None),
            "hang": lambda: faults.hang(route="activity", times=None),
            "500": lambda: faults.refuse(500, route="activity", times=None),
            "403": lambda: faults.refuse(403, route="activity", times=None),
            "cut": lambda: faults.cut_request(route="activity", times=None),
            "unreachable": lambda: faults.unreachable(route="activity", times=None),
        }[how]()
        async with here.running(QUIET):
            await trio.sleep(1)
            began = trio.current_time()
            messages = [await here.say(room, f"m{n}") for n in range(4)]
            await here.settled(*messages)
            assert trio.current_time() == pytest.approx(began + 4 * seconds)
            assert [started_at(here, each) for each in messages] == [
                [pytest.approx(began + n * seconds)] for n in range(4)
            ]
            await trio.sleep(30)

        assert records(here) == [(each, "processed") for each in messages]
        assert_series(reported(here))
        assert (reported(here) == []) == (seconds == 0.0)


@guarantee(71)
async def test_reports_of_a_room_never_overlap(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(lasting(0.5)) as here:
        room = await here.room()
        here.band.faults.delay(1.5, route="activity", times=None)
        async with here.running(QUIET):
            await here.settled(*[await here.say(room, f"m{n}") for n in range(30)])
            asked = sent(here, "activity")
            assert all(later - earlier >= 1.5 for earlier, later in zip(asked, asked[1:]))  # noqa: B905, RUF007
            # Reports that nobody saw in time are taken back: the last word is near.
            ended = trio.current_time()
            await here.band.until(lambda: not here.band.log.rows or reported(here)[-1:] == [False])
            await trio.sleep(30)
            last = [when for when, e in here.trace if isinstance(e, ActivityReported)][-1]
            assert last - ended <= 4.5
        assert_series(reported(here))


@guarantee(71)
async def test_a_room_shows_itself_whatever_others_do(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(lasting(2)) as here:
        slow, quick = await here.room(), await here.room()
        here.band.faults.hang(route="activity", room=slow, times=None)
        async with here.running(QUIET):
            await trio.sleep(1)
            began = here.band.world.elapsed()
            await here.settled(await here.say(slow, "m0"), await here.say(quick, "m1"))
            mine = [
                (round(row.at - began, 3), row.working)
                for row in here.band.log.of(ActivityRecord)
                if row.room_id == quick
            ]
            assert mine == [(0.25, True), (2.0, False)]


@guarantee(71)
async def test_the_refreshing_has_a_limit_the_turn_has_none(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(lasting(30)) as here:
        room = await here.room()
        async with here.running(attrs.evolve(QUIET, max_working_state_seconds=7)):
            await trio.sleep(1)
            began = here.band.world.elapsed()
            await here.settled(await here.say(room, "m0"))
            assert told(here, began) == [
                (0.25, True), (3.25, True), (6.25, True), (7.25, False),
            ]  # fmt: skip


@guarantee(72)
async def test_an_answer_from_before_a_play_does_not_stop_the_room(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(lasting(5)) as here:
        room = await here.room()
        async with here.running(QUIET):
            await trio.sleep(1)
            here.band.faults.delay(1.5, answer=True, route="activity", skip=1)
            message = await here.say(room, "m0")
            await here.adapter.until_running()
            await trio.sleep(3)
            here.band.faults.suppress(when=lambda f: f.frame.event == "agent.control", times=1)
            await here.band.user.stop(room)  # unheard; the refresh at 3.25 s is told of it, late
            await trio.sleep(1)
            await here.band.user.play(room)
            await here.settled(message)
        assert records(here) == [(message, "processed")]


@guarantee(71)
async def test_switched_off_it_says_nothing(autojump_clock: trio.testing.MockClock) -> None:
    async with stage(lasting(10)) as here:
        room = await here.room()
        async with here.running(attrs.evolve(QUIET, enable_working_state=False)):
            await here.settled(await here.say(room, "m0"))
        assert sent(here, "activity") == []


@guarantee(72)
async def test_failures_of_the_indicator_are_told_once(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with stage(lasting(20)) as here:
        room = await here.room()
        here.band.faults.refuse(500, route="activity", times=4)
        async with here.running(QUIET):
            await here.settled(await here.say(room, "m0"))
            await trio.sleep(1)
        told_ = [r for r in caplog.records if "working reports" in r.getMessage()]
        assert len(told_) == 1
        assert math.isclose(len(sent(here, "activity")), 8)


async def test_a_turn_that_fails_at_once_shows_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(fail) as here:
        room = await here.room()
        async with here.running(QUIET):
            await here.settled(await here.say(room, "m0"), state="failed")
            await trio.sleep(5)
        assert sent(here, "activity") == []

"""Every fault of every request of a turn, and every end of a turn at every step of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
import trio
import trio.testing

from band_trio import MessagePostError, SessionConfig
from band_trio.localband.faults import Faults
from band_trio.trace import TraceEvent
from tests.marks import guarantee
from tests.runtime.harness import Call, Stage, stage
from tests.runtime.invariants import check, check_final
from tests.runtime.lifecycle_kit import AtStep, stride
from tests.support.for_each import for_each

ROUTES = [
    "messages", "processing", "participants", "context", "activity",
    "post_message", "processed", "failed", "post_event",
]  # fmt: skip

Fault = Callable[[Faults, str], Any]

FAULTS: dict[str, Fault] = {
    "500": lambda faults, route: faults.refuse(500, route=route),
    "500 five times": lambda faults, route: faults.refuse(500, route=route, times=5),
    "503 retry-after": lambda faults, route: faults.refuse(503, retry_after=3, route=route),
    "429 retry-after": lambda faults, route: faults.refuse(429, retry_after=3, route=route),
    "late": lambda faults, route: faults.delay(4, route=route),
    "late answer": lambda faults, route: faults.delay(4, answer=True, route=route),
    "done, then 500": lambda faults, route: faults.drop_after_commit(500, route=route),
    "done, then hang": lambda faults, route: faults.hang(route=route),
    "hang": lambda faults, route: faults.hang(commit=False, route=route),
    "done, then cut": lambda faults, route: faults.cut_request(route=route),
    "cut": lambda faults, route: faults.cut_request(commit=False, route=route),
    "unreachable": lambda faults, route: faults.unreachable(route=route),
    "odd body": lambda faults, route: faults.odd_answer(b"[1", route=route),
}


async def careful(call: Call) -> None:
    """Work for a while and answer; an answer of unknown fate is not repeated."""
    await trio.sleep(0.5)
    if call.text == "bad":
        raise ValueError(call.text)
    with suppress(MessagePostError):
        await call.tools.send_message(f"re: {call.text}", mentions=[call.msg.sender_id])


def events(here: Stage) -> list[TraceEvent]:
    return [event for _, event in here.trace]


async def answers(here: Stage, room: str) -> list[str]:
    """Return what the agent said, without the mentions."""
    rows = await here.band.user.messages(room)
    said = [row for row in rows if row["sender_id"] == here.account.id]
    return [row["content"].split(" ", 1)[-1] for row in said if row["message_type"] == "text"]


@guarantee(10, 11, 12, 76)
@for_each("fault", FAULTS)
@for_each("route", ROUTES)
async def test_any_fault_of_any_request_of_a_turn(
    route: str, fault: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage(careful) as here:
        room = await here.room()
        rule = FAULTS[fault](here.band.faults, route)
        sent = [await here.say(room, text) for text in ("old", "bad")]
        async with here.running(SessionConfig(settle_seconds=2)):
            await trio.sleep(2)
            sent += [await here.say(room, text) for text in ("new", "last")]
            await trio.sleep(400)
            here.band.faults.clear()
            await trio.sleep(200)

        assert rule.hits, "the fault never struck"
        messages = check(events(here))
        check_final(here.band, here.account, messages, sent)
        said = await answers(here, room)
        assert len(said) == len(set(said)), "g76: something was said twice"
        if route not in ("post_message", "participants"):
            assert said == ["re: old", "re: new", "re: last"]


# --------------------------------------------------------------------------- ends at every step


async def interrupt(here: Stage, room: str) -> None:
    await here.band.user.interrupt(here.account)


async def stop_and_play(here: Stage, room: str) -> None:
    await here.band.user.stop(room)
    await trio.sleep(1)
    await here.band.user.play(room)


async def leave_and_return(here: Stage, room: str) -> None:
    await here.band.user.remove(room, here.account)
    await trio.sleep(1)
    await here.band.user.add(room, here.account)


async def cut(here: Stage, room: str) -> None:  # noqa: ASYNC124 - a behaviour is async
    here.band.cut(here.account)


End = Callable[[Stage, str], Awaitable[None]]


async def strike_in_a_turn(end: End, step: int) -> bool:
    """Let one turn run and *end* strike at its n-th step; tell whether it had so many."""
    async with stage(careful) as here:
        room = await here.room()
        struck = trio.Event()
        async with here.running(), trio.open_nursery() as nursery:
            await here.settled(await here.say(room, "warm up"))
            await trio.sleep(1)
            task = trio.lowlevel.current_task()
            assert task.parent_nursery is not None
            instrument = AtStep(task, step, struck.set)

            async def strike() -> None:
                await struck.wait()
                await end(here, room)

            nursery.start_soon(strike)
            trio.lowlevel.add_instrument(instrument)
            try:
                sent = [await here.say(room, "work"), await here.say(room, "after")]
                await trio.sleep(30)
            finally:
                trio.lowlevel.remove_instrument(instrument)
            await trio.sleep(200)
            nursery.cancel_scope.cancel(reason="the sweep is over")

        messages = check(events(here))
        check_final(here.band, here.account, messages, sent)
        said = await answers(here, room)
        assert len(said) == len(set(said)) or end is not interrupt
        return struck.is_set()


@guarantee(13, 40, 41, 54)
@pytest.mark.slow
@pytest.mark.parametrize("end", [interrupt, stop_and_play, leave_and_return, cut])
def test_a_turn_that_is_ended_at_any_step(end: End) -> None:
    step, struck = 1, True
    while struck and step < 400:
        struck = trio.run(
            strike_in_a_turn, end, step, clock=trio.testing.MockClock(autojump_threshold=0)
        )
        step += 1 if step < 60 else stride()
    assert step > 60

"""Every fault of every request of a turn, and every end of a turn at every step of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from band_trio import MessagePostError, SessionConfig
from band_trio.localband.fault_rules import RequestRule
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

Fault = Callable[..., RequestRule]
"""Strikes what matches: given the faults of a platform, `route=` and `room=`."""

FAULTS: dict[str, Fault] = {
    "500": lambda faults, **match: faults.refuse(500, **match),
    "500 five times": lambda faults, **match: faults.refuse(500, times=5, **match),
    "503 retry-after": lambda faults, **match: faults.refuse(503, retry_after=3, **match),
    "429 retry-after": lambda faults, **match: faults.refuse(429, retry_after=3, **match),
    "late": lambda faults, **match: faults.delay(4, **match),
    "late answer": lambda faults, **match: faults.delay(4, answer=True, **match),
    "done, then 500": lambda faults, **match: faults.drop_after_commit(500, **match),
    "done, then hang": lambda faults, **match: faults.hang(**match),
    "hang": lambda faults, **match: faults.hang(commit=False, **match),
    "done, then cut": lambda faults, **match: faults.cut_request(**match),
    "cut": lambda faults, **match: faults.cut_request(commit=False, **match),
    "unreachable": lambda faults, **match: faults.unreachable(**match),
    "odd body": lambda faults, **match: faults.odd_answer(b"[1", **match),
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


@attrs.define(eq=False)
class Struck:
    """A room that meets a fault of its own, beside those that meet the others."""

    room: str
    rule: RequestRule
    sent: list[str] = attrs.field(factory=list)

    async def say(self, here: Stage, *texts: str) -> None:
        self.sent += [await here.say(self.room, text) for text in texts]

    async def check(self, here: Stage, route: str, seen: Mapping[str, Any]) -> None:
        assert self.rule.hits, "the fault never struck"
        check_final(here.band, here.account, seen, self.sent)
        said = await answers(here, self.room)
        assert len(said) == len(set(said)), "g76: something was said twice"
        if route not in ("post_message", "participants"):
            assert said == ["re: old", "re: new", "re: last"]


@guarantee(10, 11, 12, 76)
@pytest.mark.slow
async def test_any_fault_of_any_request_of_a_turn(autojump_clock: trio.testing.MockClock) -> None:
    wrong: list[Exception] = []
    for route in ROUTES:
        async with stage(careful) as here:
            struck: dict[str, Struck] = {}
            for name, fault in FAULTS.items():
                room = await here.room()
                struck[name] = Struck(room, fault(here.band.faults, route=route, room=room))
                await struck[name].say(here, "old", "bad")
            async with here.running(SessionConfig(settle_seconds=2)):
                await trio.sleep(2)
                for each in struck.values():
                    await each.say(here, "new", "last")
                await trio.sleep(400)
                here.band.faults.clear()
                await trio.sleep(200)
            seen = check(events(here))
            for name, each in struck.items():
                try:
                    await each.check(here, route, seen)
                except AssertionError as exc:
                    exc.add_note(f"for {route}, {name}")
                    wrong.append(exc)
    if wrong:
        raise ExceptionGroup(f"{len(wrong)} faults do harm", wrong)


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


async def strike_in_a_turn(here: Stage, end: End, step: int) -> bool:
    """Let a turn run in a new room and *end* strike at its n-th step; False: it had fewer."""
    room = await here.room()
    await here.settled(await here.say(room, "warm up"))
    await trio.sleep(1)
    struck = trio.Event()
    instrument = AtStep(trio.lowlevel.current_task(), step, struck.set)

    async def strike() -> None:
        await struck.wait()
        await end(here, room)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(strike)
        trio.lowlevel.add_instrument(instrument)
        try:
            sent = [await here.say(room, "work"), await here.say(room, "after")]
            await here.settled(*sent)
        finally:
            trio.lowlevel.remove_instrument(instrument)
        await trio.sleep(70)  # what is listed after all is found by the poll
        nursery.cancel_scope.cancel(reason="the turn had fewer steps")

    said = await answers(here, room)
    assert len(said) == len(set(said)) or end is not interrupt
    await here.band.user.remove(room, here.account)
    await trio.sleep(1)
    check_final(here.band, here.account, check(events(here)), sent)
    here.trace.clear()
    return struck.is_set()


@guarantee(13, 40, 41, 54)
@pytest.mark.slow
@for_each("end", [interrupt, stop_and_play, leave_and_return, cut])
async def test_a_turn_that_is_ended_at_any_step(
    end: End, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage(careful) as here, here.running():
        step = 1
        while await strike_in_a_turn(here, end, step):
            step += stride()
    assert step > 60

"""Claims: nothing starts without one, and each gets exactly one record."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from band_trio import (
    BandSupersededError,
    InputNotAccepted,
    RoomExecutionStoppedError,
    SessionConfig,
)
from band_trio.localband import posting
from band_trio.localband.delivery import State
from band_trio.localband.fault_rules import RequestRule
from band_trio.localband.party import Agent
from band_trio.protocol.phoenix import Frame
from band_trio.trace import Claimed, GivenUp, Recorded, Started
from tests.marks import case, guarantee
from tests.runtime.harness import Call, Stage, reply, stage
from tests.runtime.views import claims, fail, hang, lasting, records, sent, starts
from tests.support.for_each import for_each

QUIET = SessionConfig(idle_resync_seconds=1e7, idle_resync_max_seconds=1e7)

# --------------------------------------------------------------------------- answers


def refused(status: int, **more: Any) -> Callable[[Stage, str], RequestRule]:
    return lambda here, m: here.band.faults.refuse(status, route="processing", message=m, **more)


REFUSALS = {
    "404": (refused(404), "gone"),
    "409": (refused(409), "refused"),
    "422": (refused(422), "refused"),
    "403": (refused(403), "refused"),
}


@guarantee(9)
@case("C09")
@for_each("case", REFUSALS)
async def test_a_refused_claim_starts_no_handler_and_is_no_failure(
    case: str, autojump_clock: trio.testing.MockClock
) -> None:
    refuse, answer = REFUSALS[case]
    async with stage() as here:
        room = await here.room()
        async with here.running(QUIET):
            await trio.sleep(1)
            began = trio.current_time()
            bad = await here.say(room, "bad")
            waiting = await here.say(room, "behind it")
            refuse(here, bad)
            await here.settled(waiting, await here.say(room, "last"))
            assert trio.current_time() == began  # nothing waits for it
            await trio.sleep(300)
            assert claims(here)[0] == (bad, answer)

        assert here.adapter.texts == ["behind it", "last"]
        assert [kind for _, kind in records(here)] == ["processed", "processed"]
        assert len(sent(here, "processing", bad)) == 1
        assert sent(here, "failed") == []
        assert here.seen(GivenUp) == []


@guarantee(9)
async def test_a_refused_message_is_asked_for_again_when_its_time_has_come(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running(attrs.evolve(QUIET, refused_recheck_seconds=100)):
            await trio.sleep(1)
            message = await here.say(room, "not yet")
            here.band.faults.refuse(409, route="processing", times=2)
            await here.settled(message)
            asked = sent(here, "processing", message)

        assert [round(b - a, 3) for a, b in pairwise(asked)] == [100, 100]
        assert starts(here) == [message]


@guarantee(9)
async def test_a_refused_message_is_asked_for_again_in_a_new_epoch(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running(QUIET):
            await trio.sleep(1)
            here.band.faults.refuse(409, route="processing")
            message = await here.say(room, "not yet")
            await trio.sleep(50)
            here.band.cut(here.account)
            with trio.fail_after(30):
                await here.settled(message)
        assert [answer for _, answer in claims(here)] == ["refused", "claimed"]


async def test_a_refused_message_that_is_gone_is_looked_for_once_and_no_more(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The room must not spin on a time that has come for a message that nobody lists."""
    async with stage() as here:
        room = await here.room()
        async with here.running(attrs.evolve(QUIET, refused_recheck_seconds=100)):
            await trio.sleep(1)
            here.band.faults.refuse(409, route="processing")
            message = await here.say(room, "somebody else's")
            await trio.sleep(50)
            world_room = here.band.world.rooms[room]
            agent = here.band.world.parties[here.account.id]
            assert isinstance(agent, Agent)
            posting.claim(here.band.world, world_room, agent, message)
            posting.settle(here.band.world, world_room, agent, message, State.PROCESSED)
            before = len(sent(here, "messages"))
            await trio.sleep(1000)
            assert len(sent(here, "messages")) - before == 1
        assert starts(here) == []


UNKNOWN: dict[str, Callable[[Stage], RequestRule]] = {
    "500": lambda here: here.band.faults.refuse(500, route="processing", times=3),
    "503 and a told wait": lambda here: here.band.faults.refuse(
        503, route="processing", times=3, retry_after=2
    ),
    "429": lambda here: here.band.faults.refuse(429, route="processing", times=3),
    "408": lambda here: here.band.faults.refuse(408, route="processing", times=3),
    "202": lambda here: here.band.faults.odd_answer(
        b"{}", status=202, commit=False, route="processing", times=3
    ),
    "stored, then 500": lambda here: here.band.faults.drop_after_commit(
        route="processing", times=3
    ),
    "stored, never answered": lambda here: here.band.faults.hang(route="processing", times=3),
    "stored, then cut": lambda here: here.band.faults.cut_request(route="processing", times=3),
    "unreachable": lambda here: here.band.faults.unreachable(route="processing", times=3),
    "401 by mistake": lambda here: here.band.faults.refuse(401, route="processing", times=3),
}


@guarantee(9)
@case("C09")
@for_each("case", UNKNOWN)
async def test_an_unanswered_claim_is_repeated_and_nothing_starts_before_its_answer(
    case: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running(QUIET):
            await trio.sleep(1)
            UNKNOWN[case](here)
            message = await here.say(room, "m0")
            behind = await here.say(room, "m1")
            await here.settled(message, behind)

        kinds = [type(e).__name__ for _, e in here.trace if isinstance(e, Claimed | Started)]
        assert kinds == ["Claimed"] * 4 + ["Started", "Claimed", "Started"]
        assert [answer == "claimed" for _, answer in claims(here)] == [False] * 3 + [True] * 2
        assert starts(here) == [message, behind]
        asked = [at for at, e in here.trace if isinstance(e, Claimed) and e.message_id == message]
        assert all(later > earlier for earlier, later in pairwise(asked)), "without a pause"
        assert here.band.attempts(message, here.account) == ["success"]


@guarantee(9)
async def test_a_told_wait_is_obeyed_before_the_next_claim(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running(QUIET):
            await trio.sleep(1)
            here.band.faults.refuse(429, route="processing", retry_after=25)
            message = await here.say(room, "m0")
            await here.settled(message)
            first, second = sent(here, "processing", message)
        assert second - first == pytest.approx(25)


@guarantee(9)
@for_each("body", [b"", b"{}", b'{"data": null}', b'{"data": {"x": 1}}', b"<html>"])
async def test_a_200_with_an_odd_body_is_a_claim(
    body: bytes, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running(QUIET):
            here.band.faults.odd_answer(body, route="processing")
            message = await here.say(room, "m0")
            await here.settled(message)
        assert claims(here) == [(message, "claimed")]


@guarantee(9)
@case("C09")
async def test_a_room_that_is_stopped_keeps_its_message_for_the_play(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running(QUIET):
            await trio.sleep(1)
            here.band.faults.refuse(403, "execution_stopped", route="processing")
            message = await here.say(room, "m0")
            await trio.sleep(30)
            assert claims(here) == [(message, "stopped")]
            assert starts(here) == []
            await here.band.user.stop(room)
            await here.band.user.play(room)
            await here.settled(message)
        assert claims(here) == [(message, "stopped"), (message, "claimed")]


@guarantee(9)
async def test_an_answer_from_before_a_play_does_not_stop_the_room(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The claim is refused because of a stop; its answer arrives after the play."""
    async with stage() as here:
        room = await here.room()
        async with here.running(QUIET):
            await trio.sleep(1)  # the first read; what it lists is no measure of time
            await here.settled(await here.say(room, "first"))
            await trio.sleep(1)
            here.band.faults.suppress(when=lambda f: f.frame.event == "agent.control")
            await here.band.user.stop(room)
            here.band.faults.delay(3, answer=True, route="processing")
            here.band.faults.suppress(event="message_created", times=0)
            message = await here.say(room, "m0")
            payload = dict(here.band.world.messages[message].render())
            here.band.send_frame(here.account, f"chat_room:{room}", "message_created", payload)
            await trio.sleep(1)
            began = trio.current_time()
            await here.band.user.play(room)
            await here.settled(message)
            assert trio.current_time() - began < 5
        assert claims(here)[1:] == [(message, "stopped"), (message, "claimed")]


async def test_a_stop_that_only_the_handler_learnt_of_stops_its_room(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """An adapter that posts by its own client raises what the platform said."""

    async def told(call: Call) -> None:
        if len(here.adapter.calls) < 2:
            raise RoomExecutionStoppedError(call.room_id)
        await reply(call)

    async with stage(told) as here:
        room = await here.room()
        session = attrs.evolve(QUIET, stopped_resync_seconds=20)
        async with here.running(session):
            await trio.sleep(1)
            began = trio.current_time()
            message = await here.say(room, "m0")
            await here.settled(message)
            assert trio.current_time() - began == pytest.approx(20)
        assert records(here) == [(message, "released:stop"), (message, "processed")]


@guarantee(84)
@case("C66")
async def test_the_number_of_a_claim_decides_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The list does not show attempts, and the platform counts claims as it likes."""

    def without_attempts(frame: Frame) -> Frame:
        metadata = {**frame.payload["metadata"], "delivery_status": {}}
        return attrs.evolve(frame, payload={**frame.payload, "metadata": metadata})

    async with stage() as here:
        room = await here.room()
        async with here.running(QUIET):
            await here.settled(await here.say(room, "first"))
            await trio.sleep(1)
            here.band.faults.alter(without_attempts, event="message_created")
            here.band.faults.odd_answer(
                b'{"data": {"id": "m", "attempt_number": 40}}', route="processing"
            )
            await here.settled(await here.say(room, "second"))

        assert here.adapter.texts == ["first", "second"]
        rows = await here.band.user.messages(room)
        assert [row for row in rows if row["message_type"] == "error"] == []


# --------------------------------------------------------------------------- one record each


async def interrupted(here: Stage, room: str) -> None:
    await here.band.user.interrupt(here.account)


async def stopped(here: Stage, room: str) -> None:
    await here.band.user.stop(room)


async def left(here: Stage, room: str) -> None:
    await here.band.user.remove(room, here.account)


async def deleted(here: Stage, room: str) -> None:
    await here.band.user.delete_room(room)


async def nothing(here: Stage, room: str) -> None:
    await trio.lowlevel.checkpoint()


async def not_accepted(call: Call) -> None:
    await trio.lowlevel.checkpoint()
    raise InputNotAccepted("busy")


async def silent(call: Call) -> None:
    await trio.lowlevel.checkpoint()


async def group(call: Call) -> None:
    await trio.lowlevel.checkpoint()
    raise BaseExceptionGroup("several", [ValueError("a"), KeyError("b")])


ENDS: dict[str, tuple[Callable[[Call], Awaitable[None]], Callable[..., Awaitable[None]], str]] = {
    "reply": (lasting(5), nothing, "processed"),
    "raise": (fail, nothing, "failed"),
    "raise a group": (group, nothing, "failed"),
    "say nothing": (silent, nothing, "failed"),
    "too long": (hang, nothing, "failed"),
    "not accepted": (not_accepted, nothing, "released:not-accepted"),
    "interrupt": (hang, interrupted, "processed"),
    "stop": (hang, stopped, "released:stop"),
    "leave": (hang, left, "released:left"),
    "delete": (hang, deleted, "released:left"),
}


@guarantee(10)
@for_each("end", ENDS)
@for_each("when", [0.0, 1.0])
async def test_every_claim_gets_exactly_one_record(
    end: str, when: float, autojump_clock: trio.testing.MockClock
) -> None:
    behaviour, act, kind = ENDS[end]
    async with stage(behaviour) as here:
        room = await here.room()
        async with here.running(attrs.evolve(QUIET, max_cycle_seconds=8), grace=0):
            message = await here.say(room, "m0")
            await (
                here.adapter.until_running()
            ) if kind != "failed" and end != "not accepted" else None
            await trio.sleep(when)
            await act(here, room)
            await here.band.until(lambda: bool(here.seen(Recorded)))
            assert records(here)[0] == (message, kind)
            here.adapter.behaviour = reply

        answered = [m for m, answer in claims(here) if answer == "claimed"]
        assert [m for m, _ in records(here)] == answered


@guarantee(10)
@for_each("step", ["claim", "participants", "context", "handler", "processed"])
@for_each("how", ["interrupt", "stop", "leave", "shutdown", "cancel", "supersede"])
async def test_a_claim_that_is_ended_at_any_step_gets_one_record(
    step: str, how: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Whatever is under way: the claim, a read, the handler, or the mark."""
    route = {"claim": "processing", "handler": ""}.get(step, step)
    async with stage(lasting(10) if step == "handler" else reply) as here:
        room = await here.room()
        if route:
            here.band.faults.delay(5, answer=step == "claim", route=route, room=room)
        async with trio.open_nursery() as nursery:
            agent = here.agent(QUIET)

            async def run(task_status: Any = trio.TASK_STATUS_IGNORED) -> None:  # noqa: ASYNC128 - agent.run calls it
                try:
                    await agent.run(task_status=task_status)
                except BandSupersededError:
                    assert how == "supersede"

            await nursery.start(run)
            message = await here.say(room, "m0")
            await trio.sleep(2)
            if how in ("shutdown", "cancel"):
                agent.stop(grace=0) if how == "shutdown" else nursery.cancel_scope.cancel()
            elif how == "supersede":
                topic = f"agent_control:{here.account.id}"
                here.band.send_frame(here.account, topic, "supersede", {
                    "reason": "session.already_connected", "message": "m", "retryable": False,
                    "correlation_id": "c",
                })  # fmt: skip
            else:
                await {"interrupt": interrupted, "stop": stopped, "leave": left}[how](here, room)
            await trio.sleep(30)
            agent.stop(grace=0)

        answered = [m for m, answer in claims(here) if answer == "claimed"]
        assert [m for m, _ in records(here)] == answered
        assert len(answered) <= 1
        done = "processed" if step == "processed" or how == "interrupt" else None
        if answered and done:
            assert records(here) == [(message, done)]
        elif answered:
            reason = {"leave": "left", "cancel": "shutdown", "supersede": "superseded"}.get(
                how, how
            )
            assert records(here) == [(message, f"released:{reason}")]
        if step != "processed" and how != "interrupt":
            assert here.band.state(message, here.account) in ("processing", "delivered")


# --------------------------------------------------------------------------- one at a time


@guarantee(2)
async def test_a_room_never_holds_two_claims(autojump_clock: trio.testing.MockClock) -> None:
    """Whatever its turns end with, the next claim comes after the record of the one before."""
    offered: set[str] = set()

    async def by_number(call: Call) -> None:
        number = int(call.text)
        await trio.sleep(number % 3)
        if number % 4 == 1:
            raise ValueError("no")
        if number % 4 == 2 and call.msg.id not in offered:
            offered.add(call.msg.id)
            raise InputNotAccepted("busy")
        await reply(call)

    async with stage(by_number) as here:
        rooms = [await here.room() for _ in range(3)]
        async with here.running(attrs.evolve(QUIET, max_message_retries=2, hold_seconds=5)):
            for n in range(12):
                for room in rooms:
                    await here.say(room, str(n))
            await trio.sleep(300)

    kinds = [kind for _, kind in records(here)]
    assert kinds.count("processed") == 27
    assert kinds.count("failed") == 18  # nine, twice each
    for room in rooms:
        assert_alternating(here, room)


def assert_alternating(here: Stage, room: str) -> None:
    """Check that a room's claims and records come in pairs."""
    claimed: str | None = None
    for _, event in here.trace:
        if isinstance(event, Claimed) and event.room_id == room and event.answer == "claimed":
            assert claimed is None
            claimed = event.message_id
        elif isinstance(event, Recorded) and event.room_id == room:
            assert event.message_id == claimed
            claimed = None

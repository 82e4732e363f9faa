"""Marks: kept until the platform has them, never cut off, never contradicted, nothing run again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from band_trio import SessionConfig
from band_trio.localband.fault_rules import RequestFault
from band_trio.runtime.turn.activity import WorkingIndicator
from band_trio.trace import Marked, Posted, Recorded, RoomServed
from tests.marks import case, guarantee
from tests.runtime.harness import Behaviour, Call, Stage, reply, stage
from tests.runtime.views import (
    claims,
    fail,
    hang,
    lasting,
    marks,
    payload,
    push_again,
    records,
    sent,
    starts,
)
from tests.support.for_each import for_each

QUIET = SessionConfig(idle_resync_seconds=1e7, idle_resync_max_seconds=1e7)

BREAKAGES: dict[str, Callable[..., Any]] = {
    "500": lambda faults, **at: faults.refuse(500, **at),
    "503": lambda faults, **at: faults.refuse(503, **at),
    "429": lambda faults, **at: faults.refuse(429, **at),
    "401": lambda faults, **at: faults.refuse(401, **at),
    "403": lambda faults, **at: faults.refuse(403, **at),
    "202": lambda faults, **at: faults.odd_answer(b"{}", status=202, commit=False, **at),
    "success false": lambda faults, **at: faults.odd_answer(
        b'{"data": {"success": false}}', commit=False, **at
    ),
    "odd 422": lambda faults, **at: faults.refuse(422, details={"/x": ["odd"]}, **at),
    "hang": lambda faults, **at: faults.hang(commit=False, **at),
    "cut": lambda faults, **at: faults.cut_request(commit=False, **at),
    "unreachable": lambda faults, **at: faults.unreachable(**at),
}
STORED: dict[str, Callable[..., Any]] = {
    "500": lambda faults, **at: faults.drop_after_commit(500, **at),
    "hang": lambda faults, **at: faults.hang(**at),
    "cut": lambda faults, **at: faults.cut_request(**at),
}


# --------------------------------------------------------------------------- kept until accepted


@guarantee(11, 12)
@for_each("how", BREAKAGES)
@for_each(("route", "behaviour"), [("processed", reply), ("failed", fail)], ids=["g11", "g12"])
async def test_a_mark_is_tried_until_the_platform_has_it_and_nothing_runs_again(
    how: str, route: str, behaviour: Behaviour, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage() as here:
        room = await here.room()
        here.adapter.on("m0")(behaviour)
        async with here.running(QUIET):
            await trio.sleep(1)
            message = await here.say(room, "m0")
            BREAKAGES[how](here.band.faults, route=route, message=message, times=12)
            behind = await here.say(room, "m1")
            await here.settled(behind)  # the room goes on meanwhile
            await here.settled(message, state=route)
            await trio.sleep(300)

        assert starts(here) == [message, behind]
        assert records(here) == [(message, route), (behind, "processed")]
        results = [e.result for e in here.seen(Marked) if e.message_id == message]
        assert results == ["unconfirmed"] * 12 + ["accepted"]

        assert here.band.state(message, here.account) == route
        assert len(here.band.attempts(message, here.account)) == 1


@guarantee(11)
async def test_tries_are_spread_by_a_growing_wait_with_a_cap(
    autojump_clock: trio.testing.MockClock,
) -> None:
    session = attrs.evolve(QUIET, settle_base_seconds=1, settle_cap_seconds=8)
    async with stage() as here:
        room = await here.room()
        async with here.running(session):
            here.band.faults.refuse(500, route="processed", times=8)
            message = await here.say(room, "m0")
            await here.settled(message)
            tried = sent(here, "processed", message)

        waits = [b - a for a, b in pairwise(tried)]
        assert len(waits) == 8
        for wait, longest in zip(waits, [1, 2, 4, 8, 8, 8, 8, 8], strict=True):
            assert longest / 2 <= wait <= longest


@guarantee(11)
async def test_a_told_wait_is_obeyed(autojump_clock: trio.testing.MockClock) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running(QUIET):
            here.band.faults.refuse(429, route="processed", retry_after=90)
            message = await here.say(room, "m0")
            await here.settled(message)
            first, second = sent(here, "processed", message)
        assert second - first == pytest.approx(90)


@guarantee(11)
async def test_a_reconnect_causes_a_try(autojump_clock: trio.testing.MockClock) -> None:
    session = attrs.evolve(QUIET, settle_base_seconds=500, settle_cap_seconds=500)
    async with stage() as here:
        room = await here.room()
        async with here.running(session):
            rule = here.band.faults.refuse(500, route="processed", times=None)
            message = await here.say(room, "m0")
            for tries in (1, 2, 3):
                await trio.sleep(100)
                assert len(sent(here, "processed", message)) == tries  # one each, then it waits
                if tries == 3:
                    rule.lift()
                here.band.cut(here.account)
            await trio.sleep(100)
            assert here.band.state(message, here.account) == "processed"


@guarantee(11)
async def test_a_stopped_room_keeps_its_mark_until_the_play(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running(QUIET):
            await trio.sleep(1)
            # The stop comes while the mark is on its way: the platform answers 204.
            here.band.faults.delay(3, route="processed")
            message = await here.say(room, "m0")
            await here.band.until(lambda: bool(here.seen(Recorded)))
            await here.band.user.stop(room)
            await trio.sleep(100)
            assert marks(here) == [("processed", "stopped")]
            assert here.band.state(message, here.account) == "processing"
            await here.band.user.play(room)
            await here.settled(message)
            await trio.sleep(10)

        assert marks(here) == [("processed", "stopped"), ("processed", "accepted")]
        assert starts(here) == [message]


@guarantee(11)
async def test_an_answer_from_before_the_play_neither_stops_the_room_nor_delays_the_mark(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running(QUIET):
            await trio.sleep(1)
            here.band.faults.on_request(RequestFault(delay=1, delay_answer=2), route="processed")
            message = await here.say(room, "m0")
            await here.band.until(lambda: bool(here.seen(Recorded)))
            here.band.faults.suppress(when=lambda f: f.frame.event == "agent.control", times=1)
            await here.band.user.stop(room)  # unheard; the mark is answered 204, late
            await trio.sleep(2)
            began = trio.current_time()
            await here.band.user.play(room)
            await here.settled(message)
            assert trio.current_time() - began < 3
            await here.settled(await here.say(room, "m1"))

        assert marks(here)[:2] == [("processed", "stopped"), ("processed", "accepted")]
        assert here.adapter.interrupts == []


@guarantee(11)
async def test_an_entry_outlives_its_room(autojump_clock: trio.testing.MockClock) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running(QUIET):
            here.band.faults.refuse(500, route="processed", times=5)
            message = await here.say(room, "m0")
            await here.band.until(lambda: bool(here.seen(Recorded)))
            await here.band.user.remove(room, here.account)
            await trio.sleep(1)
            await here.band.user.add(room, here.account)
            await here.settled(message)
            await trio.sleep(100)
        assert starts(here) == [message]


@guarantee(12)
async def test_a_refused_error_text_is_replaced_by_the_bare_class_name(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(fail) as here:
        room = await here.room()
        async with here.running(QUIET):
            here.band.faults.refuse(422, route="failed", details={"/error": ["is not nice"]})
            message = await here.say(room, "m0")
            await here.settled(message, state="failed")
        assert here.band.world.messages[message].deliveries[here.account.id].attempts[0].error == (
            "ValueError"
        )
        assert starts(here) == [message]


@guarantee(37)
async def test_the_report_comes_behind_the_final_mark_and_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(fail) as here:
        room = await here.room()
        async with here.running(QUIET):
            here.band.faults.refuse(500, route="failed", times=4)
            message = await here.say(room, "m0")
            await trio.sleep(300)

        assert [post.kind for post in here.seen(Posted)] == ["error"]
        assert sent(here, "post_event")[0] >= sent(here, "failed", message)[-1]
        assert len(sent(here, "post_event")) == 1


@case("C10")
async def test_a_room_with_too_many_unconfirmed_records_claims_nothing_new(
    autojump_clock: trio.testing.MockClock,
) -> None:
    session = attrs.evolve(QUIET, room_unsettled=3, settle_base_seconds=5, settle_cap_seconds=5)
    async with stage() as here:
        room, other = await here.room(), await here.room()
        async with here.running(session):
            rule = here.band.faults.refuse(500, route="processed", room=room, times=None)
            messages = [await here.say(room, f"m{n}") for n in range(6)]
            await trio.sleep(100)
            assert starts(here) == messages[:3]
            # Hints that come now do not make the room spin on its list.
            before = len(sent(here, "messages"))
            messages += [await here.say(room, f"m{n}") for n in range(6, 9)]
            await trio.sleep(100)
            assert len(sent(here, "messages")) - before <= 3
            await here.settled(await here.say(other, "elsewhere"))
            rule.lift()
            await here.settled(*messages)
        assert [m for m in starts(here) if m in messages] == messages


# --------------------------------------------------------------------------- never cut off


async def interrupt(here: Stage, room: str) -> None:
    await here.band.user.interrupt(here.account)


async def stop(here: Stage, room: str) -> None:
    here.band.signal(here.account, "stop", room_id=room)
    await trio.lowlevel.checkpoint()


async def leave(here: Stage, room: str) -> None:
    topic = f"agent_rooms:{here.account.id}"
    here.band.send_frame(here.account, topic, "room_removed", {"id": room})
    await trio.lowlevel.checkpoint()


async def reconnect(here: Stage, room: str) -> None:
    here.band.cut(here.account)
    await trio.lowlevel.checkpoint()


@guarantee(13)
@case("C11")
@for_each("act", [interrupt, stop, leave, reconnect], ids=lambda act: act.__name__)
@for_each(("route", "behaviour"), [("processed", reply), ("failed", fail)])
async def test_a_mark_in_flight_is_cut_off_by_nothing_and_then_kept(
    route: str,
    behaviour: Behaviour,
    act: Callable[[Stage, str], Awaitable[None]],
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(behaviour) as here:
        room = await here.room()
        async with here.running(attrs.evolve(QUIET, settle_seconds=5)):
            await trio.sleep(1)
            here.band.faults.delay(4, route=route)  # longer than the act, shorter than the bound
            message = await here.say(room, "m0")
            await here.band.until(lambda: bool(here.seen(Recorded)))
            await trio.sleep(1)
            await act(here, room)
            await trio.sleep(2)
            assert marks(here) == []
            await trio.sleep(2)
            assert marks(here) == [(route, "accepted")]

        assert records(here) == [(message, route)]
        assert starts(here) == [message]
        assert len(sent(here, route, message)) == 1


async def stop_and_play(here: Stage, room: str) -> None:
    await here.band.user.stop(room)
    await trio.sleep(1)
    await here.band.user.play(room)


async def leave_and_come_back(here: Stage, room: str) -> None:
    await leave(here, room)
    await trio.sleep(1)
    here.band.send_frame(here.account, f"agent_rooms:{here.account.id}", "room_added", {"id": room})


@guarantee(13, 14)
@case("C11")
@for_each("act", [interrupt, stop_and_play, leave_and_come_back], ids=lambda act: act.__name__)
async def test_after_a_mark_that_hangs_only_the_mark_is_repeated(
    act: Callable[[Stage, str], Awaitable[None]], autojump_clock: trio.testing.MockClock
) -> None:
    """Meanwhile the platform serves the message again, by its list and by push."""
    async with stage() as here:
        room = await here.room()
        async with here.running(attrs.evolve(QUIET, settle_seconds=5)):
            await here.settled(await here.say(room, "first"))
            here.band.faults.hang(commit=False, route="processed", times=3)
            message = await here.say(room, "m0")
            await here.band.until(lambda: len(here.seen(Recorded)) == 2)
            await trio.sleep(1)
            await act(here, room)
            await trio.sleep(6)
            assert here.band.state(message, here.account) == "processing"
            push_again(here, room, payload(here, message))
            here.band.cut(here.account)
            await trio.sleep(3)
            push_again(here, room, payload(here, message))
            await here.settled(message, await here.say(room, "last"))

        assert here.adapter.texts == ["first", "m0", "last"]
        assert claims(here).count((message, "claimed")) == 1
        assert len(sent(here, "processed", message)) > 1
        assert here.band.attempts(message, here.account) == ["success"]


@guarantee(13)
async def test_after_its_own_deadline_a_mark_is_kept_as_unconfirmed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running(attrs.evolve(QUIET, settle_seconds=5)) as agent:
            await trio.sleep(1)
            here.band.faults.hang(commit=False, route="processed")
            message = await here.say(room, "m0")
            behind = await here.say(room, "m1")
            began = trio.current_time()
            await here.settled(behind)
            assert trio.current_time() == pytest.approx(began + 5)  # the room waits so long
            await trio.sleep(0.1)
            assert agent.health().unconfirmed == 1
            await here.settled(message)
            await trio.sleep(1)
            assert agent.health().unconfirmed == 0
        assert starts(here) == [message, behind]


@guarantee(13)
@pytest.mark.parametrize("grace", [0, 10])
async def test_a_stop_of_the_agent_lets_a_mark_in_flight_finish(
    grace: float, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running(QUIET, grace=grace):
            await trio.sleep(1)
            here.band.faults.delay(1, route="processed")
            message = await here.say(room, "m0")
            await here.band.until(lambda: bool(here.seen(Recorded)))
        assert here.band.state(message, here.account) == "processed"
        assert here.reports[0].graceful


@guarantee(13, 14)
async def test_a_room_that_breaks_does_not_cut_off_a_mark_or_run_it_again(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task beside the mark fails and cancels the whole room."""

    async def break_down(self: WorkingIndicator, working: bool) -> None:
        await trio.sleep(2)
        raise RuntimeError("a bug")

    async with stage(lasting(1)) as here:
        room = await here.room()
        async with here.running(QUIET):
            await trio.sleep(1)
            monkeypatch.setattr(WorkingIndicator, "_send_one", break_down)
            here.band.faults.delay(4, route="processed")
            message = await here.say(room, "m0")
            await here.band.until(lambda: bool(here.seen(Recorded)))
            monkeypatch.undo()
            await here.settled(message)
            await here.settled(await here.say(room, "m1"))

        assert [e.result for e in here.seen(Marked) if e.message_id == message] == ["accepted"]
        assert len(sent(here, "processed", message)) == 1
        assert starts(here).count(message) == 1
        assert len(here.seen(RoomServed)) == 2  # it did break


# --------------------------------------------------------------------------- never run again


@guarantee(14)
@case("C11")
@for_each("how", BREAKAGES)
async def test_a_message_whose_mark_is_lost_is_not_run_again_when_it_is_served_again(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    """By push, by list, after a reconnect: the platform still has it as `processing`."""
    async with stage() as here:
        room = await here.room()
        async with here.running(QUIET):
            await here.settled(await here.say(room, "first"))
            message = await here.say(room, "m0")
            BREAKAGES[how](here.band.faults, route="processed", times=20)
            await here.band.until(lambda: len(here.seen(Recorded)) == 2)
            for _ in range(3):
                push_again(here, room, payload(here, message))
                await trio.sleep(3)
                here.band.cut(here.account)
                await trio.sleep(3)
            await here.settled(message)
            push_again(here, room, payload(here, message))
            await trio.sleep(300)

        assert starts(here).count(message) == 1
        assert claims(here).count((message, "claimed")) == 1
        assert here.band.attempts(message, here.account) == ["success"]


@guarantee(14, 15, 16)
@case("C10")
@for_each("then", ["422", "404", "409"])
@for_each("how", STORED)
async def test_a_mark_that_was_stored_without_an_answer_is_settled(
    how: str, then: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Its repetition finds no live attempt: that is no failure."""
    async with stage() as here:
        room = await here.room()
        async with here.running(QUIET) as agent:
            STORED[how](here.band.faults, route="processed")
            if then != "422":  # which is what the platform says by itself
                here.band.faults.refuse(int(then), route="processed")
            message = await here.say(room, "m0")
            await trio.sleep(300)
            assert agent.health().unconfirmed == 0

        last = "not_found" if then == "404" else "rejected"
        assert marks(here) == [("processed", "unconfirmed"), ("processed", last)]
        assert starts(here) == [message]
        assert sent(here, "failed") == []


FINAL = {
    "404": lambda faults, **at: faults.refuse(404, **at),
    "409": lambda faults, **at: faults.refuse(409, **at),
    "422": lambda faults, **at: faults.refuse(
        422, details={"/processing_attempt": ["no live attempt"]}, **at
    ),
}


@guarantee(15)
@case("C10")
@for_each("how", FINAL)
@for_each(("route", "behaviour"), [("processed", reply), ("failed", fail)])
async def test_a_final_answer_ends_the_matter(
    how: str, route: str, behaviour: Behaviour, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage() as here:
        room = await here.room()
        here.adapter.on("m0")(behaviour)
        async with here.running(QUIET) as agent:
            await trio.sleep(1)
            FINAL[how](here.band.faults, route=route)
            message = await here.say(room, "m0")
            behind = await here.say(room, "m1")
            await here.settled(behind)
            await trio.sleep(300)
            assert agent.health().unconfirmed == 0

        result = "not_found" if how == "404" else "rejected"
        assert marks(here) == [(route, result), ("processed", "accepted")]
        assert starts(here) == [message, behind]
        assert len(sent(here, route, message)) == 1
        reports = len(sent(here, "post_event"))
        assert reports == (1 if route == "failed" and how != "404" else 0)


@guarantee(12)
async def test_a_retry_waits_for_the_failed_mark_of_the_run_before(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()

        async def second_time(call: Call) -> None:
            if len(here.adapter.calls) == 1:
                raise ValueError("no")
            await reply(call)

        here.adapter.behaviour = second_time
        async with here.running(attrs.evolve(QUIET, max_message_retries=2, retry_base_seconds=1)):
            here.band.faults.refuse(500, route="failed", times=5)
            message = await here.say(room, "m0")
            await here.settled(message)
            claimed, failed = sent(here, "processing", message), sent(here, "failed", message)

        assert len(claimed) == 2
        assert len(failed) == 6
        assert claimed[1] >= failed[-1]
        assert here.band.attempts(message, here.account) == ["failed", "success"]


async def test_an_interrupt_that_meets_the_end_of_the_program_is_still_told(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The interrupt came first, so the message is processed, although the run is cut off."""

    async def ends_the_program(call: Call) -> None:
        try:
            await hang(call)
        finally:
            raise SystemExit(3)

    async with stage(ends_the_program) as here:
        room = await here.room()
        agent = here.agent(QUIET)
        with pytest.RaisesGroup(SystemExit):
            async with trio.open_nursery() as nursery:
                await nursery.start(agent.run)
                message = await here.say(room, "m0")
                await here.adapter.until_running()
                await here.band.user.interrupt(here.account)
                await trio.sleep(100)
        assert records(here) == [(message, "processed")]
        assert here.band.state(message, here.account) == "processed"


# --------------------------------------------------------------------------- a stop meanwhile

WAITS: dict[str, Callable[[Stage, str], Any]] = {
    "in flight": lambda here, m: here.band.faults.delay(5, route="processed", message=m),
    "in back-off": lambda here, m: here.band.faults.refuse(
        500, route="processed", message=m, times=4
    ),
    "in a told wait": lambda here, m: here.band.faults.refuse(
        429, route="processed", message=m, retry_after=20
    ),
}


LONG = attrs.evolve(QUIET, settle_base_seconds=500, settle_cap_seconds=500)
"""Nothing is tried again in time, unless something says so."""


@guarantee(11, 13, 53)
@for_each(("state", "grace"), [("in flight", 10), ("in back-off", 0), ("in a told wait", 30)])
async def test_a_stop_of_the_agent_while_a_mark_waits_tries_it_once_more(
    state: str, grace: float, autojump_clock: trio.testing.MockClock
) -> None:
    """The platform has recovered meanwhile; the next run finds nothing to do."""
    async with stage() as here:
        room = await here.room()
        async with here.running(LONG, grace=grace):
            await trio.sleep(1)
            message = await here.say(room, "m0")
            rule = WAITS[state](here, message)
            await trio.sleep(2)
            assert here.band.state(message, here.account) == "processing", "the mark waits"
            rule.lift()
        assert here.band.state(message, here.account) == "processed"
        assert here.reports[0].graceful
        async with here.running(LONG):
            await trio.sleep(100)
        assert starts(here) == [message]


@guarantee(11, 49)
@for_each("state", WAITS)
async def test_a_stop_while_a_mark_waits_costs_neither_the_mark_nor_a_second_run(
    state: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running(QUIET):
            await trio.sleep(1)
            message = await here.say(room, "m0")
            WAITS[state](here, message)
            await trio.sleep(2)
            assert starts(here) == [message]
            assert here.band.state(message, here.account) == "processing", "the mark waits"
            await here.band.user.stop(room)
            await trio.sleep(100)
            await here.band.user.play(room)
            await here.settled(message)
            await trio.sleep(100)
        assert starts(here) == [message]
        assert len(here.band.attempts(message, here.account)) == 1

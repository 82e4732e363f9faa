"""Rooms that break are started again; any other part that breaks ends the run."""

from __future__ import annotations

import logging
from itertools import pairwise
from typing import Any

import pytest
import trio
import trio.testing

from band_trio.link.channel.epoch import Epoch
from band_trio.link.channel.socket import Socket
from band_trio.runtime.journal.todo import Run, Settle
from band_trio.runtime.membership.presence import RoomPresence
from band_trio.runtime.room.drain import Drain, Pass
from band_trio.runtime.room.settler import Settler
from band_trio.runtime.run.dispatcher import Dispatcher
from band_trio.runtime.run.key_check import KeyCheck
from band_trio.trace import Recorded
from tests.marks import case, guarantee
from tests.runtime.harness import Call, reply
from tests.runtime.lifecycle_kit import (
    LifeStage,
    life,
    raises,
    tasks,
)
from tests.runtime.views import hang


async def removed(here: LifeStage, room: str) -> None:
    await here.band.user.remove(room, here.account)


# ------------------------------------------------------------------ broken


def breaking(monkeypatch: pytest.MonkeyPatch, times: int, error: BaseException) -> list[float]:
    """Let the passes of every room break so often; return the list of the times."""
    real = Drain.find
    broken: list[float] = []

    async def find(self: Drain, current: Pass) -> Run | Settle | None:
        if len(broken) < times:
            broken.append(trio.current_time())
            raise error
        return await real(self, current)

    monkeypatch.setattr(Drain, "find", find)
    return broken


@guarantee(45)
@case("C52")
async def test_a_room_that_breaks_is_told_and_started_again_after_a_back_off(
    autojump_clock: trio.testing.MockClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with life() as here:
        room = await here.room()
        broken = breaking(monkeypatch, 4, RuntimeError("a bug"))
        async with here.running() as agent:
            message = await here.say(room, "m")
            await here.settled(message)
            assert len(agent.health().problems) == 4
            assert all("RuntimeError" in problem for problem in agent.health().problems)
        waits = [b - a for a, b in pairwise(broken)]
        for wait, longest in zip(waits, (1, 2, 4), strict=True):
            assert longest / 2 <= wait <= longest
        assert here.adapter.cleaned == [room], "the adapter's state is kept until the end"
        loud = [record for record in caplog.records if record.levelno >= logging.ERROR]
        assert len(loud) == 4
        assert all("RuntimeError: a bug" in record.getMessage() for record in loud)


@guarantee(45)
async def test_a_broken_room_does_not_hold_up_others(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with life() as here:
        rooms = [await here.room() for _ in range(3)]
        breaking(monkeypatch, 1, RuntimeError("a bug"))
        async with here.running():
            at = trio.current_time()
            messages = [await here.say(room, "m") for room in rooms]
            await trio.sleep(0.1)
            states = [here.band.state(message, here.account) for message in messages]
            assert states.count("processed") == 2
            await here.settled(*messages)
            assert trio.current_time() - at <= 1.5


@guarantee(45)
async def test_the_turn_of_a_room_that_breaks_is_released(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something beside the turn breaks; the message is run again by the next child."""
    async with life() as here:
        room = await here.room()

        async def slow(call: Call) -> None:
            await trio.sleep(10)
            await reply(call)

        here.adapter.behaviour = slow
        async with here.running() as agent:
            message = await here.say(room, "m")
            await trio.sleep(5)
            assert agent._runtime is not None
            assert agent._runtime._presence is not None
            child = agent._runtime._presence.room(room)
            assert child is not None
            child._nursery.start_soon(raises(RuntimeError("a bug beside the turn")))
            await here.settled(message)
        assert here.adapter.texts == ["m", "m"]
        assert not here.adapter.overlapped
        kinds = [event.kind for event in here.seen(Recorded)]
        assert kinds == ["released:shutdown", "processed"]
        assert here.band.attempts(message, here.account) == ["success"]


@guarantee(45, 51)
@pytest.mark.parametrize("then", ["stop", "leave"])
async def test_a_broken_room_that_waits_can_be_ended(
    then: str, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with life() as here:
        room = await here.room()
        breaking(monkeypatch, 8, RuntimeError("a bug"))  # waits for up to a minute by then
        async with here.running():
            await trio.sleep(100)
            at = trio.current_time()
            if then == "leave":
                await removed(here, room)
                await trio.sleep(5)
                assert here.adapter.cleaned == [room]
                await here.band.user.add(room, here.account)
                await here.settled(await here.say(room, "m"))
                assert trio.current_time() - at <= 10.0
                at = trio.current_time()
        assert trio.current_time() == at, "nothing had to be waited for"
        (report,) = here.reports
        assert report.graceful
        assert not any("could not be ended" in each for each in report.cleanup_errors)
        assert here.adapter.cleaned == [room] * (2 if then == "leave" else 1)


# ------------------------------------------------------------------ other parts


class _BugError(Exception):
    pass


async def part_ends(here: LifeStage) -> None:
    """Run an agent in which a part fails after the start; it must not go on."""
    room = await here.room()
    here.adapter.behaviour = hang
    with pytest.raises(_BugError) as caught:
        async with here.agent():
            await trio.sleep(1)
            message = await here.say(room, "m")
            await trio.sleep(100)
    assert caught.type is _BugError
    assert here.band.state(message, here.account) in ("processing", "delivered")
    assert here.adapter.cleaned == [room]
    await here.assert_nothing_left()


async def fail_later(*args: Any, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
    task_status.started()
    await trio.sleep(5)
    raise _BugError("a bug")


async def list_later(*args: Any, **kwargs: Any) -> None:
    await trio.sleep(1)
    raise _BugError("a bug")


def break_down(*args: Any) -> None:
    raise _BugError("a bug")


@guarantee(45)
@case("C52")
@pytest.mark.parametrize("part", ["key check", "presence", "adapter", "dispatcher", "listing"])
async def test_any_other_part_that_breaks_makes_run_raise(
    part: str, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def break_the_listing() -> None:
        await trio.sleep(5)
        monkeypatch.setattr("band_trio.runtime.listing.list_rooms", list_later)
        here.band.cut(here.account)

    real = RoomPresence.serve

    async def serve(  # noqa: ASYNC128 - another function calls it
        self: RoomPresence, *, task_status: trio.TaskStatus[None]
    ) -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(real, self)
            await fail_later(task_status=task_status)

    async with life() as here, trio.open_nursery() as nursery:
        here.before = tasks()
        match part:
            case "key check":
                monkeypatch.setattr(KeyCheck, "serve", fail_later)
            case "presence":
                monkeypatch.setattr(RoomPresence, "serve", serve)
            case "adapter":
                monkeypatch.setattr(here.adapter, "serve", fail_later)
            case "dispatcher":
                monkeypatch.setattr(Dispatcher, "pushed", break_down)
            case "listing":
                nursery.start_soon(break_the_listing)
        await part_ends(here)


@guarantee(45)
async def test_a_defect_while_settling_ends_the_run_in_order(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Settler, "_persist", fail_later)
    async with life() as here:
        here.before = tasks()
        room = await here.room()
        here.band.faults.refuse(500, route="processed", times=None)
        with pytest.raises(_BugError):
            async with here.agent():
                await here.say(room, "m")
                await trio.sleep(100)
        assert here.adapter.cleaned == [room]
        await here.assert_nothing_left()


@guarantee(45)
@pytest.mark.parametrize("part", ["the check of the key", "presence"])
async def test_a_part_that_ends_by_itself_is_an_error_too(
    part: str, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ends(*args: Any, task_status: Any) -> None:
        task_status.started()
        await trio.sleep(5)

    monkeypatch.setattr({"presence": RoomPresence}.get(part, KeyCheck), "serve", ends)
    async with life() as here:
        with pytest.raises(RuntimeError, match=f"{part} ended by itself"):
            await here.agent().run()
        await here.assert_nothing_left()


@guarantee(45)
@case("C52")
@pytest.mark.parametrize("part", ["_beat", "_watch", "_read", "_keep_topics"])
async def test_a_part_of_the_connection_that_breaks_ends_the_run(
    part: str, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(self: Epoch) -> None:
        await trio.sleep(5)
        raise ZeroDivisionError("a bug")

    async with life() as here:
        await here.room()
        real = getattr(Epoch, part)

        async def breaks_later(self: Epoch) -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(broken, self)
                await real(self)

        monkeypatch.setattr(Epoch, part, breaks_later)
        await assert_run_raises(here)


@guarantee(45)
@case("C52")
async def test_a_writer_that_breaks_ends_the_run(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(self: Socket, text: str) -> None:
        await trio.lowlevel.checkpoint()
        raise ZeroDivisionError("a bug")

    async with life() as here:
        await here.room()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(assert_run_raises, here)
            await trio.sleep(5)
            monkeypatch.setattr(Socket, "send", broken)
            await here.room()


async def assert_run_raises(here: LifeStage) -> None:
    """Run an agent in which a part breaks after 5 s."""
    began = trio.current_time()
    with pytest.RaisesGroup(ZeroDivisionError, allow_unwrapped=True, flatten_subgroups=True):
        async with here.agent():
            await trio.sleep(100)
    assert trio.current_time() - began < 10

"""What code of the application may throw at the runtime: it costs a turn or a hook, no more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from band_trio.kit.leaves import leaf_errors
from band_trio.runtime.journal.todo import Todo
from band_trio.runtime.room.execution import ExecutionContext
from band_trio.runtime.turn.preprocessing import DefaultPreprocessor
from band_trio.trace import Ended, Recorded, Started, TraceEvent
from tests.marks import case, guarantee
from tests.runtime.harness import Call, reply
from tests.runtime.lifecycle_kit import LifeStage, life, raises
from tests.support.for_each import for_each


def failed_text(here: LifeStage, message_id: str) -> str:
    """Return the text of the message's first failed mark."""
    return str(here.band.world.messages[message_id].deliveries[here.account.id].attempts[0].error)


def plain() -> BaseException:
    return ValueError("no")


def own_group() -> BaseException:
    return ExceptionGroup("mine", [ValueError("a"), ExceptionGroup("inner", [KeyError("b")])])


class OtherError(BaseException):
    """Neither an `Exception` nor the end of the program."""


FOREIGN = for_each("make", [plain, own_group, asyncio.CancelledError, OtherError])


@guarantee(44)
@case("C18")
@FOREIGN
@for_each("where", ["handler", "task", "started"])
async def test_any_error_fails_its_turn_only(
    where: str, make: Callable[[], BaseException], autojump_clock: trio.testing.MockClock
) -> None:
    async def started(*, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        await raises(make())()

    async with life() as here:
        rooms = [await here.room(), await here.room()]

        @here.adapter.on("bad")
        async def bad(call: Call) -> None:
            if where == "handler":
                raise make()
            if where == "task":
                call.tools.turn.nursery.start_soon(raises(make()))
            else:
                await call.tools.turn.nursery.start(started)
            await trio.sleep_forever()

        async with here.running():
            message = await here.say(rooms[0], "bad")
            await here.settled(message, state="failed")
            await here.settled(*[await here.say(room, "good") for room in rooms])
        names = [type(leaf).__name__ for leaf in leaf_errors(make())]
        assert all(name in failed_text(here, message) for name in names)
        assert "nursery" not in failed_text(here, message).lower()


@guarantee(44, 57)
@FOREIGN
@for_each("hook", ["on_started", "serve", "on_interrupt", "on_cleanup", "block"])
async def test_any_error_of_a_hook_is_one_like_any_other(
    hook: str, make: Callable[[], BaseException], autojump_clock: trio.testing.MockClock
) -> None:
    async def fails() -> None:  # noqa: ASYNC124 - what is tested is async
        raise make()

    hooks: dict[str, Callable[[], Awaitable[None]]] = {hook: fails}
    async with life() as here:
        here.noted.hooks = hooks
        room = await here.room()
        caught: list[BaseException] = []
        try:
            async with here.agent():
                await here.settled(await here.say(room, "m"))
                await here.band.user.stop(room)
                await trio.sleep(1)
                if hook == "block":
                    raise make()
        except BaseException as exc:  # noqa: ASYNC103, BLE001 - any of them
            caught.append(exc)
        assert [type(exc) for exc in caught] == (
            [type(make())] if hook in ("on_started", "serve", "block") else []
        )
        await here.assert_nothing_left()


@guarantee(43)
async def test_the_first_error_ends_the_turns_other_tasks(
    autojump_clock: trio.testing.MockClock,
) -> None:
    ended: list[float] = []

    async def wait() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(trio.current_time())

    async def bad(call: Call) -> None:
        call.tools.turn.nursery.start_soon(wait)
        call.tools.turn.nursery.start_soon(raises(own_group()))
        await wait()

    async with life() as here:
        here.adapter.on("bad")(bad)
        here.adapter.behaviour = reply
        room = await here.room()
        async with here.running():
            began = trio.current_time()
            await here.settled(await here.say(room, "bad"), state="failed")
        assert ended == [began + 0.5] * 2


# ------------------------------------------------------------------ the record is kept first


class UnreadableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@guarantee(12, 34)
@case("C14")
async def test_an_error_without_text_fails_its_turn_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def bad(call: Call) -> None:  # noqa: ASYNC124 - a behaviour is async
        raise UnreadableError

    async with life() as here:
        here.adapter.on("bad")(bad)
        room = await here.room()
        async with here.running() as agent:
            message, good = await here.say(room, "bad"), await here.say(room, "good")
            await here.settled(message, state="failed")
            await here.settled(good)
            assert agent.health().problems == ()
        assert here.adapter.texts == ["bad", "good"]
        assert failed_text(here, message) == "UnreadableError"


@guarantee(10, 14)
async def test_an_observer_cannot_cost_a_record(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:

        def observe(event: TraceEvent) -> None:
            here.observe(event)
            raise asyncio.CancelledError

        room = await here.room()
        async with here.running(observer=observe) as agent:
            await here.settled(await here.say(room, "m"))
            await trio.sleep(200)
            assert agent.health().problems == ()
        assert here.adapter.texts == ["m"]
        assert [len(here.seen(kind)) for kind in (Started, Ended, Recorded)] == [1, 1, 1]


class Preprocessing:
    """Spoils what the default one makes of messages that say bad."""

    def __init__(self, spoil: Callable[[Any], Any]) -> None:
        self.spoil = spoil

    async def process(self, ctx: Any, event: Any, agent_id: str) -> Any:
        inp = await DefaultPreprocessor().process(ctx, event, agent_id)
        return self.spoil(inp) if event.content.endswith("bad") else inp


def commit_fails(inp: Any) -> Any:
    def fail() -> None:
        raise asyncio.CancelledError

    return attrs.evolve(inp, commit_context=fail)


@guarantee(10, 12)
@pytest.mark.parametrize("kind", ["no input", "commit"])
async def test_a_preprocessor_with_a_bad_result_costs_its_turn_only(
    kind: str, autojump_clock: trio.testing.MockClock
) -> None:
    spoil = commit_fails if kind == "commit" else lambda inp: True
    async with life() as here:
        room = await here.room()
        async with here.running(preprocessor=Preprocessing(spoil)) as agent:
            message, good = await here.say(room, "bad"), await here.say(room, "good")
            await here.settled(message, state="processed" if kind == "commit" else "failed")
            await here.settled(good)
            assert agent.health().problems == ()
        if kind != "commit":
            assert "returned bool" in failed_text(here, message)
        assert len(here.band.attempts(message, here.account)) == 1


@guarantee(45)
async def test_a_room_that_ends_without_a_reason_is_started_again(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0

    async def step(self: ExecutionContext, todo: Todo) -> None:
        nonlocal steps
        steps += 1
        if steps < 3:
            raise OtherError
        await real(self, todo)

    real = ExecutionContext._do
    monkeypatch.setattr(ExecutionContext, "_do", step)
    async with life() as here:
        room = await here.room()
        async with here.running() as agent:
            await here.settled(await here.say(room, "m"))
            assert len(agent.health().problems) == 2
            assert trio.current_time() < 10
        assert here.adapter.cleaned == [room]

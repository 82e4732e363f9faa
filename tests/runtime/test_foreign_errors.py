"""What code of the application may throw at the runtime: it costs a turn or a hook, no more."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from band_trio import PlatformMessage
from band_trio.preprocessing import DefaultPreprocessor
from band_trio.runtime.execution import ExecutionContext
from band_trio.trace import Ended, Recorded, Started, TraceEvent
from band_trio.types import AgentToolsProtocol
from tests.runtime.harness import Call, reply
from tests.runtime.lifecycle_kit import LifeStage, Noted, life, raises
from tests.test_nurseries import nested, stale, unprintable


def failed_text(here: LifeStage, message_id: str) -> str:
    """Return the text of the message's first failed mark."""
    return str(here.band.world.messages[message_id].deliveries[here.account.id].attempts[0].error)


MAKE = pytest.mark.parametrize("make", [unprintable, nested])


@MAKE
@pytest.mark.parametrize("where", ["handler", "task", "started"])
async def test_g44_c14_an_error_that_cannot_be_printed_fails_its_turn_only(
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
        assert "ValueError" in failed_text(here, message)


@MAKE
@pytest.mark.parametrize("hook", ["on_started", "serve", "on_interrupt", "on_cleanup", "block"])
async def test_g44_g57_an_error_that_cannot_be_printed_is_one_like_any_other(
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
        assert len(caught) == (hook in ("on_started", "serve", "block"))
        await here.assert_nothing_left()


async def test_g43_the_first_error_ends_the_turns_other_tasks(
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
        call.tools.turn.nursery.start_soon(raises(unprintable()))
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
        raise asyncio.CancelledError


@pytest.mark.parametrize("error", [UnreadableError(), type("", (Exception,), {})()])
async def test_g12_g34_an_error_without_text_or_name_fails_its_turn_once(
    error: Exception, autojump_clock: trio.testing.MockClock
) -> None:
    async def bad(call: Call) -> None:  # noqa: ASYNC124 - a behaviour is async
        raise error

    async with life() as here:
        here.adapter.on("bad")(bad)
        room = await here.room()
        async with here.running() as agent:
            message, good = await here.say(room, "bad"), await here.say(room, "good")
            await here.settled(message, state="failed")
            await here.settled(good)
            assert agent.health().problems == ()
        assert here.adapter.texts == ["bad", "good"]
        assert failed_text(here, message) == (type(error).__name__ or "Exception")


async def test_g10_g14_an_observer_cannot_cost_a_record(
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


async def test_g10_g34_a_log_that_fails_cannot_cost_a_record(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise RuntimeError("the disk is full")

    async def bad(call: Call) -> None:  # noqa: ASYNC124 - a behaviour is async
        raise ValueError

    log, handler = logging.getLogger("band_trio.runtime.reports"), Broken()
    log.addHandler(handler)
    try:
        async with life(bad) as here:
            room = await here.room()
            async with here.running():
                message = await here.say(room, "m")
                await here.settled(message, state="failed")
                await trio.sleep(200)
            assert here.adapter.texts == ["m"]
            assert here.band.attempts(message, here.account) == ["failed"]
    finally:
        log.removeHandler(handler)


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


@pytest.mark.parametrize("kind", ["no input", "commit"])
async def test_g10_g12_a_preprocessor_with_a_bad_result_costs_its_turn_only(
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


# ------------------------------------------------------------------ cancellations of others


async def raise_stale(*args: object) -> None:
    """Raise what was kept of a scope that is over, as an outcome that is unwrapped too late."""
    raise await stale()


@pytest.mark.parametrize("replied", [True, False])
@pytest.mark.parametrize("where", ["handler", "task", "preprocessor"])
async def test_g44_g67_a_cancellation_of_nobody_fails_the_turn(
    where: str, replied: bool, autojump_clock: trio.testing.MockClock
) -> None:
    class Stale(DefaultPreprocessor):
        async def process(self, ctx: Any, event: Any, agent_id: str) -> Any:
            if event.content.endswith("bad"):
                await raise_stale()
            return await super().process(ctx, event, agent_id)

    async with life() as here:

        @here.adapter.on("bad")
        async def bad(call: Call) -> None:
            if replied:
                await reply(call)
            if where == "handler":
                await raise_stale()
            call.tools.turn.nursery.start_soon(raise_stale)

        room = await here.room()
        options: dict[str, Any] = {"preprocessor": Stale()} if where == "preprocessor" else {}
        async with here.running(**options):
            message, good = await here.say(room, "bad"), await here.say(room, "good")
            await here.settled(message, state="failed")
            await here.settled(good)
        assert "nothing was cancelled" in failed_text(here, message)


class StaleControls(Noted):
    async def try_handle_control(self, msg: PlatformMessage, tools: AgentToolsProtocol) -> bool:
        await self._do("try_handle_control")
        return False


HOOKS = ["on_interrupt", "on_cleanup", "cleanup_all", "callback", "try_handle_control"]


@pytest.mark.parametrize("hook", HOOKS)
async def test_g44_g45_a_cancellation_of_nobody_is_an_error_of_its_hook(
    hook: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with life() as here:
        here.adapter = adapter = StaleControls() if hook == "try_handle_control" else Noted()
        adapter.hooks = {hook: raise_stale}
        room, other = await here.room(), await here.room()
        options: dict[str, Any] = (
            {"on_participant_added": raise_stale} if hook == "callback" else {}
        )
        async with here.running(**options) as agent:
            await here.settled(await here.say(room, "first"))
            if hook == "on_interrupt":
                await here.band.user.stop(room)
                await trio.sleep(1)
                await here.band.user.play(room)
            if hook == "on_cleanup":
                await here.band.user.remove(room, here.account)
                await trio.sleep(1)
                await here.band.user.add(room, here.account)
            if hook == "callback":
                await here.band.user.add(room, here.band.register_agent("Other"))
            await here.settled(await here.say(room, "next"), await here.say(other, "other"))
            problems = agent.health().problems
        if hook == "cleanup_all":
            problems = here.reports[0].cleanup_errors
        assert any("Cancelled" in each for each in problems), problems
        assert not any("broke" in each for each in problems)


@pytest.mark.parametrize("hook", ["on_started", "serve"])
async def test_g44_g57_a_cancellation_of_nobody_ends_the_run_like_any_error(
    hook: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with life() as here:
        here.noted.hooks = {hook: raise_stale}
        with pytest.raises(RuntimeError, match="nothing was cancelled"):
            await here.agent().run()
        await here.assert_nothing_left()


async def test_g45_a_room_that_ends_without_a_reason_is_started_again(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0

    async def step(self: ExecutionContext) -> None:
        nonlocal steps
        steps += 1
        if steps < 3:
            await raise_stale()
        await real(self)

    real = ExecutionContext._step
    monkeypatch.setattr(ExecutionContext, "_step", step)
    async with life() as here:
        room = await here.room()
        async with here.running() as agent:
            await here.settled(await here.say(room, "m"))
            assert len(agent.health().problems) == 2
            assert trio.current_time() < 10
        assert here.adapter.cleaned == [room]

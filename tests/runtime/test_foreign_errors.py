"""What code of the application may throw at the runtime: it costs a turn or a hook, no more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from tests.runtime.harness import Call, reply
from tests.runtime.lifecycle_kit import life, raises
from tests.test_nurseries import nested, unprintable

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
        attempt = here.band.world.messages[message].deliveries[here.account.id].attempts[0]
        assert "ValueError" in str(attempt.error)


@MAKE
@pytest.mark.parametrize("hook", ["on_started", "serve", "on_interrupt", "on_cleanup", "block"])
async def test_g44_g57_an_error_that_cannot_be_printed_is_one_like_any_other(
    hook: str, make: Callable[[], BaseException], autojump_clock: trio.testing.MockClock
) -> None:
    async def fails() -> None:
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
        except BaseException as exc:  # noqa: BLE001 - any of them
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

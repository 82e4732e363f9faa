"""What ends a run from outside: newer connections, refused keys, the program itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from band_trio import (
    Agent,
    AgentAlreadyRunningError,
    BandAuthError,
    BandPolicyError,
    BandSupersededError,
    ConflictPolicy,
    SessionConfig,
)
from band_trio.kit.nurseries import hide_nursery
from band_trio.trace import (
    EpochBegan,
    EpochEnded,
    Recorded,
    ShutDown,
    Started,
    TraceEvent,
)
from tests.marks import case, guarantee
from tests.runtime.harness import Call, Stage, stage
from tests.runtime.lifecycle_kit import LifeStage, Noted, life, raises
from tests.runtime.views import hang
from tests.support.for_each import for_each

# ------------------------------------------------------------------ terminal ends of the link


async def superseded(here: LifeStage) -> None:
    """Another process connects with the same key."""
    other = Stage(here.band, here.account, here.adapter)
    async with other.running(start_patience_seconds=5):
        await trio.sleep(5)


async def superseded_by_push(here: LifeStage) -> None:
    await trio.lowlevel.checkpoint()
    topic = f"agent_control:{here.account.id}"
    payload = {
        "type": "supersede", "reason": "session.moved", "retryable": False,
        "message": "Moved to another host",
    }  # fmt: skip
    here.band.send_frame(here.account, topic, "supersede", payload)


async def policy_close(here: LifeStage) -> None:
    await trio.lowlevel.checkpoint()
    here.band.close(here.account, 1008, "too many frames")


async def key_revoked(here: LifeStage) -> None:
    await trio.lowlevel.checkpoint()
    here.band.faults.refuse(401, when=lambda facts: facts.agent_id == here.account.id, times=None)
    here.band.cut(here.account)
    here.band.faults.refuse_upgrade(403, times=None)


async def key_revoked_for_requests(here: LifeStage) -> None:
    here.band.faults.refuse(401, when=lambda facts: facts.agent_id == here.account.id, times=None)
    await here.band.user.send(next(iter(here.band.world.rooms)), "@x m", [here.account])


ENDS: dict[Callable[[LifeStage], Awaitable[None]], tuple[type[Exception], str]] = {
    superseded: (BandSupersededError, "session.already_connected"),
    superseded_by_push: (BandSupersededError, "session.moved"),
    policy_close: (BandPolicyError, "too many frames"),
    key_revoked: (BandAuthError, "refused"),
    key_revoked_for_requests: (BandAuthError, "refuses"),
}


@guarantee(60)
@for_each("end", ENDS, ids=lambda end: end.__name__)
async def test_a_terminal_end_leaves_run_bare_and_typed(
    end: Callable[[LifeStage], Awaitable[None]], autojump_clock: trio.testing.MockClock
) -> None:
    kind, reason = ENDS[end]
    async with life(hang) as here:
        idle, busy = await here.room(), await here.room()
        message = await here.say(busy, "m")
        caught: list[BaseException] = []

        async def run() -> None:
            try:
                await here.agent().run()
            except BandAuthError as exc:  # each by its own name, as an application would
                caught.append(exc)
            except BandPolicyError as exc:
                caught.append(exc)
            except BandSupersededError as exc:
                caught.append(exc)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            await trio.sleep(5)
            writes = here.writes()
            await end(here)

        (error,) = caught
        assert type(error) is kind
        assert reason in str(error)
        assert here.account.api_key not in str(error)
        records = [event.kind for event in here.seen(Recorded)]
        assert records[0] == "released:superseded"
        assert here.writes()[: len(writes)] == writes
        if end is not superseded:
            assert here.band.attempts(message, here.account) == ["processing"]
            assert sorted(here.adapter.cleaned) == sorted([idle, busy]), "ended in order"
            assert [event.graceful for event in here.seen(ShutDown)] == [False]
        here.band.faults.clear()
        await here.assert_nothing_left()


@guarantee(60)
async def test_the_newer_connection_takes_the_message_over(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life(hang) as here:
        room = await here.room()
        message = await here.say(room, "m")
        other = Stage(here.band, here.account, Noted())
        errors: list[BandSupersededError] = []

        async def older() -> None:
            try:
                await here.agent().run()
            except BandSupersededError as exc:
                errors.append(exc)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(older)
            await trio.sleep(1)
            async with other.running():
                await other.settled(message)
                assert len(errors) == 1, "the older one has ended"
        assert here.band.attempts(message, here.account) == ["success"]
        assert here.adapter.texts == other.adapter.texts == ["m"]
        assert here.adapter.cleaned == [room]
        assert [event.kind for event in here.seen(Recorded)] == ["released:superseded"]


@guarantee(60)
async def test_a_conflict_waits_as_long_as_asked_and_then_says_so(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        other = Stage(here.band, here.account, Noted())
        async with other.running() as first:
            began = trio.current_time()
            with pytest.raises(AgentAlreadyRunningError) as caught:
                await here.agent(
                    conflict_policy=ConflictPolicy.REJECT, conflict_wait_seconds=12
                ).run()
            assert caught.type is AgentAlreadyRunningError
            assert 12.0 <= trio.current_time() - began <= 13.0
            assert first.is_connected, "the other one is not disturbed"
        await here.assert_nothing_left()


@guarantee(60)
@for_each("way", ["run", "nursery.start", "async with"])
async def test_every_way_to_run_an_agent_raises_the_error_itself(
    way: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with life() as here:
        here.band.faults.refuse(401, route="me", times=None)
        agent = here.agent()
        with pytest.raises(BandAuthError):
            if way == "run":
                await agent.run()
            elif way == "async with":
                async with agent:
                    raise AssertionError("entered")
            else:
                with hide_nursery("the test"):
                    async with trio.open_nursery() as nursery:  # noqa: ASYNC112 - a task of its own is the point
                        await nursery.start(agent.run)


# ------------------------------------------------------------------ the program ends


async def ended_by(agent: Agent, stop_after: float | None) -> BaseException | None:
    """Run an agent in this task; return the end of the program that left it."""
    error: BaseException | None = None

    async def stop() -> None:
        if stop_after is not None:
            await trio.sleep(stop_after)
            agent.stop(grace=0)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(stop)
        try:
            await agent.run()
        except (SystemExit, KeyboardInterrupt) as exc:
            error = exc
        nursery.cancel_scope.cancel()
    return error


@guarantee(44, 57)
@case("C18")
@for_each("end", [SystemExit, KeyboardInterrupt])
@for_each("where", ["handler", "child", "group"])
async def test_an_end_of_the_program_from_a_turn_leaves_run_as_itself_and_in_order(
    where: str, end: type[BaseException], autojump_clock: trio.testing.MockClock
) -> None:
    async with life(hang) as here:
        rooms = [await here.room(), await here.room()]

        @here.adapter.on("end")
        async def handler(call: Call) -> None:
            match where:
                case "child":
                    call.tools.turn.nursery.start_soon(raises(end(3)))
                    await trio.sleep_forever()
                case "group":
                    async with trio.open_nursery() as nursery:  # noqa: ASYNC112 - a task of its own is the point
                        nursery.start_soon(raises(end(3)))
                case _:
                    await raises(end(3))()

        messages = [await here.say(rooms[0], "end"), await here.say(rooms[1], "m")]
        error = await ended_by(here.agent(), None)

        assert type(error) is end
        assert error.args == (3,)
        kinds = [event.kind for event in here.seen(Recorded)]
        assert kinds == ["released:shutdown"] * 2, "not failed: served again"
        for message in messages:
            assert here.band.attempts(message, here.account) == ["processing"]
        assert sorted(here.adapter.cleaned) == sorted(rooms)
        assert here.noted.notes[-2:] == ["cleaned", "served"]
        await here.assert_nothing_left()


@guarantee(60)
@pytest.mark.parametrize("end", ["exit", "superseded"])
async def test_a_cancellation_does_not_hide_the_error_that_came_before_it(
    end: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with life(hang) as here:
        room = await here.room()

        async def cancel() -> None:
            scope.cancel(reason="the test cancels an agent that is ending")
            await trio.sleep(0.5)

        async def leave(call: Call) -> None:
            await trio.lowlevel.checkpoint()
            raise SystemExit(3)

        here.noted.hooks["on_cleanup"] = cancel
        if end == "exit":
            here.adapter.behaviour = leave
        scope, errors = trio.CancelScope(), list[BaseException]()

        async def run() -> None:
            with scope:
                try:
                    await here.agent().run()
                except (SystemExit, BandSupersededError) as exc:
                    errors.append(exc)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            await trio.sleep(1)
            await (here.say(room, "m") if end == "exit" else superseded_by_push(here))
        assert [type(each) for each in errors] == [
            SystemExit if end == "exit" else BandSupersededError
        ]
        assert scope.cancel_called
        await here.assert_nothing_left()


@guarantee(57)
@for_each("hook", ["on_cleanup", "cleanup_all", "on_interrupt"])
async def test_an_end_of_the_program_from_a_hook_leaves_run_as_itself(
    hook: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with life(hang) as here:
        rooms = [await here.room(), await here.room()]
        here.noted.hooks[hook] = raises(SystemExit(3))
        await here.say(rooms[0], "m")
        if hook == "on_interrupt":

            def interrupt(event: TraceEvent) -> None:
                here.observe(event)
                if isinstance(event, Started):
                    here.band.signal(here.account, "interrupt")

            error = await ended_by(here.agent(observer=interrupt), None)
        else:
            error = await ended_by(here.agent(), 5)
        assert type(error) is SystemExit
        assert error.code == 3
        assert sorted(here.adapter.cleaned) == sorted(rooms), "each hook was called once"
        await here.assert_nothing_left()


# ------------------------------------------------------------------ the truth about the socket


def connected(agent: Agent) -> bool:
    """Return the property as a call: it changes behind the type checker's back."""
    return agent.is_connected


@guarantee(62)
async def test_is_connected_says_what_the_socket_does(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Asked at every event of the link, at which other tasks could ask too."""
    async with life() as here:
        room = await here.room()
        said: list[tuple[str, bool]] = []
        agents: list[Agent] = []

        def observe(event: TraceEvent) -> None:
            here.observe(event)
            if isinstance(event, EpochBegan | EpochEnded):
                said.append((type(event).__name__, agents[0].is_connected))

        agent = here.agent(SessionConfig(), observer=observe, reconnect_base_seconds=8)
        agents.append(agent)
        assert not connected(agent)
        async with trio.open_nursery() as nursery:
            await nursery.start(agent.run)
            assert connected(agent)
            assert agent.health().connected
            here.band.faults.refuse_upgrade(503, retry_after=20)
            here.band.cut(here.account)
            await trio.testing.wait_all_tasks_blocked()
            assert not connected(agent), "the platform has gone"
            await trio.sleep(15)
            assert not connected(agent), "refused"
            await trio.sleep(20)
            assert connected(agent)
            assert agent.health().epoch == 2
            here.band.silence(here.account)
            await trio.sleep(29)
            assert connected(agent), "nobody can know yet"
            await trio.sleep(40)  # a minute without a heartbeat reply
            await here.settled(await here.say(room, "m"))
            assert connected(agent)
            agent.stop()
        assert not connected(agent)
        ended = [value for name, value in said if name == "EpochEnded"]
        assert ended == [False] * 3


@guarantee(44)
@case("C18")
async def test_an_exit_leaves_a_block_around_the_agent_with_its_code(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def leave(call: Call) -> None:  # noqa: ASYNC124 - a behaviour is async
        raise SystemExit(7)

    async with life(leave) as here:
        room = await here.room()
        with pytest.raises(SystemExit) as caught:
            async with here.agent():
                await here.say(room, "leave")
                await trio.sleep_forever()

        assert caught.value.code == 7


@guarantee(60)
@case("C62")
async def test_many_refusals_ask_for_the_identity_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        rooms = [await here.room() for _ in range(10)]
        session = SessionConfig(idle_resync_seconds=1e7, idle_resync_max_seconds=1e7)
        async with here.running(session):
            await trio.sleep(5)
            asked = len(here.band.log.requests("me"))
            here.band.faults.refuse(401, route="processing", times=20)
            here.band.faults.delay(3, route="me", answer=True, times=1)
            messages = [await here.say(room, "work") for room in rooms]
            await trio.sleep(2)
            assert len(here.band.log.requests("me")) - asked == 1
            await here.settled(*messages)
            await trio.sleep(5)
            before = len(here.band.log.requests("me"))
            here.band.faults.refuse(401, route="processing", times=1)
            await here.settled(await here.say(rooms[0], "later"))
            await trio.sleep(1)
            assert len(here.band.log.requests("me")) - before == 1, "it is asked anew each time"

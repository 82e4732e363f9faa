"""What may go wrong inside a turn, and what of it reaches the platform and the room."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from band_trio import SessionConfig, TurnClosedError
from band_trio.contract import AgentInput
from band_trio.runtime.turn.preprocessing import DefaultPreprocessor
from band_trio.tools.context import RoomContext
from band_trio.tools.failures import AgentFailure
from band_trio.tools.protocol import AgentToolsProtocol
from band_trio.trace import Consumed, Ended, Recorded
from band_trio.types import PlatformMessage
from tests.marks import case, guarantee
from tests.runtime.harness import Call, Scripted, Stage, reply, stage
from tests.runtime.views import hang, lasting, payload, push_again, sent
from tests.support.for_each import for_each


class Foreign(BaseException):
    """A framework's own way to unwind."""


async def failed_text(here: Stage, message_id: str) -> str:  # noqa: ASYNC124 - a behaviour is async
    delivery = here.band.world.messages[message_id].deliveries[here.account.id]
    return str(delivery.attempts[-1].error)


async def errors_in(here: Stage, room: str) -> list[dict[str, Any]]:
    rows = await here.band.user.messages(room)
    return [row["metadata"]["failure"] for row in rows if row["message_type"] == "error"]


def raising(error: BaseException) -> Any:
    async def behaviour(call: Call) -> None:  # noqa: ASYNC124 - a behaviour is async
        raise error

    return behaviour


@guarantee(44)
@case("C18")
@for_each(
    ("error", "text"),
    [
        (ValueError("odd"), "ValueError: odd"),
        (Foreign("gone"), "Foreign: gone"),
        (asyncio.CancelledError(), "CancelledError"),
        (BaseExceptionGroup("g", [Foreign("a")]), "Foreign: a"),
        (ExceptionGroup("g", [KeyError("k"), ValueError("v")]), "KeyError: 'k'; ValueError: v"),
        (GeneratorExit(), "GeneratorExit"),
    ],
    ids=["error", "foreign", "asyncio", "group of one", "group", "generator exit"],
)
async def test_whatever_leaves_the_handler_fails_that_turn_only(
    error: BaseException, text: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage() as here:
        room = await here.room()
        here.adapter.on("bad")(raising(error))
        async with here.running():
            bad = await here.say(room, "bad")
            await here.settled(bad, state="failed")
            await here.settled(await here.say(room, "good"))

        assert await failed_text(here, bad) == text


@guarantee(43)
async def test_the_turn_ends_when_its_nursery_has_ended(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()

        async def works_on(call: Call) -> None:  # noqa: ASYNC124 - a behaviour is async
            async def later() -> None:
                await trio.sleep(5)
                await reply(call)

            call.tools.turn.nursery.start_soon(later)

        here.adapter.behaviour = works_on
        async with here.running():
            began = trio.current_time()
            first, second = await here.say(room, "a"), await here.say(room, "b")
            await here.settled(first)
            assert trio.current_time() - began == pytest.approx(5, abs=0.1)
            await here.settled(second)
            assert trio.current_time() - began == pytest.approx(10, abs=0.1)


@guarantee(43)
async def test_an_error_in_the_turns_nursery_fails_the_turn(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()

        async def breaks_beside(call: Call) -> None:
            async def broken() -> None:  # noqa: ASYNC124 - a behaviour is async
                raise LookupError("beside")

            call.tools.turn.nursery.start_soon(broken)
            await reply(call)
            await trio.sleep_forever()

        here.adapter.behaviour = breaks_beside
        async with here.running():
            message = await here.say(room, "a")
            await here.settled(message, state="failed")

        assert await failed_text(here, message) == "LookupError: beside"


@guarantee(47)
@case("C20")
async def test_a_handler_that_takes_too_long_fails_with_a_text_that_names_the_limit(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()

        here.adapter.on("hang")(hang)

        async with here.running(SessionConfig(max_cycle_seconds=2)):
            began = trio.current_time()
            message = await here.say(room, "hang")
            await here.settled(message, state="failed")
            assert trio.current_time() - began == pytest.approx(2, abs=0.1)
            await here.settled(await here.say(room, "next"))

        assert "max_cycle_seconds (2 s)" in await failed_text(here, message)
        assert [failure["code"] for failure in await errors_in(here, room)] == ["timeout"]


@guarantee(47)
@pytest.mark.parametrize("how", ["hangs", "swallows"])
async def test_a_preprocessor_that_takes_too_long_fails_the_turn(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    class Stuck(DefaultPreprocessor):
        async def process(self, ctx: RoomContext, event: Any, agent_id: str) -> AgentInput | None:
            if event.content.endswith("stuck"):
                try:
                    await trio.sleep_forever()
                except trio.Cancelled:  # noqa: ASYNC103 - what the test is about
                    if how == "hangs":
                        raise
            return await super().process(ctx, event, agent_id)

    async with stage() as here:
        room = await here.room()
        session = SessionConfig(max_cycle_seconds=2)
        async with here.running(session, preprocessor=Stuck()):
            await here.settled(await here.say(room, "warm"))
            began = trio.current_time()
            message = await here.say(room, "stuck")
            await here.settled(message, state="failed")
            assert trio.current_time() - began == pytest.approx(2, abs=0.1)
            await here.settled(await here.say(room, "next"))

        assert "max_cycle_seconds (2 s)" in await failed_text(here, message)
        assert here.adapter.texts == ["warm", "next"]


@guarantee(47)
async def test_loading_the_history_is_not_under_the_limit_of_the_turn(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        here.band.faults.hang(route="context", times=None)
        async with here.running(SessionConfig(max_cycle_seconds=2, history_seconds=10)):
            await here.settled(await here.say(room, "m"))
        assert [call.bootstrap for call in here.adapter.calls] == [False]


@guarantee(17)
async def test_an_interrupt_ends_a_preprocessor_that_hangs(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Stuck(DefaultPreprocessor):
        async def process(self, ctx: RoomContext, event: Any, agent_id: str) -> AgentInput | None:
            await trio.sleep_forever()
            raise AssertionError

    async with stage() as here:
        room = await here.room()
        async with here.running(preprocessor=Stuck()):
            message = await here.say(room, "m")
            await trio.sleep(100)
            began = trio.current_time()
            here.band.signal(here.account, "interrupt", room_id=room)
            await here.settled(message)
            assert trio.current_time() - began < 0.1


@guarantee(47, 70)
async def test_a_detached_turn_has_no_limit_and_is_marked_at_its_real_end(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()

        async def waits_for_a_person(call: Call) -> None:
            call.tools.turn.detach()
            await trio.sleep(100)
            await reply(call)

        here.adapter.behaviour = waits_for_a_person
        async with here.running(SessionConfig(max_cycle_seconds=2)):
            message = await here.say(room, "ask")
            await trio.sleep(99)
            assert here.band.state(message, here.account) == "processing"
            await here.settled(message)


@guarantee(42)
async def test_tools_of_a_finished_turn_do_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running():
            await here.settled(await here.say(room, "a"))
            requests = len(here.band.log.requests())
            tools = here.adapter.calls[0].tools
            calls: list[Callable[[], Awaitable[object]]] = [
                lambda: tools.send_message("late", ["@demo-user"]),
                lambda: tools.send_event("late", "thought"),
                lambda: tools.no_reply(),
                lambda: tools.add_participant("somebody"),
                lambda: tools.remove_participant("somebody"),
                lambda: tools.lookup_peers(),
                lambda: tools.get_participants(),
                lambda: tools.create_chatroom(),
                lambda: tools.send_notice("late", ["@demo-user"]),
                lambda: tools.deliver_reply("late", ["@demo-user"]),
                lambda: tools.send_failure(AgentFailure("p", "m")),
                lambda: tools.fetch_room_context(),
            ]
            for call in calls:
                with pytest.raises(TurnClosedError):
                    await call()
            assert "over" in str(await tools.execute_tool_call("band_no_reply", {}))
            with pytest.raises(TurnClosedError):
                _ = tools.turn.nursery

            assert len(here.band.log.requests()) == requests


@guarantee(69)
@for_each("how", ["nothing", "raises", "reports", "reports and raises", "off"])
async def test_a_given_up_message_shows_exactly_one_error(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage() as here:
        room = await here.room()

        async def behaviour(call: Call) -> None:
            if "reports" in how:
                await call.tools.send_failure(AgentFailure("mine", "it broke"))
            if "raises" in how:
                raise ValueError("secret words")

        here.adapter.behaviour = behaviour
        async with here.running(SessionConfig(report_turn_failures_to_room=how != "off")):
            message = await here.say(room, "a")
            await here.settled(message, state="processed" if how == "reports" else "failed")
            await trio.sleep(5)

        failures = await errors_in(here, room)
        expected = {"nothing": "band-runtime", "raises": "band-runtime", "off": None}
        provider = expected.get(how, "mine")
        assert [failure["provider"] for failure in failures] == [provider] * (provider is not None)
        assert "secret words" not in str(failures)


@guarantee(69)
async def test_a_failed_report_of_the_adapter_is_replaced_by_ours(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()

        async def behaviour(call: Call) -> None:
            here.band.faults.refuse(422, route="post_event")
            await call.tools.send_failure(AgentFailure("mine", "it broke"))
            raise ValueError

        here.adapter.behaviour = behaviour
        async with here.running():
            await here.settled(await here.say(room, "a"), state="failed")
            await trio.sleep(5)

        assert [f["provider"] for f in await errors_in(here, room)] == ["band-runtime"]


@guarantee(1, 41)
@case("C17")
async def test_a_handler_that_swallows_its_cancellation_is_interrupted_all_the_same(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()

        async def swallows(call: Call) -> None:
            for _ in range(5):
                try:
                    await trio.sleep_forever()
                except trio.Cancelled:  # noqa: ASYNC103 - the case
                    continue  # noqa: ASYNC104 - the case

        @here.adapter.on("next")
        async def after(call: Call) -> None:
            await reply(call)

        here.adapter.behaviour = swallows
        async with here.running():
            message, second = await here.say(room, "a"), await here.say(room, "next")
            await here.adapter.until_running()
            await here.band.user.interrupt(here.account)
            await here.settled(message, second)

        assert [event.how for event in here.seen(Ended)] == ["interrupt", "returned"]
        assert not here.adapter.overlapped


# --------------------------------------------------------------------------- chat controls


class Approving(Scripted):
    """Consumes messages that say yes, at once."""

    def __init__(self) -> None:
        super().__init__()
        self.offered: list[str] = []

    async def try_handle_control(self, msg: PlatformMessage, tools: AgentToolsProtocol) -> bool:
        text = msg.content.split(" ", 1)[-1]
        self.offered.append(text)
        return text == "yes"


@guarantee(2)
async def test_a_chat_control_is_consumed_while_a_turn_runs(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        here.adapter = adapter = Approving()
        room = await here.room()

        async def asks(call: Call) -> None:
            await trio.sleep(10)
            await reply(call)

        adapter.behaviour = asks
        async with here.running():
            work = await here.say(room, "work")
            await adapter.until_running()
            await trio.sleep(1)
            yes, no = await here.say(room, "yes"), await here.say(room, "no")
            await here.settled(yes)
            assert here.band.state(work, here.account) == "processing"
            assert here.band.state(no, here.account) in ("none", "delivered")
            await here.settled(work, no)
            await trio.sleep(200)

        assert adapter.texts == ["work", "no"]
        assert sorted(adapter.offered) == ["no", "work", "yes"]
        assert [event.message_id for event in here.seen(Consumed)] == [yes]
        assert [event.kind for event in here.seen(Recorded)] == ["processed"] * 3
        assert here.band.attempts(yes, here.account) == ["success"]


@guarantee(2, 19, 21)
@pytest.mark.parametrize("says", ["processed", "what it said when it was new"])
async def test_an_old_copy_of_a_chat_control_is_not_offered_during_a_turn(
    says: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage() as here:
        here.adapter = adapter = Approving()
        room = await here.room()
        async with here.running():
            here.band.faults.delay(0.1, route="processing", times=1)
            yes = await here.say(room, "yes")
            copy = payload(here, yes)
            await here.settled(yes)
            for number in range(130):  # more than a room remembers
                await here.settled(await here.say(room, f"{number}"))
            adapter.on("work")(lasting(30))
            work = await here.say(room, "work")
            await adapter.until_running()
            push_again(here, room, payload(here, yes) if says == "processed" else copy)
            await here.settled(await here.say(room, "yes"))
            assert here.band.state(work, here.account) == "processing"
            await here.settled(work)

        assert adapter.offered.count("yes") == 2
        assert here.band.attempts(yes, here.account) == ["success"]
        assert len(sent(here, "processing", yes)) == 1


async def test_a_chat_control_whose_list_cannot_be_read_is_offered_in_its_place(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        here.adapter = adapter = Approving()
        adapter.behaviour = lasting(10)
        room = await here.room()
        async with here.running():
            await here.say(room, "work")
            await adapter.until_running()
            here.band.faults.refuse(400, route="messages", times=1)
            yes = await here.say(room, "yes")
            await trio.sleep(5)
            assert adapter.offered == ["work"]
            await here.settled(yes)

        assert adapter.offered == ["work", "yes"]
        assert adapter.texts == ["work"]


async def test_a_chat_control_from_the_backlog_is_offered_before_its_claim(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        here.adapter = adapter = Approving()
        room = await here.room()
        yes, work = await here.say(room, "yes"), await here.say(room, "work")
        async with here.running():
            await here.settled(yes, work)
            await trio.sleep(200)

        assert adapter.texts == ["work"]
        assert adapter.offered == ["yes", "work"]


async def test_a_chat_control_hook_that_raises_consumes_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Broken(Scripted):
        async def try_handle_control(self, msg: PlatformMessage, tools: AgentToolsProtocol) -> bool:
            raise RuntimeError("broken")

    async with stage() as here:
        here.adapter = Broken()
        room = await here.room()
        async with here.running() as agent:
            await here.settled(await here.say(room, "work"))
            assert any("try_handle_control" in text for text in agent.health().problems)

        assert here.adapter.texts == ["work"]

"""What a turn did decides what becomes of its message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from band_trio import PlatformMessage
from band_trio.contract import AgentInput
from band_trio.errors import BandApiError, BandToolError
from band_trio.tools.failures import AgentFailure
from band_trio.trace import Marked, Recorded
from tests.marks import case, guarantee
from tests.runtime.harness import Behaviour, Call, Scripted, Stage, reply, stage
from tests.support.for_each import for_each

FAILURE = AgentFailure("a-model", "The model is not there.")

# ------------------------------------------------------------------ behaviours


async def nothing(call: Call) -> None:
    await trio.sleep(1)


async def sends(call: Call) -> None:
    await reply(call)


async def sends_by_name(call: Call) -> None:
    args = {"content": "hello", "mentions": [call.msg.sender_id]}
    await call.tools.execute_tool_call("band_send_message", args)


async def declines(call: Call) -> None:
    await call.tools.no_reply("nothing to say")


async def declines_by_name(call: Call) -> None:
    await call.tools.execute_tool_call("band_no_reply", {"reason": "nothing to say"})


async def acts(call: Call) -> None:
    await call.tools.create_chatroom()


async def settles(call: Call) -> None:
    await trio.lowlevel.checkpoint()
    call.tools.turn.settle()


async def reports(call: Call) -> None:
    await call.tools.send_failure(FAILURE)


async def reports_and_raises(call: Call) -> None:
    await call.tools.send_failure(FAILURE)
    raise ValueError("no")


async def observes(call: Call) -> None:
    await call.tools.get_participants()
    await call.tools.lookup_peers()
    await call.tools.fetch_room_context()


async def posts_an_event(call: Call) -> None:
    await call.tools.send_event("thinking", "thought")


async def posts_a_notice(call: Call) -> None:
    await call.tools.send_notice("one moment", [call.msg.sender_id])


async def sends_blanks(call: Call) -> None:
    await call.tools.execute_tool_call("band_send_message", {"content": "  ", "mentions": []})


async def fails_to_send(call: Call) -> None:
    try:
        await call.tools.send_message("hello", mentions=["@nobody/here"])
    except BandToolError:
        return


async def is_refused(call: Call) -> None:
    try:
        await reply(call)
    except BandApiError:
        return


async def outcome_unknown(call: Call) -> None:
    with pytest.raises(BandToolError, match="do not send it again"):
        await reply(call)


async def replies_and_raises(call: Call) -> None:
    await reply(call)
    raise ValueError("no")


async def replies_from_a_child(call: Call) -> None:
    await trio.lowlevel.checkpoint()

    async def later() -> None:
        await trio.sleep(3)
        await reply(call)

    call.tools.turn.nursery.start_soon(later)


async def a_child_raises(call: Call) -> None:
    async def later() -> None:
        await trio.sleep(3)
        raise ValueError("no")

    await reply(call)
    call.tools.turn.nursery.start_soon(later)


# behaviour → (record, rows of ours that the room sees, in order)
VERDICTS: dict[Behaviour, tuple[str, list[str]]] = {
    sends: ("processed", ["text"]),
    sends_by_name: ("processed", ["text"]),
    declines: ("processed", []),
    declines_by_name: ("processed", []),
    acts: ("processed", []),
    settles: ("processed", []),
    reports: ("processed", ["error"]),
    reports_and_raises: ("failed", ["error"]),
    nothing: ("failed", ["error"]),
    observes: ("failed", ["error"]),
    posts_an_event: ("failed", ["thought", "error"]),
    posts_a_notice: ("failed", ["text", "error"]),
    sends_blanks: ("failed", ["error"]),
    fails_to_send: ("failed", ["error"]),
    replies_and_raises: ("failed", ["text", "error"]),
    replies_from_a_child: ("processed", ["text"]),
    a_child_raises: ("failed", ["text", "error"]),
}


async def rows(here: Stage, room: str) -> list[dict[str, Any]]:
    """Return what the agent has put into a room."""
    everything = await here.band.user.messages(room)
    return [row for row in everything if row["sender_id"] == here.account.id]


@guarantee(67, 68)
@case("C12")
@for_each("behaviour", VERDICTS, ids=lambda each: each.__name__)
async def test_what_was_recorded_decides(
    behaviour: Behaviour, autojump_clock: trio.testing.MockClock
) -> None:
    record, seen = VERDICTS[behaviour]
    async with stage(behaviour) as here:
        room = await here.room()
        async with here.running():
            message = await here.say(room, "m")
            await here.settled(message, state=record)
            await trio.sleep(30)
        assert [event.kind for event in here.seen(Recorded)] == [record]
        assert [event.result for event in here.seen(Marked)] == ["accepted"]
        assert [row["message_type"] for row in await rows(here, room)] == seen
        assert len(here.adapter.calls) == 1


@guarantee(67)
@pytest.mark.parametrize("status", [403, 422])
async def test_a_send_that_was_refused_is_no_reply(
    status: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage(is_refused) as here:
        room = await here.room()
        here.band.faults.refuse(status, route="post_message", times=None)
        async with here.running():
            await here.settled(await here.say(room, "m"), state="failed")
        assert [event.kind for event in here.seen(Recorded)] == ["failed"]


@guarantee(67, 76)
@case("C25")
@for_each("lost", ["504", "cut", "hang"])
async def test_a_send_of_unknown_outcome_counts_as_a_reply(
    lost: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage(outcome_unknown) as here:
        room = await here.room()
        faults = here.band.faults
        {
            "504": lambda: faults.refuse(504, route="post_message"),
            "cut": lambda: faults.cut_request(commit=False, route="post_message"),
            "hang": lambda: faults.hang(commit=False, route="post_message"),
        }[lost]()
        async with here.running():
            await here.settled(await here.say(room, "m"))
        assert await rows(here, room) == []
        assert len(here.band.log.requests("post_message")) == 1


@guarantee(67)
async def test_a_report_that_could_not_be_posted_leaves_the_room_ours(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def tries_to_report(call: Call) -> None:
        try:
            await call.tools.send_failure(FAILURE)
        finally:
            raise ValueError("no")

    async with stage(tries_to_report) as here:
        room = await here.room()
        here.band.faults.refuse(422, route="post_event", times=1)
        async with here.running():
            await here.settled(await here.say(room, "m"), state="failed")
            await trio.sleep(30)
        assert [row["message_type"] for row in await rows(here, room)] == ["error"]


class Unjudged(Scripted):
    """Returning is success."""

    @property
    def judges_turns(self) -> bool:
        return False


class Bare:
    """Only what an adapter must have."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error
        self.seen: list[PlatformMessage] = []

    async def on_started(self, agent_name: str, agent_description: str) -> None: ...

    async def on_cleanup(self, room_id: str) -> None: ...

    async def on_event(self, inp: AgentInput) -> None:
        self.seen.append(inp.msg)
        if self.error is not None:
            raise self.error


@guarantee(67)
@pytest.mark.parametrize("make", [lambda: Unjudged(nothing), Bare], ids=["unjudged", "bare"])
async def test_without_judging_returning_is_success(
    make: Callable[[], Any], autojump_clock: trio.testing.MockClock
) -> None:
    async with stage() as here:
        here.adapter = make()
        room = await here.room()
        async with here.running():
            await here.settled(await here.say(room, "m"))
        assert await rows(here, room) == []


@guarantee(67)
@pytest.mark.parametrize("make", [lambda: Unjudged(replies_and_raises), lambda: Bare(ValueError())])
async def test_without_judging_raising_is_failure(
    make: Callable[[], Any], autojump_clock: trio.testing.MockClock
) -> None:
    async with stage() as here:
        here.adapter = make()
        room = await here.room()
        async with here.running():
            await here.settled(await here.say(room, "m"), state="failed")


class Declining:
    """A preprocessor that wants no turn."""

    async def process(self, context: object, message: object, agent_id: str) -> None:
        await trio.lowlevel.checkpoint()


@guarantee(67)
async def test_a_message_that_the_preprocessor_declines_is_processed_unjudged(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        agent = here.agent()
        object.__setattr__(agent._settings, "preprocessor", Declining())
        room = await here.room()
        async with agent:
            await here.settled(await here.say(room, "m"))
        assert here.adapter.calls == []
        assert [event.kind for event in here.seen(Recorded)] == ["processed"]


@guarantee(68)
async def test_what_a_turn_says_or_how_long_it_takes_does_not_count(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The same effects under all circumstances: other texts, times, rooms, orders."""

    async def vary(call: Call) -> None:
        number = int(call.text)
        await trio.sleep(number * 0.7)
        if number % 2:
            await call.tools.send_event("I have answered: done, processed, success", "thought")
            await call.tools.get_participants()
        else:
            await call.tools.send_message("failed: error, no reply", mentions=[call.msg.sender_id])

    async with stage(vary) as here:
        rooms = [await here.room() for _ in range(3)]
        async with here.running():
            messages = [await here.say(rooms[n % 3], str(n)) for n in range(12)]
            for number, message in enumerate(messages):
                await here.settled(message, state="failed" if number % 2 else "processed")
        fates = {event.message_id: event.kind for event in here.seen(Recorded)}
        assert [fates[each] for each in messages] == ["processed", "failed"] * 6

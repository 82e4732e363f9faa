"""What a turn did decides what becomes of its message, and what is said about a failed one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from band_trio import PlatformMessage, SessionConfig
from band_trio.errors import BandApiError, BandToolError
from band_trio.localband.world import World
from band_trio.tools.failures import AgentFailure
from band_trio.trace import Marked, Recorded
from band_trio.types import AgentInput
from tests.runtime.harness import Behaviour, Call, Scripted, Stage, reply, stage

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
    try:
        await reply(call)
    except BandToolError:
        return


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


@pytest.mark.parametrize("behaviour", VERDICTS, ids=lambda each: each.__name__)
async def test_g67_g68_what_was_recorded_decides(
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


@pytest.mark.parametrize("status", [403, 422])
async def test_g67_a_send_that_was_refused_is_no_reply(
    status: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage(is_refused) as here:
        room = await here.room()
        here.band.faults.refuse(status, route="post_message", times=None)
        async with here.running():
            await here.settled(await here.say(room, "m"), state="failed")
        assert [event.kind for event in here.seen(Recorded)] == ["failed"]


async def test_g67_a_send_of_unknown_outcome_counts_as_a_reply(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(outcome_unknown) as here:
        room = await here.room()
        here.band.faults.cut_request(route="post_message")
        async with here.running():
            await here.settled(await here.say(room, "m"))
        assert len(await rows(here, room)) == 1


async def test_g67_a_report_that_could_not_be_posted_leaves_the_room_ours(
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


@pytest.mark.parametrize("make", [lambda: Unjudged(nothing), Bare], ids=["unjudged", "bare"])
async def test_g67_without_judging_returning_is_success(
    make: Callable[[], Any], autojump_clock: trio.testing.MockClock
) -> None:
    async with stage() as here:
        here.adapter = make()
        room = await here.room()
        async with here.running():
            await here.settled(await here.say(room, "m"))
        assert await rows(here, room) == []


@pytest.mark.parametrize("make", [lambda: Unjudged(replies_and_raises), lambda: Bare(ValueError())])
async def test_g67_without_judging_raising_is_failure(
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


async def test_g67_a_message_that_the_preprocessor_declines_is_processed_unjudged(
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


async def test_g68_what_a_turn_says_or_how_long_it_takes_does_not_count(
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


# ------------------------------------------------------------------ error texts


class _Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


# The error is made from the agent's own key.
TEXTS: dict[str, tuple[Callable[[str], BaseException], Callable[[str], bool]]] = {
    "plain": (lambda key: ValueError("no"), lambda text: text == "ValueError: no"),
    "empty": (lambda key: ValueError(""), lambda text: text.startswith("ValueError")),
    "blank": (lambda key: ValueError(" \n "), lambda text: text.startswith("ValueError")),
    "no str": (lambda key: _Mute(), lambda text: text.startswith("_Mute")),
    "huge": (
        lambda key: ValueError("head" + "x" * 1_000_000 + "tail"),
        lambda text: len(text) <= 1000 and "head" in text and text.endswith("tail"),
    ),
    "NUL": (lambda key: ValueError("a\0b\x1bc"), lambda text: not set(text) & {"\0", "\x1b"}),
    "surrogate": (lambda key: ValueError("a\ud800b"), lambda text: "\ud800" not in text),
    "our key": (lambda key: ValueError(f"bad {key} here"), lambda text: "here" in text),
    "header": (
        lambda key: ValueError("Authorization: Bearer abc.def-123 sent"),
        lambda text: "abc.def-123" not in text,
    ),
    "field": (
        lambda key: ValueError('{"api_key": "hunter2hunter2"}'),
        lambda text: "hunter2" not in text,
    ),
    "url": (
        lambda key: ValueError("https://me:hunter2@host/path"),
        lambda text: "hunter2" not in text,
    ),
    "group": (
        lambda key: ExceptionGroup("g", [ValueError("one"), KeyError("two")]),
        lambda text: "ValueError: one" in text and "KeyError" in text,
    ),
}


@pytest.mark.parametrize("case", TEXTS)
async def test_g79_error_text_is_clean_short_masked_and_accepted_at_once(
    case: str, autojump_clock: trio.testing.MockClock
) -> None:
    make, right = TEXTS[case]
    async with stage() as here:

        async def fail(call: Call) -> None:
            await trio.lowlevel.checkpoint()
            raise make(here.account.api_key)

        here.adapter.behaviour = fail
        room = await here.room()
        async with here.running():
            message = await here.say(room, "m")
            await here.settled(message, state="failed")
        text = error_of(here.band.world, message, here.account.id)
        assert right(text), text
        assert 0 < len(text) <= 1000
        assert here.account.api_key not in text
        assert [event.result for event in here.seen(Marked)] == ["accepted"], "the first mark"
        (report,) = await rows(here, room)
        assert "Error" not in report["content"], "the room gets a fixed text"
        assert text not in report["content"]


async def test_g79_the_limit_is_an_option(autojump_clock: trio.testing.MockClock) -> None:
    async def fail(call: Call) -> None:
        await trio.lowlevel.checkpoint()
        raise ValueError("x" * 500)

    async with stage(fail) as here:
        async with here.running(SessionConfig(error_text_chars=40)):
            message = await here.say(await here.room(), "m")
            await here.settled(message, state="failed")
        assert len(error_of(here.band.world, message, here.account.id)) <= 40


async def test_g79_a_text_that_the_platform_refuses_is_replaced_by_the_bare_name(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def fail(call: Call) -> None:
        await trio.lowlevel.checkpoint()
        raise ValueError("too odd for it")

    async with stage(fail) as here:
        here.band.faults.refuse(422, details={"/error": ["is odd"]}, route="failed")
        async with here.running():
            message = await here.say(await here.room(), "m")
            await here.settled(message, state="failed")
        assert error_of(here.band.world, message, here.account.id) == "ValueError"


@pytest.mark.parametrize("budget", [1, 2])
async def test_g79_no_log_line_and_no_row_holds_the_key(
    budget: int, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    async with stage() as here:

        async def fail(call: Call) -> None:
            await trio.lowlevel.checkpoint()
            try:
                raise KeyError(here.account.api_key)
            except KeyError as exc:
                raise ValueError(f"with {here.account.api_key}") from exc

        here.adapter.behaviour = fail
        session = SessionConfig(max_message_retries=budget)
        room = await here.room()
        async with here.running(session) as agent:
            message = await here.say(room, "m")
            await here.band.until(
                lambda: here.band.attempts(message, here.account) == ["failed"] * budget
            )
            await trio.sleep(5)
            shown = f"{agent!r} {agent.health()!r} {agent._runtime!r} {agent._settings!r}"
        assert here.account.api_key not in shown
        assert here.account.api_key not in caplog.text
        assert here.account.api_key not in str(await here.band.user.messages(room))


def error_of(world: World, message_id: str, agent_id: str) -> str:
    """Return the error text of the last attempt, as the platform got it."""
    text = world.messages[message_id].deliveries[agent_id].attempts[-1].error
    assert text is not None
    return text

"""What is said about a failed turn, to the platform, the room and the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from band_trio import SessionConfig
from band_trio.localband.world import World
from band_trio.trace import Marked
from tests.marks import case, guarantee
from tests.runtime.harness import Call, Stage, stage
from tests.support.for_each import for_each


async def rows(here: Stage, room: str) -> list[dict[str, Any]]:
    """Return what the agent has put into a room."""
    everything = await here.band.user.messages(room)
    return [row for row in everything if row["sender_id"] == here.account.id]


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


@guarantee(79)
@case("C14")
@for_each("case", TEXTS)
async def test_error_text_is_clean_short_masked_and_accepted_at_once(
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


@guarantee(79)
async def test_a_text_that_the_platform_refuses_is_replaced_by_the_bare_name(
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


@guarantee(79)
@case("C60")
@pytest.mark.parametrize("budget", [1, 2])
async def test_no_log_line_and_no_row_holds_the_key(
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

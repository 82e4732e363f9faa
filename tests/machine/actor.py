"""The application of the machines: an adapter whose messages say how they are to be handled.

A message reads `reply #17.`: the behaviour, and a number that no other message has. A handler that
ends by itself writes down which record it has earned; everything it says carries its number and
that of its run, so that a thing said twice is seen.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final

import attrs
import trio

from band_trio import (
    BandConnectionError,
    BandToolError,
    InputNotAccepted,
    MessagePostError,
    PlatformMessage,
    SimpleAdapter,
)
from band_trio.errors import TurnClosedError
from band_trio.tools.failures import AgentFailure
from band_trio.tools.protocol import AgentToolsProtocol
from band_trio.tools.sending import OUTCOME_UNKNOWN
from band_trio.types import HistoryProvider

NUMBER: Final = re.compile(r"#(\d+)\.")
FAILURE: Final = AgentFailure("tests", "the backend is down")


class Foreign(BaseException):
    """A cancellation of another framework, for instance."""


@attrs.frozen
class Seen:
    """One call of the adapter."""

    msg: PlatformMessage
    tools: AgentToolsProtocol
    history: HistoryProvider
    bootstrap: bool
    room_id: str
    number: int
    run: int
    """The how manieth call for this message, over all processes."""

    async def say(self, what: str = "re") -> None:
        """Answer the sender; an answer whose fate is unknown is not said again."""
        try:
            await self.tools.send_message(
                f"{what} #{self.number}. {self.run}", mentions=[self.msg.sender_id]
            )
        except MessagePostError as exc:
            if exc.kind != OUTCOME_UNKNOWN:
                raise


Behaviour = Callable[["Actor", Seen], Awaitable[None]]
BEHAVIOURS: dict[str, Behaviour] = {}


def behaviour(run: Behaviour) -> Behaviour:
    """Register a behaviour under its function's name."""
    BEHAVIOURS[run.__name__] = run
    return run


@attrs.define(eq=False)
class Notebook:
    """What outlives a process of the agent: it is the tests', not the agent's."""

    runs: Counter[int] = attrs.field(factory=Counter)
    """Number of a message → calls of the handler."""
    problems: list[str] = attrs.field(factory=list)
    """Broken guarantees that a handler has noticed."""
    leaks: trio.Nursery | None = None
    """For tasks that a handler leaves behind."""


class Actor(SimpleAdapter[HistoryProvider]):
    """Does what each message says."""

    def __init__(self, notebook: Notebook, expected: dict[str, str]) -> None:
        super().__init__()
        self.notebook = notebook
        self.expected = expected
        """Message id → the record that its handler has earned."""
        self.seen: list[Seen] = []
        self.running: dict[str, int] = {}
        self.cleaned: Counter[str] = Counter()

    async def on_message(
        self,
        msg: PlatformMessage,
        tools: AgentToolsProtocol,
        history: HistoryProvider,
        participants_msg: str | None,
        contacts_msg: str | None,
        *,
        is_session_bootstrap: bool,
        room_id: str,
    ) -> None:
        found = NUMBER.search(msg.content)
        assert found is not None  # everything that mentions the agent has a number
        number = int(found[1])
        name = msg.content[: found.start()].split()[-1]
        if room_id in self.running:
            self.notebook.problems.append(f"g01: {number} runs beside {self.running[room_id]}")
        self.notebook.runs[number] += 1
        call = Seen(
            msg, tools, history, is_session_bootstrap, room_id, number, self.notebook.runs[number]
        )
        self.seen.append(call)
        self.running[room_id] = number
        try:
            await BEHAVIOURS[name](self, call)
        finally:
            del self.running[room_id]

    async def on_cleanup(self, room_id: str) -> None:
        self.cleaned[room_id] += 1

    def earns(self, call: Seen, record: str) -> None:
        """Write down what becomes of the message if nothing from outside ends the turn."""
        self.expected[call.msg.id] = record


class ControlledActor(Actor):
    """Consumes the messages that are controls in chat, before they are claimed."""

    async def try_handle_control(self, msg: PlatformMessage, tools: AgentToolsProtocol) -> bool:
        await trio.sleep(0.2)
        return "consume #" in msg.content


# --------------------------------------------------------------------------- behaviours


async def answer(actor: Actor, call: Seen, what: str = "re") -> None:
    """Say something, which completes the turn; a refusal fails it."""
    actor.earns(call, "failed")
    await call.say(what)
    actor.earns(call, "processed")


@behaviour
async def reply(actor: Actor, call: Seen) -> None:
    await answer(actor, call)


@behaviour
async def work(actor: Actor, call: Seen) -> None:
    await trio.sleep(3)
    await answer(actor, call)


@behaviour
async def decline(actor: Actor, call: Seen) -> None:
    await call.tools.no_reply("not for me")
    actor.earns(call, "processed")


@behaviour
async def settle(actor: Actor, call: Seen) -> None:
    await trio.lowlevel.checkpoint()
    call.tools.turn.settle()
    actor.earns(call, "processed")


@behaviour
async def observe(actor: Actor, call: Seen) -> None:
    actor.earns(call, "failed")
    await call.tools.send_event(f"hm #{call.number}. {call.run}", "thought")


@behaviour
async def nothing(actor: Actor, call: Seen) -> None:
    await trio.lowlevel.checkpoint()
    actor.earns(call, "failed")


@behaviour
async def report(actor: Actor, call: Seen) -> None:
    actor.earns(call, "failed")
    if await tell_failure(call):
        actor.earns(call, "processed")


@behaviour
async def report_and_raise(actor: Actor, call: Seen) -> None:
    actor.earns(call, "failed")
    await tell_failure(call)
    raise ValueError(call.number)


async def tell_failure(call: Seen) -> bool:
    """Report a failure to the room; tell whether the turn counts as reported."""
    await call.tools.send_failure(FAILURE)
    return call.tools.turn.complete


@behaviour
async def fail(actor: Actor, call: Seen) -> None:
    actor.earns(call, "failed")
    await trio.sleep(0.1)
    raise ValueError(call.number)


@behaviour
async def flaky(actor: Actor, call: Seen) -> None:
    if call.run == 1:
        actor.earns(call, "failed")
        raise ValueError(call.number)
    await answer(actor, call)


@behaviour
async def group(actor: Actor, call: Seen) -> None:
    actor.earns(call, "failed")
    await trio.sleep(0.3)
    raise BaseExceptionGroup("several", [ValueError(call.number), Foreign()])


@behaviour
async def foreign(actor: Actor, call: Seen) -> None:
    actor.earns(call, "failed")
    await trio.sleep(0.3)
    raise Foreign


@behaviour
async def picky(actor: Actor, call: Seen) -> None:
    if call.run <= 2:
        actor.earns(call, "released:not-accepted")
        raise InputNotAccepted
    await answer(actor, call)


@behaviour
async def hang(actor: Actor, call: Seen) -> None:
    await trio.sleep_forever()


@behaviour
async def swallow(actor: Actor, call: Seen) -> None:
    try:
        await trio.sleep_forever()
    except trio.Cancelled:  # noqa: ASYNC103 - what it is about
        return  # noqa: ASYNC104


@behaviour
async def slow_end(actor: Actor, call: Seen) -> None:
    try:
        await trio.sleep(4)
    finally:
        with trio.move_on_after(2, shield=True):
            await trio.sleep(1.5)
    await answer(actor, call)


@behaviour
async def shielded(actor: Actor, call: Seen) -> None:
    with trio.move_on_after(4, shield=True):
        await trio.sleep(4)
    await answer(actor, call)


@behaviour
async def children(actor: Actor, call: Seen) -> None:
    nursery = call.tools.turn.nursery

    async def child() -> None:
        await trio.sleep(1)
        await answer(actor, call)

    nursery.start_soon(child)
    await trio.sleep(0.3)


@behaviour
async def detach(actor: Actor, call: Seen) -> None:
    call.tools.turn.detach()
    await trio.sleep(45)
    await answer(actor, call)


@behaviour
async def leak(actor: Actor, call: Seen) -> None:
    """Leave a task behind that goes on calling tools after the turn has ended."""
    ended = trio.Event()

    async def late() -> None:
        await ended.wait()
        await trio.sleep(0.5)  # by then the record is written
        if not call.tools.turn.closed:
            return  # the handler has ended and something else of its turn has not
        for attempt in (lambda: call.say("late"), call.tools.get_participants):
            try:
                await attempt()
            except TurnClosedError:
                continue
            except (BandToolError, BandConnectionError) as exc:
                actor.notebook.problems.append(f"g42: a late call got {exc!r}")
            else:
                actor.notebook.problems.append(f"g42: a late call of {call.number} had an effect")

    assert actor.notebook.leaks is not None
    actor.notebook.leaks.start_soon(late)
    try:
        await answer(actor, call)
    finally:
        ended.set()


@behaviour
async def consume(actor: Actor, call: Seen) -> None:
    """A control in chat, for an adapter that takes none."""
    await answer(actor, call)


def contents(history: HistoryProvider) -> list[Any]:
    """Return the ids of what a handler was given as history before its message."""
    return [row["id"] for row in history.raw if not row.get("since_trigger")]

"""A turn that ends at any step leaves the room ready for the next one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import attrs
import pytest
import trio

from band_trio.testing import make_message, run_turn
from band_trio.testing.scripted_model import ScriptTurn, SlowTurn, TextTurn, ToolsTurn, ToolTurn
from tests.adapters.kit import (
    KINDS,
    LOOK,
    NO_REPLY,
    Bench,
    Kind,
    bench,
    make_tools,
    results,
    send,
    texts,
    without_prompt,
)
from tests.marks import case
from tests.support.for_each import for_each

EACH = for_each("kind", KINDS, ids=lambda kind: kind.name)

WORK = "please work"


def script(request: dict[str, Any]) -> ScriptTurn:
    """Two rounds of tools and a text for `WORK`, a decline for anything else."""
    messages = without_prompt(request)
    said = [number for number, m in enumerate(messages) if texts([m]) and m["role"] == "user"]
    if WORK not in texts([messages[said[-1]]])[-1][1]:
        return NO_REPLY
    rounds: int = sum(message["role"] == "assistant" for message in messages[said[-1] :])
    turns: list[ScriptTurn] = [
        ToolsTurn((LOOK, send("on it"), ToolTurn("nope"))),
        send("ready"),
        TextTurn("done"),
    ]
    return turns[rounds]


@attrs.define(eq=False)
class CancelAtStep(trio.abc.Instrument):
    """Cancels a scope just before a task runs for the n-th time."""

    step: int
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    task: trio.lowlevel.Task | None = None
    steps: int = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is not self.task:
            return
        self.steps += 1
        if self.steps == self.step:
            self.scope.cancel(reason="the test")


@contextmanager
def cancelling(step: int) -> Iterator[CancelAtStep]:
    instrument = CancelAtStep(step, task=trio.lowlevel.current_task())
    trio.lowlevel.add_instrument(instrument)
    try:
        with instrument.scope:
            yield instrument
    finally:
        trio.lowlevel.remove_instrument(instrument)


async def work_cancelled_at(b: Bench, step: int) -> int:
    """Run a room: a turn, a turn cancelled at *step*, a turn. Return the steps that it took."""
    room = f"room-{step}"
    one = Bench(b.adapter, b.model, make_tools(b.adapter))
    await one.turn("first", room_id=room)
    asked = len(b.model.requests)
    with cancelling(step) as instrument:
        message = make_message(WORK, sender_id="u1", room_id=room)
        await run_turn(b.adapter, message, one.tools, is_session_bootstrap=False)
    asked = len(b.model.requests) - asked
    said = list(one.tools.chat)
    result = await one.turn("last", room_id=room)

    assert result.record == "processed"
    assert texts(b.last)[0][1].startswith("[Maria]: first")
    assert texts(b.last)[-1][1].endswith("[Maria]: last")
    assert WORK in str(b.last) or not asked
    assert all(text in str(b.last) for text in said)
    assert instrument.scope.cancelled_caught or ("assistant", "done") in texts(b.last)
    await b.adapter.on_cleanup(room)
    return instrument.steps


@case("C38")
@EACH
@pytest.mark.slow
async def test_cancelled_at_every_step(kind: Kind) -> None:
    """At each await of the tool loop, also between parallel calls and in a request.

    What the turn has said is known in the next one. `bench` checks at the end that every request
    obeyed the rules of the API.
    """
    async with bench(kind, script) as b:
        whole = await work_cancelled_at(b, 1_000_000)
        assert whole > 25
        cancelled = 0
        for step in range(1, whole + 1):
            cancelled += await work_cancelled_at(b, step) < whole
        assert cancelled > 20
        assert await work_cancelled_at(b, 1_000_001) > 25  # the client is as good as new


async def cancelled_while_it_asks(b: Bench, request: int, content: str, **fields: Any) -> None:
    """Run a turn and cancel it while the model works on its n-th request."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(b.turn, content, **fields))
        while len(b.model.requests) < request:  # noqa: ASYNC110 - the model has no event for it
            await trio.sleep(0.01)
        nursery.cancel_scope.cancel(reason="the test")


@EACH
async def test_cancelled_while_the_model_thinks(kind: Kind) -> None:
    async with bench(kind, [SlowTurn(60, NO_REPLY), NO_REPLY]) as b:
        await cancelled_while_it_asks(b, 1, "slow")
        assert not b.tools.posts
        await b.turn("next")

        assert "\n".join(text for _, text in texts(b.last)) == "[Maria]: slow\n[Maria]: next"


@EACH
async def test_cancelled_between_parallel_calls(kind: Kind) -> None:
    calls = ToolsTurn((send("one"), send("two"), send("three")))
    async with bench(kind, [calls, NO_REPLY]) as b:
        async with b.tools.hold_message("two") as hold, trio.open_nursery() as nursery:
            nursery.start_soon(b.turn, "work")
            await hold.reached()
            nursery.cancel_scope.cancel()
        assert b.tools.chat == ["one"]
        assert b.tools.events_sent[-1]["message_type"] == "tool_call"
        await b.turn("next")

        one, two, three = results(b.last)
        assert "was interrupted" not in one[0]
        assert "was interrupted" in two[0]
        assert "was interrupted" in three[0]
        assert texts(b.last)[-1][1].endswith("[Maria]: next")


@case("C63")
@EACH
async def test_a_cancelled_turn_that_is_run_again_knows_what_it_has_said(kind: Kind) -> None:
    async with bench(kind, [send("one"), SlowTurn(60, NO_REPLY), NO_REPLY]) as b:
        await cancelled_while_it_asks(b, 2, "work", id="m1")
        await b.turn("work", id="m1", attempt=2)

        [(posted, _)] = results(b.last)
        assert json.loads(posted)["success"]
        assert texts(b.last)[-1][1].endswith("[Maria]: work")
        assert "worked on the following message before" in texts(b.last)[-1][1]

"""The verdict on a turn follows from what its tools recorded, and from nothing else (67, 68)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from itertools import permutations
from typing import Any

import httpx  # noqa: ASYNC127 - the transport of the tests
import pytest
from hypothesis import given
from hypothesis import strategies as st

from band_trio.errors import BandError, TurnClosedError
from band_trio.tools.agent_tools import AgentTools
from band_trio.tools.failures import AgentFailure
from band_trio.tools.ledger import Ledger
from band_trio.types import TurnEffect
from tests.marks import guarantee
from tests.support.for_each import for_each
from tests.tools.kit import HELPER, Ear, Platform, open_tools, refusal

Act = Callable[[AgentTools, Platform], Awaitable[Any]]


async def _nothing(tools: AgentTools, platform: Platform) -> None:
    pass


async def _lookups(tools: AgentTools, platform: Platform) -> None:
    await tools.lookup_peers()
    await tools.get_participants()
    await tools.fetch_room_context()


async def _event(tools: AgentTools, platform: Platform) -> None:
    await tools.send_event("thinking", "thought")
    await tools.send_event("oh", "error")


async def _blank(tools: AgentTools, platform: Platform) -> None:
    await tools.send_message("  ", ["maria"])


async def _notice(tools: AgentTools, platform: Platform) -> None:
    await tools.send_notice("wait", ["maria"])


async def _failed_calls(tools: AgentTools, platform: Platform) -> None:
    platform.answer("POST", "messages", refusal(422, "validation_error", "no"))
    await tools.execute_tool_call("band_send_message", {"content": "x", "mentions": ["maria"]})
    await tools.execute_tool_call("band_add_participant", {"identifier": "nobody"})
    await tools.execute_tool_call("band_no_reply", "no json")


async def _already_there(tools: AgentTools, platform: Platform) -> None:
    await tools.add_participant("maria")


async def _failure_unposted(tools: AgentTools, platform: Platform) -> None:
    platform.answer("POST", "events", refusal(422, "validation_error", "no"))
    await tools.send_failure(AgentFailure("acme", "broke"))


async def _add(tools: AgentTools, platform: Platform) -> None:
    await tools.execute_tool_call("band_add_participant", {"identifier": "helper"})


async def _remove(tools: AgentTools, platform: Platform) -> None:
    platform.participants = [*platform.participants, {**HELPER, "id": "gone", "handle": "gone"}]
    await tools.remove_participant("gone")


async def _room(tools: AgentTools, platform: Platform) -> None:
    await tools.create_chatroom()


async def _settle(tools: AgentTools, platform: Platform) -> None:  # noqa: ASYNC124 - the shape is given
    tools.turn.settle()


async def _failure(tools: AgentTools, platform: Platform) -> None:
    await tools.send_failure(AgentFailure("acme", "broke"))


async def _send(tools: AgentTools, platform: Platform) -> None:
    await tools.execute_tool_call("band_send_message", {"content": "x", "mentions": ["maria"]})


async def _relay(tools: AgentTools, platform: Platform) -> None:
    await tools.deliver_reply("x", ["maria"])


async def _unknown(tools: AgentTools, platform: Platform) -> None:
    platform.answer("POST", "messages", httpx.Response(504))
    await tools.execute_tool_call("band_send_message", {"content": "y", "mentions": ["maria"]})


async def _decline(tools: AgentTools, platform: Platform) -> None:
    await tools.execute_tool_call("band_no_reply", {})


TABLE: list[tuple[Act, bool, bool]] = [
    (_nothing, False, False),
    (_lookups, False, False),
    (_event, False, False),
    (_blank, False, False),
    (_notice, False, False),
    (_failed_calls, False, False),
    (_already_there, False, False),
    (_failure_unposted, False, False),
    (_add, False, True),
    (_remove, False, True),
    (_room, False, True),
    (_settle, False, True),
    (_failure, False, True),
    (_send, True, True),
    (_relay, True, True),
    (_unknown, True, True),
    (_decline, True, True),
]


@guarantee(67)
@for_each(("act", "replied", "complete"), TABLE, ids=[row[0].__name__.strip("_") for row in TABLE])
async def test_what_was_done_decides_whether_the_turn_is_complete(
    act: Act, replied: bool, complete: bool
) -> None:
    platform = Platform()
    async with open_tools(platform) as tools:
        await act(tools, platform)

    assert (tools.turn.replied, tools.turn.complete) == (replied, complete)


@guarantee(67)
@pytest.mark.parametrize("share", range(4))
async def test_a_mixture_is_as_any_of_its_parts_in_any_order(share: int) -> None:
    for first, second in list(permutations(TABLE, 2))[share::4]:
        platform = Platform()
        async with open_tools(platform) as tools:
            await first[0](tools, platform)
            await second[0](tools, platform)

        done = f"{first[0].__name__}, then {second[0].__name__}"
        assert tools.turn.replied == (first[1] or second[1]), done
        assert tools.turn.complete == (first[2] or second[2]), done


def _record(turn: Ledger, *, effect: TurnEffect) -> None:
    turn.record(effect)


_effects = st.lists(st.sampled_from(TurnEffect))


@guarantee(68)
@given(_effects, st.booleans(), st.booleans(), st.randoms())
def test_the_verdict_depends_on_the_recorded_effects_only(
    effects: list[TurnEffect], settled: bool, reported: bool, random: Any
) -> None:
    steps: list[Callable[[Ledger], None]] = [partial(_record, effect=each) for each in effects]
    steps += [Ledger.settle] * settled + [Ledger.note_reported] * reported
    turns = Ledger(), Ledger(judged=False)
    for turn in turns:
        random.shuffle(steps)
        for step in steps:
            step(turn)

    for turn in turns:
        assert turn.complete == (settled or reported or bool(set(effects) - {TurnEffect.OBSERVE}))
        assert turn.replied == bool(set(effects) & {TurnEffect.REPLY, TurnEffect.DECLINE})


@guarantee(68)
@given(_effects)
def test_nothing_counts_after_the_end(effects: list[TurnEffect]) -> None:
    turn = Ledger()
    turn.close()
    for each in effects:
        turn.record(each)
    turn.settle()
    turn.note_reported()

    assert not turn.complete
    assert not turn.replied


@guarantee(68)
async def test_a_result_that_arrives_after_the_end_is_not_recorded() -> None:
    platform, ear = Platform(), Ear()

    async def late(_: httpx.Request) -> httpx.Response:  # noqa: ASYNC124 - the shape is given
        tools.turn.close()
        return httpx.Response(201, json={"data": {"id": "m"}})

    async with open_tools(platform, ear=ear) as tools:
        platform.answer("POST", "messages", late)
        await tools.send_message("x", ["maria"])

    assert not tools.turn.complete


@guarantee(68)
async def test_a_turn_that_ends_between_two_requests_of_a_call_sends_no_more() -> None:
    platform = Platform()

    async def late(_: httpx.Request) -> httpx.Response:  # noqa: ASYNC124 - the shape is given
        tools.turn.close()
        return httpx.Response(200, json={"data": platform.participants})

    async with open_tools(platform) as tools:
        platform.answer("GET", "participants", late)
        with pytest.raises(TurnClosedError):
            await tools.add_participant("helper")

    assert len(platform.requests) == 1


CALLS: list[Callable[[AgentTools], Awaitable[Any]]] = [
    lambda tools: tools.send_message("x", ["maria"]),
    lambda tools: tools.send_notice("x", ["maria"]),
    lambda tools: tools.deliver_reply("x", ["maria"]),
    lambda tools: tools.deliver_notice("x", ["maria"]),
    lambda tools: tools.send_event("x", "thought"),
    lambda tools: tools.send_failure(AgentFailure("x", "y")),
    lambda tools: tools.no_reply(),
    lambda tools: tools.add_participant("helper"),
    lambda tools: tools.remove_participant("maria"),
    lambda tools: tools.lookup_peers(),
    lambda tools: tools.get_participants(),
    lambda tools: tools.create_chatroom(),
    lambda tools: tools.fetch_room_context(),
]


@for_each("call", CALLS)
async def test_every_call_of_a_turn_that_is_over_is_refused_without_a_request(
    call: Callable[[AgentTools], Awaitable[Any]],
) -> None:
    platform = Platform()
    async with open_tools(platform) as tools:
        tools.turn.close()
        with pytest.raises(TurnClosedError, match="turn is over"):
            await call(tools)

    assert platform.requests == []
    assert issubclass(TurnClosedError, BandError)

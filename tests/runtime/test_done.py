"""Work that is done, or was called off, is not done (again), whatever became of its mark or claim."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import trio
import trio.testing

from band_trio import SessionConfig
from band_trio.localband.band import LocalBand
from band_trio.localband.fault_rules import RequestFault
from band_trio.localband.faults import error_reply
from band_trio.tools.protocol import AgentToolsProtocol
from band_trio.types import PlatformMessage
from tests.marks import case, guarantee
from tests.runtime.harness import Scripted, Stage, reply, stage
from tests.runtime.views import (
    claims,
    fail,
    lasting,
    marks,
    payload,
    push_again,
    records,
    starts,
)
from tests.support.for_each import for_each

POLLING = SessionConfig(idle_resync_seconds=5, idle_resync_max_seconds=5)


class TakesAll(Scripted):
    """Consumes every message as a chat control."""

    def __init__(self) -> None:
        super().__init__()
        self.offered: list[str] = []

    async def try_handle_control(self, msg: PlatformMessage, tools: AgentToolsProtocol) -> bool:
        self.offered.append(msg.id)
        return True


async def leave_and_return(here: Stage, room: str) -> None:
    """Be removed while the mark is under way, so that it gets 404, and added again later."""
    await trio.sleep(0.5)
    await here.band.user.remove(room, here.account)
    await trio.sleep(2)
    await here.band.user.add(room, here.account)


@guarantee(14)
@case("C11")
async def test_a_room_left_during_the_mark_of_a_success_does_not_run_it_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running():
            await here.settled(await here.say(room, "before"))
            here.band.faults.delay(1, route="processed", times=1)
            message = await here.say(room, "work")
            await leave_and_return(here, room)
            await here.settled(message)
            await here.settled(await here.say(room, "after"))

        assert here.adapter.texts == ["before", "work", "after"]
        assert marks(here)[1:3] == [("processed", "not_found"), ("processed", "accepted")]
        assert records(here)[1:3] == [(message, "processed")] * 2
        assert here.band.attempts(message, here.account) == ["success"]


async def test_a_failed_run_whose_mark_was_denied_is_run_again_in_the_room_joined_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Leaving the room may have been why it failed."""
    async with stage() as here:
        room = await here.room()
        async with here.running():
            await here.settled(await here.say(room, "before"))
            here.adapter.on("work")(fail)
            here.band.faults.delay(1, route="failed", times=1)
            message = await here.say(room, "work")
            await trio.sleep(0.4)
            here.adapter.on("work")(reply)
            await leave_and_return(here, room)
            await here.settled(message)

        assert records(here)[1:] == [(message, "failed"), (message, "processed")]


@guarantee(11, 14)
@pytest.mark.parametrize("status", [404, 409])
async def test_a_message_that_stays_listed_after_a_final_no_is_marked_and_not_run(
    status: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running(POLLING):
            await here.settled(await here.say(room, "before"))
            here.band.faults.refuse(status, route="processed", times=1)
            message = await here.say(room, "work")
            await trio.sleep(1)
            for number in range(130):  # more than a room remembers
                await here.settled(await here.say(room, f"{number}"))
            await here.settled(message)

        assert starts(here).count(message) == 1
        assert here.band.attempts(message, here.account) == ["success"]


@guarantee(21)
async def test_a_chat_control_is_not_offered_again_in_a_room_left_during_its_mark(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        here.adapter = adapter = TakesAll()
        room = await here.room()
        async with here.running():
            here.band.faults.delay(1, route="processed", times=1)
            message = await here.say(room, "approve")
            await leave_and_return(here, room)
            await here.settled(message)

        assert adapter.offered == [message]
        assert adapter.calls == []


# --------------------------------------------------------------------------- called off


def lost(band: LocalBand, how: str) -> None:
    """Let the next claim take two seconds at least, and its answer be lost."""
    no = error_reply(500, None, "no", None, None)
    match how:
        case "stored":
            fault = RequestFault(commit=True, delay_answer=2, answer=no)
            band.faults.on_request(fault, route="processing")
        case "not stored":
            fault = RequestFault(commit=False, delay=2, answer=no)
            band.faults.on_request(fault, route="processing")
        case "silence":
            band.faults.hang(route="processing")


LOST = ["stored", "not stored", "silence"]


@guarantee(40, 41)
@for_each("how", LOST)
async def test_an_interrupt_during_a_claim_whose_answer_is_lost_consumes_the_message(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running():
            await here.settled(await here.say(room, "before"))
            lost(here.band, how)
            message = await here.say(room, "work")
            await trio.sleep(1)
            await here.band.user.interrupt(here.account)
            await here.settled(message)
            await here.settled(await here.say(room, "after"))

        assert here.adapter.texts == ["before", "after"]
        assert records(here)[1] == (message, "processed")
        assert here.adapter.interrupts == [(room, "interrupt")]


@guarantee(41, 49)
@for_each("how", LOST)
async def test_a_stop_after_the_interrupt_of_such_a_claim_decides(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running():
            await here.settled(await here.say(room, "before"))
            lost(here.band, how)
            message = await here.say(room, "work")
            await trio.sleep(1)
            await here.band.user.interrupt(here.account)
            await here.band.user.stop(room)
            await trio.sleep(30)
            assert starts(here) == starts(here)[:1]
            await here.band.user.play(room)
            await here.settled(message)

        assert here.adapter.texts == ["before", "work"]


@guarantee(40, 54)
@for_each("how", LOST)
async def test_an_interrupt_during_such_a_claim_holds_in_the_room_joined_again(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running():
            await here.settled(await here.say(room, "before"))
            lost(here.band, how)
            message = await here.say(room, "work")
            await trio.sleep(1)
            await here.band.user.interrupt(here.account)
            await here.band.user.remove(room, here.account)
            await trio.sleep(20)
            await here.band.user.add(room, here.account)
            await here.settled(message)

        assert here.adapter.texts == ["before"]


@guarantee(40)
async def test_an_interrupt_during_a_claim_that_is_stopped_leaves_the_message_to_the_play(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running():
            await here.settled(await here.say(room, "before"))
            here.band.faults.delay(2, route="processing", times=1)
            message = await here.say(room, "work")
            await trio.sleep(1)
            here.band.faults.suppress(event="agent.control", times=1)
            await here.band.user.stop(room)
            await here.band.user.interrupt(here.account)
            await trio.sleep(5)
            assert claims(here)[-1] == (message, "stopped")
            await here.band.user.play(room)
            await here.settled(message)

        assert here.adapter.texts == ["before", "work"]


@guarantee(18, 26)
async def test_a_claim_that_finds_nothing_once_is_tried_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running(SessionConfig(refused_recheck_seconds=100)):
            await trio.sleep(1)
            here.band.faults.refuse(404, route="processing")
            message = await here.say(room, "hidden")
            await here.settled(message)
        assert here.adapter.texts == ["hidden"]


@guarantee(84)
@case("C66")
async def test_a_processed_message_that_is_pushed_again_as_new_does_not_fail(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running():
            message = await here.say(room, "m")
            old = payload(here, message)
            await here.settled(message)
        async with here.running():
            await trio.sleep(5)
            newer = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
            push_again(here, room, {**old, "inserted_at": newer, "updated_at": newer})
            await trio.sleep(60)
        assert here.band.state(message, here.account) == "processed"
        assert set(here.band.attempts(message, here.account)) == {"success"}


@guarantee(21)
@case("C95")
async def test_a_message_that_waits_is_run_with_the_text_that_was_pushed_last(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running():
            await trio.sleep(2)
            await here.settled(await here.say(room, "before"))
            here.adapter.on("long")(lasting(5))
            first = await here.say(room, "long")
            await here.adapter.until_running()
            second = await here.say(room, "old")
            edited = payload(here, second)
            push_again(here, room, {**edited, "content": edited["content"].replace("old", "new")})
            await here.settled(first, second)
        assert here.adapter.texts == ["before", "long", "new"]

"""Order against the backlog, overflow, polls, the bucket of speculative reads, and reconnects."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from band_trio import SessionConfig
from band_trio.trace import Claimed, GivenUp, Marked, Posted, Read, Recorded, Started
from tests.marks import case, guarantee
from tests.runtime.harness import Call, Stage, reply, stage


async def decline(call: Call) -> None:
    await call.tools.no_reply()


def started(here: Stage) -> list[str]:
    return [event.message_id for event in here.seen(Started)]


@guarantee(4, 5)
async def test_the_backlog_of_a_downtime_runs_before_what_is_pushed_meanwhile(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        backlog = [await here.say(room, f"old {n}") for n in range(250)]

        async def slow(call: Call) -> None:
            await trio.sleep(0.1)
            await reply(call)

        here.adapter.behaviour = slow
        async with here.running():
            await here.adapter.until_running()
            live = [await here.say(room, f"new {n}") for n in range(5)]
            await here.settled(*backlog, *live)

        assert started(here) == [*backlog, *live]


@guarantee(4, 5)
async def test_a_push_that_overtakes_its_predecessors_waits_for_them_on_a_dirty_room(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        here.band.faults.delay(5, route="messages", times=1)
        async with here.running():
            await trio.sleep(1)
            here.band.faults.suppress(event="message_created", times=2)
            messages = [await here.say(room, f"m{n}") for n in range(3)]
            await here.settled(*messages)

        assert started(here) == messages  # the third push finds a list that was not read yet


@guarantee(26)
async def test_a_message_whose_push_never_comes_is_found_by_the_poll(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running(SessionConfig(idle_resync_seconds=30, idle_resync_max_seconds=90)):
            await here.settled(await here.say(room, "first"))
            await trio.sleep(400)
            here.band.faults.suppress(event="message_created", times=None)
            began = trio.current_time()
            await here.settled(await here.say(room, "unheard"))

        assert trio.current_time() - began <= 91


@guarantee(31)
async def test_many_requests_for_a_read_cause_one_more_pass(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running():
            await trio.sleep(5)
            here.band.faults.delay(10, route="messages", times=1)
            here.band.faults.duplicate(50, event="message_created")
            before = len([e for e in here.seen(Read) if e.room_id == room])
            message = await here.say(room, "many")
            await trio.sleep(30)
            reads = [e.kind for e in here.seen(Read) if e.room_id == room][before:]

        assert here.band.state(message, here.account) == "processed"
        assert reads.count("messages") <= 2
        assert started(here) == [message]


@guarantee(32)
async def test_polls_of_many_rooms_stay_within_the_rate(
    autojump_clock: trio.testing.MockClock,
) -> None:
    session = SessionConfig(idle_resync_seconds=2, idle_resync_max_seconds=2)
    async with stage() as here:
        rooms = [await here.room() for _ in range(100)]
        async with here.running(session, resync_rate=10):
            await trio.sleep(60)
            polls = [at for at, e in here.trace if isinstance(e, Read) and e.kind == "next"]
        assert len({e.room_id for _, e in here.trace if isinstance(e, Read)}) >= len(rooms)
        assert len(polls) > 500
        for begin in range(60):
            assert sum(begin <= at < begin + 1 for at in polls) <= 10 + 1


@guarantee(25, 32)
async def test_the_first_reads_of_a_connection_go_as_fast_as_the_answers_allow(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        rooms = [await here.room() for _ in range(150)]
        async with here.running():
            await trio.sleep(30)
            refused = here.band.faults.refuse(429, route="messages", times=1, retry_after=5)
            here.band.faults.delay(0.1, route="messages", times=None)
            here.band.cut(here.account)
            cut, before = trio.current_time(), len(here.trace)
            await trio.sleep(30)
        read = {
            e.room_id: at - cut for at, e in here.trace[before:]
            if isinstance(e, Read) and e.kind == "messages"
        }  # fmt: skip
        assert refused.hits == 1
        assert sorted(read) == sorted(rooms)
        told = [at for at in read.values() if at < 5]
        assert len(told) <= 24, "a told wait is obeyed by all"
        assert max(read.values()) < 25


@guarantee(25)
async def test_after_a_reconnect_each_room_reads_its_list(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        rooms = {await here.room() for _ in range(5)}
        async with here.running():
            await trio.sleep(5)
            here.band.faults.suppress(event="message_created", times=None)
            here.band.faults.refuse(500, route="messages", times=3)
            here.band.cut(here.account)
            cut = trio.current_time()
            messages = [await here.say(room, "missed") for room in sorted(rooms)]
            await here.settled(*messages)

            assert trio.current_time() - cut < 20
        read = {e.room_id for when, e in here.trace if when > cut and isinstance(e, Read)}
        assert read >= rooms


@guarantee(33)
async def test_after_a_reconnect_the_next_turn_sees_the_platforms_roster(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        b, c = here.band.register_agent("Bee"), here.band.register_agent("Cee")
        await here.band.user.add(room, c)
        async with here.running():
            await here.settled(await here.say(room, "before"))
            here.band.faults.suppress(event="participant_added", times=None)
            here.band.faults.suppress(event="participant_removed", times=None)
            here.band.cut(here.account)
            await here.band.user.add(room, b)
            await here.band.user.remove(room, c)
            await trio.sleep(10)
            await here.settled(await here.say(room, "after"))

        text = here.adapter.calls[-1].participants_msg
        assert text is not None
        assert "Bee" in text
        assert "Cee" not in text


@guarantee(33)
@case("C34")
async def test_a_roster_that_cannot_be_read_is_read_for_the_next_turn(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(decline) as here:
        room = await here.room()
        async with here.running():
            broken = here.band.faults.refuse(500, route="participants", times=None)
            began = trio.current_time()
            await here.settled(await here.say(room, "blind"))
            assert trio.current_time() - began < 6
            broken.lift()
            await here.settled(await here.say(room, "seeing"))

        assert [call.participants_msg is None for call in here.adapter.calls] == [True, False]


@guarantee(7)
async def test_participant_events_take_effect_in_order_and_before_later_messages(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        b = here.band.register_agent("Bee")
        async with here.running():
            await here.settled(await here.say(room, "m1"))
            await trio.sleep(1)
            await here.band.user.add(room, b)
            await here.band.user.remove(room, b)
            await here.band.user.add(room, b)
            await here.settled(await here.say(room, "m2"))
            await here.band.user.remove(room, b)
            await here.settled(await here.say(room, "m3"))

        texts = [call.participants_msg or "" for call in here.adapter.calls]
        assert ["Bee" in text for text in texts] == [False, True, False]


@guarantee(12, 16)
async def test_one_turn_sends_marks_of_one_verdict_only(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()

        @here.adapter.on("bad")
        async def fail(call: Call) -> None:  # noqa: ASYNC124 - a behaviour is async
            raise ValueError

        async with here.running():
            for fault in (here.band.faults.refuse, here.band.faults.drop_after_commit):
                fault(500, route="processed", times=2)
                fault(503, route="failed", times=2)
                good, bad = await here.say(room, "good"), await here.say(room, "bad")
                await here.settled(good)
                await here.settled(bad, state="failed")
                await trio.sleep(60)

        kinds: dict[str, set[str]] = {}
        for mark in here.seen(Marked):
            kinds.setdefault(mark.message_id, set()).add(mark.kind)
        assert all(len(seen) == 1 for seen in kinds.values())
        assert [mark.result for mark in here.seen(Marked)].count("rejected") == 2


@guarantee(20)
async def test_no_claim_stays_open_but_by_release(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running():
            here.band.faults.cut_request(route="processing", times=1)
            here.band.faults.drop_after_commit(500, route="processing", times=1)
            messages = [await here.say(room, f"m{n}") for n in range(3)]
            await here.settled(*messages)

        claimed = [e.message_id for e in here.seen(Claimed) if e.answer == "claimed"]
        assert claimed == [e.message_id for e in here.seen(Recorded)] == messages


@guarantee(22)
async def test_a_busy_room_evicts_nothing_of_another(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(decline) as here:
        quiet, busy = await here.room(), await here.room()

        async with here.running():
            copies = here.band.faults.hold(event="message_created", room=quiet)
            kept = await here.say(quiet, "kept")
            copies.release()
            await here.settled(kept)
            again = here.band.faults.duplicate(2, event="message_created", room=quiet, times=None)
            messages = [await here.say(busy, f"m{n}") for n in range(200)]
            await here.settled(*messages)
            await here.settled(await here.say(quiet, "last"))
            again.lift()
            await trio.sleep(200)

        assert [call.text for call in here.adapter.calls if call.room_id == quiet] == [
            "kept",
            "last",
        ]


@guarantee(37)
@pytest.mark.parametrize("answer_lost", [False, True])
async def test_a_given_up_message_is_reported_once(
    answer_lost: bool, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage() as here:
        room = await here.room()

        async def fail(call: Call) -> None:  # noqa: ASYNC124 - a behaviour is async
            raise ValueError

        here.adapter.behaviour = fail
        async with here.running(SessionConfig(max_message_retries=2)):
            if answer_lost:
                here.band.faults.drop_after_commit(500, route="post_event", times=None)
                here.band.faults.drop_after_commit(500, route="failed", times=3)
            await here.say(room, "bad")
            await trio.sleep(300)

        rows = await here.band.user.messages(room)
        assert [row["message_type"] for row in rows].count("error") == 1
        assert len(here.seen(GivenUp)) == 1
        assert len([e for e in here.seen(Posted) if e.kind == "error"]) == 1


@guarantee(37)
async def test_a_report_that_was_never_sent_is_posted_later(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()

        async def fail(call: Call) -> None:  # noqa: ASYNC124 - a behaviour is async
            raise ValueError

        here.adapter.behaviour = fail
        async with here.running(rest_call_seconds=10):
            broken = here.band.faults.unreachable(route="post_event", times=None)
            await here.say(room, "bad")
            await trio.sleep(60)
            broken.lift()
            await trio.sleep(60)

        rows = await here.band.user.messages(room)
        assert [row["message_type"] for row in rows].count("error") == 1

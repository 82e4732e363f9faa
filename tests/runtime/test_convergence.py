"""Memberships become the platform's list, and what is said of the socket is true."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from band_trio import Agent, SessionConfig
from band_trio.localband.fault_rules import Cut, UpgradeRule
from band_trio.runtime.listing import LIST_BURST, LIST_EVERY
from band_trio.trace import EpochBegan, EpochEnded, Joined, Read, RoomServed, TraceEvent
from tests.marks import case, guarantee
from tests.runtime.harness import Stage, stage
from tests.support.for_each import for_each

QUIET = SessionConfig(idle_resync_seconds=1e7, idle_resync_max_seconds=1e7)


def served(here: Stage, agent: Agent) -> set[str]:
    """Return the rooms that are served now."""
    presence = agent._runtime._presence  # type: ignore[union-attr]
    assert presence is not None
    return {room.room_id for room in presence.rooms()}


def rooms_of(here: Stage) -> set[str]:
    """Return the rooms that the platform says the agent is in."""
    return {room.id for room in here.band.world.rooms.values() if here.account.id in room.members}


def unheard(here: Stage) -> Any:
    """Keep changes of membership from being pushed."""
    return here.band.faults.suppress(
        when=lambda facts: facts.frame.event in ("room_added", "room_removed", "room_deleted"),
        times=None,
    )


@guarantee(29)
@case("C42")
@for_each("count", [0, 1, 20, 21, 50])
async def test_every_room_of_every_page_is_served(
    count: int, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("band_trio.link.rest.rest.PAGE", 20)
    async with stage() as here:
        rooms = {await here.room() for _ in range(count)}
        async with here.running(QUIET) as agent:
            await trio.sleep(5)
            assert served(here, agent) == rooms
            pages = max(1, -(-count // 20))
            assert len(here.band.log.requests("chats")) >= pages, "they are small pages"
            assert sorted(event.room_id for event in here.seen(RoomServed)) == sorted(rooms)
            joined = [e.topic for e in here.seen(Joined) if e.topic.startswith("chat_room:")]
            assert sorted(joined) == sorted(f"chat_room:{room}" for room in rooms)


FAILURES: dict[str, Callable[[Stage, int], Any]] = {
    "500": lambda here, n: here.band.faults.refuse(500, route="chats", times=n),
    "404": lambda here, n: here.band.faults.refuse(404, route="chats", times=n),
    "hang": lambda here, n: here.band.faults.hang(route="chats", times=n),
    "odd": lambda here, n: here.band.faults.odd_answer(b"[]", route="chats", times=n),
    "429": lambda here, n: here.band.faults.refuse(429, route="chats", times=n, retry_after=100),
}


@guarantee(29)
@case("C35")
@for_each("how", FAILURES)
@for_each("times", [1, 8])
async def test_after_a_reconnect_membership_converges_however_often_the_listing_fails(
    how: str, times: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage() as here:
        kept, lost = await here.room(), await here.room()
        async with here.running(QUIET) as agent:
            await trio.sleep(5)
            quiet = unheard(here)
            FAILURES[how](here, times)
            here.band.cut(here.account)
            await here.band.user.remove(lost, here.account)
            new = await here.room()
            await trio.sleep(1500)
            quiet.lift()
            assert served(here, agent) == {kept, new} == rooms_of(here)
            assert here.adapter.cleaned == [lost]
            await here.settled(await here.say(new, "hello"))


@guarantee(29)
async def test_a_told_wait_before_the_next_listing_is_obeyed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        await here.room()
        async with here.running(QUIET):
            await trio.sleep(5)
            before = len(here.band.log.requests("chats"))
            here.band.faults.refuse(429, route="chats", retry_after=300)
            here.band.cut(here.account)
            await trio.sleep(600)
            asked = [row.at for row in here.band.log.requests("chats")][before:]
            assert asked[1] - asked[0] >= 300


@guarantee(29)
async def test_an_incomplete_listing_takes_nobody_out(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A room leaves while the pages are read: the pages shift, and one room may be missed."""
    async with stage() as here:
        rooms = [await here.room() for _ in range(150)]
        async with here.running(QUIET) as agent:
            await trio.sleep(5)
            quiet = unheard(here)
            here.band.faults.delay(2, route="chats", times=None)
            here.band.cut(here.account)
            await here.band.until(lambda: len(here.seen(EpochBegan)) == 2)
            await trio.sleep(3)  # the first page has been read, the second is being asked for
            for room in rooms[:10]:
                await here.band.user.remove(room, here.account)
            await trio.sleep(60)
            quiet.lift()
            assert served(here, agent) == rooms_of(here)
            assert set(here.adapter.cleaned) == set(rooms[:10])


@guarantee(29)
async def test_a_listing_that_never_holds_together_takes_nobody_out_and_lets_newcomers_in(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        rooms = [await here.room() for _ in range(3)]
        async with here.running(QUIET) as agent:
            await trio.sleep(5)
            quiet = unheard(here)
            new = await here.room()
            body = (
                b'{"data": [{"id": "%s"}], "metadata": {"page": 1, "total_pages": 1, '
                b'"total_count": 4}}' % new.encode()
            )
            odd = here.band.faults.odd_answer(body, route="chats", times=None)
            here.band.cut(here.account)
            await trio.sleep(100)
            assert served(here, agent) == {*rooms, new}
            odd.lift()
            await here.band.user.remove(rooms[0], here.account)
            here.band.cut(here.account)
            await trio.sleep(100)
            quiet.lift()
            assert served(here, agent) == {*rooms[1:], new}


@guarantee(29)
@for_each("times", [0, 1, 9])
async def test_the_listing_is_read_until_it_succeeds_whatever_else_asks_for_it(
    times: int, autojump_clock: trio.testing.MockClock
) -> None:
    """`agent_rooms` is not joined again, and no room is lost: only the new epoch asks."""
    async with stage() as here:
        kept = await here.room()
        async with here.running(QUIET) as agent:
            await trio.sleep(5)
            quiet = unheard(here)
            here.band.faults.ignore_join(f"agent_rooms:{here.account.id}", times=None)
            here.band.faults.refuse(404, route="chats", times=times)
            here.band.cut(here.account)
            new = await here.room()
            await trio.sleep(300)
            quiet.lift()
            assert served(here, agent) == {kept, new}


@guarantee(29)
async def test_a_push_is_newer_than_the_listing_that_is_being_read(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        kept, lost = await here.room(), await here.room()
        async with here.running(QUIET) as agent:
            await trio.sleep(5)
            here.band.faults.delay(5, answer=True, route="chats")  # as of its beginning
            here.band.cut(here.account)
            await trio.sleep(3)
            await here.band.user.remove(lost, here.account)
            new = await here.room()
            await trio.sleep(30)
            assert served(here, agent) == {kept, new}
            assert [event.room_id for event in here.seen(RoomServed)].count(new) == 1


@guarantee(29)
@case("C42")
async def test_a_room_that_is_added_while_the_listing_hangs_is_served_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        await here.room()
        async with here.running(QUIET):
            await trio.sleep(5)
            rule = here.band.faults.hang(route="chats", times=None)
            here.band.cut(here.account)
            await trio.sleep(3)
            began = trio.current_time()
            new = await here.room()
            await here.settled(await here.say(new, "hello"))
            assert trio.current_time() == began
            rule.lift()


@guarantee(29)
async def test_after_the_start_a_room_that_was_not_listed_is_found_by_the_first_join(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """It is added between the listing and the join of `agent_rooms`, and nobody says so."""
    async with stage() as here:
        here.band.faults.ignore_join(f"agent_rooms:{here.account.id}")
        async with here.running(QUIET) as agent:
            new = await here.room()
            await trio.sleep(60)
            assert served(here, agent) == {new}


@guarantee(29)
async def test_a_room_filter_keeps_rooms_out_and_one_that_raises_too(
    autojump_clock: trio.testing.MockClock,
) -> None:
    def choose(room_id: str, title: str | None) -> bool:
        if title == "bad":
            raise ValueError("no")
        return title == "mine"

    async with stage() as here:
        listed = {title: await here.room(title) for title in ("mine", "other", "bad")}
        async with here.running(QUIET, room_filter=choose) as agent:
            pushed = {title: await here.room(title) for title in ("mine", "other", "bad")}
            await trio.sleep(5)
            assert served(here, agent) == {listed["mine"], pushed["mine"]}
            here.band.cut(here.account)
            await trio.sleep(60)
            assert served(here, agent) == {listed["mine"], pushed["mine"]}


@guarantee(26, 29)
@pytest.mark.parametrize("how", ["late", "copy"])
async def test_a_removal_that_is_late_or_a_copy_is_put_right_by_the_listing(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    frames: list[Any] = []

    def keep(frame: Any) -> Any:
        frames.append(frame)
        return frame

    async with stage() as here:
        room = await here.room()
        async with here.running(QUIET) as agent:
            await here.settled(await here.say(room, "warm"))
            if how == "late":
                here.band.faults.delay_push(2, event="room_removed")
            else:
                here.band.faults.alter(keep, event="room_removed")
            await here.band.user.remove(room, here.account)
            await here.band.user.add(room, here.account)
            await trio.sleep(30)
            for frame in frames:
                here.band.send_frame(here.account, frame.topic, frame.event, frame.payload)
            began = trio.current_time()
            await here.settled(await here.say(room, "m"))
            assert trio.current_time() - began < 1
            assert served(here, agent) == {room}


@guarantee(29)
async def test_many_removals_cause_few_listings_and_none_later(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        rooms = [await here.room() for _ in range(60)]
        async with here.running(QUIET) as agent:
            await trio.sleep(60)
            before = len(here.band.log.requests("chats"))
            for room in rooms[1:]:
                await here.band.user.remove(room, here.account)
                await trio.sleep(0.5)
            assert served(here, agent) == {rooms[0]}
            assert len(here.band.log.requests("chats")) - before <= LIST_BURST + 30 / LIST_EVERY
            await trio.sleep(LIST_EVERY)
            before = len(here.band.log.requests("chats"))
            await trio.sleep(3600)
            assert len(here.band.log.requests("chats")) == before


@guarantee(29)
@for_each("meta", ['"total_count": 2, ', "", '"total_count": 1, '])
async def test_a_listing_with_an_unreadable_row_or_no_count_proves_no_absence_but_ends(
    meta: str, autojump_clock: trio.testing.MockClock
) -> None:
    """One room was left unheard: what says so is its own 404, not that it is not listed."""
    async with stage() as here:
        listed, lost, unlisted = [await here.room() for _ in range(3)]
        bad = "" if not meta else ', {"id": 5}'
        body = '{"data": [{"id": "%s"}%s], "metadata": {%s"page": 1, "total_pages": 1}}'
        async with here.running(QUIET) as agent:
            await trio.sleep(60)
            quiet = unheard(here)
            await here.band.user.remove(lost, here.account)
            quiet.lift()
            odd = (body % (listed, bad, meta)).encode()
            here.band.faults.odd_answer(odd, route="chats", times=None)
            here.band.cut(here.account)
            await trio.sleep(120)
            assert served(here, agent) == {listed, unlisted}
            assert here.adapter.cleaned == [lost]
            before = len(here.band.log.requests("chats"))
            await trio.sleep(3600)
            assert len(here.band.log.requests("chats")) == before
            await here.settled(await here.say(unlisted, "m"))


@guarantee(29)
@pytest.mark.parametrize("status", [403, 404])
async def test_a_listed_room_that_may_not_be_read_stays_and_costs_few_listings(
    status: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running(QUIET) as agent:
            await trio.sleep(60)
            rule = here.band.faults.refuse(status, route="messages", room=room, times=None)
            here.band.cut(here.account)
            await trio.sleep(60)
            before = len(here.band.log.requests("chats"))
            await trio.sleep(3600)
            assert served(here, agent) == {room}
            assert len(here.band.log.requests("chats")) - before <= 8
            rule.lift()
            await here.settled(await here.say(room, "m"))


@guarantee(29)
async def test_a_room_that_may_not_be_read_is_not_left_for_an_incomplete_listing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Only a 404 says that the agent is not in it (platform docs, Rooms and participants)."""
    async with stage() as here:
        room = await here.room()
        async with here.running(QUIET) as agent:
            await trio.sleep(60)
            here.band.faults.refuse(403, route="messages", room=room, times=5)
            body = b'{"data": [{"id": 5}], "metadata": {"total_count": 1}}'
            here.band.faults.odd_answer(body, route="chats", times=None)
            here.band.cut(here.account)
            await trio.sleep(120)
            assert served(here, agent) == {room}
            await here.settled(await here.say(room, "m"))


@guarantee(29)
async def test_an_idle_agent_asks_for_one_thing_only(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """One `next` per room and poll: no list, no listing, no roster."""
    session = SessionConfig(idle_resync_seconds=60, idle_resync_max_seconds=60)
    async with stage() as here:
        rooms = [await here.room() for _ in range(5)]
        async with here.running(session):
            for room in rooms:
                await here.settled(await here.say(room, "m"))
            await trio.sleep(300)
            before = len(here.band.log.requests())
            await trio.sleep(3600)
            asked = here.band.log.requests()[before:]
            assert {row.route for row in asked} == {"next"}
            assert len(asked) == pytest.approx(5 * 60, abs=5)


# --------------------------------------------------------------------------- the socket


async def struck(here: Stage, rule: UpgradeRule, times: int) -> None:
    """Wait until a rule has struck so often."""
    await here.band.until(lambda: rule.hits >= times)


@guarantee(62)
@for_each("how", ["fin", "rst", "close 1011", "close 1012", "silence"])
async def test_is_connected_tells_the_truth(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    """At every event, before, between and after."""
    said: list[tuple[str, bool]] = []

    def is_connected() -> bool:
        return agent.is_connected

    def watch(event: TraceEvent) -> None:
        here.observe(event)
        if isinstance(event, EpochBegan | EpochEnded):
            said.append((type(event).__name__, is_connected()))

    async with stage() as here:
        await here.room()
        agent = here.agent(QUIET, observer=watch)
        assert not is_connected()
        async with trio.open_nursery() as nursery:
            await nursery.start(agent.run)
            for _ in range(3):
                await trio.sleep(70)
                assert is_connected()
                assert here.band.session(here.account) is not None
                rule = here.band.faults.refuse_upgrade(503, times=3)
                if how in ("fin", "rst"):
                    here.band.cut(here.account, Cut(how))
                elif how == "silence":
                    here.band.silence(here.account)
                else:
                    here.band.close(here.account, int(how.split()[1]))
                await struck(here, rule, 1)
                assert not is_connected()
                assert agent.health().connected is False
                await struck(here, rule, 3)
                assert not is_connected()
            await trio.sleep(70)
            assert is_connected()
            agent.stop(grace=0)
        assert not is_connected()

    numbers = [event.number for event in here.seen(EpochBegan)]
    assert numbers == [1, 2, 3, 4]
    assert said == list(
        itertools.islice(itertools.cycle([("EpochBegan", True), ("EpochEnded", False)]), 8)
    )


@guarantee(62)
@pytest.mark.parametrize("cause", ["upgrade", "stream"])
async def test_a_connection_that_is_only_being_made_is_none(
    cause: str, autojump_clock: trio.testing.MockClock
) -> None:
    async def never(url: str) -> trio.abc.Stream:
        await trio.sleep_forever()
        raise AssertionError

    async with stage() as here:
        here.band.faults.refuse_upgrade(503, times=None)
        options = {"open_stream": never} if cause == "stream" else {}
        agent = here.agent(QUIET, start_patience_seconds=500, **options)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(agent.run)
            for _ in range(100):
                await trio.sleep(0.7)
                assert not agent.is_connected
            agent.stop(grace=0)


@guarantee(29)
async def test_the_listing_is_read_after_each_reconnect(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        await here.room()
        async with here.running(QUIET):
            await trio.sleep(5)
            for _ in range(3):
                before = sum(e.kind == "chats" for e in here.seen(Read))
                here.band.cut(here.account)
                await trio.sleep(60)
                assert sum(e.kind == "chats" for e in here.seen(Read)) > before

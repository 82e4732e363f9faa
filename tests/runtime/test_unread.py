"""Lists that cannot be read: a bad row stops nothing, an outage is told and costs few requests."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from band_trio import SessionConfig
from band_trio.localband.room import Message
from tests.marks import case, guarantee
from tests.runtime.harness import stage
from tests.runtime.views import sent


@guarantee(26, 27)
async def test_an_unreadable_row_at_the_head_holds_nobody_up(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    render = Message.render

    def odd(self: Message) -> dict[str, Any]:
        row = render(self)
        return {**row, "sender_type": None} if self.content.endswith("bad") else row

    monkeypatch.setattr(Message, "render", odd)
    async with stage() as here:
        room = await here.room()
        bad, first = await here.say(room, "bad"), await here.say(room, "first")
        async with here.running() as agent:
            await here.settled(first)
            began = trio.current_time()
            await here.settled(await here.say(room, "second"))
            assert trio.current_time() == began, "pushed, and run at once"
            assert agent.health().unread == {}
            asked = len(sent(here, "next"))
            await trio.sleep(1200)
            assert len(sent(here, "next")) - asked <= 11, "polled as an idle room is"
        assert here.band.state(bad, here.account) != "processed"
        assert here.adapter.texts == ["first", "second"]


@guarantee(25)
async def test_a_list_that_cannot_be_read_is_told_until_it_can(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with stage() as here:
        room, other = await here.room(), await here.room()
        async with here.running() as agent:
            await trio.sleep(300)
            rule = here.band.faults.refuse(500, route="messages", room=room, times=None)
            here.band.cut(here.account)
            message = await here.say(room, "m")
            await trio.sleep(3600)
            health = agent.health()
            assert health.rooms == {"sync": 1, "idle": 1}
            assert list(health.unread) == [room]
            assert health.unread[room] == pytest.approx(3600, abs=60)
            told = [r for r in caplog.records if "list could not be read" in r.message]
            assert {r.levelname for r in told if room in r.message} == {"WARNING"}
            assert other not in caplog.text
            assert 50 < len(told) <= 3 + 60
            here.band.faults.clear()
            await here.settled(message)
            await trio.sleep(1)
            assert rule.hits > 0
            assert agent.health().unread == {}
            assert agent.health().rooms == {"idle": 2}


@guarantee(32)
async def test_a_told_wait_is_obeyed_by_every_kind_of_read(
    autojump_clock: trio.testing.MockClock,
) -> None:
    session = SessionConfig(idle_resync_seconds=20, idle_resync_max_seconds=20)
    async with stage() as here:
        room = await here.room()
        async with here.running(session):
            await here.settled(await here.say(room, "m0"))
            await here.band.user.stop(room)
            message = await here.say(room, "m1")
            await trio.sleep(1)
            began = len(sent(here, "messages"))
            here.band.faults.refuse(429, retry_after=90, route="messages")
            await here.band.user.play(room)
            await here.settled(message)
            refused, again = sent(here, "messages")[began:][:2]
            assert again - refused >= 90, "the list, after a play"

            began = len(sent(here, "next"))
            here.band.faults.refuse(429, retry_after=90, route="next")
            await trio.sleep(200)
            refused, again = sent(here, "next")[began:][:2]
            assert again - refused >= 90, "the next one, by a poll"


@guarantee(32)
async def test_speculative_reads_that_fail_stay_within_the_rate_too(
    autojump_clock: trio.testing.MockClock,
) -> None:
    session = SessionConfig(idle_resync_seconds=60, idle_resync_max_seconds=60)
    async with stage() as here:
        for _ in range(100):
            await here.room()
        async with here.running(session, resync_rate=2):
            await trio.sleep(200)
            here.band.faults.refuse(503, route="next", times=None)
            began = len(sent(here, "next"))
            await trio.sleep(200)
            assert 300 <= len(sent(here, "next")) - began <= 2 * 200 + 4 + 1


@guarantee(32)
async def test_a_read_that_a_hint_asks_for_takes_no_token(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The bucket is empty for minutes; the room that is told of work reads at once."""
    async with stage() as here:
        rooms = [await here.room() for _ in range(60)]
        async with here.running(resync_rate=0.5):
            await trio.sleep(300)
            here.band.faults.refuse(503, route="messages", times=2, room=rooms[-1])
            here.band.cut(here.account)
            await trio.sleep(5)
            began = trio.current_time()
            await here.settled(await here.say(rooms[-1], "m"))
            assert trio.current_time() - began < 3


@guarantee(11, 29)
@case("C43")
async def test_an_absurd_told_wait_costs_an_hour_not_years(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with stage() as here, here.running():
        room = await here.room()
        await here.settled(await here.say(room, "warm"))
        here.band.faults.refuse(429, retry_after=10**9, route="processed")
        here.band.faults.refuse(429, retry_after=10**9, route="chats")
        here.band.faults.suppress(event="room_added", times=1)
        message = await here.say(room, "M")
        here.band.cut(here.account)
        other = await here.say(await here.room(), "N")
        with trio.fail_after(2 * 3600):
            await here.settled(message, other)
        told = [m for m in caplog.messages if "taken for a mistake" in m]
        assert 1 <= len(told) <= 3

"""Posts whose answer is missing: looked for in the room, and never sent again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from band_trio import MessagePostError
from band_trio.link.rest import sent
from band_trio.localband.fault_rules import RequestFault, RequestRule
from band_trio.localband.faults import Faults
from band_trio.trace import Posted, Recorded
from tests.marks import case, guarantee
from tests.runtime.harness import Call, Stage, stage
from tests.runtime.views import sent as requests
from tests.support.for_each import for_each

LOST: dict[str, Callable[..., RequestRule]] = {
    "504": lambda f, commit, **at: f.on_request(
        RequestFault(commit=commit, answer=f.refuse(504, times=0).action.answer), **at
    ),
    "cut": lambda f, commit, **at: f.cut_request(commit=commit, **at),
    "hang": lambda f, commit, **at: f.hang(commit=commit, **at),
}


def lose(faults: Faults, how: str, *, stored: bool, route: str = "post_message") -> RequestRule:
    return LOST[how](faults, stored, route=route)


class Poster:
    """Answers "ok" as each message asks, and notes what came of it and when."""

    def __init__(self, content: str = "ok") -> None:
        self.content = content
        self.outcomes: list[Any] = []
        self.took: list[float] = []

    async def __call__(self, call: Call) -> None:
        began = trio.current_time()
        try:
            self.outcomes.append(await call.tools.send_message(self.content, [call.msg.sender_id]))
        except MessagePostError as exc:
            self.outcomes.append(exc.kind)
        self.took.append(trio.current_time() - began)

    @property
    def last(self) -> Any:
        return self.outcomes[-1]


async def own_rows(here: Stage, room: str) -> list[dict[str, Any]]:
    rows = await here.band.user.messages(room)
    return [row for row in rows if row["sender_id"] == here.account.id]


@guarantee(76, 83)
@case("C65")
@for_each("how", LOST)
async def test_a_message_that_was_stored_is_found_and_counts_as_sent(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    poster = Poster("@user ok, @User")
    async with stage(poster) as here:
        room = await here.room()
        lose(here.band.faults, how, stored=True)
        async with here.running(rest_try_seconds=3):
            await here.settled(await here.say(room, "m"))

        (row,) = await own_rows(here, room)
        assert poster.last["id"] == row["id"]
        assert poster.last["success"] is True
        assert [each["id"] for each in poster.last["recipients"]] == [here.band.user.id]
        assert poster.took[0] < (3.5 if how == "hang" else 0.5), "no wait where it is there"
        assert len(requests(here, "post_message")) == 1
        assert [(e.kind, e.outcome) for e in here.seen(Posted)] == [("message", "ok")]
        assert [event.kind for event in here.seen(Recorded)] == ["processed"]


@guarantee(76, 83)
@case("C65")
@for_each("how", LOST)
async def test_a_message_that_was_not_stored_stays_unknown_after_two_seconds(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    poster = Poster()
    async with stage(poster) as here:
        room = await here.room()
        lose(here.band.faults, how, stored=False)
        async with here.running(rest_try_seconds=3):
            await here.settled(await here.say(room, "m"))

        assert poster.last == "outcome_unknown"
        assert sent.SEARCH_SECONDS == 2.0
        assert poster.took[0] == pytest.approx(5 if how == "hang" else 2, abs=0.01)
        assert await own_rows(here, room) == []
        assert len(requests(here, "post_message")) == 1
        assert [(e.kind, e.outcome) for e in here.seen(Posted)] == [("message", "unknown")]


@guarantee(83)
async def test_a_message_that_is_stored_late_is_found(
    autojump_clock: trio.testing.MockClock,
) -> None:
    poster = Poster()
    async with stage(poster) as here:
        room = await here.room()
        here.band.faults.cut_request(commit=False, route="post_message")
        async with here.running():

            async def late() -> None:
                await here.band.until(lambda: bool(here.band.log.requests("post_message")))
                await trio.sleep(1.2)
                row = {"content": "ok", "mentions": [{"id": here.band.user.id}]}
                await here.adapter.calls[0].tools.rest.api.post(  # type: ignore[attr-defined]
                    "POST", f"/api/v1/agent/chats/{room}/messages", json={"message": row}
                )

            async with trio.open_nursery() as nursery:
                nursery.start_soon(late)
                await here.settled(await here.say(room, "m"))
        (row,) = await own_rows(here, room)
        assert poster.last["id"] == row["id"]
        assert poster.took[0] == pytest.approx(1.5, abs=0.1)


@guarantee(83)
async def test_the_search_begins_where_the_room_was_read_last(
    autojump_clock: trio.testing.MockClock,
) -> None:
    poster = Poster()
    async with stage(poster) as here:
        room = await here.room()
        for number in range(430):
            await here.say(room, f"{number}")
        async with here.running():
            await here.settled(await here.say(room, "last"))
            before = len(requests(here, "context"))
            lose(here.band.faults, "cut", stored=True)
            await here.settled(await here.say(room, "m"))
            assert poster.last["id"] == (await own_rows(here, room))[-1]["id"]
            found = len(requests(here, "context")) - before
            lose(here.band.faults, "cut", stored=True)
            await here.settled(await here.say(room, "m"))
            again = len(requests(here, "context")) - before - found
        assert (before, again) == (1, 1), "the bootstrap of the first message, and the last page"
        assert found <= 9


@guarantee(83)
async def test_a_room_whose_end_is_not_known_is_read_from_its_beginning(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sent, "ROOMS", 1)
    poster = Poster()
    async with stage(poster) as here:
        rooms = [await here.room(), await here.room()]
        async with here.running():
            for room in rooms:
                await here.settled(await here.say(room, "hello"))
            lose(here.band.faults, "cut", stored=True)
            await here.settled(await here.say(rooms[0], "m"))
        assert poster.last["id"] == (await own_rows(here, rooms[0]))[-1]["id"]


@guarantee(83)
@case("C65")
@pytest.mark.parametrize("restart", [False, True])
async def test_the_same_answer_to_an_earlier_message_is_not_taken_for_it(
    restart: bool, autojump_clock: trio.testing.MockClock
) -> None:
    poster = Poster()
    async with stage(poster) as here:
        room = await here.room()
        first = await here.say(room, "m1")
        if restart:
            async with here.running():
                await here.settled(first)
        second = await here.say(room, "m2")  # is older than the answer to m1, without a restart
        here.band.faults.cut_request(commit=False, route="post_message", skip=0 if restart else 1)
        async with here.running():
            await here.settled(first, second)
        assert poster.outcomes[1] == "outcome_unknown"
        assert len(await own_rows(here, room)) == 1


@guarantee(83)
async def test_of_two_sends_at_once_each_is_found_as_itself(
    autojump_clock: trio.testing.MockClock,
) -> None:
    got: dict[str, Any] = {}

    async def both(call: Call) -> None:
        async def send(to: str) -> None:
            got[to] = await call.tools.send_message("the same", [to])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, call.msg.sender_id)
            nursery.start_soon(send, helper.id)

    async with stage(both) as here:
        room = await here.room()
        helper = here.band.register_agent("Helper")
        await here.band.user.add(room, helper)
        here.band.faults.cut_request(route="post_message", times=2)
        async with here.running():
            await here.settled(await here.say(room, "m"))
        mentioned = {
            row["id"]: row["metadata"]["mentions"][0]["id"] for row in await own_rows(here, room)
        }
        assert {mentioned[receipt["id"]]: to for to, receipt in got.items()} == {
            to: to for to in got
        }
        assert len(requests(here, "post_message")) == 2


@guarantee(83)
async def test_a_lost_event_is_found_too(autojump_clock: trio.testing.MockClock) -> None:
    got: list[Any] = []

    async def think(call: Call) -> None:
        got.append(await call.tools.send_event("hm @user", "thought", {"mentions": "none"}))
        await call.tools.no_reply()

    async with stage(think) as here:
        room = await here.room()
        lose(here.band.faults, "cut", stored=True, route="post_event")
        async with here.running():
            await here.settled(await here.say(room, "m"))
        (row,) = await own_rows(here, room)
        assert got == [{"id": row["id"], "message_type": "thought", "success": True}]


@guarantee(83)
async def test_an_adapters_own_reply_is_found_too(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def relay(call: Call) -> None:
        await call.tools.deliver_reply("the answer", [call.msg.sender_id])

    async with stage(relay) as here:
        room = await here.room()
        lose(here.band.faults, "cut", stored=True)
        async with here.running():
            await here.settled(await here.say(room, "m"))
        assert len(await own_rows(here, room)) == 1
        assert [(e.kind, e.outcome) for e in here.seen(Posted)] == [("message", "ok")]


@guarantee(41, 83)
async def test_a_turn_that_is_interrupted_ends_the_search(
    autojump_clock: trio.testing.MockClock,
) -> None:
    poster = Poster()
    async with stage(poster) as here:
        room = await here.room()
        lose(here.band.faults, "cut", stored=False)
        async with here.running():
            message = await here.say(room, "m")
            await here.adapter.until_running()
            await trio.sleep(0.7)
            began = trio.current_time()
            await here.band.user.interrupt(here.account)
            await here.settled(message)
            assert trio.current_time() - began < 0.2
        assert poster.outcomes == []


@guarantee(83)
async def test_a_room_that_cannot_be_read_leaves_the_outcome_unknown(
    autojump_clock: trio.testing.MockClock,
) -> None:
    poster = Poster()
    async with stage(poster) as here:
        room = await here.room()
        here.band.faults.refuse(404, route="context", times=None)
        lose(here.band.faults, "cut", stored=True)
        async with here.running():
            await here.settled(await here.say(room, "m"))
        assert poster.last == "outcome_unknown"
        assert poster.took[0] == pytest.approx(2, abs=0.01)

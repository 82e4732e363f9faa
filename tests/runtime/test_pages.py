"""Pages, cursors and ids of any kind: what they may cost, and what goes on beside them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, Final, cast

import attrs
import httpx  # noqa: ASYNC127 - what the agent's transport is made of
import pytest
import trio
import trio.testing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from band_trio import Agent, AgentConfig, SessionConfig
from band_trio.link.rest.pages import FREE_PAGES, PAGE_SECONDS
from band_trio.link.rest.rest import RestClient
from band_trio.protocol.rest import ChatRoom, Page
from band_trio.runtime.listing import list_rooms
from tests.marks import case, guarantee
from tests.runtime.harness import Stage, stage
from tests.runtime.test_history_roster import contents
from tests.runtime.views import fail, payload, push_again
from tests.support.for_each import for_each

Rewrite = Callable[[httpx.Request, Any], Any]
"""Given the request and the parsed body, return the body to give instead."""

QUIET: Final = SessionConfig(idle_resync_seconds=1e7, idle_resync_max_seconds=1e7)
LONG: Final = "x" * 70_000
ODD: Final = [LONG, "\0", "a\r\nb", "\x1b[2J", "", "\ud800", "x" * 257, "\u2028"]


EACH_ODD: Final = for_each("odd", ODD, ids=lambda odd: ascii(odd[:9]))


def ending(request: httpx.Request) -> str:
    return request.url.path.rsplit("/", 1)[-1]


@attrs.define(eq=False)
class OddTransport(httpx.AsyncBaseTransport):
    """Rewrites the platform's answers; cursors and numbers of pages are its own business."""

    inner: httpx.AsyncBaseTransport
    rewrites: Mapping[str, Rewrite]
    """By the end of the path; each gets the first page."""
    asked: Counter[str] = attrs.field(factory=Counter)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        assert len(str(request.url)) < 65_536
        route = ending(request)
        self.asked[route] += 1
        rewrite = self.rewrites.get(route) if request.method == "GET" else None
        if rewrite is None:
            return await self.inner.handle_async_request(request)
        url = request.url.copy_remove_param("cursor").copy_remove_param("page")
        first = httpx.Request(
            "GET", url, headers=request.headers, extensions=dict(request.extensions)
        )
        answer = await self.inner.handle_async_request(first)
        if answer.status_code != 200:
            return answer
        body = rewrite(request, json.loads(answer.content))
        return httpx.Response(200, content=json.dumps(body))


@asynccontextmanager
async def odd_run(
    here: Stage, rewrites: Mapping[str, Rewrite], session: SessionConfig = QUIET
) -> AsyncGenerator[tuple[Agent, Counter[str]]]:
    """Run the stage's agent over a platform with odd answers; also gives the requests so far."""
    inner = here.band.connection(here.account)["config"].rest_transport
    transport = OddTransport(inner, rewrites)
    async with here.running(session, rest_transport=transport) as agent:
        yield agent, transport.asked


def old_row(name: str) -> dict[str, Any]:
    return {
        "id": name, "content": name, "message_type": "text", "sender_id": "u",
        "sender_type": "User", "inserted_at": "2020-01-01T00:00:00Z",
    }  # fmt: skip


def rows_at(cursor: str | None, following: str) -> dict[str, Any]:
    meta = {"has_more": True, "next_cursor": following}
    return {"data": [old_row(f"row of {cursor}")], "metadata": meta}


def turns(request: httpx.Request, body: Any) -> Any:
    """Lead from the first page to a, from a to b, and from b to a."""
    cursor = request.url.params.get("cursor")
    return rows_at(cursor, "b" if cursor == "a" else "a")


def turns_behind(request: httpx.Request, body: Any) -> Any:
    """Lead round and round behind the true first page."""
    page = turns(request, body)
    return page if "cursor" in request.url.params else {**page, "data": body["data"]}


def endless() -> Rewrite:
    fresh = count()
    return lambda request, _: rows_at(request.url.params.get("cursor"), f"c{next(fresh)}")


# --------------------------------------------------------------------------- walks


@guarantee(63, 88)
@case("C70")
async def test_history_runs_with_what_a_cursor_that_goes_round_has_reached(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        async with odd_run(here, {"context": turns}) as (_, asked):
            began = trio.current_time()
            await here.settled(await here.say(room, "m"))
            assert trio.current_time() - began < 1
            await trio.sleep(30)
            assert asked["context"] == 3, "51 693 were seen"
        (call,) = here.adapter.calls
        assert call.bootstrap
        assert contents(call) == ["row of None", "row of a", "row of b"]


@guarantee(26, 88)
@case("C70")
async def test_a_list_that_goes_round_costs_few_requests_and_no_message(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(fail) as here:
        room = await here.room()
        async with odd_run(here, {"messages": turns_behind}, SessionConfig()) as (_, asked):
            await here.settled(await here.say(room, "bad"), state="failed")
            here.adapter.behaviour = reply_briefly
            before = asked["messages"]
            await trio.sleep(600)
            assert 0 < asked["messages"] - before <= 3 * 12, "polled as an idle room is"
            began = trio.current_time()
            await here.settled(await here.say(room, "good"))
            assert trio.current_time() - began < 1


async def reply_briefly(call: Any) -> None:
    await call.tools.no_reply()


@guarantee(88)
@case("C70")
@pytest.mark.slow
async def test_fresh_cursors_for_ever_are_followed_at_a_pace_and_hold_up_no_other_room(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The room itself waits for its history as long as for any, then runs without."""
    async with stage() as here:
        odd, other = await here.room(), await here.room()
        follow = endless()
        session = attrs.evolve(QUIET, history_seconds=8)

        def only_odd(request: httpx.Request, body: Any) -> Any:
            return follow(request, body) if odd in request.url.path else body

        async with odd_run(here, {"context": only_odd}, session) as (_, asked):
            slow = await here.say(odd, "m")
            await trio.sleep(2)
            began = trio.current_time()
            await here.settled(await here.say(other, "quick"))
            assert trio.current_time() - began < 1
            assert asked["context"] <= FREE_PAGES + 2 / PAGE_SECONDS + 2
            await here.settled(slow)
            assert trio.current_time() <= began + 7
            assert asked["context"] <= FREE_PAGES + 8 / PAGE_SECONDS + 2
        late = here.adapter.calls[-1]
        assert (late.bootstrap, late.history.raw) == (False, [])


@guarantee(29, 88)
@case("C70")
@pytest.mark.parametrize("first_empty", [False, True])
async def test_empty_pages_that_claim_more_end_a_listing(
    first_empty: bool, autojump_clock: trio.testing.MockClock
) -> None:
    def numbered(request: httpx.Request, body: Any) -> Any:
        number = int(request.url.params["page"])
        rows = [] if number > 1 or first_empty else body["data"]
        meta = {**body["metadata"], "page": number, "total_pages": 10**12}
        return {"data": rows, "metadata": meta}

    async with stage() as here:
        room = await here.room()
        async with odd_run(here, {"chats": numbered}) as (agent, asked):
            if first_empty:  # told by a push instead, which an incomplete listing does not undo
                room = await here.room()
            await here.settled(await here.say(room, "m"))
            await trio.sleep(600)
            assert asked["chats"] <= 12
            assert agent.health().rooms == {"idle": 1}


# --------------------------------------------------------------------------- ids and cursors


@guarantee(87)
@case("C69")
@for_each("odd", [*ODD[:6], "x" * 4097], ids=lambda odd: ascii(odd[:9]))
async def test_a_bad_cursor_of_the_history_costs_the_history_alone(
    odd: str, autojump_clock: trio.testing.MockClock
) -> None:
    def cut(request: httpx.Request, body: Any) -> Any:
        return rows_at(None, odd)

    async with stage() as here:
        room, other = await here.room(), await here.room()
        async with odd_run(here, {"context": cut}) as (_, asked):
            await here.settled(await here.say(room, "m"), await here.say(other, "m"))
            assert asked["context"] == 6, "three tries each, as for any read that fails"
            assert trio.current_time() < 10
        assert [(call.bootstrap, call.history.raw) for call in here.adapter.calls] == [
            (False, [])
        ] * 2


@guarantee(26, 87)
@case("C69")
@EACH_ODD
async def test_rows_with_bad_ids_and_a_bad_list_cursor_cost_themselves(
    odd: str, autojump_clock: trio.testing.MockClock
) -> None:
    """They stand at the head of every list; a pushed one is dropped as well."""

    def spoilt(request: httpx.Request, body: Any) -> Any:
        bad = {**old_row(odd), "metadata": {"mentions": [{"id": here.account.id}]}}
        if isinstance(body["data"], dict):
            return {"data": bad}
        return {"data": [bad, *body["data"]], "metadata": {"has_more": True, "next_cursor": odd}}

    def people(request: httpx.Request, body: Any) -> Any:
        return {"data": [{"id": odd, "type": "User"}, *body["data"]]}

    def rooms(request: httpx.Request, body: Any) -> Any:
        return {**body, "data": [{"id": odd}, *body["data"]]}

    async with stage() as here:
        room = await here.room()
        waiting = [await here.say(room, f"m{n}") for n in range(3)]
        rewrites = {"messages": spoilt, "next": spoilt, "participants": people, "chats": rooms}
        async with odd_run(here, rewrites) as (agent, _):
            began = trio.current_time()
            await here.settled(*waiting)
            message = await here.say(room, "pushed")
            assert push_again(here, room, {**payload(here, message), "id": odd})
            await here.settled(message)
            assert trio.current_time() - began < 10
            await trio.sleep(60)
            assert agent.health().rooms == {"idle": 1}
        assert here.adapter.texts == ["m0", "m1", "m2", "pushed"]


@guarantee(87)
@case("C69")
@EACH_ODD
async def test_a_message_of_an_unreadable_sender_runs(
    odd: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage(reply_briefly) as here:
        room = await here.room()
        async with odd_run(here, {}):
            message = await here.say(room, "m")
            await here.settled(message)
            row = {**payload(here, await here.say(room, "n")), "sender_id": odd}
            assert push_again(here, room, row)
            await trio.sleep(1)
        assert here.adapter.texts == ["m", "n"]


@guarantee(87, 88)
@case("C70")
async def test_rooms_that_cannot_be_read_hold_up_no_start(
    autojump_clock: trio.testing.MockClock,
) -> None:
    def unreadable(request: httpx.Request, body: Any) -> Any:
        return {"data": [{"id": "\x1b[2J"}], "metadata": {"total_pages": 10**12}}

    async with stage() as here:
        room = await here.room()
        began = trio.current_time()
        async with odd_run(here, {"chats": unreadable}) as (_, asked):
            assert trio.current_time() - began < 1
            await here.band.user.remove(room, here.account)
            await here.band.user.add(room, here.account)
            await here.settled(await here.say(room, "m"))
            await trio.sleep(30)
            assert asked["chats"] <= 10
        assert here.adapter.texts == ["m"]


@guarantee(88)
@case("C70")
async def test_a_listing_that_does_not_end_is_over_within_a_starts_patience(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Endless:
        async def list_chats(self, page: int, *, one_try: bool) -> Page[ChatRoom]:
            await trio.lowlevel.checkpoint()
            return Page([ChatRoom(f"r{page}")], total_pages=10**12)

    began = trio.current_time()
    listing = await list_rooms(cast("RestClient", Endless()), one_try=True)
    assert trio.current_time() - began < AgentConfig().start_patience_seconds / 2
    assert not listing.complete


# --------------------------------------------------------------------------- anything


ids = st.sampled_from(ODD) | st.text(st.characters(codec=None), max_size=20)
cursors = st.none() | st.sampled_from(["a", "b", LONG]) | ids


@st.composite
def odd_pages(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Return what is laid over the pages of a list, one after the other, round and round."""
    page = st.fixed_dictionaries(
        {
            "rows": st.lists(ids, max_size=2),
            "senders": ids,
            "keep": st.booleans(),
            "metadata": st.fixed_dictionaries(
                {},
                optional={
                    "has_more": st.booleans(),
                    "next_cursor": cursors,
                    "total_pages": st.sampled_from([0, 2, 10**12]),
                },
            ),
        }
    )
    return draw(st.lists(page, min_size=1, max_size=3))


@guarantee(87, 88)
@case("C69", "C70")
@pytest.mark.slow
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.fixed_dictionaries({name: odd_pages() for name in ("context", "messages", "chats")}))
def test_nothing_is_lost_and_nothing_ends_whatever_ids_and_cursors_come(
    lists: dict[str, list[dict[str, Any]]],
) -> None:
    """Odd lists in one room, and of the rooms: every message of both rooms runs, once."""

    async def main() -> None:
        async with stage() as here:
            odd, other = await here.room(), await here.room()
            served = {name: count() for name in lists}

            def rewrite(request: httpx.Request, body: Any) -> Any:
                name = ending(request)
                if name != "chats" and odd not in request.url.path:
                    return body
                plan = lists[name][next(served[name]) % len(lists[name])]
                rows = [{**old_row(each), "sender_id": plan["senders"]} for each in plan["rows"]]
                kept = body["data"] if plan["keep"] else []
                return {"data": [*rows, *kept], "metadata": plan["metadata"]}

            session = SessionConfig(history_seconds=1, report_turn_failures_to_room=False)
            async with odd_run(here, dict.fromkeys(lists, rewrite), session) as (agent, asked):
                await trio.sleep(1)  # a listing may have come without them
                for room in (odd, other):
                    await here.band.user.remove(room, here.account)
                    await here.band.user.add(room, here.account)
                messages = [
                    await here.say(room, f"m{n}") for n in range(2) for room in (odd, other)
                ]
                began = trio.current_time()
                await here.settled(*messages[1::2])
                assert trio.current_time() - began < 1, "the other room waits for nothing"
                await here.settled(*messages)
                await trio.sleep(120)
                assert sum(asked.values()) < 1000
                assert agent.health().rooms.keys() <= {"idle", "sync"}
        told = Counter(call.text for call in here.adapter.calls)
        assert told == {"m0": 2, "m1": 2}
        assert here.reports[0].cleanup_errors == ()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))

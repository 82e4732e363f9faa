"""Who is in the room, who could be, and new rooms."""

from __future__ import annotations

from typing import Any

import httpx  # noqa: ASYNC127 - the transport of the tests
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from band_trio.errors import BandApiError, BandToolError, RoomExecutionStoppedError
from band_trio.tools.agent_tools import AgentTools
from band_trio.tools.people import PEER_PAGES
from tests.marks import case
from tests.support.for_each import for_each
from tests.tools.kit import HELPER, MARIA, ME, SAM_X, SAM_Y, Ear, Platform, open_tools, refusal


async def test_participants_are_read_shown_and_told() -> None:
    platform, ear = Platform(), Ear()
    async with open_tools(platform, ear=ear) as tools:
        person = {**HELPER, "role": "member", "online": True, "description": "d"}
        platform.participants.append(person)
        rows = await tools.get_participants()

    assert rows[2] == {
        "id": "agent-helper", "name": "Helper", "type": "Agent", "handle": "x/helper",
        "role": "member", "online": True,
    }  # fmt: skip
    assert tools.participants[2] == {
        "id": "agent-helper", "name": "Helper", "type": "Agent", "handle": "x/helper",
        "description": "d",
    }  # fmt: skip
    assert ear.heard == [("roster", [ME, "user-maria", "agent-helper"])]
    assert tools.available_mention_handles() == ["@maria", "@x/helper"]


@for_each("glitch", [{"data": None}, {"data": []}, {}])
async def test_an_empty_list_is_a_glitch_and_the_roster_stays(glitch: Any) -> None:
    platform = Platform()
    async with open_tools(platform) as tools:
        platform.answer("GET", "participants", httpx.Response(200, json=glitch))
        rows = await tools.get_participants()

    assert [row["id"] for row in rows] == [ME, "user-maria"]


async def test_what_is_missing_in_a_list_does_not_erase_what_was_known() -> None:
    platform = Platform()
    platform.participants[1] = {**MARIA, "description": "likes tea"}
    async with open_tools(platform) as tools:
        platform.participants[1] = MARIA
        await tools.get_participants()

    assert tools.participants[1]["description"] == "likes tea"


async def test_the_roster_is_a_copy() -> None:
    async with open_tools(Platform()) as tools:
        tools.participants[0]["name"] = "changed"
        assert tools.participants[0]["name"] == "Scribe"


# --------------------------------------------------------------------------- adding


@for_each("who", ["agent-helper", "@x/helper", "X/Helper", "helper", "Helper"])
async def test_a_peer_is_added_and_can_be_mentioned_at_once(who: str) -> None:
    platform, ear = Platform(), Ear()
    async with open_tools(platform, ear=ear) as tools:
        result = await tools.add_participant(who)
        platform.requests.clear()
        await tools.send_message("hi", ["@x/helper"])

    assert result == {"id": "agent-helper", "name": "Helper", "role": "member", "status": "added"}
    assert [path for _, path, _ in platform.requests] == ["/chats/room-1/messages"]
    assert ("seen", "agent-helper") in ear.heard


async def test_somebody_present_is_not_added_again() -> None:
    platform = Platform()
    async with open_tools(platform) as tools:
        result = await tools.add_participant("Maria")

    assert result["status"] == "already_in_room"
    assert platform.paths("POST") == []
    assert not tools.turn.complete


async def test_a_conflict_means_already_there() -> None:
    platform = Platform()
    async with open_tools(platform) as tools:
        platform.answer("POST", "participants", refusal(409, "conflict", "already"))
        result = await tools.add_participant("helper")

    assert result["status"] == "already_in_room"
    assert not tools.turn.complete
    assert "@x/helper" in tools.available_mention_handles()


async def test_an_ambiguous_peer_is_not_added() -> None:
    platform = Platform(peers=[SAM_X, SAM_Y])
    async with open_tools(platform) as tools:
        with pytest.raises(BandToolError, match=r"ambiguous.*agent-sam-x.*agent-sam-y"):
            await tools.add_participant("sam")

    assert platform.paths("POST") == []


async def test_an_unknown_peer_is_told_where_to_look() -> None:
    platform = Platform(peers=[])
    async with open_tools(platform) as tools:
        with pytest.raises(BandToolError, match="Call band_lookup_peers"):
            await tools.add_participant("nobody")


@pytest.mark.slow  # fifty pages
async def test_the_search_walks_the_pages_but_not_for_ever() -> None:
    crowd = [
        {"id": f"p{n}", "type": "Agent", "name": f"Peer {n}", "handle": f"x/p{n}"}
        for n in range(101 * PEER_PAGES)
    ]
    platform = Platform(peers=crowd)
    async with open_tools(platform) as tools:
        assert (await tools.add_participant("peer 150"))["id"] == "p150"
        platform.requests.clear()
        assert (await tools.add_participant("x/p50"))["id"] == "p50"
        assert len(platform.paths("GET")) == 2, "an exact handle ends the search"
        platform.requests.clear()
        with pytest.raises(BandToolError, match="band_lookup_peers"):
            await tools.add_participant("Peer 5049")

    assert len(platform.paths("GET")) == 1 + PEER_PAGES


async def test_a_lost_answer_that_worked_is_a_success() -> None:
    platform = Platform()
    platform.answer("POST", "participants", httpx.Response(504), commit=True)
    async with open_tools(platform) as tools:
        result = await tools.add_participant("helper")

    assert result["status"] == "added"
    assert tools.turn.complete


async def test_a_lost_answer_that_did_not_work_says_so() -> None:
    platform = Platform()
    platform.answer("POST", "participants", httpx.Response(504))
    async with open_tools(platform) as tools:
        with pytest.raises(BandToolError, match="was not added"):
            await tools.add_participant("helper")

    assert not tools.turn.complete
    assert len(platform.paths("POST")) == 1


async def test_a_lost_answer_nobody_can_check_stays_unknown(autojump_clock: MockClock) -> None:
    platform = Platform()

    async def then_nothing(_: httpx.Request) -> httpx.Response:  # noqa: ASYNC124 - the shape is given
        for _n in range(500):
            platform.answer("GET", "participants", httpx.Response(500))
        return httpx.Response(504)

    platform.answer("POST", "participants", then_nothing)
    async with open_tools(platform) as tools:
        with pytest.raises(BandToolError, match="did not confirm"):
            await tools.add_participant("helper")

    assert tools.turn.complete, "it may have been done"


async def test_another_refusal_is_told() -> None:
    platform = Platform()
    platform.answer("POST", "participants", refusal(403, "forbidden", "members may not add"))
    async with open_tools(platform) as tools:
        with pytest.raises(BandApiError, match="members may not add"):
            await tools.add_participant("helper", role="admin")

    assert not tools.turn.complete


async def test_a_call_of_many_slow_reads_ends_within_its_time(autojump_clock: MockClock) -> None:
    platform = Platform(peers=[{**HELPER, "id": f"p{n}", "handle": f"x/p{n}"} for n in range(900)])

    async def slow(request: httpx.Request) -> httpx.Response:
        await trio.sleep(14)
        platform.answer("GET", "peers", slow)
        return platform._usual(request, "/peers", None)

    platform.answer("GET", "peers", slow)
    began = trio.current_time()
    async with open_tools(platform) as tools:
        with pytest.raises(BandToolError, match="timed out"):
            await tools.add_participant("nobody")

    assert trio.current_time() - began == pytest.approx(60)
    assert not tools.turn.complete


async def test_a_write_that_runs_out_of_time_is_checked(autojump_clock: MockClock) -> None:
    platform = Platform()

    async def slow(request: httpx.Request) -> httpx.Response:
        await trio.sleep(14)
        return httpx.Response(429 if len(platform.requests) < 5 else 200, json={"data": [HELPER]})

    async def hang(_: httpx.Request) -> httpx.Response:
        await trio.sleep_forever()
        raise AssertionError

    for _ in range(4):
        platform.answer("GET", "peers", slow)
    platform.answer("POST", "participants", hang, commit=True)
    began = trio.current_time()
    async with open_tools(platform) as tools:
        assert (await tools.add_participant("x/helper"))["status"] == "added"

    assert trio.current_time() - began <= 61


# --------------------------------------------------------------------------- removing


async def test_somebody_is_removed_and_no_longer_mentionable() -> None:
    platform, ear = Platform(), Ear()
    platform.participants.append(HELPER)
    async with open_tools(platform, ear=ear) as tools:
        result = await tools.remove_participant("@X/HELPER")

    assert result == {"id": "agent-helper", "name": "Helper", "status": "removed"}
    assert platform.paths("DELETE") == ["/chats/room-1/participants/agent-helper"]
    assert tools.available_mention_handles() == ["@maria"]
    assert ear.heard[-1] == ("gone", "agent-helper")
    assert tools.turn.complete


async def test_somebody_absent_is_told_with_who_is_there() -> None:
    platform = Platform()
    async with open_tools(platform) as tools:
        with pytest.raises(
            BandToolError, match=r"'helper' is not in this room. In it are: @maria\."
        ):
            await tools.remove_participant("helper")


@for_each("answer", [httpx.Response(503), httpx.ReadError("cut")])
@for_each("worked", [True, False])
async def test_a_removal_without_an_answer_is_checked(
    worked: bool, answer: Any, autojump_clock: MockClock
) -> None:
    platform = Platform()
    platform.participants.append(HELPER)
    for number in range(500):
        platform.answer("DELETE", "agent-helper", answer, commit=worked and not number)
    async with open_tools(platform) as tools:
        if worked:
            assert (await tools.remove_participant("helper"))["status"] == "removed"
        else:
            with pytest.raises(BandToolError, match="was not removed"):
                await tools.remove_participant("helper")

    assert tools.turn.complete is worked


# --------------------------------------------------------------------------- peers and rooms


async def test_peers_come_page_by_page_without_nulls() -> None:
    platform = Platform(peers=[HELPER, SAM_X, SAM_Y])
    async with open_tools(platform) as tools:
        page = await tools.lookup_peers(2, 2)

    assert page == {
        "data": [SAM_Y],
        "metadata": {"page": 2, "page_size": 2, "total_count": 3, "total_pages": 2},
    }


async def test_a_new_room_is_opened_once() -> None:
    platform = Platform()
    async with open_tools(platform) as tools:
        assert await tools.create_chatroom("task-1") == "room-new"
        assert platform.bodies("chats") == [{"chat": {"task_id": "task-1"}}]
        assert tools.turn.complete
        platform.answer("POST", "chats", httpx.Response(201, json={}))
        assert "did not return its id" in await tools.create_chatroom()


async def test_a_new_room_without_an_answer_must_not_be_repeated() -> None:
    platform = Platform()
    platform.answer("POST", "chats", httpx.Response(504))
    async with open_tools(platform) as tools:
        with pytest.raises(BandToolError, match="may exist: do not create it again"):
            await tools.create_chatroom()

    assert len(platform.bodies("chats")) == 1
    assert tools.turn.complete


async def test_context_is_read_by_cursor() -> None:
    platform = Platform()
    async with open_tools(platform) as tools:
        page = await tools.fetch_room_context(limit=500)

    assert page["metadata"] == {"has_more": False, "limit": 100, "next_cursor": None}
    assert page["data"][0]["content"] == "hi"


async def test_a_read_that_gets_no_answer_times_out(autojump_clock: MockClock) -> None:
    platform = Platform()

    async def hang(_: httpx.Request) -> httpx.Response:
        await trio.sleep_forever()
        raise AssertionError

    for _ in range(100):
        platform.answer("GET", "peers", hang)
    began = trio.current_time()
    async with open_tools(platform) as tools:
        outcome = await tools.execute_tool_call_structured("band_lookup_peers", {})

    assert not outcome.ok
    assert trio.current_time() - began <= 60.1


async def test_a_stop_seen_while_adding_is_told() -> None:
    platform, ear = Platform(), Ear()
    async with open_tools(platform, ear=ear) as tools:
        platform.answer("POST", "participants", refusal(403, "execution_stopped", "stopped"))
        with pytest.raises(RoomExecutionStoppedError):
            await tools.add_participant("helper")

    assert ear.heard[-1] == "stop"


# --------------------------------------------------------------------------- asked at once


async def ask_ten_times(tools: AgentTools, impatient: trio.CancelScope) -> list[str]:
    """Ask for the participants ten times at one moment, the first time within a scope."""
    results: list[str] = []

    async def ask(scope: trio.CancelScope) -> None:
        with scope:
            try:
                results.append(str(len(await tools.get_participants())))
            except BandApiError as exc:
                results.append(str(exc.status))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, impatient)
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(9):
            nursery.start_soon(ask, trio.CancelScope())
    return results


@case("C62")
async def test_ten_who_ask_at_once_share_one_request_and_no_failure_is_kept(
    autojump_clock: MockClock,
) -> None:
    platform = Platform()

    def slow(answer: httpx.Response) -> None:
        async def late(_: httpx.Request) -> httpx.Response:
            await trio.sleep(5)
            return answer

        platform.answer("GET", "participants", late)

    async with open_tools(platform) as tools:
        slow(refusal(403, "forbidden", "not now"))
        assert await ask_ten_times(tools, trio.CancelScope()) == ["403"] * 10
        slow(httpx.Response(200, json={"data": platform.participants}))
        assert await ask_ten_times(tools, trio.CancelScope()) == ["2"] * 10
        assert len(platform.requests) == 2
        for _ in range(2):
            slow(httpx.Response(200, json={"data": platform.participants}))
        impatient = trio.CancelScope(deadline=trio.current_time() + 1)
        assert await ask_ten_times(tools, impatient) == ["2"] * 9
        assert impatient.cancelled_caught
        assert len(platform.requests) == 4, "one more, in the place of the one that was cancelled"


@case("C62")
async def test_a_read_from_before_a_change_is_not_shared_with_those_after_it(
    autojump_clock: MockClock,
) -> None:
    platform = Platform()
    before = httpx.Response(200, json={"data": list(platform.participants)})
    seen: list[int] = []

    def late(answer: httpx.Response, seconds: float) -> Any:
        async def wait(_: httpx.Request) -> httpx.Response:
            await trio.sleep(seconds)
            return answer

        return wait

    async with open_tools(platform) as tools, trio.open_nursery() as nursery:

        async def ask_while_it_is_added() -> None:
            await trio.sleep(1)
            platform.answer("GET", "participants", late(before, 5))
            seen.append(len(await tools.get_participants()))

        nursery.start_soon(ask_while_it_is_added)
        added = httpx.Response(201, json={"data": HELPER})
        platform.answer("POST", "participants", late(added, 2), commit=True)
        await tools.add_participant("helper")
        assert seen == []
        assert len(await tools.get_participants()) == 3
    assert seen == [2]

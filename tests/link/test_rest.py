"""The routes: what goes out, what comes back, and what an odd answer means."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import httpx  # noqa: ASYNC127 - the transport of the tests
import pytest

from band_trio.config.agent import AgentConfig
from band_trio.config.credentials import Credentials
from band_trio.config.endpoints import Endpoints
from band_trio.errors import BandApiError, RoomExecutionStoppedError
from band_trio.link.rest.api import open_api
from band_trio.link.rest.rest import RestClient
from band_trio.link.rest.routes import says_stopped
from band_trio.localband import open_local_band
from band_trio.protocol.rest import (
    AgentMe,
    ErrorBody,
    EventReceipt,
    Mention,
    MessageReceipt,
    Page,
    Recipient,
)
from band_trio.tools import people
from tests.marks import case, guarantee
from tests.support.for_each import for_each

C = "/api/v1/agent/chats/r1"
MESSAGE = {
    "id": "m1",
    "content": "hi",
    "message_type": "text",
    "sender_id": "u1",
    "sender_type": "User",
}
PERSON = {"id": "u1", "type": "User", "name": "Ann"}


@asynccontextmanager
async def rest_over(
    status: int = 200, body: Any = None, content: bytes | None = None
) -> AsyncGenerator[tuple[RestClient, list[str]]]:
    """A client that always gets this answer, and the requests it sent, one line each."""
    seen: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        words = [request.method, request.url.raw_path.decode(), request.content.decode()]
        seen.append(" ".join(filter(None, words)))
        data = content if content is not None else (b"" if body is None else json.dumps(body))
        return httpx.Response(status, content=data)

    config = AgentConfig(rest_transport=httpx.MockTransport(answer))
    endpoints = Endpoints("http://127.0.0.1:9", "ws://127.0.0.1:9/x")
    async with open_api(endpoints, Credentials("a1", "k"), config) as api:
        yield RestClient(api), seen


async def test_who_we_are() -> None:
    me = {"id": "a1", "name": "Scribe", "description": None, "feature_flags": None}
    async with rest_over(body={"data": me}) as (rest, seen):
        assert await rest.try_me() == AgentMe("a1", "Scribe", description="")
        assert not await rest.key_is_refused()
        assert seen == ["GET /api/v1/agent/me"] * 2
    for status in (401, 403):
        async with rest_over(status) as (rest, _):
            assert await rest.key_is_refused()


async def test_rooms_and_peers() -> None:
    meta = {"page": 2, "page_size": 100, "total_count": 130, "total_pages": 2}
    async with rest_over(body={"data": [{"id": "r1"}, {"no": "id"}], "metadata": meta}) as (
        rest,
        seen,
    ):
        page = await rest.list_chats(2)
        assert [room.id for room in page.items] == ["r1"]
        assert page.total_pages == 2
        assert seen == ["GET /api/v1/agent/chats?page=2&page_size=100"]
    async with rest_over(body={"data": [], "metadata": meta}) as (rest, seen):
        await rest.request(people.LIST_PEERS, not_in_chat="r1", page=3, page_size=20)
        await rest.request(people.LIST_PEERS, not_in_chat=None, page=1, page_size=50)
        assert seen == [
            "GET /api/v1/agent/peers?not_in_chat=r1&page=3&page_size=20",
            "GET /api/v1/agent/peers?page=1&page_size=50",
        ]
    async with rest_over(201, {"data": {"id": "r9"}}) as (rest, seen):
        room = await rest.request(people.CREATE_CHAT, task_id="t1")
        assert room is not None
        assert room.id == "r9"
        await rest.request(people.CREATE_CHAT, task_id=None)
        assert seen == [
            'POST /api/v1/agent/chats {"chat":{"task_id":"t1"}}',
            'POST /api/v1/agent/chats {"chat":{}}',
        ]


async def test_a_page_of_messages_says_when_it_was_served() -> None:
    at = datetime(2026, 1, 1, 12, 0, 7, 900_000, UTC)
    async with open_local_band(memory=True, now=lambda: at) as band:
        agent = band.register_agent("Scribe")
        room = await band.user.create_room("Room", members=[agent])
        config = band.connection(agent)["config"]
        endpoints = Endpoints(band.rest_url, band.ws_url)
        async with open_api(endpoints, Credentials(agent.id, agent.api_key), config) as api:
            page = await RestClient(api).list_messages(room.id)
    assert page.served_at == at.replace(microsecond=0)


async def test_reading_work_and_history() -> None:
    meta = {"has_more": True, "limit": 100, "next_cursor": "c 2"}
    async with rest_over(body={"data": [MESSAGE], "metadata": meta}) as (rest, seen):
        page = await rest.list_messages("r1")
        assert page.served_at is None, "this platform has not said when"
        assert [m.id for m in page.items] == ["m1"]
        assert page.next_cursor == "c 2"
        await rest.list_messages("r1", "c 2", 5)
        await rest.get_context("r1", "c 2")
        assert seen == [
            f"GET {C}/messages?sort_order=asc&limit=100",
            f"GET {C}/messages?sort_order=asc&limit=5&cursor=c+2",
            f"GET {C}/context?limit=100&cursor=c+2",
        ]
    async with rest_over(body={"data": MESSAGE}) as (rest, seen):
        head = await rest.get_next("r1")
        assert [message.content for message in head.items] == ["hi"]
        assert seen == [f"GET {C}/messages/next"]
    async with rest_over(204) as (rest, _):
        assert await rest.get_next("r1") == Page([])
    async with rest_over(body={"data": {"id": 5}}) as (rest, _):
        assert await rest.get_next("r1") == Page([], dropped=1), "there is one, whatever it is"


@guarantee(32)
async def test_the_reads_of_a_room_are_one_try() -> None:
    async with rest_over(503) as (rest, seen):
        for read in (rest.get_next, rest.list_messages):
            with pytest.raises(BandApiError):
                await read("r1")
        assert len(seen) == 2


async def test_claims_and_marks_are_one_try_with_any_answer() -> None:
    async with rest_over(503, {"error": {"code": "later"}}) as (rest, seen):
        answers = [
            await rest.claim("r1", "m1", within=5),
            await rest.mark_processed("r1", "m1", within=5),
            await rest.mark_failed("r1", "m1", "why", within=5),
            await rest.report_activity("r1", True, within=5),
        ]
        assert [answer.status for answer in answers] == [503] * 4
        assert answers[0].error.code == "later"
        assert seen == [
            f"POST {C}/messages/m1/processing",
            f"POST {C}/messages/m1/processed",
            f'POST {C}/messages/m1/failed {{"error":"why"}}',
            f'POST {C}/activity {{"working":true}}',
        ]


async def test_participants() -> None:
    async with rest_over(body={"data": [PERSON]}) as (rest, seen):
        assert [p.name for p in (await rest.list_participants("r1")).items] == ["Ann"]
        await rest.request(people.REMOVE_PARTICIPANT, room_id="r1", participant_id="u1")
        assert seen == [f"GET {C}/participants", f"DELETE {C}/participants/u1"]
    async with rest_over(201, {"data": PERSON}) as (rest, seen):
        added = await rest.request(
            people.ADD_PARTICIPANT, room_id="r1", participant_id="u1", role="admin"
        )
        assert added is not None
        assert added.name == "Ann"
        assert seen == [
            f'POST {C}/participants {{"participant":{{"participant_id":"u1","role":"admin"}}}}'
        ]


async def test_posts() -> None:
    receipt = {"id": "e1", "success": True, "recipients": [{"id": "u1", "handle": "ann"}]}
    async with rest_over(201, {"data": receipt}) as (rest, seen):
        got = await rest.post_message("r1", "hi", [Mention("u1", "ann"), Mention("u2")], ["f1"])
        assert got == MessageReceipt("e1", True, [Recipient("u1", "ann")])
        assert seen == [
            f'POST {C}/messages {{"message":{{"content":"hi","mentions":'
            '[{"id":"u1","handle":"ann"},{"id":"u2"}],"attachment_ids":["f1"]}}'
        ]
    async with rest_over(201, {"data": {"id": "e2", "message_type": "thought"}}) as (rest, seen):
        assert (await rest.post_event("r1", "hm", "thought")).id == "e2"
        assert seen == [f'POST {C}/events {{"event":{{"content":"hm","message_type":"thought"}}}}']


@guarantee(76)
@case("C26")
@for_each(
    ("status", "body", "content"),
    [
        (201, {}, None),
        (201, {"data": {"data": {"id": "x"}}}, None),
        (201, None, b"{oops"),
        (204, None, None),
        (200, [], None),
    ],
)
async def test_an_odd_success_is_a_success(status: int, body: Any, content: bytes | None) -> None:
    async with rest_over(status, body, content) as (rest, seen):
        assert (await rest.post_message("r1", "hi", [])).id is None
        assert (await rest.post_event("r1", "hi", "thought")) in (
            EventReceipt(),
            EventReceipt(None),
        )
        assert await rest.request(people.CREATE_CHAT, task_id=None) is None
        asked = {"room_id": "r1", "participant_id": "u1", "role": "member"}
        assert await rest.request(people.ADD_PARTICIPANT, **asked) is None
        assert len(seen) == 4


@for_each("content", [b"", b"{oops", b"[]", b'{"data": 3}'])
async def test_a_read_that_cannot_be_read_is_an_error_of_the_platform(content: bytes) -> None:
    async with rest_over(200, content=content) as (rest, _):
        for call in (rest.try_me(), rest.get_next("r1")):
            with pytest.raises(BandApiError) as caught:
                await call
            assert caught.value.code == "unreadable_answer"
    if content != b'{"data": 3}':
        async with rest_over(200, content=content) as (rest, _):
            with pytest.raises(BandApiError):
                await rest.list_participants("r1")


@for_each(
    ("status", "error", "stopped"),
    [
        (403, {"code": "forbidden", "message": "Agent execution is stopped"}, True),
        (403, {"code": "forbidden", "message": "AGENT EXECUTION IS\nSTOPPED."}, True),
        (403, {"code": "execution_stopped"}, True),
        (403, {"code": "forbidden", "message": "not allowed"}, False),
        (403, {"message": "stopped execution"}, False),
        (422, {"code": "execution_stopped"}, False),
    ],
)
async def test_an_observed_stop_is_typed(status: int, error: dict[str, str], stopped: bool) -> None:
    assert says_stopped(status, ErrorBody.read({"error": error})) is stopped
    async with rest_over(status, {"error": error}) as (rest, _):
        for call in (rest.post_message("r1", "x", []), rest.post_event("r1", "x", "thought")):
            with pytest.raises(RoomExecutionStoppedError if stopped else BandApiError):
                await call


async def test_ids_are_opaque_text_in_paths() -> None:
    async with rest_over(200) as (rest, seen):
        await rest.claim("a/b?c", "..", within=1)
        await rest.claim("ü", "m#1", within=1)
        assert seen == [
            "POST /api/v1/agent/chats/a%2Fb%3Fc/messages/%2E%2E/processing",
            "POST /api/v1/agent/chats/%C3%BC/messages/m%231/processing",
        ]

"""Contacts, memories, files and tasks on recorded requests: what goes out, what comes back."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx  # noqa: ASYNC127 - the transport of the tests
import pytest
import trio
from hypothesis import example, given
from hypothesis import strategies as st
from trio.testing import MockClock

from band_trio.config.agent import AgentConfig
from band_trio.config.credentials import Credentials
from band_trio.config.endpoints import Endpoints
from band_trio.errors import BandApiError, BandError, InvalidToolArgumentsError, OutcomeUnknownError
from band_trio.link.rest.api import open_api
from band_trio.link.rest.attachments import CACHE_VARIABLE, AttachmentCache, cache_size
from band_trio.link.rest.rest import RestClient
from band_trio.protocol.holdings import (
    Attachment,
    Board,
    Contact,
    ContactRequest,
    ContactStatus,
    Memory,
    Task,
    TaskEvent,
)
from band_trio.tools import contacts, memories, people, tasks
from tests.link.test_rest import rest_over
from tests.marks import case, guarantee
from tests.support.for_each import for_each

A = "/api/v1/agent"
C = f"{A}/chats/r1"

CALLS: list[tuple[Callable[[RestClient], Awaitable[Any]], str]] = [
    (lambda r: r.request(contacts.LIST_CONTACTS, page=2, page_size=10), f"GET {A}/contacts?page=2&page_size=10"),
    (lambda r: r.request(contacts.ADD_CONTACT, handle="@a/b", message="hi \ud800"),
     f'POST {A}/contacts/add {{"handle":"@a/b","message":"hi \ufffd"}}'),
    (lambda r: r.request(contacts.ADD_CONTACT, handle="@a/b", message=None), f'POST {A}/contacts/add {{"handle":"@a/b"}}'),
    (lambda r: r.request(contacts.REMOVE_CONTACT, contact_id="c1"),
     f'POST {A}/contacts/remove {{"contact_id":"c1"}}'),
    (lambda r: r.request(
        contacts.LIST_CONTACT_REQUESTS, page=1, page_size=50, sent_status="all"),
     f"GET {A}/contacts/requests?page=1&page_size=50&sent_status=all"),
    (lambda r: r.request(contacts.RESPOND_CONTACT_REQUEST, action="cancel", handle="@a"),
     f'POST {A}/contacts/requests/respond {{"action":"cancel","handle":"@a"}}'),
    (lambda r: r.request(
        memories.LIST_MEMORIES, scope="agent", system=None, content_query="a b", limit=20),
     f"GET {A}/memories?scope=agent&content_query=a+b&limit=20"),
    (lambda r: r.request(
        memories.STORE_MEMORY, content="x", subject_id=None, metadata={"k": [1]}),
     f'POST {A}/memories {{"memory":{{"content":"x","metadata":{{"k":[1]}}}}}}'),
    (lambda r: r.request(memories.GET_MEMORY, memory_id="m/1"), f"GET {A}/memories/m%2F1"),
    (lambda r: r.request(memories.SUPERSEDE_MEMORY, memory_id="m1"), f"POST {A}/memories/m1/supersede"),
    (lambda r: r.request(memories.ARCHIVE_MEMORY, memory_id="m1"), f"POST {A}/memories/m1/archive"),
    (lambda r: r.put_file("r1", "a.txt", b"abc"), f"PUT {C}/files abc"),
    (lambda r: r.request(tasks.LIST_TASKS, room_id="r1"), f"GET {C}/tasks"),
    (lambda r: r.request(
        tasks.LIST_TASKS, room_id="r1", state="all", cursor="c", limit=5), f"GET {C}/tasks?state=all&cursor=c&limit=5"),
    (lambda r: r.request(
        tasks.CREATE_TASK, room_id="r1", subject="s", detail=None, supersedes_id="3"),
     f'POST {C}/tasks {{"subject":"s","supersedes_id":"3"}}'),
    (lambda r: r.request(tasks.GET_TASK, room_id="r1", task="3"), f"GET {C}/tasks/3"),
    (lambda r: r.request(tasks.GET_TASK, room_id="r1", task="3", include="history"), f"GET {C}/tasks/3?include=history"),
    (lambda r: r.request(
        tasks.UPDATE_TASK, room_id="r1", task="3", status="blocked", comment=None),
     f'POST {C}/tasks/3 {{"status":"blocked"}}'),
    (lambda r: r.request(
        tasks.GET_TASK_HISTORY, room_id="r1", task="3", cursor="c", limit=7), f"GET {C}/tasks/3/history?cursor=c&limit=7"),
    (lambda r: r.request(tasks.GET_BOARD, room_id="r1"), f"GET {C}/board"),
    (lambda r: r.request(tasks.GET_BOARD, room_id="r1", include="history"), f"GET {C}/board?include=history"),
    (lambda r: r.request(
        tasks.SET_BOARD, room_id="r1", goal_title="t", goal_summary=None),
     f'PUT {C}/board {{"goal_title":"t"}}'),
]  # fmt: skip

ANYTHING: dict[str, Any] = {"data": {"id": "x", "received": [], "sent": []}}


@for_each(("call", "request_line"), CALLS, ids=[line for _, line in CALLS])
async def test_what_goes_out(
    call: Callable[[RestClient], Awaitable[Any]], request_line: str
) -> None:
    is_list = request_line.startswith("GET") and not request_line.startswith(
        (f"GET {A}/contacts/requests", f"GET {A}/memories/", f"GET {C}/tasks/3", f"GET {C}/board")
    )
    body: dict[str, Any] = {"data": []} if is_list or "/3/history" in request_line else ANYTHING
    async with rest_over(200, body) as (rest, seen):
        await call(rest)
        assert seen == [request_line]


WRITES: list[Callable[[RestClient], Awaitable[Any]]] = [
    lambda r: r.request(contacts.ADD_CONTACT, handle="@a"),
    lambda r: r.request(memories.STORE_MEMORY, content="x"),
    lambda r: r.request(memories.ARCHIVE_MEMORY, memory_id="m1"),
    lambda r: r.put_file("r1", "a.txt", b"abc"),
    lambda r: r.request(tasks.CREATE_TASK, room_id="r1", subject="s"),
    lambda r: r.request(tasks.UPDATE_TASK, room_id="r1", task="3", status="blocked"),
    lambda r: r.request(tasks.SET_BOARD, room_id="r1", goal_title="t"),
]


@for_each("content", [b"", b"{oops", b"[]", b'{"data": 3}'])
async def test_an_odd_success_of_a_write_is_a_success(content: bytes) -> None:
    async with rest_over(200, content=content) as (rest, seen):
        for write in WRITES:
            assert await write(rest) is None
        assert len(seen) == len(WRITES)


@for_each("content", [b"", b"{oops", b"[]", b'{"data": 3}'])
async def test_a_read_without_its_data_is_an_error(content: bytes) -> None:
    reads: list[Callable[[RestClient], Awaitable[Any]]] = [
        lambda r: r.request(contacts.LIST_CONTACTS),
        lambda r: r.request(contacts.LIST_CONTACT_REQUESTS),
        lambda r: r.request(memories.GET_MEMORY, memory_id="m1"),
        lambda r: r.request(tasks.GET_TASK, room_id="r1", task="3"),
        lambda r: r.request(tasks.GET_BOARD, room_id="r1"),
    ]
    async with rest_over(200, content=content) as (rest, _):
        for read in reads:
            with pytest.raises(BandApiError) as caught:
                await read(rest)
            assert caught.value.code == "unreadable_answer"


async def test_what_comes_back() -> None:
    meta = {"page": 1, "page_size": 50, "total_count": 1, "total_pages": 1}
    async with rest_over(body={"data": [{"id": "c1", "tags": None}, 3], "metadata": meta}) as (
        rest,
        _,
    ):
        listed = await rest.request(contacts.LIST_CONTACTS)
        assert listed.items == [Contact("c1")]
        assert listed.total_count == 1
    requests = {"received": [{"id": "q1", "from_handle": None}, {}], "sent": [{"id": "q2"}]}
    async with rest_over(body={"data": requests, "metadata": {"page": 1}}) as (rest, _):
        page = await rest.request(contacts.LIST_CONTACT_REQUESTS)
        assert page.received == [ContactRequest("q1")]
        assert page.sent == [ContactRequest("q2")]
        assert page.metadata == {"page": 1}
    async with rest_over(201, {"data": {"id": "q3", "status": "pending"}}) as (rest, _):
        assert await rest.request(contacts.ADD_CONTACT, handle="a") == ContactStatus(
            "q3", "pending"
        )
    async with rest_over(body={"data": {"id": "m1", "metadata": {"a": None}}}) as (rest, _):
        assert await rest.request(memories.GET_MEMORY, memory_id="m1") == Memory(
            "m1", metadata={"a": None}
        )
    task = {"id": "t1", "number": 3, "superseded_by_id": None, "assignments": [{"status": "x"}]}
    async with rest_over(body={"data": task}) as (rest, _):
        assert await rest.request(tasks.GET_TASK, room_id="r1", task="3") == Task(
            "t1", 3, assignments=[{"status": "x"}]
        )
    async with rest_over(body={"data": [{"event": "created", "payload": {"a": 1}}]}) as (rest, _):
        history = await rest.request(tasks.GET_TASK_HISTORY, room_id="r1", task="3")
        assert history.items == [TaskEvent("created", payload={"a": 1})]
    async with rest_over(body={"data": {"chat_room_id": "r1", "goal_title": None}}) as (rest, _):
        assert await rest.request(tasks.GET_BOARD, room_id="r1") == Board("r1")


async def test_a_post_without_a_definite_answer_is_never_repeated() -> None:
    async with rest_over(500) as (rest, seen):
        for call in (
            rest.request(memories.ARCHIVE_MEMORY, memory_id="m1"),
            rest.request(contacts.ADD_CONTACT, handle="a"),
        ):
            with pytest.raises(OutcomeUnknownError, match="500"):
                await call
        assert len(seen) == 2


# --------------------------------------------------------------------------- files


async def test_an_upload_names_its_content(autojump_clock: MockClock) -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        if len(seen) == 1:
            return httpx.Response(503)
        return httpx.Response(200, json={"data": {"id": "f1", "bytes": 4}})

    config = AgentConfig(rest_transport=httpx.MockTransport(answer), rest_try_seconds=5)
    endpoints = Endpoints("http://127.0.0.1:9", "ws://127.0.0.1:9/x")
    async with open_api(endpoints, Credentials("a1", "k"), config) as api:
        got = await RestClient(api).put_file("r1", "no te.txt", "ü\n!".encode())

    assert got == Attachment("f1", bytes=4)
    assert len(seen) == 2  # repeated: identical bytes are one record
    assert seen[1].content == "ü\n!".encode()
    assert seen[1].headers["x-file-name"] == "no te.txt"
    assert seen[1].headers["x-file-sha256"] == hashlib.sha256("ü\n!".encode()).hexdigest()
    assert seen[1].headers["content-type"] == "text/plain"
    assert seen[1].headers["x-api-key"] == "k"


@for_each("content", [b"", b"\x00\xff", b'{"data": 1}'])
async def test_a_download_is_bytes_whatever_they_are(content: bytes) -> None:
    async with rest_over(200, content=content) as (rest, seen):
        assert await rest.get_file("r1", "f/1", len(content)) == content
        assert seen == [f"GET {C}/files/f%2F1"]


async def test_a_download_that_fails_is_an_error_of_the_platform() -> None:
    async with rest_over(404, {"error": {"code": "not_found", "message": "gone"}}) as (rest, _):
        with pytest.raises(BandApiError, match="404 not_found: gone"):
            await rest.get_file("r1", "f1", 100)


@guarantee(86)
async def test_a_packed_download_is_not_unpacked() -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        stream = httpx.ByteStream(gzip.compress(b"abc"))
        return httpx.Response(200, headers={"content-encoding": "gzip"}, stream=stream)

    config = AgentConfig(rest_transport=httpx.MockTransport(answer))
    endpoints = Endpoints("http://127.0.0.1:9", "ws://127.0.0.1:9/x")
    async with open_api(endpoints, Credentials("a1", "k"), config) as api:
        with pytest.raises(BandApiError, match=r"f1 cannot be used: .*coding that was not asked"):
            await RestClient(api).get_file("r1", "f1", 100)


@guarantee(86)
@case("C68")
async def test_a_download_ends_at_the_announced_size() -> None:
    async with rest_over(200, content=b"x" * 11) as (rest, _):
        with pytest.raises(BandApiError, match=r"200 unreadable_answer: .*/files/f1 .*\b10\b"):
            await rest.get_file("r1", "f1", 10)


# --------------------------------------------------------------------------- what is known of them


def test_the_least_used_file_is_forgotten_first() -> None:
    cache = AttachmentCache(maxsize=2)
    for name in ("a", "b"):
        cache.note("r1", Attachment(name))
    assert cache.find("r1", "a") is not None
    cache.note("r1", Attachment("c"))

    assert cache.find("r1", "b") is None
    assert cache.find("r1", "a") is not None
    assert cache.find("r2", "a") is None
    assert len(cache) == 2


def test_an_expired_file_is_forgotten() -> None:
    now = datetime(2025, 1, 1, tzinfo=UTC)
    cache = AttachmentCache(maxsize=9, now=lambda: now)
    cache.note("r", Attachment("gone", expires_at=now))
    cache.note("r", Attachment("there", expires_at=now + timedelta(seconds=1)))

    assert cache.find("r", "gone") is None
    assert cache.find("r", "there") is not None
    assert len(cache) == 1


@pytest.mark.parametrize(
    ("given", "size"), [("", 1000), ("7", 7), (" 0 ", 0), ("many", 1000), ("-1", 1000)]
)
def test_the_size_comes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, given: str, size: int
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, given)

    assert cache_size() == AttachmentCache().maxsize == size


def test_every_client_remembers_for_itself() -> None:
    api: Any = object()

    assert RestClient(api).attachments is not RestClient(api).attachments


# --------------------------------------------------------------------------- ids and cursors


BY_ID: list[Callable[[RestClient, str], Awaitable[Any]]] = [
    lambda r, x: r.get_next(x),
    lambda r, x: r.list_messages(x),
    lambda r, x: r.get_context(x),
    lambda r, x: r.claim("r1", x, within=1),
    lambda r, x: r.mark_failed("r1", x, "no", within=1),
    lambda r, x: r.report_activity(x, True, within=1),
    lambda r, x: r.request(people.REMOVE_PARTICIPANT, room_id="r1", participant_id=x),
    lambda r, x: r.post_message(x, "hi", []),
    lambda r, x: r.request(memories.GET_MEMORY, memory_id=x),
    lambda r, x: r.request(memories.ARCHIVE_MEMORY, memory_id=x),
    lambda r, x: r.get_file("r1", x, 1),
    lambda r, x: r.put_file(x, "a.txt", b"abc"),
    lambda r, x: r.request(tasks.GET_TASK, room_id="r1", task=x),
    lambda r, x: r.request(tasks.UPDATE_TASK, room_id="r1", task=x, status="blocked"),
    lambda r, x: r.request(tasks.GET_TASK_HISTORY, room_id="r1", task=x),
    lambda r, x: r.request(tasks.GET_BOARD, room_id=x),
]
BY_TEXT: list[Callable[[RestClient, str], Awaitable[Any]]] = [
    lambda r, x: r.list_messages("r1", x),
    lambda r, x: r.get_context("r1", x),
    lambda r, x: r.request(tasks.LIST_TASKS, room_id="r1", cursor=x),
    lambda r, x: r.request(tasks.GET_TASK_HISTORY, room_id="r1", task="3", cursor=x),
    lambda r, x: r.request(memories.LIST_MEMORIES, content_query=x, subject_id="u"),
    lambda r, x: r.request(
        memories.LIST_MEMORIES, content_query=x[: len(x) // 2], subject_id=x[len(x) // 2 :]
    ),
    lambda r, x: r.request(people.LIST_PEERS, not_in_chat=x, page=1),
    lambda r, x: r.request(contacts.LIST_CONTACT_REQUESTS, sent_status=x),
]

MESSAGES: dict[str, Any] = {"data": []}
ODD_IDS = ["", "\0", "a\nb", "\x1b[2J", "\ud800", "\ufffd", "x" * 257, "x" * 70_000, "\u2028"]


@guarantee(87)
@case("C69")
@for_each("odd", ODD_IDS, ids=lambda odd: ascii(odd[:9]))
async def test_an_id_that_cannot_be_one_is_refused_before_anything_is_sent(
    odd: str,
) -> None:
    async with rest_over(body=MESSAGES) as (rest, seen):
        for call in BY_ID:
            with pytest.raises(InvalidToolArgumentsError, match="1 to 256 printable") as caught:
                await call(rest, odd)
            assert len(str(caught.value)) < 100
        assert seen == []


@guarantee(87)
@case("C69")
async def test_a_text_too_long_for_a_url_is_refused_before_anything_is_sent() -> None:
    async with rest_over(body=MESSAGES) as (rest, seen):
        for call in BY_TEXT:
            with pytest.raises(InvalidToolArgumentsError, match="at most 4,096 are possible"):
                await call(rest, "x" * 70_000)
        assert seen == []


@guarantee(87)
@case("C69")
@given(st.sampled_from([*BY_ID, *BY_TEXT]), st.text(st.characters(codec=None), max_size=300))
@example(BY_ID[3], "\U0001f600" * 256)
@example(BY_TEXT[0], "\U0001f600" * 4000)
@example(BY_TEXT[0], "\ud800\0\r\n")
def test_any_text_in_a_route_is_sent_or_refused(
    call: Callable[[RestClient, str], Awaitable[Any]], text: str
) -> None:
    async def check() -> None:
        async with rest_over(body=MESSAGES) as (rest, seen):
            with suppress(BandError):
                await call(rest, text)
            assert all(line.startswith(f"{line.split()[0]} {A}/") for line in seen)

    trio.run(check)

"""The REST engine: what is repeated, what never, what waits, and what a cancellation leaves."""

from __future__ import annotations

import gzip
import logging
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, nullcontext
from datetime import UTC, datetime
from functools import partial
from typing import Any

import httpx  # noqa: ASYNC127 - the transports of the tests
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from band_trio.config.agent import AgentConfig
from band_trio.config.credentials import Credentials
from band_trio.config.endpoints import Endpoints
from band_trio.errors import BandApiError, BandConnectionError, OutcomeUnknownError
from band_trio.kit.limiter import work_of
from band_trio.link.rest.api import Answer, Api, Lane, open_api
from band_trio.link.rest.tries import NotSentError
from tests.link.servers import ok, read_request, serving
from tests.marks import case, guarantee
from tests.support.for_each import for_each

URL = "http://127.0.0.1:9"
KEY = "thnv_a_sesame+open"

Handler = Callable[[httpx.Request], Any]


class Transport(httpx.AsyncBaseTransport):
    """Answers from a script: a response, an error to raise, or a number of seconds to wait."""

    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.seen: list[tuple[float, httpx.Request]] = []
        self.closed = False
        self.running = 0
        self.peak = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.seen.append((trio.current_time(), request))
        self.running += 1
        self.peak = max(self.peak, self.running)
        try:
            await trio.lowlevel.checkpoint()
            step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
            if isinstance(step, float):
                await trio.sleep(step)
                step = 200
            if isinstance(step, Exception):
                raise step
            return step if isinstance(step, httpx.Response) else httpx.Response(step)
        finally:
            self.running -= 1

    async def aclose(self) -> None:
        self.closed = True

    def times(self) -> list[float]:
        return [at for at, _ in self.seen]


class Endless(httpx.AsyncByteStream):
    """A body that never ends, and counts what was read of it."""

    def __init__(self, part: bytes) -> None:
        self.part = part
        self.read = 0
        self.closed = False

    def __aiter__(self) -> Endless:
        return self

    async def __anext__(self) -> bytes:
        await trio.lowlevel.checkpoint()
        self.read += len(self.part)
        return self.part

    async def aclose(self) -> None:
        self.closed = True


@asynccontextmanager
async def api_over(*script: Any, **options: Any) -> AsyncGenerator[tuple[Api, Transport]]:
    transport = Transport(*script)
    config = AgentConfig(rest_transport=transport, **options)
    endpoints = Endpoints(URL, "ws://127.0.0.1:9/x")
    async with open_api(endpoints, Credentials("a1", KEY), config) as api:
        yield api, transport


def no(status: int, wait: float | str | None = None, **error: Any) -> httpx.Response:
    headers = {} if wait is None else {"Retry-After": str(wait)}
    return httpx.Response(status, json={"error": error}, headers=headers)


# --------------------------------------------------------------------------- one try


async def test_a_request_carries_the_key_in_its_header_only() -> None:
    async with api_over(httpx.Response(201, json={"data": {"id": "m"}})) as (api, transport):
        answer = await api.once(
            "POST", "/p", json={"a": "ü\ud800"}, params={"n": 1, "skip": None}, headers={"x": "y"}
        )

        request = transport.seen[0][1]
        assert str(request.url) == f"{URL}/p?n=1"
        assert request.headers["X-API-Key"] == KEY
        assert request.headers["content-type"] == "application/json"
        assert request.headers["x"] == "y"
        assert request.content.decode() == '{"a":"ü\ufffd"}'
        assert answer == Answer(201, {"data": {"id": "m"}})
        assert (answer.ok, answer.data) == (True, {"id": "m"})
        assert KEY not in repr(api)


async def test_the_base_path_of_the_url_stands_in_front() -> None:
    requests: list[bytes] = []

    async def answer(stream: trio.abc.Stream) -> None:
        requests.append(await read_request(stream))
        await stream.send_all(ok())

    async with serving(answer) as port:
        url = f"http://127.0.0.1:{port}/base"
        transport = Transport(200)
        for config in (AgentConfig(), AgentConfig(rest_transport=transport)):
            async with open_api(Endpoints(url, "ws://h/x"), Credentials("a1", KEY), config) as api:
                assert (await api.once("GET", "/p", params={"q": "ä b"})).ok
    assert requests[0].startswith(b"GET /base/p?q=%C3%A4+b HTTP/1.1\r\n")
    assert f"\r\nHost: 127.0.0.1:{port}\r\n".encode() in requests[0]
    assert str(transport.seen[0][1].url) == f"{url}/p?q=%C3%A4+b"


async def test_a_post_without_body_has_no_content_type() -> None:
    async with api_over(200) as (api, transport):
        await api.once("POST", "/p")
        request = transport.seen[0][1]
        assert request.content == b""
        assert "content-type" not in request.headers


@for_each("content", [b"{", b"\xff", b"<html>"])
async def test_an_odd_body_does_not_change_the_status(
    content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with api_over(httpx.Response(201, content=content)) as (api, _):
        answer = await api.once("POST", "/p")
        assert (answer.status, answer.body) == (201, None)
        assert (answer.data, answer.error.code) == (None, None)
        assert answer.flaw.startswith("the answer 201 to POST /p cannot be used: not JSON")
        assert answer.flaw in caplog.text


@guarantee(86)
@case("C68")
@for_each("coding", ["gzip", "gzip, gzip", "br", "\x1b[31mred"])
async def test_no_coding_is_undone_that_was_not_asked_for(coding: str) -> None:
    stream = httpx.ByteStream(gzip.compress(b'{"data": 1}'))
    response = httpx.Response(201, headers={"content-encoding": coding}, stream=stream)
    async with api_over(response) as (api, transport):
        answer = await api.once("POST", "/p")
    assert transport.seen[0][1].headers["accept-encoding"] == "identity"
    assert (answer.status, answer.body) == (201, None)
    assert "content coding that was not asked for" in answer.flaw
    assert answer.flaw.isprintable()


@guarantee(86)
@case("C68")
@for_each("announced", [True, False])
@for_each("status", [200, 429])
async def test_a_body_is_read_up_to_its_limit(status: int, announced: bool) -> None:
    stream = Endless(b" " * 2**16)
    headers = {"content-length": str(2**31)} if announced else {}
    response = httpx.Response(status, headers={**headers, "retry-after": "7"}, stream=stream)
    async with api_over(response) as (api, _):
        answer = await api.once("GET", "/p?q", max_bytes=2**20)
    assert (answer.status, answer.body) == (status, None)
    assert answer.retry_after == (7.0 if status == 429 else None)
    assert re.search(rf"to GET /p\?q cannot be used: .*\b{2**20}\b", answer.flaw)
    assert stream.read <= (0 if announced else 2**20 + 2**16)
    assert stream.closed


@guarantee(87)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                ["content-length", "content-encoding", "retry-after", "retry-after-ms", "date",
                 "x-ratelimit-reset", "content-type", "location", "x"]
            ),
            st.text(st.characters(max_codepoint=255, exclude_characters="\r\n\0"), max_size=20)
            | st.integers().map(str),
        ),
        max_size=5,
    ),
    st.sampled_from([200, 204, 302, 400, 404, 429, 500, 999]),
    st.binary(max_size=30),
)  # fmt: skip
def test_any_headers_are_an_answer(
    headers: list[tuple[str, str]], status: int, body: bytes
) -> None:
    async def main() -> None:
        raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
        response = httpx.Response(status, headers=raw, stream=httpx.ByteStream(body))
        async with api_over(response) as (api, _):
            answer = await api.once("GET", "/p")
        assert answer.status == status
        assert len(answer.flaw.splitlines()) <= 1
        assert answer.retry_after is None or 0 <= answer.retry_after <= 3600
        assert answer.date is None or answer.date.tzinfo is UTC

    trio.run(main)


@guarantee(87)
@case("C69")
@for_each("path", ["/" + "x" * 70_000, "/a\x00b", "/\ud800", "/a\nb"])
async def test_a_request_that_cannot_be_built_is_refused_like_by_the_platform(
    path: str,
) -> None:
    async with api_over(200) as (api, transport):
        answer = await api.once("GET", path)
        assert (answer.status, answer.error.code) == (400, "unsendable_request")
        assert len(str(answer.error.message)) < 600
        with pytest.raises(BandApiError, match="unsendable_request"):
            await api.repeat("GET", path)
        with pytest.raises(BandApiError, match="unsendable_request"):
            await api.post("POST", "/p", json={"n": object()})
    assert transport.seen == []


@guarantee(87)
@case("C69")
@for_each("value", ["a\nb", "a\rb", "a\0b", "ä"])
async def test_a_header_that_cannot_be_written_is_refused(value: str) -> None:
    async with api_over(200) as (api, transport):
        answer = await api.once("PUT", "/p", headers={"x-file-name": value}, content=b"x")
    assert (answer.status, answer.error.code) == (400, "unsendable_request")
    assert transport.seen == []


@for_each(
    ("text", "when"),
    [
        ("Tue, 01 Jul 2025 10:00:59 GMT", datetime(2025, 7, 1, 10, 0, 59, tzinfo=UTC)),
        ("Tue, 01 Jul 2025 12:00:59 +0200", datetime(2025, 7, 1, 10, 0, 59, tzinfo=UTC)),
        ("Tue, 01 Jul 2025 10:00:59", datetime(2025, 7, 1, 10, 0, 59, tzinfo=UTC)),
        ("yesterday", None),
        ("", None),
        (None, None),
    ],
)
async def test_an_answer_is_dated_by_the_platform(text: str | None, when: datetime | None) -> None:
    headers = {} if text is None else {"Date": text}
    async with api_over(httpx.Response(200, headers=headers)) as (api, _):
        assert (await api.once("GET", "/p")).date == when


@for_each(
    "error",
    [
        httpx.ConnectError("refused"),
        httpx.ConnectTimeout("t"),
        httpx.PoolTimeout("p"),
        httpx.ProxyError("p"),
        httpx.LocalProtocolError("l"),
    ],
)
async def test_what_was_not_sent_says_so(error: Exception) -> None:
    async with api_over(error) as (api, _):
        with pytest.raises(NotSentError):
            await api.once("POST", "/p")


@for_each(
    "error",
    [
        httpx.RemoteProtocolError("Server disconnected without sending a response."),
        httpx.ReadError("r"),
        httpx.WriteError("w"),
        httpx.ReadTimeout("t"),
        OSError("o"),
        trio.BrokenResourceError(),
    ],
)
async def test_what_may_have_been_sent_says_so(error: Exception) -> None:
    async with api_over(error) as (api, _):
        with pytest.raises(OutcomeUnknownError) as caught:
            await api.once("POST", "/p")
        assert URL in str(caught.value)


async def test_errors_name_the_url_and_never_the_key() -> None:
    async with api_over(httpx.ConnectError(f"cannot say {KEY}")) as (api, _):
        with pytest.raises(NotSentError) as caught:
            await api.once("GET", "/p")
        assert URL in str(caught.value)
        assert KEY not in str(caught.value)
        assert caught.value.__cause__ is None


async def test_a_try_is_bounded_by_our_own_scope(autojump_clock: trio.testing.MockClock) -> None:
    async with api_over(999.0) as (api, _):
        for within, seconds in ((None, 15.0), (2.0, 2.0)):
            began = trio.current_time()
            with pytest.raises(OutcomeUnknownError):
                await api.once("POST", "/p", within=within)
            assert trio.current_time() - began == pytest.approx(seconds)


@case("C24")
@for_each("call", ["once", "repeat", "post"])
async def test_a_cancellation_in_the_tick_of_the_bound_wins(
    autojump_clock: trio.testing.MockClock, call: str
) -> None:
    async with api_over(999.0) as (api, _):
        for _ in range(20):
            with trio.move_on_after(2) as outer:
                await getattr(api, call)("POST", "/p", within=2)
            assert outer.cancelled_caught, "it came out as a time-out, or as an answer"


@case("C24")
@for_each("call", ["once", "repeat", "post"])
async def test_a_bound_that_is_over_at_entry_waits_for_nothing_and_sends_nothing(
    autojump_clock: trio.testing.MockClock, call: str
) -> None:
    async with api_over(999.0) as (api, transport):
        began = trio.current_time()
        with pytest.raises(NotSentError):
            await getattr(api, call)("POST", "/p", within=0)
        with trio.CancelScope() as outer:
            outer.cancel()
            await getattr(api, call)("POST", "/p", within=0)
        assert outer.cancelled_caught
        assert trio.current_time() == began
        assert transport.seen == []


async def test_waiting_for_a_turn_counts_and_is_known_not_to_be_sent(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with api_over(999.0, rest_bulk=1) as (api, transport), trio.open_nursery() as nursery:
        nursery.start_soon(_forget, api)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(NotSentError):
            await api.once("POST", "/p", within=3)
        assert len(transport.seen) == 1
        nursery.cancel_scope.cancel()


async def _forget(api: Api) -> None:
    await api.once("GET", "/slow", within=500)


@case("C48")
async def test_claims_do_not_queue_behind_bulk(autojump_clock: trio.testing.MockClock) -> None:
    async with api_over(10.0) as (api, transport), trio.open_nursery() as nursery:
        for _ in range(600):
            nursery.start_soon(_forget, api)
        with work_of("r"):
            for _ in range(600):
                nursery.start_soon(_forget, api)
        await trio.testing.wait_all_tasks_blocked()
        assert transport.running == 12 + 4, "the runtime's, and a third of the application's"
        began = trio.current_time()
        await api.once("POST", "/claim", lane=Lane.PRIORITY)
        assert trio.current_time() - began == pytest.approx(10)
        assert transport.peak <= 32
        nursery.cancel_scope.cancel()


@guarantee(3)
@for_each("many", [None, "a", "b", "c", "d"])
async def test_who_asks_for_much_delays_neither_the_runtime_nor_the_rooms(
    autojump_clock: trio.testing.MockClock, many: str | None
) -> None:
    """Reads of the runtime, or the code of one room, against one request of each of the others."""
    async with api_over(10.0) as (api, _):

        async def ask(room: str | None) -> None:
            with work_of(room) if room else nullcontext():
                await api.once("GET", "/p", within=500)

        async with trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(ask, many)
            await trio.testing.wait_all_tasks_blocked()
            began = trio.current_time()
            async with trio.open_nursery() as others:
                for each in {None, "a", "b", "c", "d"} - {many}:
                    others.start_soon(ask, each)
            assert trio.current_time() - began == pytest.approx(10)
            nursery.cancel_scope.cancel()


@case("C48")
async def test_one_token_is_enough_for_each_lane(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with api_over(1.0, rest_bulk=1, rest_priority=1) as (api, transport):
        async with trio.open_nursery() as nursery:
            for lane in Lane:
                for _ in range(3):
                    nursery.start_soon(partial(api.once, "GET", "/p", lane=lane))
        assert transport.peak == 3


async def test_a_transport_of_the_application_is_not_closed() -> None:
    async with api_over(200) as (api, transport):
        await api.once("GET", "/p")
    assert not transport.closed


# --------------------------------------------------------------------------- repeatable calls


@case("C25")
@for_each(
    "trouble",
    [
        408,
        429,
        500,
        503,
        httpx.ConnectError("c"),
        httpx.ReadError("r"),
        httpx.PoolTimeout("p"),
        20.0,
    ],
)
@for_each("method", ["GET", "PUT", "DELETE"])
async def test_repeatable_calls_are_repeated(
    autojump_clock: trio.testing.MockClock, method: str, trouble: Any
) -> None:
    async with api_over(trouble, trouble, 200) as (api, transport):
        assert (await api.repeat(method, "/p")).status == 200
        assert len(transport.seen) == 3


@for_each("status", [301, 400, 401, 403, 404, 409, 422])
@for_each("method", ["GET", "DELETE"])
async def test_a_definite_no_is_not_repeated(method: str, status: int) -> None:
    refusal = no(status, code="c", message=f"m {KEY}", request_id="q", details={"/x": ["bad"]})
    async with api_over(refusal) as (api, transport):
        with pytest.raises(BandApiError) as caught:
            await api.repeat(method, "/p")
        error = caught.value
        assert (error.status, error.code, error.request_id) == (status, "c", "q")
        assert error.details == {"/x": ["bad"]}
        assert KEY not in str(error)
        assert len(transport.seen) == 1


@for_each("first", [500, httpx.ReadError("r"), 20.0])
async def test_404_to_a_repeated_delete_is_success(
    autojump_clock: trio.testing.MockClock, first: Any
) -> None:
    async with api_over(first, 404) as (api, _):
        assert (await api.repeat("DELETE", "/p")).ok


@for_each("first", [429, httpx.ConnectError("c")])
async def test_404_to_a_delete_whose_first_try_did_nothing_is_a_no(
    autojump_clock: trio.testing.MockClock, first: Any
) -> None:
    async with api_over(first, 404) as (api, _):
        with pytest.raises(BandApiError):
            await api.repeat("DELETE", "/p")


@for_each("call", ["repeat", "post"])
async def test_a_told_wait_is_obeyed(autojump_clock: trio.testing.MockClock, call: str) -> None:
    async with api_over(no(429, 7), no(429, retry_after=9), 200) as (api, transport):
        await getattr(api, call)("POST", "/p")
        first, second, third = transport.times()
        assert second - first >= 7
        assert third - second >= 9


@for_each("call", ["repeat", "post"])
async def test_a_told_wait_above_the_cap_is_the_callers_business(
    autojump_clock: trio.testing.MockClock, call: str
) -> None:
    async with api_over(no(429, 61)) as (api, transport):
        began = trio.current_time()
        with pytest.raises(BandApiError) as caught:
            await getattr(api, call)("POST", "/p")
        assert caught.value.retry_after == 61
        assert trio.current_time() == began
        assert len(transport.seen) == 1


async def test_a_repeatable_call_is_bounded_as_a_whole(
    autojump_clock: trio.testing.MockClock,
) -> None:
    for trouble, error in ((999.0, BandConnectionError), (500, BandApiError)):
        async with api_over(trouble) as (api, _):
            began = trio.current_time()
            with pytest.raises(error):
                await api.repeat("GET", "/p")
            assert 45 <= trio.current_time() - began <= 60


@case("C49")
async def test_no_token_is_held_while_waiting(autojump_clock: trio.testing.MockClock) -> None:
    async with api_over(no(429, 30), 200, rest_bulk=1) as (api, transport):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(api.repeat, "GET", "/waits")
            await trio.testing.wait_all_tasks_blocked()
            began = trio.current_time()
            await api.repeat("GET", "/other")
            assert trio.current_time() - began < 1
        assert len(transport.seen) == 3


@case("C49")
async def test_a_cancelled_sleeper_holds_up_nobody(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """All are told to wait 10 s; the first of them is cancelled; the others go on in time."""
    async with api_over(*[no(429, 10)] * 6, 200, rest_bulk=2) as (api, _):
        done: list[float] = []
        began = trio.current_time()

        async def call() -> None:
            await api.repeat("GET", "/p")
            done.append(trio.current_time() - began)

        async with trio.open_nursery() as others:
            async with trio.open_nursery() as first:
                first.start_soon(call)
                for _ in range(5):
                    others.start_soon(call)
                await trio.sleep(1)
                first.cancel_scope.cancel()
        assert len(done) == 5
        assert all(10 <= each < 11 for each in done)


# --------------------------------------------------------------------------- not repeatable


@case("C25")
@for_each("trouble", [httpx.ConnectError("c"), httpx.PoolTimeout("p"), 429])
async def test_a_post_is_sent_again_when_nothing_was_written(
    autojump_clock: trio.testing.MockClock, trouble: Any
) -> None:
    async with api_over(trouble, trouble, 201) as (api, transport):
        assert (await api.post("POST", "/p")).status == 201
        assert len(transport.seen) == 3


@guarantee(76)
@case("C25")
@for_each(
    "trouble", [500, 503, 504, 408, httpx.ReadError("r"), httpx.RemoteProtocolError("cut"), 99.0]
)
async def test_a_post_of_unknown_outcome_is_never_repeated(
    autojump_clock: trio.testing.MockClock, trouble: Any
) -> None:
    async with api_over(trouble, 201) as (api, transport):
        with pytest.raises(OutcomeUnknownError):
            await api.post("POST", "/p")
        assert len(transport.seen) == 1


@for_each("status", [400, 403, 404, 409, 422])
async def test_a_definite_no_to_a_post_is_typed(status: int) -> None:
    async with api_over(no(status)) as (api, _):
        with pytest.raises(BandApiError) as caught:
            await api.post("POST", "/p")
        assert caught.value.status == status


async def test_a_post_that_is_never_sent_ends_with_the_call(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with api_over(httpx.ConnectError("down")) as (api, _):
        began = trio.current_time()
        with pytest.raises(NotSentError):
            await api.post("POST", "/p", within=20)
        assert 10 < trio.current_time() - began <= 20


# --------------------------------------------------------------------------- the real pool


@case("C47")
@pytest.mark.slow
async def test_a_storm_of_cancellations_leaves_the_pool_whole(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Forty callers, a pool of ten, everything cancelled in flight, many times over."""
    caplog.set_level(logging.DEBUG)

    async def answer(stream: trio.SocketStream) -> None:
        async with stream:
            try:
                while await stream.receive_some():
                    await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, answer, 0)
        port = listeners[0].socket.getsockname()[1]
        config = AgentConfig(rest_bulk=6, rest_priority=3)
        endpoints = Endpoints(f"http://127.0.0.1:{port}", "ws://127.0.0.1:9/x")
        with trio.fail_after(20):
            async with open_api(endpoints, Credentials("a1", KEY), config) as api:
                for steps in range(1, 61, 3):
                    async with trio.open_nursery() as storm:
                        for n in range(40):
                            lane = Lane.PRIORITY if n % 4 == 0 else Lane.RUNTIME
                            storm.start_soon(_call, api, lane)
                        for _ in range(steps):
                            await trio.lowlevel.checkpoint()
                        storm.cancel_scope.cancel()
                for lane in Lane:
                    for _ in range(10):
                        assert (await api.once("GET", "/p", lane=lane, within=2)).status == 200
        nursery.cancel_scope.cancel()
    assert KEY not in caplog.text


async def _call(api: Api, lane: Lane) -> None:
    await api.once("POST", "/claim", lane=lane)

"""REST: one request at a time, and what may be repeated. The only user of httpx.

Two rules shape this file. Requests never wait inside httpx, where cancelling them does harm: they
wait for a token, one lane for claims and marks, one for everything else, and then have a
connection of their own. And a request that is not repeatable is never sent twice once its bytes
may have reached the server: its caller gets `OutcomeUnknownError`.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from enum import Enum
from functools import lru_cache
from typing import Any, Final, TypedDict, Unpack, cast
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import attrs
import httpx  # noqa: ASYNC127, TID251 - this is the one door to httpx
import trio

from band_trio.config import AgentConfig
from band_trio.credentials import Credentials
from band_trio.endpoints import Endpoints, is_loopback
from band_trio.errors import BandApiError, BandConnectionError, OutcomeUnknownError
from band_trio.hygiene import clean_text
from band_trio.link.connections import CLOSE_SECONDS, Connections
from band_trio.link.retry_after import read_retry_after
from band_trio.link.tries import NotSentError, Tries
from band_trio.logs import RepeatedLog
from band_trio.protocol import codec
from band_trio.protocol.errors import RemoteProtocolError
from band_trio.protocol.rest import WORDS_CHARS, ErrorBody
from band_trio.shares import FairLimiter

_repeated: Final = RepeatedLog(logging.getLogger(__name__))

USER_AGENT: Final = "band-trio"
POOL_SECONDS: Final = 5.0
"""Longest wait inside a pool that the application has brought; ours have nothing to wait for."""

_CUT_OFF: Final = (httpx.HTTPError, OSError, trio.BrokenResourceError, trio.ClosedResourceError)


class Lane(Enum):
    """Which tokens a request takes; the lanes never wait for each other."""

    BULK = "bulk"
    """Reads, tools, posts."""
    PRIORITY = "priority"
    """Claims and marks."""


class RequestParts(TypedDict, total=False):
    """What a request may carry besides its method and path."""

    json: Any
    """Body as a JSON value."""
    params: Mapping[str, Any]
    """Query; None leaves a name out."""
    lane: Lane
    """`Lane.BULK` unless said otherwise."""
    headers: Mapping[str, str]
    content: bytes
    """Body as it stands."""
    raw: bool
    """The answer is no JSON: `Answer.body` is its bytes if it is a success."""


@attrs.frozen
class Answer:
    """What the platform said, whatever it was."""

    status: int
    body: Any = None
    """Parsed JSON; None where there is none. Bytes where `raw` was asked for."""
    retry_after: float | None = None
    """Seconds to wait before asking again, as told by a header or by the body."""
    error: ErrorBody = attrs.field(
        default=attrs.Factory(lambda self: ErrorBody.read(self.body), takes_self=True)
    )
    """The `error` of the envelope, without secrets; an empty one where there is none."""

    @property
    def ok(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300

    @property
    def data(self) -> Any:
        """The `data` of the envelope, or None."""
        return self.body.get("data") if isinstance(self.body, dict) else None


def _tls_problem(exc: BaseException | None) -> str:
    """Return what the TLS library says somewhere behind *exc*, or nothing."""
    while exc is not None and not isinstance(exc, ssl.SSLError):
        exc = exc.__cause__ or exc.__context__
    return str(exc) if exc is not None else ""


class Api:
    """Sends requests to one platform as one agent. Made by `open_api`."""

    def __init__(self, rest_url: str, secret: str, config: AgentConfig) -> None:
        self.rest_url: Final = rest_url
        """Where the requests go; what errors name."""
        self.config: Final = config
        self.secrets: Final = (secret,)
        self._headers = httpx.Headers(
            {"X-API-Key": secret, "User-Agent": USER_AGENT, "Accept": "application/json"}
        )
        self._lanes = {
            Lane.BULK: FairLimiter(config.rest_bulk, kept=config.rest_bulk // 3),
            Lane.PRIORITY: FairLimiter(config.rest_priority),
        }
        # A connect that is given up has sent nothing, which is worth knowing: it ends before the
        # scope around the try does. All else is bounded by that scope alone, because the
        # library's own bounds start again with every byte.
        connect = config.rest_try_seconds * 2 / 3
        self._extensions = {
            "timeout": {"connect": connect, "pool": POOL_SECONDS, "read": None, "write": None}
        }
        self._connections = Connections(_opener(rest_url, config))

    def __repr__(self) -> str:
        return f"Api({self.rest_url!r})"

    # ----------------------------------------------------------------- one try

    async def once(
        self, method: str, path: str, *, within: float | None = None, **parts: Unpack[RequestParts]
    ) -> Answer:
        """Send one request and return whatever is answered, any status.

        *within* bounds the try in seconds, the wait for its turn included; the default is
        `rest_try_seconds`.

        Raises:
            NotSentError: nothing reached the server.
            OutcomeUnknownError: cut off, or out of time, after sending may have begun.
        """
        request = self._request(method, path, parts)
        sending = False
        with trio.move_on_after(self.config.rest_try_seconds if within is None else within):
            async with self._lanes[parts.get("lane", Lane.BULK)]:
                sending = True
                return await self._exchange(request, f"{method} {path}", parts.get("raw", False))
        error = OutcomeUnknownError if sending else NotSentError
        raise error(f"{self.rest_url} gave no answer to {method} {path} in time.")

    def _request(self, method: str, path: str, parts: RequestParts) -> httpx.Request:
        url = self.rest_url + path
        query = {k: v for k, v in parts.get("params", {}).items() if v is not None}
        if query:
            url = f"{url}?{urlencode(query)}"
        headers, content = self._headers, parts.get("content")
        if "json" in parts or "headers" in parts:
            headers = headers.copy()
            headers.update(parts.get("headers"))
        if "json" in parts:
            content = codec.dumps(parts["json"])
            headers["Content-Type"] = "application/json"
        return httpx.Request(
            method, _url(url), headers=headers, content=content, extensions=self._extensions
        )

    async def _exchange(self, request: httpx.Request, what: str, raw: bool) -> Answer:
        """Send *request* on a connection of its own and read the answer."""
        connection = self._connections.take()
        finished = False
        try:
            answer = await self._read(await self._send(connection, request, what), what, raw)
            finished = True
        finally:
            if not finished:
                with trio.move_on_after(CLOSE_SECONDS, shield=True):
                    await connection.aclose()
        await self._connections.put_back(connection)
        return answer

    async def _send(
        self, connection: httpx.AsyncBaseTransport, request: httpx.Request, what: str
    ) -> httpx.Response:
        """Send *request*; map the library's errors to ours."""
        try:
            return await connection.handle_async_request(request)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as exc:
            said = self._said(exc)
            if "WRONG_VERSION_NUMBER" in said:
                said += " (no TLS there, so no Band platform answers; is it http://?)"
            raise NotSentError(f"{self.rest_url} cannot be reached: {said}.") from None
        except httpx.PoolTimeout:
            raise NotSentError(f"{self.rest_url}: no free connection for {what}.") from None
        except (httpx.UnsupportedProtocol, httpx.LocalProtocolError) as exc:
            raise NotSentError(f"{what} cannot be sent: {self._said(exc)}.") from None
        except _CUT_OFF as exc:
            raise OutcomeUnknownError(
                f"{self.rest_url} was cut off during {what}: {self._said(exc)}."
            ) from None

    async def _read(self, response: httpx.Response, what: str, raw: bool) -> Answer:
        status = response.status_code
        try:
            content = await _body(response)
        except httpx.DecodingError:
            content, raw = b"?", False  # odd, like a body that is no JSON; the status still counts
        except _CUT_OFF as exc:
            raise OutcomeUnknownError(
                f"{self.rest_url} was cut off answering {what}: {self._said(exc)}."
            ) from None
        if raw and status < 300:
            return Answer(status, content)
        body = None
        if content:
            try:
                body = codec.loads(content)
            except RemoteProtocolError:
                _repeated.warning("odd body in the answer %d to %s", status, what)
        if status < 300:
            return Answer(status, body)
        error = ErrorBody.read(body).cleaned(self.secrets)
        return Answer(status, body, read_retry_after(response.headers.get, body), error)

    def _said(self, exc: BaseException) -> str:
        """Return what a library says, fit for our errors: short, clean, without the key."""
        text = (str(exc) or _tls_problem(exc)).rstrip(".") or type(exc).__name__
        return clean_text(text, WORDS_CHARS, self.secrets)

    async def aclose(self) -> None:
        """Close the connections; a transport of the application stays open, it may serve again."""
        await self._connections.aclose()

    # ----------------------------------------------------------------- several tries

    async def repeat(
        self, method: str, path: str, *, within: float | None = None, **parts: Unpack[RequestParts]
    ) -> Answer:
        """Send a request that may be repeated, until it is answered or the time is over.

        *within* bounds the whole call in seconds (default `rest_call_seconds`), each try is
        bounded by `rest_try_seconds`. The result is a 2xx. 404 to a repeated DELETE is one too,
        because an earlier try has done the work.

        Raises:
            BandApiError: a definite no, or a told wait above `retry_after_cap_seconds`.
            BandConnectionError: no answer within the time.
        """
        tries = Tries(self.config, within)
        may_have_worked = False
        while True:
            try:
                answer = await self.once(method, path, within=tries.begin(), **parts)
            except BandConnectionError as exc:
                may_have_worked |= isinstance(exc, OutcomeUnknownError)
                wait = tries.after_error(exc)
            else:
                if answer.ok:
                    return answer
                if method == "DELETE" and answer.status == 404 and may_have_worked:
                    return Answer(204)
                if answer.status not in (408, 429) and answer.status < 500:
                    raise self.refusal(answer)
                may_have_worked |= answer.status != 429
                wait = tries.after_no(answer.retry_after, self.refusal(answer))
            await trio.sleep(wait)  # holding no token

    async def post(
        self, method: str, path: str, *, within: float | None = None, **parts: Unpack[RequestParts]
    ) -> Answer:
        """Send a request that must not take effect twice; the result is a 2xx.

        It is sent again only when nothing was sent, or after 429, which is a refusal before
        anything was written (platform docs, Retry rules). *within* as for `repeat`.

        Raises:
            BandApiError: a definite no, or a told wait above `retry_after_cap_seconds`.
            OutcomeUnknownError: it may have taken effect.
            NotSentError: the server was not reached within the time.
        """
        tries = Tries(self.config, within)
        while True:
            try:
                answer = await self.once(method, path, within=tries.begin(), **parts)
            except NotSentError as exc:
                wait = tries.after_error(exc)
            else:
                if answer.ok:
                    return answer
                if answer.status == 408 or answer.status >= 500:
                    error = self.refusal(answer)
                    raise OutcomeUnknownError(f"{method} {path}: {error}") from error
                if answer.status != 429:
                    raise self.refusal(answer)
                wait = tries.after_no(answer.retry_after, self.refusal(answer))
            await trio.sleep(wait)  # holding no token

    def refusal(self, answer: Answer) -> BandApiError:
        """Return the error for an answer that is a no."""
        error = answer.error
        return BandApiError(
            answer.status,
            error.code,
            error.message,
            request_id=error.request_id,
            details=error.details,
            retry_after=answer.retry_after,
        )


@asynccontextmanager
async def open_api(
    endpoints: Endpoints, credentials: Credentials, config: AgentConfig
) -> AsyncGenerator[Api]:
    """Open the REST side; its connections are closed when the block ends."""
    api = Api(endpoints.rest_url, credentials.api_key, config)
    try:
        yield api
    finally:
        with trio.move_on_after(CLOSE_SECONDS, shield=True):
            await api.aclose()


async def _body(response: httpx.Response) -> bytes:
    """Read the whole body and give the connection back to the pool, whatever happens.

    Not by `aread`, which leaves generators behind when the body cannot be unpacked.
    """
    stream = cast("httpx.AsyncByteStream", response.stream)
    parts = []
    try:
        async for part in stream:
            parts.append(part)
    finally:
        with trio.move_on_after(CLOSE_SECONDS, shield=True):
            await stream.aclose()
    content = b"".join(parts)
    packing = response.headers.get("content-encoding")
    if not packing:
        return content
    return httpx.Response(200, headers={"content-encoding": packing}, content=content).content


@lru_cache(maxsize=1024)  # the reads of a room repeat their few URLs, and parsing one is slow
def _url(text: str) -> httpx.URL:
    return httpx.URL(text)


class _Lent(httpx.AsyncBaseTransport):
    """A transport of the application, which is not ours to close."""

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        self._transport = transport

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await self._transport.handle_async_request(request)


def _opener(rest_url: str, config: AgentConfig) -> Callable[[], httpx.AsyncBaseTransport]:
    """Return what makes connections: transports of one connection each.

    A transport instead of a client halves the cost of a request, and nothing logs whole URLs.
    The price: the proxy of the environment is looked up here, once, for the one origin.
    """
    if config.rest_transport is not None:
        lent = _Lent(config.rest_transport)
        return lambda: lent
    parts = urlsplit(rest_url)
    host = parts.hostname or ""
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if is_loopback(host) or proxy_bypass(host):
        proxy = None
    # Redirects are not followed: a plain URL needs no certificates, which load slowly.
    tls = httpx.create_ssl_context(verify=parts.scheme == "https")
    one = httpx.Limits(max_connections=1, max_keepalive_connections=1)
    return lambda: httpx.AsyncHTTPTransport(verify=tls, limits=one, proxy=proxy)

"""REST: one request at a time, and what may be repeated.

Two rules shape this file. Requests never wait inside an HTTP library, where cancelling them does
harm: they wait for a token, one lane for claims and marks, one for everything else, and then have
a connection of their own. And a request that is not repeatable is never sent twice once its bytes
may have reached the server: its caller gets `OutcomeUnknownError`.

What is answered is read up to a limit in bytes, and no coding of it is undone: an answer that is
longer, packed or no JSON has a *flaw*, which costs its body but not its status.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from enum import Enum
from functools import lru_cache, partial
from typing import Any, Final, TypedDict, Unpack, cast
from urllib.parse import urlencode

import attrs
import httpx  # noqa: ASYNC127, TID251 - the interface of transports
import trio

from band_trio.bell import Bell
from band_trio.config import AgentConfig
from band_trio.credentials import Credentials
from band_trio.endpoints import Endpoints
from band_trio.errors import BandApiError, BandConnectionError, OutcomeUnknownError
from band_trio.hygiene import clean_text, clip
from band_trio.link.dialler import dial, tls_context
from band_trio.link.retry_after import read_retry_after
from band_trio.link.transport import Transport
from band_trio.link.tries import NotSentError, Tries
from band_trio.logs import RepeatedLog
from band_trio.protocol import codec
from band_trio.protocol.errors import RemoteProtocolError
from band_trio.protocol.rest import WORDS_CHARS, ErrorBody
from band_trio.shares import FairLimiter

_repeated: Final = RepeatedLog(logging.getLogger(__name__))

USER_AGENT: Final = "band-trio"
JSON_BYTES: Final = 4 * 2**20
"""Longest JSON answer; the largest page that the platform makes stays far below."""
CONNECT_SHARE: Final = 2 / 3
"""Part of a try that the connect may take: given up before the try is, it has sent nothing for
sure."""
POOL_SECONDS: Final = 5.0
"""Longest wait inside a pool that the application has brought; ours have nothing to wait for."""
CLOSE_SECONDS: Final = 1.0
"""Longest end of an answer, or of all connections."""
UNSENDABLE: Final = "unsendable_request"
"""Our code for a request that cannot be written, such as one with an id that is no id."""
UNSENDABLE_STATUS: Final = 400
KEPT_URL_CHARS: Final = 1000
"""Longest URL that is kept parsed."""
WHAT_CHARS: Final = 200
"""Characters of a request line in our errors."""

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
    max_bytes: int
    """Longest body of the answer; `JSON_BYTES` unless said otherwise."""


@attrs.frozen
class Answer:
    """What the platform said, whatever it was."""

    status: int
    body: Any = None
    """Parsed JSON; None where there is none. Bytes where `raw` was asked for."""
    retry_after: float | None = None
    """Seconds to wait before asking again, as told by a header or by the body."""
    flaw: str = ""
    """Why there is no body although one came, in words that name the request."""
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


class Api:
    """Sends requests to one platform as one agent. Made by `open_api`."""

    def __init__(
        self, rest_url: str, secret: str, config: AgentConfig, transport: httpx.AsyncBaseTransport
    ) -> None:
        self.rest_url: Final = rest_url
        """Where the requests go; what errors name."""
        self.config: Final = config
        self.secrets: Final = (secret,)
        self._headers = httpx.Headers(
            {
                "X-API-Key": secret,
                "User-Agent": USER_AGENT,
                "Accept": "application/json",
                "Accept-Encoding": "identity",
            }
        )
        self._lanes = {
            Lane.BULK: FairLimiter(config.rest_bulk, kept=config.rest_bulk // 3),
            Lane.PRIORITY: FairLimiter(config.rest_priority),
        }
        self._transport = transport
        self.denied: Final = Bell()
        """Rung by each 401: the key may not be good any more."""
        # For a transport of the application. The rest of a try is bounded by its scope alone: a
        # library's own bounds start again with every byte.
        connect = config.rest_try_seconds * CONNECT_SHARE
        self._extensions = {
            "timeout": {"connect": connect, "pool": POOL_SECONDS, "read": None, "write": None}
        }

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
        what = f"{method} {path}"
        try:
            request = self._request(method, path, parts)
        except (httpx.InvalidURL, ValueError, TypeError) as exc:
            return Answer(UNSENDABLE_STATUS, error=self._unsendable(what, exc))
        sending = False
        with trio.move_on_after(self.config.rest_try_seconds if within is None else within):
            async with self._lanes[parts.get("lane", Lane.BULK)]:
                sending = True
                response = await self._send(request, what)
                return await self._read(response, what, parts)
        error = OutcomeUnknownError if sending else NotSentError
        raise error(f"{self.rest_url} gave no answer to {clip(what, WHAT_CHARS)} in time.")

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
            method, _parsed(url), headers=headers, content=content, extensions=self._extensions
        )

    def _unsendable(self, what: str, exc: Exception) -> ErrorBody:
        """Say that a request cannot be written; it is as if the platform had refused it."""
        return ErrorBody(UNSENDABLE, f"{clip(what, WHAT_CHARS)} cannot be sent: {self._said(exc)}")

    async def _send(self, request: httpx.Request, what: str) -> httpx.Response:
        """Send *request*; map the library's errors to ours."""
        try:
            return await self._transport.handle_async_request(request)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as exc:
            raise NotSentError(f"{self.rest_url} cannot be reached: {self._said(exc)}.") from None
        except httpx.PoolTimeout:
            raise NotSentError(f"{self.rest_url}: no free connection for {what}.") from None
        except (httpx.UnsupportedProtocol, httpx.LocalProtocolError) as exc:
            raise NotSentError(f"{what} cannot be sent: {self._said(exc)}.") from None
        except _CUT_OFF as exc:
            raise OutcomeUnknownError(
                f"{self.rest_url} was cut off during {what}: {self._said(exc)}."
            ) from None

    async def _read(self, response: httpx.Response, what: str, parts: RequestParts) -> Answer:
        status, raw = response.status_code, parts.get("raw", False)
        if status == 401:
            self.denied.ring()
        try:
            content, flaw = await _body(response, parts.get("max_bytes", JSON_BYTES))
        except _CUT_OFF as exc:
            raise OutcomeUnknownError(
                f"{self.rest_url} was cut off answering {what}: {self._said(exc)}."
            ) from None
        if raw and status < 300 and not flaw:
            return Answer(status, bytes(content))
        body = None
        if content and not flaw:
            try:
                body = codec.loads(content)
            except RemoteProtocolError as exc:
                flaw = str(exc)
        if flaw:
            flaw = f"the answer {status} to {clip(what, WHAT_CHARS)} cannot be used: {flaw}"
            _repeated.warning("%s", flaw)
        if status < 300:
            return Answer(status, body, flaw=flaw)
        error = ErrorBody.read(body).cleaned(self.secrets)
        told = read_retry_after(response.headers.get, body)
        return Answer(status, body, told, flaw, error)

    def _said(self, exc: BaseException) -> str:
        """Return what a library says, fit for our errors: short, clean, without the key."""
        text = str(exc).rstrip(".") or type(exc).__name__
        return clean_text(text, WORDS_CHARS, self.secrets)

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
    ours = None
    if config.rest_transport is None:
        if endpoints.rest_url.startswith("https:"):
            tls_context(config.verify)  # what is wrong with it is wrong before anything is sent
        way = partial(dial, endpoints.rest_url, endpoints.rest_proxy, config.verify)
        ours = Transport(way, config.rest_try_seconds * CONNECT_SHARE)
    transport = config.rest_transport or ours
    assert transport is not None  # one of the two
    try:
        yield Api(endpoints.rest_url, credentials.api_key, config, transport)
    finally:
        if ours is not None:  # one of the application may serve again
            with trio.move_on_after(CLOSE_SECONDS, shield=True):
                await ours.aclose()


async def _body(response: httpx.Response, limit: int) -> tuple[bytearray, str]:
    """Read the body up to *limit* bytes, and why it is of no use; let the connection go,
    whatever happens."""
    stream = cast("httpx.AsyncByteStream", response.stream)
    headers = response.headers
    content = bytearray()
    coding = headers.get("content-encoding", "identity").strip().lower()
    announced = headers.get("content-length", "")
    flaw = ""
    if coding not in ("", "identity"):
        flaw = f"a content coding that was not asked for ({clean_text(coding, 20)})"
    elif announced.isdecimal() and len(announced) < 20 and int(announced) > limit:
        flaw = f"{announced} bytes where {limit} are the limit"
    try:
        if not flaw:
            async for part in stream:
                content += part
                if len(content) > limit:
                    flaw = f"it is longer than {limit} bytes"
                    break
    finally:
        with trio.move_on_after(CLOSE_SECONDS, shield=True):
            await stream.aclose()
    return content, flaw


def _parsed(url: str) -> httpx.URL:
    # Cursors may be of fifty kilobytes, and none comes twice: they are not to be kept.
    return _url(url) if len(url) <= KEPT_URL_CHARS else httpx.URL(url)


@lru_cache(maxsize=256)  # the reads of a room repeat their few URLs, and parsing one is slow
def _url(text: str) -> httpx.URL:
    return httpx.URL(text)

"""REST: one request at a time, and what may be repeated.

Two rules shape this file. Requests never wait inside an HTTP library, where cancelling them does
harm: they wait for a token of their lane, and then have a connection of their own. And a request
that is not repeatable is never sent twice once its bytes may have reached the server: its caller
gets `OutcomeUnknownError`.

What is answered is read up to a limit in bytes, and no coding of it is undone: an answer that is
longer, packed or no JSON has a *flaw*, which costs its body but not its status.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from enum import Enum
from functools import partial
from typing import Any, Final, TypedDict, Unpack
from urllib.parse import urlencode, urlsplit

import attrs
import trio

from band_trio.config.agent import AgentConfig
from band_trio.config.credentials import Credentials
from band_trio.config.endpoints import Endpoints
from band_trio.config.proxies import PORTS
from band_trio.errors import BandApiError, BandConnectionError, OutcomeUnknownError
from band_trio.kit.bell import Bell
from band_trio.kit.hygiene import clean_text, clip
from band_trio.kit.limiter import ROOM, FairLimiter
from band_trio.kit.logs import RepeatedLog
from band_trio.link.net.dialler import dial, tls_context
from band_trio.link.net.retry_after import read_date, read_retry_after
from band_trio.link.rest.exchange import Carrier, CutOff, Reply, Unreached
from band_trio.link.rest.foreign import ForeignTransport
from band_trio.link.rest.transport import Transport
from band_trio.link.rest.tries import NotSentError, Tries
from band_trio.protocol import codec
from band_trio.protocol.errors import RemoteProtocolError
from band_trio.protocol.rest import WORDS_CHARS, ErrorBody

_repeated: Final = RepeatedLog(logging.getLogger(__name__))

USER_AGENT: Final = "band-trio"
JSON_BYTES: Final = 4 * 2**20
"""Longest JSON answer; the largest page that the platform makes stays far below."""
CONNECT_SHARE: Final = 2 / 3
"""Part of a try that the connect may take: given up before the try is, it has sent nothing for
sure."""
CLOSE_SECONDS: Final = 1.0
"""Longest end of all connections."""
UNSENDABLE: Final = "unsendable_request"
"""Our code for a request that cannot be written, such as one with an id that is no id."""
UNSENDABLE_STATUS: Final = 400
WHAT_CHARS: Final = 200
"""Characters of a request line in our errors."""
_TARGET: Final = re.compile(r"/[!-~]{0,65535}")
"""Path and query as they go on the wire; servers take no more."""


class Lane(Enum):
    """Which tokens a request takes; the lanes never wait for each other."""

    PRIORITY = "priority"
    """Claims and marks."""
    RUNTIME = "runtime"
    """What the runtime reads and reports by itself."""
    APPLICATION = "application"
    """What the code of a room asks for (`band_trio.shares.work_of`): tools, posts."""


class RequestParts(TypedDict, total=False):
    """What a request may carry besides its method and path."""

    json: Any
    """Body as a JSON value."""
    params: Mapping[str, Any]
    """Query; None leaves a name out."""
    lane: Lane
    """Found by who asks unless said otherwise."""
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
    _error: ErrorBody | None = None
    _date: bytes | None = attrs.field(default=None, eq=False)

    @property
    def ok(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300

    @property
    def data(self) -> Any:
        """The `data` of the envelope, or None."""
        return self.body.get("data") if isinstance(self.body, dict) else None

    @property
    def error(self) -> ErrorBody:
        """The `error` of the envelope, without secrets; an empty one where there is none."""
        return ErrorBody.read(self.body) if self._error is None else self._error

    @property
    def date(self) -> datetime | None:
        """When the platform made the answer, by its own clock: UTC, in whole seconds."""
        return None if self._date is None else read_date(self._date.decode("latin-1"))


class Api:
    """Sends requests to one platform as one agent. Made by `open_api`."""

    def __init__(self, rest_url: str, secret: str, config: AgentConfig, carrier: Carrier) -> None:
        self.rest_url: Final = rest_url
        """Where the requests go; what errors name."""
        self.config: Final = config
        self.secrets: Final = (secret,)
        self._base = urlsplit(rest_url).path
        application = max(1, config.rest_bulk // 2)
        self._lanes: dict[Lane, trio.CapacityLimiter | FairLimiter] = {
            Lane.PRIORITY: trio.CapacityLimiter(config.rest_priority),
            Lane.RUNTIME: trio.CapacityLimiter(max(1, config.rest_bulk - application)),
            Lane.APPLICATION: FairLimiter(application),
        }
        self._carrier = carrier
        self.denied: Final = Bell()
        """Rung by each 401: the key may not be good any more."""

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
        try:
            target, headers, content = self._written(path, parts)
        except (ValueError, TypeError) as exc:
            return Answer(UNSENDABLE_STATUS, error=self._unsendable(method, path, exc))
        seconds = self.config.rest_try_seconds if within is None else within
        lane = parts.get("lane") or (Lane.RUNTIME if ROOM.get() is None else Lane.APPLICATION)
        tokens, task = self._lanes[lane], trio.lowlevel.current_task()
        reply, sending = None, False
        with trio.move_on_after(seconds):
            try:
                tokens.acquire_on_behalf_of_nowait(task)
            except trio.WouldBlock:
                await tokens.acquire_on_behalf_of(task)
            try:
                await trio.lowlevel.checkpoint_if_cancelled()
                sending = True
                limit = parts.get("max_bytes", JSON_BYTES)
                reply = await self._carrier.exchange(method, target, headers, content, limit)
            except Unreached as exc:
                raise NotSentError(
                    f"{self.rest_url} cannot be reached: {self._said(exc)}."
                ) from None
            except CutOff as exc:
                raise OutcomeUnknownError(
                    f"{self.rest_url} was cut off during {_what(method, path)}: {self._said(exc)}."
                ) from None
            finally:
                tokens.release_on_behalf_of(task)
        if reply is None:
            error = OutcomeUnknownError if sending else NotSentError
            raise error(f"{self.rest_url} gave no answer to {_what(method, path)} in time.")
        return self._answer(reply, method, path, raw=parts.get("raw", False))

    def _written(self, path: str, parts: RequestParts) -> tuple[str, Mapping[str, str], bytes]:
        """Return target, headers and body.

        Raises:
            ValueError, TypeError: this cannot go on the wire.
        """
        target = self._base + path
        params, headers = parts.get("params"), parts.get("headers", {})
        if params:
            query = {name: value for name, value in params.items() if value is not None}
            target = f"{target}?{urlencode(query)}" if query else target
        if not _TARGET.fullmatch(target):
            raise ValueError("no URL can hold that, or be so long")
        if "json" in parts:
            content = codec.dumps(parts["json"])
            headers = {**headers, "Content-Type": "application/json"}
        else:
            content = parts.get("content", b"")
        for value in headers.values():
            if not (value.isascii() and value.isprintable()):
                raise ValueError("no header can hold that")
        return target, headers, content

    def _unsendable(self, method: str, path: str, exc: Exception) -> ErrorBody:
        """Say that a request cannot be written; it is as if the platform had refused it."""
        return ErrorBody(UNSENDABLE, f"{_what(method, path)} cannot be sent: {self._said(exc)}")

    def _answer(self, reply: Reply, method: str, path: str, *, raw: bool) -> Answer:
        status, flaw = reply.status, reply.flaw
        if status == 401:
            self.denied.ring()
        date = reply.headers.get(b"date")
        if raw and status < 300 and not flaw:
            return Answer(status, bytes(reply.body), date=date)
        body = None
        if reply.body:
            try:
                body = codec.loads(reply.body)
            except RemoteProtocolError as exc:
                flaw = str(exc)
        if flaw:
            flaw = f"the answer {status} to {_what(method, path)} cannot be used: {flaw}"
            _repeated.warning("%s", flaw)
        if status < 300:
            return Answer(status, body, flaw=flaw, date=date)
        error = ErrorBody.read(body).cleaned(self.secrets)
        told = read_retry_after(reply.header, body)
        return Answer(status, body, told, flaw, error, date)

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
                refusal = self.refusal(answer)
                if not refusal.is_transient:
                    raise refusal
                may_have_worked |= refusal.may_have_worked
                wait = tries.after_no(answer.retry_after, refusal)
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
                refusal = self.refusal(answer)
                if refusal.may_have_worked:
                    raise OutcomeUnknownError(f"{method} {path}: {refusal}") from refusal
                if not refusal.is_transient:
                    raise refusal
                wait = tries.after_no(answer.retry_after, refusal)
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
    url, key = endpoints.rest_url, credentials.api_key
    parts = urlsplit(url)
    connect_seconds = config.rest_try_seconds * CONNECT_SHARE
    if config.rest_transport is not None:  # never closed by us: it may serve again
        origin = f"{parts.scheme}://{parts.netloc}"
        foreign = ForeignTransport(config.rest_transport, origin, _headers(key), connect_seconds)
        yield Api(url, key, config, foreign)
        return
    if parts.scheme == "https":
        tls_context(config.verify)  # what is wrong with it is wrong before anything is sent
    host = parts.netloc.removesuffix(f":{PORTS[parts.scheme]}")
    way = partial(dial, url, endpoints.rest_proxy, config.verify)
    ours = Transport(host, _headers(key), way, connect_seconds)
    try:
        yield Api(url, key, config, ours)
    finally:
        with trio.move_on_after(CLOSE_SECONDS, shield=True):
            await ours.aclose()


def _headers(key: str) -> dict[str, str]:
    return {
        "X-API-Key": key,
        "User-Agent": USER_AGENT,
        "Accept": "application/json",
        "Accept-Encoding": "identity",
    }


def _what(method: str, path: str) -> str:
    return clip(f"{method} {path}", WHAT_CHARS)

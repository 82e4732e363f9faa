"""A small HTTP server on loopback for scripted models: h11 on trio, one task per connection."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final

import attrs
import h11
import trio

from band_trio.testing.scripted_model import (
    CutTurn,
    ErrorTurn,
    RawTurn,
    ScriptedModel,
    ScriptOverError,
    ScriptTurn,
    SlowTurn,
)

_READ: Final = 65_536
_STATUSES: Final = frozenset(status.value for status in HTTPStatus)


@attrs.frozen
class HttpRequest:
    """A request with its body read."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


@attrs.frozen
class HttpAnswer:
    """An answer; one that is cut ends in the middle of its body."""

    status: int
    body: bytes
    headers: Mapping[str, str] = attrs.field(factory=dict)
    cut: bool = False

    @classmethod
    def of(cls, status: int, value: Any, **headers: str) -> HttpAnswer:
        """Return *value* as JSON."""
        return cls(status, json.dumps(value).encode(), headers)


Handler = Callable[[HttpRequest], Awaitable[HttpAnswer]]


@attrs.frozen
class ScriptedServer:
    """Where a scripted model listens."""

    model: ScriptedModel
    base_url: str
    """For the `base_url` of the provider's SDK."""
    api_key: str = "scripted-key"
    """The only key that is accepted."""


@asynccontextmanager
async def open_http(handler: Handler) -> AsyncGenerator[int]:
    """Serve *handler* on loopback until the block ends; yields the port."""
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port: int = listener.socket.getsockname()[1]

    async def connection(stream: trio.SocketStream) -> None:
        await _serve(stream, handler)

    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, connection, [listener])
        try:
            yield port
        finally:
            nursery.cancel_scope.cancel(reason="the scripted model is closed")


async def _serve(stream: trio.SocketStream, handler: Handler) -> None:
    """Answer one request after the other until either side closes."""
    wire = h11.Connection(h11.SERVER)
    async with stream:
        try:
            while (request := await _read(stream, wire)) is not None:
                await _answer(stream, wire, request, handler)
                if wire.our_state is not h11.DONE:
                    return
                wire.start_next_cycle()
        except (trio.BrokenResourceError, h11.RemoteProtocolError):
            return  # the client went away, as a cancelled one does


async def _read(stream: trio.SocketStream, wire: h11.Connection) -> HttpRequest | None:
    """Return the next request; None where the client is done."""
    head: h11.Request | None = None
    body = bytearray()
    while True:
        event = wire.next_event()
        if event is h11.NEED_DATA:
            wire.receive_data(await stream.receive_some(_READ))
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            headers = {name.decode(): value.decode("latin-1") for name, value in head.headers}
            return HttpRequest(head.method.decode(), head.target.decode(), headers, bytes(body))
        else:
            return None


async def _answer(
    stream: trio.SocketStream, wire: h11.Connection, request: HttpRequest, handler: Handler
) -> None:
    """Run the handler until it has an answer, or the client has gone away."""
    answers: list[HttpAnswer] = []

    async def handle() -> None:
        answers.append(await handler(request))
        nursery.cancel_scope.cancel(reason="answered")

    async def watch() -> None:
        try:
            data = await stream.receive_some(_READ)
        except trio.BrokenResourceError:
            data = b""
        if data:
            wire.receive_data(data)  # a next request, which waits its turn
        else:
            nursery.cancel_scope.cancel(reason="the client went away")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(handle)
        nursery.start_soon(watch)
    if not answers:
        raise trio.BrokenResourceError("the client went away")
    answer = answers[0]
    headers = {"content-type": "application/json", **answer.headers}
    headers["content-length"] = str(len(answer.body))
    reason = HTTPStatus(answer.status).phrase if answer.status in _STATUSES else ""
    head = h11.Response(
        status_code=answer.status, headers=list(headers.items()), reason=reason.encode()
    )
    await _send(stream, wire, head)
    if answer.cut:
        await _send(stream, wire, h11.Data(data=answer.body[: len(answer.body) // 2]))
        wire.send_failed()
        return
    await _send(stream, wire, h11.Data(data=answer.body))
    await _send(stream, wire, h11.EndOfMessage())


async def _send(stream: trio.SocketStream, wire: h11.Connection, event: h11.Event) -> None:
    data = wire.send(event)
    if data:
        await stream.send_all(data)


# --------------------------------------------------------------------------- from script to HTTP


@attrs.frozen
class Speech:
    """How a provider says things over HTTP."""

    path: str
    broken_rule: Callable[[dict[str, Any]], str | None]
    """Which documented rule a request breaks, if any."""
    success: Callable[[ScriptedModel, ScriptTurn, dict[str, Any]], dict[str, Any]]
    failure: Callable[[int, str], dict[str, Any]]


async def respond(
    speech: Speech, model: ScriptedModel, key: str, request: HttpRequest
) -> HttpAnswer:
    """Answer one request as the provider would."""
    if (request.method, request.path.split("?")[0]) != ("POST", speech.path):
        return HttpAnswer.of(404, speech.failure(404, f"no such path: {request.path}"))
    if key not in (request.headers.get("x-api-key"), _bearer(request)):
        return HttpAnswer.of(401, speech.failure(401, "the key is wrong"))
    body: dict[str, Any] = json.loads(request.body)
    if body.get("stream"):
        return HttpAnswer.of(400, speech.failure(400, "scripted models do not stream"))
    broken = speech.broken_rule(body)
    if broken is not None:
        model.requests.append(body)
        model.violations.append(broken)
        return HttpAnswer.of(400, speech.failure(400, broken))
    try:
        turn = model.next_turn(body)
    except ScriptOverError as exc:
        return HttpAnswer.of(400, speech.failure(400, str(exc)))
    if isinstance(turn, SlowTurn):
        await trio.sleep(turn.seconds)
        turn = turn.then
    return _worded(speech, model, turn, body)


def _bearer(request: HttpRequest) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _worded(
    speech: Speech, model: ScriptedModel, turn: ScriptTurn, body: dict[str, Any]
) -> HttpAnswer:
    if isinstance(turn, ErrorTurn):
        wait = {} if turn.retry_after is None else {"retry-after": f"{turn.retry_after:g}"}
        return HttpAnswer.of(turn.status, speech.failure(turn.status, turn.message), **wait)
    if isinstance(turn, RawTurn):
        return HttpAnswer(turn.status, turn.body, {"content-type": turn.content_type})
    if isinstance(turn, CutTurn):
        return HttpAnswer(200, b"{" + b" " * 200 + b"}", cut=True)
    return HttpAnswer.of(200, speech.success(model, turn, body))


def calls_of(turn: ScriptTurn) -> tuple[Any, ...]:
    """Return the tool calls that an answer makes."""
    return getattr(turn, "calls", None) or ((turn,) if hasattr(turn, "args") else ())

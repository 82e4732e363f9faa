"""The REST face: ASGI in, a pure route in the middle, ASGI out; faults strike around the route.

A body is read only for a caller whose key is good for the route, and never beyond the route's limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

import attrs
import trio
from starlette.routing import Route as PathRoute
from starlette.routing import Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from band_trio.localband import agent_api, files_api, memories_api, tasks_api, user_api
from band_trio.localband.fault_rules import RequestFacts, RequestRule
from band_trio.localband.faults import Faults
from band_trio.localband.paging import read_query
from band_trio.localband.party import Party
from band_trio.localband.records import TEXT_CHARS, RequestRecord
from band_trio.localband.routes import Call, Reply, Route
from band_trio.localband.world import World, authenticate
from band_trio.protocol import codec
from band_trio.protocol.errors import RemoteProtocolError
from band_trio.stores.refusal import (
    Refusal,
    bad_request,
    forbidden,
    not_found,
    stopped,
    too_large,
)

ROUTES: Final = (
    *agent_api.ROUTES,
    *user_api.ROUTES,
    *tasks_api.ROUTES,
    *files_api.ROUTES,
    *memories_api.ROUTES,
)
"""The whole interface."""

CUT: Final = "localband.cut"
"""Extension of the ASGI scope, and type of a message: the transport can cut the connection."""

_JSON: Final = (b"content-type", b"application/json")


def make_app(world: World, faults: Faults) -> ASGIApp:
    """Build the application of all REST routes; upgrades are refused, sockets do not come here."""
    agents = _router(world, faults, [each for each in ROUTES if each.caller == "Agent"])
    persons = _router(world, faults, [each for each in ROUTES if each.caller == "User"])

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})
        elif scope.get("path", "").startswith("/api/v1/agent/"):
            await agents(scope, receive, send)
        else:
            await persons(scope, receive, send)

    return app


def _router(world: World, faults: Faults, routes: Iterable[Route]) -> Router:
    """Build a router whose misses are answered like everything else, as JSON."""
    by_path: dict[str, dict[str, Route]] = {}
    for route in routes:
        by_path.setdefault(route.path, {})[route.method] = route
    return Router(
        [PathRoute(path, Endpoint(world, faults, methods)) for path, methods in by_path.items()],
        redirect_slashes=False,
        default=Endpoint(world, faults, {}),
    )


@attrs.define(eq=False)
class Endpoint:
    """All methods of one path, as an ASGI application."""

    world: World
    faults: Faults
    methods: Mapping[str, Route]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        request = _Request.read(scope, self.methods.get(scope["method"]))
        try:
            route, _ = request.admit(self.world, self._miss)
            request.raw = await _read_body(scope, receive, route.limit(self.world))
        except Refusal as refusal:
            request.refusal = refusal
        except _GoneError:
            return  # in the middle of its body: it asked for nothing yet
        record = request.note(self.world)
        self.world.log.add(record)
        facts = _facts(record, request.raw)
        rule = self.faults.for_request(facts) if self.faults.requests else None
        if rule is None:
            await self._answer(record, self._serve(request), send)
        else:
            await self._disturb(rule, request, record, scope, send)

    async def _answer(self, record: RequestRecord, reply: Reply, send: Send) -> None:
        record.committed, record.status = True, reply.status
        await _send_reply(send, reply)
        self.world.log.changed()

    async def _disturb(
        self, rule: RequestRule, request: _Request, record: RequestRecord, scope: Scope, send: Send
    ) -> None:
        """Go through the steps of a fault: wait, act or not, hang, wait, cut or answer."""
        fault = rule.action
        await trio.sleep(fault.delay)
        reply = self._serve(request) if fault.commit else Reply(503)
        record.committed = fault.commit
        if fault.hang:
            await rule.lifted.wait()
        await trio.sleep(fault.delay_answer)
        if fault.cut:
            await _cut(scope, send, reached=not fault.unreachable)
        else:
            answer = fault.answer or reply
            record.status = answer.status
            await _send_reply(send, answer, fault.raw)
        self.world.log.changed()

    def _serve(self, request: _Request) -> Reply:
        try:
            if request.refusal is not None:
                raise request.refusal
            # The key once more: a body may take its time, and a fault too.
            route, party = request.admit(self.world, self._miss)
            return route.handle(request.check(self.world, route, party))
        except Refusal as refusal:
            headers = {}
            if refusal.status == 405:
                headers["allow"] = ", ".join(sorted(self.methods))
            if refusal.retry_after is not None:
                headers["retry-after"] = str(refusal.retry_after)
            return Reply(refusal.status, refusal.body(self.world.new_id()), headers)

    def _miss(self) -> Refusal:
        if self.methods:
            return Refusal(405, "method_not_allowed", "Method not allowed")
        return not_found("Route")


class _GoneError(Exception):
    """The client went away before it had said everything."""


@attrs.define(eq=False)
class _Request:
    """What an ASGI request says, before anything was checked."""

    method: str
    route: Route | None
    key: str
    headers: Mapping[str, str]
    """Those that the route declares."""
    path: str
    params: Mapping[str, str]
    query: str
    raw: bytes = b""
    refusal: Refusal | None = None
    """Why the body was not read, or not to its end."""

    @classmethod
    def read(cls, scope: Scope, route: Route | None) -> _Request:
        key = next((value for name, value in scope["headers"] if name == b"x-api-key"), b"")
        return cls(
            scope["method"],
            route,
            key.decode("latin-1"),
            _declared(scope, route.headers) if route is not None and route.headers else {},
            scope["path"],
            scope.get("path_params", {}),
            scope["query_string"].decode("latin-1"),
        )

    def note(self, world: World) -> RequestRecord:
        """Return the row of the log."""
        party = world.keys.get(self.key)
        path = self.path + (f"?{self.query}" if self.query else "")
        room_id, own_id = (self.params.get(name, "")[:TEXT_CHARS] for name in ("chat_id", "id"))
        return RequestRecord(
            at=world.elapsed(),
            method=self.method,
            path=path[:TEXT_CHARS],
            route=self.route.name if self.route is not None else "",
            party_id=party.id if party is not None else None,
            room_id=room_id or None,
            message_id=(own_id or None) if room_id else None,
        )

    def admit(self, world: World, miss: Callable[[], Refusal]) -> tuple[Route, Party]:
        """Check what needs no body, in the order of the contract: 401, no route, 403 kind of key,
        not offered."""
        party = authenticate(world, self.key)
        if self.route is None:
            raise miss()
        if party.kind != self.route.caller:
            raise forbidden(f"This route is for {self.route.caller.lower()} keys")
        world.offer.check(self.route.offer)
        return self.route, party

    def check(self, world: World, route: Route, party: Party) -> Call:
        """Check the rest: 404, 403 stopped, 4xx input."""
        room = route.room(world, party, self.params["chat_id"]) if route.room else None
        if route.posts and room is not None and room.is_stopped(party.id):
            raise stopped()
        values: dict[str, Any] = {}
        if self.query:
            values = read_query(parse_qsl(self.query, keep_blank_values=True), route.query)
        body = None
        if route.reads_body:
            body = self.raw if route.raw else _body(self.raw)
        return Call(world, party, self.params, values, body, room, self.headers)


def _declared(scope: Scope, names: Iterable[str]) -> dict[str, str]:
    given = {raw.decode("latin-1"): value.decode("latin-1") for raw, value in scope["headers"]}
    return {name: given[name] for name in names if name in given}


def _facts(record: RequestRecord, raw: bytes) -> RequestFacts:
    return RequestFacts(
        record.method,
        record.path,
        record.route,
        record.party_id,
        record.room_id,
        record.message_id,
        raw,
    )


def _body(raw: bytes) -> Any:
    if not raw:
        return None
    try:
        return codec.loads(raw)
    except RemoteProtocolError:
        raise bad_request("The body is not JSON") from None


async def _read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """Read the body of a request.

    Raises:
        Refusal: 413, it is announced as larger than *limit* bytes, or turns out to be.
        _GoneError: it broke off.
    """
    announced = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    # The first digits of a number that long are above every limit too.
    if announced.isdigit() and int(announced[:19]) > limit:
        raise too_large(limit)
    body = bytearray()  # many small parts would cost many times their size
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _GoneError
        body += message.get("body", b"")
        if len(body) > limit:
            raise too_large(limit)
        if not message.get("more_body"):
            return bytes(body)


async def _send_reply(send: Send, reply: Reply, raw: bytes | None = None) -> None:
    body = raw if raw is not None else b""
    is_json = reply.body is not None and not isinstance(reply.body, bytes)
    if raw is None and reply.body is not None:
        body = codec.dumps(reply.body) if is_json else reply.body
    headers = [(k.encode(), v.encode()) for k, v in reply.headers.items()]
    if is_json:
        headers.append(_JSON)
    if reply.status != 204:
        headers.append((b"content-length", str(len(body)).encode()))
    await send(_start(reply.status, headers))
    await send({"type": "http.response.body", "body": body})


def _start(status: int, headers: Iterable[tuple[bytes, bytes]]) -> Message:
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


async def _cut(scope: Scope, send: Send, *, reached: bool) -> None:
    """End the connection without an answer.

    A transport that cannot be told to gets an answer that breaks off in the middle: the server
    then closes the connection, and the client sees a protocol error.
    """
    if CUT in scope.get("extensions", {}):
        await send({"type": CUT, "reached": reached})
        return
    await send(_start(200, [_JSON, (b"content-length", b"1000")]))
    await send({"type": "http.response.body", "body": b"{", "more_body": True})

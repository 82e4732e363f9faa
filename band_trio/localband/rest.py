"""The REST face: ASGI in, a pure route in the middle, ASGI out; faults strike around the route."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

import attrs
import trio
from starlette.routing import Route as PathRoute
from starlette.routing import Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from band_trio.localband import agent_api, user_api
from band_trio.localband.faults import Faults, RequestFacts, RequestFault
from band_trio.localband.paging import read_query
from band_trio.localband.records import RequestRecord
from band_trio.localband.refusal import Refusal, bad_request, forbidden, not_found, stopped
from band_trio.localband.routes import Call, Reply, Route
from band_trio.localband.world import World, authenticate
from band_trio.protocol import codec
from band_trio.protocol.errors import RemoteProtocolError

CUT: Final = "localband.cut"
"""Extension of the ASGI scope, and type of a message: the transport can cut the connection."""

_JSON: Final = (b"content-type", b"application/json")


def make_app(world: World, faults: Faults, socket: ASGIApp) -> ASGIApp:
    """Build the application: all REST routes, and *socket* for everything that is an upgrade."""
    by_path: dict[str, dict[str, Route]] = {}
    for route in (*agent_api.ROUTES, *user_api.ROUTES):
        by_path.setdefault(route.path, {})[route.method] = route
    rest = Router(
        [PathRoute(path, Endpoint(world, faults, methods)) for path, methods in by_path.items()],
        redirect_slashes=False,
        default=Endpoint(world, faults, {}),
    )

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await socket(scope, receive, send)
        else:
            await rest(scope, receive, send)

    return app


@attrs.define(eq=False)
class Endpoint:
    """All methods of one path, as an ASGI application."""

    world: World
    faults: Faults
    methods: Mapping[str, Route]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        raw = await _read_body(receive)
        route = self.methods.get(scope["method"])
        headers = dict(scope["headers"])
        key = headers.get(b"x-api-key", b"").decode("latin-1")
        path: Mapping[str, str] = scope.get("path_params", {})
        query: str = scope["query_string"].decode("latin-1")
        party = self.world.keys.get(key)
        record = RequestRecord(
            at=self.world.elapsed(),
            method=scope["method"],
            path=scope["path"] + (f"?{query}" if query else ""),
            route=route.name if route is not None else "",
            party_id=party.id if party is not None else None,
            room_id=path.get("chat_id"),
            message_id=path.get("id") if "chat_id" in path else None,
        )
        self.world.log.add(record)
        fault = RequestFault()
        rule = self.faults.for_request(_facts(record, raw)) if self.faults.requests else None
        if rule is not None:
            fault = rule.action
            await trio.sleep(fault.delay)
        reply = None
        if fault.commit:
            record.committed = True
            reply = self._serve(route, key, path, query, raw)
        if rule is not None:
            if fault.hang:
                await rule.lifted.wait()
            await trio.sleep(fault.delay_answer)
        if fault.cut:
            await _cut(scope, send, reached=not fault.unreachable)
            return
        answer = fault.answer or reply or Reply(503)
        record.status = answer.status
        await _answer(send, answer, fault.raw)
        self.world.log.changed()

    def _serve(
        self, route: Route | None, key: str, path: Mapping[str, str], query: str, raw: bytes
    ) -> Reply:
        try:
            return (
                route.handle(self._check(route, key, path, query, raw)) if route else self._miss()
            )
        except Refusal as refusal:
            headers = {}
            if refusal.retry_after is not None:
                headers["retry-after"] = str(refusal.retry_after)
            return Reply(refusal.status, refusal.body(self.world.new_id()), headers)

    def _miss(self) -> Reply:
        if self.methods:
            raise Refusal(405, "method_not_allowed", "Method not allowed")
        raise not_found("Route")

    def _check(
        self, route: Route, key: str, path: Mapping[str, str], query: str, raw: bytes
    ) -> Call:
        """Check in the order of the contract: 401, 403 kind of key, 404, 403 stopped, 4xx input."""
        party = authenticate(self.world, key)
        if party.kind != route.caller:
            raise forbidden(f"This route is for {route.caller.lower()} keys")
        room = route.room(self.world, party, path["chat_id"]) if route.room else None
        if route.posts and room is not None and room.is_stopped(party.id):
            raise stopped()
        values = read_query(parse_qsl(query, keep_blank_values=True), route.query) if query else {}
        return Call(self.world, party, path, values, _body(raw) if route.reads_body else None, room)


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


async def _read_body(receive: Receive) -> bytes:
    message = await receive()
    body: bytes = message.get("body", b"")
    if not message.get("more_body"):
        return body
    chunks = [body]
    while message.get("more_body"):
        message = await receive()
        chunks.append(message.get("body", b""))
    return b"".join(chunks)


async def _answer(send: Send, reply: Reply, raw: bytes | None) -> None:
    body = raw if raw is not None else b""
    if raw is None and reply.body is not None:
        body = codec.dumps(reply.body)
    headers = [(k.encode(), v.encode()) for k, v in reply.headers.items()]
    if reply.body is not None:
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

"""`LocalMCPServer`: the room tools over streamable HTTP on loopback, for clients of this machine."""

from __future__ import annotations

import hmac
import random
import secrets
import socket
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Final, cast
from urllib.parse import urlsplit

import attrs
import trio
from hypercorn.config import Config, Sockets
from hypercorn.trio import serve
from hypercorn.typing import ASGIFramework
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import (
    StreamableHTTPASGIApp,
    StreamableHTTPSessionManager,
)
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from band_trio.errors import BandConfigError
from band_trio.mcp.registrations import MCPToolRegistration
from band_trio.mcp.server import MCPServer, Request

UNREAD_MS: Final = 3000
"""A client that does not take its bytes for so long is dropped; otherwise it holds up the end."""
BIND_TRIES: Final = 20
SESSIONS: Final = 1000
"""Most sessions at once; who wants one more gets a 503."""
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


class LocalMCPServer:
    """Serves *registrations* at `url`. Run it with `await nursery.start(server.serve)`.

    Clients send `Authorization: Bearer <token>`; *token* is random unless it is given, and an
    empty one asks for none, for clients that cannot send it. Requests must name this machine as
    their `Host`, so that no web page can reach the server by a name of its own. `GET /healthz`
    answers without a token.

    On a *room_bound* server each room has its own URL (`url_of`), and tools take no `chat_id`; a
    session stays with the room by whose URL it was opened.
    The port is a free one of the range; `port_min=0` leaves it to the system.
    """

    def __init__(
        self,
        name: str,
        registrations: Iterable[MCPToolRegistration],
        *,
        host: str = "127.0.0.1",
        port_min: int = 50_000,
        port_max: int = 60_000,
        http_path: str = "/mcp",
        room_bound: bool = False,
        token: str | None = None,
    ) -> None:
        if not 0 <= port_min <= port_max <= 65_535:
            raise BandConfigError(f"{port_min} to {port_max} is no range of ports.")
        if not http_path.startswith("/"):
            raise BandConfigError(f"http_path must begin with a slash, not {http_path!r}.")
        self.server = MCPServer(registrations, name=name)
        self.host = host
        self.room_bound = room_bound
        self.token = secrets.token_urlsafe(32) if token is None else token
        """What clients have to send; keep it out of logs."""
        self.port: int | None = None
        """The port, while it serves."""
        self._ports = (port_min, port_max)
        self._path = http_path

    def __repr__(self) -> str:
        return f"<LocalMCPServer {self.server.name} on port {self.port}>"

    @property
    def headers(self) -> dict[str, str]:
        """The headers that a client must send."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    @property
    def url(self) -> str:
        """Where clients connect.

        Raises:
            RuntimeError: it does not serve, or each room has its own URL.
        """
        if self.room_bound:
            raise RuntimeError("Each room has its own URL: see `url_of`.")
        return self._base() + self._path

    def url_of(self, room_id: str) -> str:
        """Return where clients for a room connect, on a room-bound server.

        Raises:
            RuntimeError: it does not serve, or is not room-bound.
        """
        if not self.room_bound:
            raise RuntimeError("This server is not room-bound: see `url`.")
        return f"{self._base()}/rooms/{room_id}{self._path}"

    def _base(self) -> str:
        if self.port is None:
            raise RuntimeError("This server does not serve: start it with `serve`.")
        return f"http://{_bracketed(self.host)}:{self.port}"

    async def serve(
        self, *, task_status: trio.TaskStatus[LocalMCPServer] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve until cancelled; started once the port is bound.

        Raises:
            OSError: no port is free.
        """
        manager = StreamableHTTPSessionManager(
            self.server.protocol(_room_of), max_sessions=SESSIONS
        )
        path = f"/rooms/{{room_id}}{self._path}" if self.room_bound else self._path
        sessions: ASGIApp = StreamableHTTPASGIApp(manager)
        routes = [
            Route(path, endpoint=_InItsRoom(sessions) if self.room_bound else sessions),
            Route("/healthz", endpoint=_healthy),
        ]
        guarded = _Guard(Starlette(routes=routes), _LOOPBACK | {self.host}, self.token)
        with self._listening() as listener:
            stop = trio.Event()
            # The cast: both sides mean ASGI, each with types of its own.
            app = cast("ASGIFramework", guarded)
            run = partial(serve, app, _Config(listener), shutdown_trigger=stop.wait, mode="asgi")
            async with manager.run(), trio.open_nursery() as nursery:
                await nursery.start(run)
                self.port = listener.getsockname()[1]
                try:
                    task_status.started(self)
                    await trio.sleep_forever()
                finally:
                    self.port = None
                    stop.set()

    def _listening(self) -> socket.socket:
        """Return a socket that is bound to a free port."""
        low, high = self._ports
        ports = [0]
        if low:
            ports = random.sample(range(low, high + 1), min(BIND_TRIES, high - low + 1))
        for port in ports[:-1]:
            with suppress(OSError):  # taken
                return _bound(self.host, port)
        return _bound(self.host, ports[-1])


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted sockets inherit it. Linux only; elsewhere the bound is missing.
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_MS)
        listener.bind((host, port))
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


class _Config(Config):
    """Hypercorn's options, for one socket that is bound already."""

    def __init__(self, listener: socket.socket) -> None:
        super().__init__()
        self._listener = listener
        self.errorlog = None
        self.accesslog = None
        self.include_server_header = False
        self.graceful_timeout = 0.5

    def create_sockets(self) -> Sockets:
        """Return the socket."""
        return Sockets(secure_sockets=[], insecure_sockets=[self._listener], quic_sockets=[])


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _room_of(request: Request) -> str | None:
    http: HttpRequest | None = request.request
    return None if http is None else http.path_params.get("room_id")


@attrs.frozen
class _InItsRoom:
    """Keeps a session in the room by whose URL it was opened.

    The manager serves a session to the party only that opened it: to it the room is the party, and
    a session that comes by the URL of another room does not exist.
    """

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        room_id: str = scope["path_params"]["room_id"]
        party = AuthenticatedUser(AccessToken(token="", client_id=room_id, scopes=[]))
        await self.app({**scope, "user": party}, receive, send)


async def _healthy(_: HttpRequest) -> Response:  # noqa: ASYNC124 - a sync one would run in a thread
    return JSONResponse({"status": "ok"})


@attrs.frozen
class _Guard:
    """Lets a request pass if it names this machine and, but for the health check, has the token."""

    app: ASGIApp
    hosts: frozenset[str]
    token: str = attrs.field(repr=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (refusal or self.app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if _hostname("//" + headers.get(b"host", b"").decode("latin-1")) not in self.hosts:
            return PlainTextResponse("this server is for clients of its own machine", 421)
        origin = headers.get(b"origin")
        if origin is not None and _hostname(origin.decode("latin-1")) not in self.hosts:
            return PlainTextResponse("this server is not for web pages of others", 403)
        if not self.token or scope["path"] == "/healthz":
            return None
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        known = hmac.compare_digest(given.strip(b" "), self.token.encode())
        if known and scheme.lower() == b"bearer":
            return None
        return PlainTextResponse("a token is needed", 401, {"WWW-Authenticate": "Bearer"})


def _hostname(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None

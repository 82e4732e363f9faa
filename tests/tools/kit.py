"""A recorded platform for one room behind the real REST client, and tools on top of it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import httpx  # noqa: ASYNC127 - the transport of the tests

from band_trio.config.agent import AgentConfig
from band_trio.config.credentials import Credentials
from band_trio.config.endpoints import Endpoints
from band_trio.link.rest.api import open_api
from band_trio.link.rest.rest import RestClient
from band_trio.tools.agent_tools import AgentTools
from band_trio.tools.ledger import Ledger

ROOM = "room-1"
ME = "agent-me"
KEY = "a/secret+key"  # of no recognisable shape
MARIA = {"id": "user-maria", "type": "User", "name": "Maria", "handle": "maria"}
SAM_X = {"id": "agent-sam-x", "type": "Agent", "name": "Sam", "handle": "x/sam"}
SAM_Y = {"id": "agent-sam-y", "type": "Agent", "name": "Sam", "handle": "y/sam"}
SELF = {"id": ME, "type": "Agent", "name": "Scribe", "handle": "maria/scribe"}
HELPER = {"id": "agent-helper", "type": "Agent", "name": "Helper", "handle": "x/helper"}

Answer = httpx.Response | Exception | Callable[[httpx.Request], Awaitable[httpx.Response]]


def refusal(status: int, code: str, message: str, **extra: Any) -> httpx.Response:
    """An error as the platform words it."""
    return httpx.Response(status, json={"error": {"code": code, "message": message, **extra}})


@attrs.define(eq=False)
class Platform:
    """Answers the routes that the chat tools use; what is posted is kept."""

    participants: list[dict[str, Any]] = attrs.field(factory=lambda: [SELF, MARIA])
    peers: list[dict[str, Any]] = attrs.field(factory=lambda: [HELPER])
    requests: list[tuple[str, str, Any]] = attrs.field(factory=list)
    """Method, path behind `/api/v1/agent`, body."""
    answers: list[tuple[str, str, Answer, bool]] = attrs.field(factory=list)

    def answer(self, method: str, part: str, answer: Answer, *, commit: bool = False) -> None:
        """Give *answer* to the next request of *method* whose path ends with *part*.

        With *commit* the request takes effect first.
        """
        self.answers.append((method, part, answer, commit))

    def paths(self, method: str) -> list[str]:
        """The paths of all requests of one method."""
        return [path for each, path, _ in self.requests if each == method]

    def bodies(self, part: str) -> list[Any]:
        """The bodies of all posts whose path ends with *part*."""
        return [
            body for each, path, body in self.requests if each == "POST" and path.endswith(part)
        ]

    async def handle(self, request: httpx.Request) -> httpx.Response:
        assert request.headers["X-API-Key"] == KEY
        assert KEY not in str(request.url)
        path = request.url.path.removeprefix("/api/v1/agent")
        body = json.loads(request.content) if request.content else None
        self.requests.append((request.method, path, body))
        for planned in self.answers:
            method, part, answer, commit = planned
            if method == request.method and path.endswith(part):
                self.answers.remove(planned)
                if commit:
                    self._usual(request, path, body)
                if isinstance(answer, Exception):
                    raise answer
                return answer if isinstance(answer, httpx.Response) else await answer(request)
        return self._usual(request, path, body)

    def _usual(self, request: httpx.Request, path: str, body: Any) -> httpx.Response:
        route = (request.method, path.rsplit("/", 1)[-1])
        match route:
            case ("GET", "participants"):
                return httpx.Response(200, json={"data": self.participants})
            case ("POST", "participants"):
                return self._add(body["participant"])
            case ("DELETE", person_id):
                gone = [p for p in self.participants if p["id"] == person_id]
                self.participants = [p for p in self.participants if p["id"] != person_id]
                return httpx.Response(200, json={"data": gone[0]})
            case ("GET", "peers"):
                return self._peers(request)
            case ("POST", "chats"):
                return httpx.Response(201, json={"data": {"id": "room-new"}})
            case ("POST", "messages"):
                return httpx.Response(201, json={"data": self._receipt(body["message"])})
            case ("POST", "events"):
                kind = body["event"]["message_type"]
                data = {"id": "event-1", "success": True, "message_type": kind}
                return httpx.Response(201, json={"data": data})
            case ("GET", "context"):
                rows = [{"id": "m1", "content": "hi", "message_type": "text", "sender_id": "u",
                         "sender_type": "User", "inserted_at": "2025-01-01T00:00:00Z"}]  # fmt: skip
                return httpx.Response(200, json={"data": rows, "metadata": {"has_more": False}})
        return refusal(404, "not_found", f"no route {route}")

    def _add(self, asked: dict[str, Any]) -> httpx.Response:
        peer = next(
            p for p in [*self.peers, *self.participants] if p["id"] == asked["participant_id"]
        )
        if peer in self.participants:
            return refusal(409, "conflict", "already a participant")
        self.participants = [*self.participants, peer]
        return httpx.Response(201, json={"data": {**peer, "role": asked["role"]}})

    def _peers(self, request: httpx.Request) -> httpx.Response:
        page = int(request.url.params["page"])
        size = int(request.url.params["page_size"])
        asked = request.url.params.get("not_in_chat") == ROOM
        inside = {p["id"] for p in self.participants if asked}
        free = [p for p in self.peers if p["id"] not in inside]
        pages = max(1, -(-len(free) // size))
        meta = {"page": page, "page_size": size, "total_count": len(free), "total_pages": pages}
        rows = free[(page - 1) * size : page * size]
        return httpx.Response(200, json={"data": rows, "metadata": meta})

    def _receipt(self, message: dict[str, Any]) -> dict[str, Any]:
        recipients = [{"handle": "", **mention} for mention in message["mentions"]]
        return {"id": "message-1", "success": True, "recipients": recipients}


@attrs.define(eq=False)
class Ear:
    """A runtime that only listens."""

    heard: list[Any] = attrs.field(factory=list)

    def stop_observed(self) -> None:
        self.heard.append("stop")

    def participant_seen(self, participant: Any) -> None:
        self.heard.append(("seen", participant["id"]))

    def participant_gone(self, participant_id: str) -> None:
        self.heard.append(("gone", participant_id))

    def roster_read(self, participants: list[dict[str, Any]]) -> None:
        self.heard.append(("roster", [p["id"] for p in participants]))

    def detached(self) -> None:
        self.heard.append("detached")

    def posted(self, kind: str, outcome: str) -> None:
        self.heard.append((kind, outcome))


@asynccontextmanager
async def open_rest(platform: Platform, **options: Any) -> AsyncGenerator[RestClient]:
    """The real REST client, with *platform* behind it."""
    config = AgentConfig(rest_transport=httpx.MockTransport(platform.handle), **options)
    endpoints = Endpoints("http://localhost:9", "ws://localhost:9/socket")
    async with open_api(endpoints, Credentials(ME, KEY), config) as api:
        yield RestClient(api)


@asynccontextmanager
async def open_tools(
    platform: Platform, *, ear: Ear | None = None, **options: Any
) -> AsyncGenerator[AgentTools]:
    """Tools of one turn in the room of *platform*."""
    async with open_rest(platform) as rest:
        turn = Ledger(listener=ear or Ear())
        people = list(platform.participants)
        yield AgentTools(ROOM, rest, people, agent_id=ME, turn=turn, **options)

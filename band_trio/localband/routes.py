"""What a REST route is: a pure function from a checked call to a reply."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import attrs

from band_trio.localband.offer import Feature
from band_trio.localband.paging import Page, Parse
from band_trio.localband.party import Agent, Party, User
from band_trio.localband.room import Room
from band_trio.localband.world import World
from band_trio.protocol.errors import LocalStateError

JSON_BYTES: Final = 1024 * 1024
"""Largest body of a request, but for those that carry the content of a message: the largest of the
others, an event, has 16 384 characters and 65 536 bytes of metadata (platform docs, Limits)."""

Finder = Callable[[World, Party, str], Room]
"""Finds the room of a path for its caller, or refuses with 404."""


@attrs.frozen
class Reply:
    """An answer; *body* None means no body at all, bytes are sent as they are."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = attrs.field(factory=dict)


def data(value: Any, status: int = 200) -> Reply:
    """Wrap *value* as the platform does."""
    return Reply(status, {"data": value})


def listed(rows: list[Any], metadata: Mapping[str, Any]) -> Reply:
    """Return a page of a list."""
    return Reply(200, {"data": rows, "metadata": metadata})


def paged(rows: list[Any], page: Page, headers: Mapping[str, str], **more: Any) -> Reply:
    """Return a page of a view; *headers* only where it was asked for by number."""
    body = {"data": rows, "metadata": page.metadata | more}
    return Reply(200, body, headers if page.deprecated else {})


@attrs.frozen
class Call:
    """A request that passed all checks of its route."""

    world: World
    party: Party
    path: Mapping[str, str]
    query: Mapping[str, Any]
    """Declared parameters that were given, parsed."""
    body: Any
    """The parsed JSON body, or its bytes where the route takes those; None where it takes none."""
    found: Room | None
    headers: Mapping[str, str] = attrs.field(factory=dict)
    """Declared headers that were given, by their lower-case names."""

    @property
    def room(self) -> Room:
        """The room of the path."""
        if self.found is None:
            raise LocalStateError("the route has no room")
        return self.found

    @property
    def agent(self) -> Agent:
        """The caller, on routes for agents."""
        if not isinstance(self.party, Agent):
            raise LocalStateError("the route is not for agents")
        return self.party

    @property
    def user(self) -> User:
        """The caller, on routes for persons."""
        if not isinstance(self.party, User):
            raise LocalStateError("the route is not for users")
        return self.party


@attrs.frozen
class Route:
    """One line of the interface."""

    name: str
    """How tests and fault rules call it."""
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    """With `{chat_id}`, `{id}` and the like."""
    handle: Callable[[Call], Reply]
    caller: Literal["Agent", "User"]
    room: Finder | None = None
    """How the room of `{chat_id}` is found."""
    query: Mapping[str, Parse] = attrs.field(factory=dict)
    reads_body: bool = False
    body_bytes: int = JSON_BYTES
    """More is refused with 413, on routes that do not look at their body too."""
    raw: bool = False
    """The body is a file: bytes, and as large as files may be."""
    headers: tuple[str, ...] = ()
    """What it reads of the headers, lower-case names."""
    offer: Feature | None = None
    """What it belongs to; refused where that is not offered."""
    posts: bool = False
    """Refused with 403 while the agent is stopped in the room."""

    def limit(self, world: World) -> int:
        """Return how many bytes a body may have."""
        return world.files.most_bytes if self.raw else self.body_bytes

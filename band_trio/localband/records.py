"""What happened at the platform, in order: for assertions of tests and for a transcript."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, Literal, TypeVar

import attrs

LOG_ROWS: Final = 200_000
"""Older rows are forgotten: a platform that runs for days must not grow for ever."""
TEXT_CHARS: Final = 500
"""Texts that clients choose are kept up to here: a request without a key is noted too."""


@attrs.define(eq=False, kw_only=True)
class RequestRecord:
    """A REST request, noted when it arrived."""

    at: float
    """Seconds since the platform was opened."""
    method: str
    path: str
    """With the query, if there is one."""
    route: str
    """Name of the route, for example `next` or `post_message`; empty for an unknown path."""
    party_id: str | None = None
    """Whose key it was."""
    room_id: str | None = None
    message_id: str | None = None
    committed: bool = False
    """Whether the platform acted on it, whatever the client was told."""
    status: int | None = None
    """What was answered; None while unanswered, or when the connection was cut."""


@attrs.frozen(kw_only=True)
class PushRecord:
    """A push to one socket."""

    at: float
    party_id: str
    session: int
    topic: str
    event: str
    payload_id: str | None
    sent: bool
    """False when a fault swallowed it."""


@attrs.frozen(kw_only=True)
class SocketRecord:
    """Something about one socket."""

    at: float
    party_id: str
    session: int
    """Number of the socket, counted from 1 over the platform's life."""
    what: Literal["opened", "joined", "rejected", "left", "heartbeat", "ended", "refused"]
    detail: str = ""
    """The topic, the reason of the end, or the status of a refused upgrade."""


@attrs.frozen(kw_only=True)
class ActivityRecord:
    """A working report of an agent."""

    at: float
    agent_id: str
    room_id: str
    working: bool
    kind: str
    answer: bool


Record = RequestRecord | PushRecord | SocketRecord | ActivityRecord
R = TypeVar("R", RequestRecord, PushRecord, SocketRecord, ActivityRecord)


def _nothing() -> None:
    """Nobody wants to know."""


@attrs.define(eq=False)
class Log:
    """The newest rows, oldest first."""

    rows: deque[Record] = attrs.field(factory=lambda: deque(maxlen=LOG_ROWS), repr=False)
    changed: Callable[[], object] = attrs.field(default=_nothing, repr=False)
    """Called at every row, and when a row was completed."""

    def add(self, record: Record) -> None:
        """Note *record*."""
        self.rows.append(record)
        self.changed()

    def of(self, kind: type[R]) -> Iterator[R]:
        """Return the rows of one kind."""
        return (row for row in self.rows if isinstance(row, kind))

    def requests(
        self, route: str | None = None, *, room_id: str | None = None, party_id: str | None = None
    ) -> list[RequestRecord]:
        """Return requests, all or those of a route, a room, a party."""
        return [
            row
            for row in self.of(RequestRecord)
            if (route is None or row.route == route)
            and (room_id is None or row.room_id == room_id)
            and (party_id is None or row.party_id == party_id)
        ]

    def clear(self) -> None:
        """Forget everything so far."""
        self.rows.clear()

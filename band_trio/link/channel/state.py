"""What is known of the connection, as plain values, and who wants to hear of changes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import attrs


class LinkListener(Protocol):
    """Hears of everything that happens on the connection.

    All methods are synchronous and run in the reader's or the supervisor's task: they note what
    happened and return. One that raises ends `BandLink.serve` with its error.
    """

    def connected(self, epoch: int) -> None:
        """A socket is connected, the *epoch*-th of this link; nothing is joined on it yet."""

    def disconnected(self, epoch: int, reason: str) -> None:
        """The socket of *epoch* is gone. Once per `connected`."""

    def joined(self, topic: str) -> None:
        """A wanted topic was joined: pushes before this moment are lost."""

    def lost(self, topic: str, reason: str) -> None:
        """A topic is not joined, although it is wanted; it is tried again."""

    def pushed(self, topic: str, event: str, payload: dict[str, Any]) -> None:
        """An event came in on a joined topic.

        Raises:
            RemoteProtocolError: it cannot be read; it is dropped and counted.
        """


@attrs.frozen
class LinkHealth:
    """A snapshot of the connection."""

    connected: bool
    epoch: int
    last_heartbeat_reply: float | None
    """Trio time; None before the first reply."""
    joined: int
    """How many topics are joined."""
    pending: list[str]
    """Wanted topics that are not."""
    dropped_frames: int
    """Frames and events that could not be read, since the start."""


@attrs.define(eq=False)
class LinkState:
    """The values behind the snapshot; the parts of the link write them."""

    close_by: Callable[[], float] = lambda: math.inf
    """By when the last close must be over, in trio's time."""
    connected: bool = False
    """True exactly while an epoch serves."""
    epoch: int = 0
    """Number of the current socket, or of the last one; 0 before the first."""
    last_heartbeat_reply: float | None = None
    dropped: int = 0
    last_ref: int = 0

    def next_ref(self) -> str:
        """Return a fresh reference: one counter per link, never reset (platform docs, Frames)."""
        self.last_ref += 1
        return str(self.last_ref)

"""How the agent is doing, as plain data; a snapshot without side effects."""

from __future__ import annotations

from collections import Counter

import attrs
import trio

from band_trio.runtime.journal.entries import Phase
from band_trio.runtime.problems import Problems
from band_trio.runtime.run.parts import Parts


@attrs.frozen
class Health:
    """What an operator wants to see."""

    connected: bool = False
    """Whether a socket serves at this moment."""
    epoch: int = 0
    """Number of the socket connection."""
    last_heartbeat_reply: float | None = None
    """In trio's time."""
    joined_topics: int = 0
    """How many topics are joined."""
    pending_topics: tuple[str, ...] = ()
    """Wanted and not joined."""
    dropped_frames: int = 0
    """Frames and events that could not be read, since the start."""
    rooms: dict[str, int] = attrs.field(factory=dict)
    """State → number of rooms; `starting` are those that are wanted and not served yet."""
    held: int = 0
    """Rooms whose next message waits."""
    given_up: int = 0
    """Messages that are not run any more, as far as remembered."""
    stalled: tuple[str, ...] = ()
    """Rooms whose turn was told to end and does not."""
    unread: dict[str, float] = attrs.field(factory=dict)
    """Rooms whose list could not be read at the last try → seconds since the first such try."""
    unconfirmed: int = 0
    """Marks that the platform has not confirmed."""
    oldest_unconfirmed: float = 0.0
    """Seconds since the oldest of them was recorded."""
    contact_events: int = 0
    """Contact events that wait to be handled."""
    problems: tuple[str, ...] = ()
    """Hooks that failed or overran, and code that blocked the thread."""


def health_of(parts: Parts | None, problems: Problems) -> Health:
    """Collect a snapshot of a run; without its parts, which are not made yet, there is little."""
    if parts is None:
        return Health(problems=problems.texts())
    link, presence, journals = parts.link.health(), parts.presence, parts.journals
    rooms = list(presence.rooms())
    states = Counter(room.state.value for room in rooms)
    if starting := presence.starting():
        states["starting"] = starting
    return Health(
        connected=link.connected,
        epoch=link.epoch,
        last_heartbeat_reply=link.last_heartbeat_reply,
        joined_topics=link.joined,
        pending_topics=tuple(link.pending),
        dropped_frames=link.dropped_frames,
        rooms=dict(states),
        held=sum(room.journal.held is not None for room in rooms),
        given_up=sum(room.journal.entries.count(Phase.GIVEN_UP) for room in rooms),
        stalled=tuple(presence.stalled()),
        unread={
            room.room_id: trio.current_time() - room.unread_since
            for room in rooms
            if room.unread_since is not None
        },
        unconfirmed=journals.unsettled(),
        oldest_unconfirmed=journals.oldest(),
        contact_events=len(parts.contacts.book.waiting),
        problems=problems.texts(),
    )

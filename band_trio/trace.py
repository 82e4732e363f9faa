"""What the runtime did, as values: the one interface for tests, metrics and the demo.

`AgentConfig(observer=f)` calls `f(event)` synchronously, in the task where it happened. An
observer must not block; one that raises is logged and changes nothing.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

import attrs

from band_trio.kit.hygiene import traceback_text
from band_trio.kit.leaves import program_end

_log: Final = logging.getLogger(__name__)


@attrs.frozen
class TraceEvent:
    """Base of everything an observer sees."""


@attrs.frozen
class Claimed(TraceEvent):
    """A claim got an answer; only `claimed` lets a handler start."""

    room_id: str
    message_id: str
    answer: str
    """`claimed`, `stopped`, `gone`, `refused`, `later`, `denied` or `unknown`."""


@attrs.frozen
class Started(TraceEvent):
    """A handler is about to be called."""

    room_id: str
    message_id: str
    attempt: int
    bootstrap: bool


@attrs.frozen
class Ended(TraceEvent):
    """The handler and its nursery have ended."""

    room_id: str
    message_id: str
    how: str
    """`returned`, `raised`, or the reason for which the turn was ended, as `interrupt`."""


@attrs.frozen
class Recorded(TraceEvent):
    """The fate of a claimed message was decided: exactly one per turn."""

    room_id: str
    message_id: str
    kind: str
    """`processed`, `failed`, or `released:` and the reason."""


@attrs.frozen
class Marked(TraceEvent):
    """One try to tell the platform got a result."""

    room_id: str
    message_id: str
    kind: str
    result: str
    """`accepted`, `rejected`, `not_found`, `stopped`, `bad_text` or `unconfirmed`."""


@attrs.frozen
class GivenUp(TraceEvent):
    """A message has used up its runs and is never run again."""

    room_id: str
    message_id: str


@attrs.frozen
class Consumed(TraceEvent):
    """An adapter took a message as a chat control: it is marked without a turn."""

    room_id: str
    message_id: str


@attrs.frozen
class Posted(TraceEvent):
    """A message or event of ours was posted, or not."""

    room_id: str
    kind: str
    outcome: str


@attrs.frozen
class ActivityReported(TraceEvent):
    """A working report was sent and answered, or failed."""

    room_id: str
    working: bool


@attrs.frozen
class Read(TraceEvent):
    """A list of the platform was read."""

    room_id: str
    kind: str
    """`next`, `messages`, `participants`, `context`; with an empty room_id `chats` or `contacts`."""


@attrs.frozen
class ContactHandled(TraceEvent):
    """A contact event was handled; *worked* is false for one that failed too often."""

    kind: str
    """As in `band_trio.ContactEvent`, `contact_added` for example."""
    subject_id: str
    """Id of the request or the contact."""
    worked: bool


@attrs.frozen
class Controlled(TraceEvent):
    """A control signal reached a room; *applied* is false for a copy."""

    mode: str
    room_id: str
    applied: bool


@attrs.frozen
class Joined(TraceEvent):
    """A topic was joined, or the join failed."""

    topic: str
    result: str
    """`ok`, or the reason it failed."""


@attrs.frozen
class EpochBegan(TraceEvent):
    """A socket is connected and serving; the number rises with each."""

    number: int


@attrs.frozen
class EpochEnded(TraceEvent):
    """The socket is gone."""

    number: int
    reason: str


@attrs.frozen
class RoomServed(TraceEvent):
    """A room's child is about to start."""

    room_id: str


@attrs.frozen
class CleanedUp(TraceEvent):
    """`on_cleanup` of a room has ended."""

    room_id: str


@attrs.frozen
class ShutDown(TraceEvent):
    """The run is over; *graceful* as in its report."""

    graceful: bool


Observer = Callable[[TraceEvent], None]


def tracer_of(observer: Observer | None) -> Observer:
    """Return what hands events to the observer; without one, what costs least."""
    if observer is None:
        return deque[TraceEvent](maxlen=0).append  # keeps nothing
    return partial(_observe, observer)


def _observe(observer: Observer, event: TraceEvent) -> None:
    try:
        observer(event)
    except BaseException as exc:  # noqa: ASYNC103 - it never ends the run
        if program_end(exc) is not None:
            raise
        name = type(event).__name__
        _log.error("the observer failed on %s; the runtime goes on\n%s", name, traceback_text(exc))


Tracer: TypeAlias = Observer
"""Called with each event; never raises, but for what ends the program."""

"""Which topics are wanted, and how reality follows: a table without I/O.

`wanted` outlives every socket. Everything else is about the current one: `begin` forgets it.
Frames go in by `receive`, time by `advance`, which returns the frames to send; `wake_at` says
when to come back. Reports go out as they happen, by the `report` callback.

A topic is joined again after 0.5·2^n s, at most 30, for as long as it is wanted, whatever made it
fail. At most `parallel` joins wait for an answer at a time; the first topic is asked before all
others, and they wait for its answer.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable
from enum import StrEnum
from typing import Final

import attrs

from band_trio.kit.backoff import half_jitter
from band_trio.protocol.phoenix import Channel, Frame, Phase, Signal

LEAVE_SECONDS: Final = 1.0
"""Longest wait for the answer to a leave; the topic is then as good as left."""
REJOIN_BASE_SECONDS: Final = 0.5
REJOIN_CAP_SECONDS: Final = 30.0
"""A topic that stayed joined for this long begins its back-off anew."""


class TopicChange(StrEnum):
    """What became of a topic."""

    JOINED = "joined"
    REJECTED = "rejected"
    TIMED_OUT = "timed out"
    CRASHED = "crashed"
    CLOSED = "closed"


Report = Callable[[str, TopicChange, str], None]
"""Topic, what became of it, and a reason in words."""


@attrs.define(eq=False)
class _Member:
    """A topic on the current socket."""

    channel: Channel
    failures: int = 0
    joined_at: float = math.inf
    timer: int = 0
    """Number of the timer that counts; older ones are ignored when they fire."""
    leave_asked: bool = False


@attrs.define(eq=False)
class TopicTable:
    """The wanted topics of one agent and their state on the current socket."""

    first: str
    """The topic that is always wanted, and joined before all others."""
    parallel: int
    join_seconds: float
    next_ref: Callable[[], str]
    report: Report = lambda topic, change, reason: None
    """Hears of every change; set by the link that joins them."""
    changed: Callable[[], None] = lambda: None
    """Called when `advance` has something new to do."""
    wanted: dict[str, None] = attrs.field(init=False)
    joined: int = attrs.field(default=0, init=False)
    """How many topics are joined."""
    first_answered: bool = attrs.field(default=False, init=False)
    """Whether the first topic was answered on this socket: until then no other is joined."""
    _members: dict[str, _Member] = attrs.field(factory=dict, init=False)
    _ready: deque[str] = attrs.field(factory=deque, init=False)
    _leaves: deque[str] = attrs.field(factory=deque, init=False)
    _joining: set[str] = attrs.field(factory=set, init=False)
    _timers: list[tuple[float, int, str]] = attrs.field(factory=list, init=False)
    _count: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.wanted = {self.first: None}

    # ----------------------------------------------------------------- what is wanted

    def want(self, topic: str) -> None:
        """From now on *topic* is to be joined, on this socket and on all later ones."""
        if topic in self.wanted:
            return
        self.wanted[topic] = None
        if topic not in self._members:  # otherwise it is being left, and joined again after that
            self._add(topic)
            self.changed()

    def unwant(self, topic: str) -> None:
        """From now on *topic* is to be left, and not to be joined."""
        if topic == self.first or topic not in self.wanted:
            return
        del self.wanted[topic]
        member = self._members.get(topic)
        if member is None:
            return
        if member.channel.phase in (Phase.JOINED, Phase.JOINING):
            if not member.leave_asked:
                member.leave_asked = True
                self._leaves.append(topic)
            self.changed()
        elif member.channel.phase is Phase.IDLE:
            del self._members[topic]

    def pending(self) -> list[str]:
        """Return the wanted topics that are not joined."""
        return [topic for topic in self.wanted if not self._is_joined(topic)]

    def _is_joined(self, topic: str) -> bool:
        member = self._members.get(topic)
        return member is not None and member.channel.phase is Phase.JOINED

    # ----------------------------------------------------------------- one socket

    def begin(self) -> None:
        """Forget the old socket; on the new one every wanted topic is to be joined, in order."""
        self.end()
        for topic in self.wanted:
            self._add(topic)

    def end(self) -> None:
        """Forget the socket: nothing is joined any more."""
        self._members.clear()
        self._ready.clear()
        self._leaves.clear()
        self._joining.clear()
        self._timers.clear()
        self.joined, self.first_answered = 0, False

    def _add(self, topic: str) -> None:
        self._members[topic] = _Member(Channel(topic))
        self._ready.append(topic)

    def wake_at(self) -> float:
        """Return when `advance` has to be called next; infinity when only frames matter."""
        while self._timers and self._whose(*self._timers[0][1:]) is None:
            heapq.heappop(self._timers)  # most joins are answered long before their time is up
        return self._timers[0][0] if self._timers else math.inf

    def _whose(self, number: int, topic: str) -> _Member | None:
        """Return the member that still waits for a timer; None where it is void."""
        member = self._members.get(topic)
        return member if member is not None and member.timer == number else None

    def advance(self, now: float) -> list[Frame]:
        """Let time pass up to *now*; return the frames to send, in order."""
        while self._timers and self._timers[0][0] <= now:
            _, number, topic = heapq.heappop(self._timers)
            if (member := self._whose(number, topic)) is not None:
                self._time_is_up(topic, member, now)
        frames = [frame for topic in self._drain_leaves() if (frame := self._leave(topic, now))]
        while self._ready and len(self._joining) < self.parallel:
            if not self.first_answered and self._ready[0] != self.first:
                break
            frames += self._join(self._ready.popleft(), now)
        return frames

    def _drain_leaves(self) -> list[str]:
        topics = list(self._leaves)
        self._leaves.clear()
        return topics

    def _join(self, topic: str, now: float) -> list[Frame]:
        member = self._members.get(topic)
        if member is None or topic not in self.wanted or member.channel.phase is not Phase.IDLE:
            return []  # unwanted since, or asked for twice
        self._joining.add(topic)
        self._set_timer(topic, member, now + self.join_seconds)
        return [member.channel.join(self.next_ref())]

    def _leave(self, topic: str, now: float) -> Frame | None:
        member = self._members.get(topic)
        if member is None:
            return None
        member.leave_asked = False
        if topic in self.wanted:
            return None  # wanted again before it was left
        if member.channel.phase not in (Phase.JOINED, Phase.JOINING):
            if member.channel.phase is Phase.IDLE:
                del self._members[topic]
            return None
        self._not_joined(topic, member)
        self._set_timer(topic, member, now + LEAVE_SECONDS)
        return member.channel.leave(self.next_ref())

    def _time_is_up(self, topic: str, member: _Member, now: float) -> None:
        phase = member.channel.phase
        if phase is Phase.IDLE:
            self._ready.append(topic)
        elif phase is Phase.JOINING:
            member.channel.abandon()
            self._failed(topic, member, TopicChange.TIMED_OUT, "no answer to the join in time", now)
        elif phase is Phase.LEAVING:
            member.channel.abandon()
            self._left(topic)

    def receive(self, frame: Frame, now: float) -> Signal:
        """Take a frame of some topic; say what it meant. `Signal.PUSH` is for the caller."""
        topic = frame.topic
        member = self._members.get(topic)
        if member is None:
            return Signal.STALE
        signal = member.channel.receive(frame)
        if signal is Signal.JOINED:
            self._has_joined(topic, member, now)
        elif signal is Signal.REJECTED:
            self._failed(topic, member, TopicChange.REJECTED, member.channel.reason, now)
        elif signal is Signal.CRASHED:
            self._failed(topic, member, TopicChange.CRASHED, "the channel crashed", now)
        elif signal is Signal.CLOSED:
            self._failed(topic, member, TopicChange.CLOSED, "the platform closed the channel", now)
        elif signal is Signal.LEFT:
            self._left(topic)
        return signal

    # ----------------------------------------------------------------- transitions

    def _has_joined(self, topic: str, member: _Member, now: float) -> None:
        self._joining.discard(topic)
        self.joined += 1
        member.joined_at, member.timer = now, 0
        self.first_answered |= topic == self.first
        self.changed()
        if topic in self.wanted:
            self.report(topic, TopicChange.JOINED, "")

    def _failed(
        self, topic: str, member: _Member, change: TopicChange, reason: str, now: float
    ) -> None:
        if now - member.joined_at >= REJOIN_CAP_SECONDS:
            member.failures = 0
        self._not_joined(topic, member)
        self.first_answered |= topic == self.first
        self.changed()
        if topic not in self.wanted:
            del self._members[topic]
            return
        wait = half_jitter(member.failures, REJOIN_BASE_SECONDS, REJOIN_CAP_SECONDS)
        member.failures += 1
        self._set_timer(topic, member, now + wait)
        self.report(topic, change, reason)

    def _left(self, topic: str) -> None:
        del self._members[topic]
        if topic in self.wanted:
            self._add(topic)
            self.changed()

    def _not_joined(self, topic: str, member: _Member) -> None:
        self._joining.discard(topic)
        if member.joined_at < math.inf:
            member.joined_at = math.inf
            self.joined -= 1

    def _set_timer(self, topic: str, member: _Member, when: float) -> None:
        self._count += 1
        member.timer = self._count
        heapq.heappush(self._timers, (when, self._count, topic))

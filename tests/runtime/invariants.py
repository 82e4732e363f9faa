"""What must hold of every trace, whatever happened: each broken rule names its guarantee.

`Checker` reads the trace of one run of one agent, event by event; `check` reads a whole one.
`check_final` compares it with the platform, once all faults have ended and time has passed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from band_trio import trace
from band_trio.localband.band import LocalAgent, LocalBand
from band_trio.trace import TraceEvent

FINAL: Final = ("accepted", "rejected", "not_found")
"""Results of a mark that end the matter."""


@attrs.define
class _Message:
    """What the trace says of one message so far."""

    claims: int = 0
    answers: list[str] = attrs.field(factory=list)
    """Of all tries to claim it."""
    records: list[str] = attrs.field(factory=list)
    starts: int = 0
    marks: set[str] = attrs.field(factory=set)
    closed: bool = False
    """Whether its last record was told to the platform with a final result."""
    results: set[str] = attrs.field(factory=set)
    """Of its marks."""
    control: str | None = None
    """The last interrupt or stop since its claim was answered."""
    how: str | None = None
    """How its handler ended, since its claim was answered."""
    bootstrap: bool = False
    given_up: bool = False
    consumed: bool = False

    @property
    def open(self) -> bool:
        """Whether a claim has no record yet."""
        return self.claims > len(self.records) - self.consumed

    @property
    def by_verdict(self) -> bool:
        """Whether the handler ended by itself and nothing from outside decides."""
        return self.control is None and self.how in ("returned", "raised")


@attrs.define
class _Room:
    """What the trace says of one child of a room."""

    served: bool = False
    claim: str | None = None
    """The message whose claim is open."""
    running: str | None = None
    stopped: bool = False
    resume: str | None = None
    """The message that a stop has ended: it runs before any other."""
    bootstrapped: bool = False
    working: bool = False
    failed: dict[str, tuple[int, float]] = attrs.field(factory=dict)
    """Message → runs of it that failed in this child, and when the last one ended."""
    ended_at: float = 0.0
    """When the last handler ended."""


@attrs.define(eq=False)
class Checker:
    """Reads one run's trace from its beginning; `see` raises where a guarantee is broken."""

    budget: int = 1
    retry_base: float = 0.0
    """Seconds; 0 leaves the distance of two runs of a message unchecked."""
    history_may_fail: bool = True
    """Whether a turn may be given no history although none was committed."""
    closing: bool = False
    """Set it when the run was told to stop."""
    messages: dict[str, _Message] = attrs.field(factory=lambda: defaultdict(_Message))
    rooms: dict[str, _Room] = attrs.field(factory=lambda: defaultdict(_Room))
    expected: dict[str, str] = attrs.field(factory=dict)
    """Message id → the record that a handler earned, which ended by itself."""

    def see(self, event: TraceEvent, at: float = 0.0) -> None:
        """Take in the next event, at a time of trio's clock."""
        match event:
            case trace.Claimed(message_id=m) | trace.Recorded(message_id=m) if self.messages[
                m
            ].consumed:
                pass  # without a turn, and beside one: it has its record already
            case trace.Claimed():
                self._claimed(event)
            case trace.Started():
                self._started(event, at)
            case trace.Ended(room_id=r, message_id=m):
                assert self.rooms[r].running == m, f"g01: {m} ended and did not run"
                self.rooms[r].running = None
                self.messages[m].how, self.rooms[r].ended_at = event.how, at
            case trace.Recorded():
                self._recorded(event)
            case trace.Marked():
                self._marked(event)
            case trace.GivenUp(message_id=m):
                assert not self.messages[m].given_up, f"g37: {m} was given up twice"
                self.messages[m].given_up = True
            case trace.Consumed(message_id=m):
                assert not self.messages[m].records, f"g02: {m} was consumed after a turn"
                self.messages[m].records.append("processed")
                self.messages[m].consumed, self.messages[m].closed = True, False
            case _:
                self._of_room(event)

    def _of_room(self, event: TraceEvent) -> None:
        match event:
            case trace.Controlled(mode=mode, room_id=r, applied=True):
                room = self.rooms[r]
                if mode != "interrupt":
                    room.stopped = mode == "stop"
                if room.claim is not None and mode != "play":
                    self.messages[room.claim].control = mode
            case trace.ActivityReported(room_id=r, working=on):
                assert on or self.rooms[r].working, f"g71: {r} stopped working without a start"
                self.rooms[r].working = on
            case trace.RoomServed(room_id=r):
                assert not self.rooms[r].served, f"g55: {r} got a child before the old one ended"
                self.rooms[r] = _Room(served=True)
            case trace.CleanedUp(room_id=r):
                assert self.rooms[r].served, f"g54: {r} was cleaned up twice"
                assert self.rooms[r].running is None, f"g54: {r} was cleaned up during a turn"
                self.rooms[r].served = False
            case trace.ShutDown():
                left = [r for r, room in self.rooms.items() if room.claim is not None]
                assert not left, f"g10: the run ended with open claims in {left}"
            case _:
                pass

    def _claimed(self, event: trace.Claimed) -> None:
        room, seen = self.rooms[event.room_id], self.messages[event.message_id]
        seen.answers.append(event.answer)
        if event.answer == "claimed":
            assert not seen.open, f"g10: {event.message_id} was claimed twice without a record"
            assert room.claim is None, f"g02: {event.message_id} claimed beside {room.claim}"
            room.claim, seen.claims = event.message_id, seen.claims + 1
            seen.control, seen.how = None, None
        elif event.answer != "stopped" and room.resume == event.message_id:
            room.resume = None

    def _started(self, event: trace.Started, at: float) -> None:
        m, room, seen = event.message_id, self.rooms[event.room_id], self.messages[event.message_id]
        assert seen.open, f"g09: {m} started without a claim"
        assert room.running is None, f"g01: {m} started while {room.running} runs"
        assert "processed" not in seen.records, f"g14, g21: {m} ran again"
        assert not self.closing, f"g52: {m} started after the stop began"
        assert not room.stopped, f"g50: {m} started in a stopped room"
        assert seen.control is None, f"g40: {m} started after a {seen.control}"
        assert room.resume in (None, m), f"g49: {m} started before the stopped {room.resume}"
        failed, ended_at = room.failed.get(m, (0, 0.0))
        if failed and self.retry_base:
            pause = at - ended_at
            least = self.retry_base * 2 ** (failed - 1) / 2
            assert pause >= least - 1e-6, f"g36: {m} ran again after {pause:g} s, not {least:g} s"
        if room.bootstrapped:
            assert not event.bootstrap, f"g64: {m} got the history again"
        elif not self.history_may_fail:
            assert event.bootstrap, f"g64: {m} got no history although no turn was committed"
        room.running, seen.starts, seen.bootstrap = m, seen.starts + 1, event.bootstrap

    def _recorded(self, event: trace.Recorded) -> None:
        m, room, seen = event.message_id, self.rooms[event.room_id], self.messages[event.message_id]
        assert seen.open, f"g10: {m} was recorded twice"
        assert room.running is None, f"g10, g70: {m} was recorded while it runs"
        if seen.control is not None:
            want = "processed" if seen.control == "interrupt" else "released:stop"
            assert event.kind == want, f"g41: {m} is {event.kind} after a {seen.control}"
        earned = self.expected.pop(m, None)
        if seen.by_verdict:
            assert earned in (None, event.kind), f"g67: {m} is {event.kind}, it earned {earned}"
            room.bootstrapped |= seen.bootstrap and event.kind == "processed"
        room.claim = None
        room.resume = m if event.kind == "released:stop" else None
        seen.records.append(event.kind)
        seen.closed = False
        failed = seen.records.count("failed")
        if event.kind == "failed":
            room.failed[m] = (room.failed.get(m, (0, 0.0))[0] + 1, room.ended_at)
        assert failed <= self.budget, f"g34: {m} failed {failed} times of {self.budget}"

    def _marked(self, event: trace.Marked) -> None:
        m, seen = event.message_id, self.messages[event.message_id]
        if event.kind.endswith(":again"):
            return  # the platform carried out a claim of ours after all was said
        assert seen.records, f"g16: {m} was marked without a record"
        assert event.kind == seen.records[-1], f"g16: {m} is {seen.records}, marked {event.kind}"
        assert not seen.closed, f"g15: {m} was marked again after a final answer"
        seen.marks.add(event.kind)
        seen.results.add(event.result)
        seen.closed = event.result in FINAL


def check(events: Iterable[TraceEvent], *, budget: int = 1) -> dict[str, _Message]:
    """Check one process's trace from its beginning; return what it says of each message."""
    checker = Checker(budget)
    for event in events:
        checker.see(event)
    for m, seen in checker.messages.items():
        assert not seen.open, f"g10: the claim of {m} has no record"
    working = [r for r, room in checker.rooms.items() if room.working]
    assert not working, f"g71: still shown as working: {working}"
    return checker.messages


def check_final(
    band: LocalBand, account: LocalAgent, messages: Mapping[str, _Message], sent: Iterable[str]
) -> None:
    """Compare the trace with the platform: nothing lost, nothing marked otherwise."""
    for m in sent:
        seen = messages.get(m)
        assert seen is not None, f"g26: {m} was never claimed"
        last = seen.records[-1]
        state = band.state(m, account)
        assert last in ("processed", "failed"), f"g26: {m} was left {last}"
        assert state == last, f"g11, g12: {m} was recorded {last} and is {state}"

"""What must hold of every trace, whatever happened: each broken rule names its guarantee.

`check` reads the trace of one or several runs of one agent; `check_final` compares it with the
platform, once all faults have ended and time has passed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import attrs

from band_trio import trace
from band_trio.localband.band import LocalAgent, LocalBand
from band_trio.trace import TraceEvent


@attrs.define
class _Message:
    """What the trace says of one message so far."""

    claims: int = 0
    records: list[str] = attrs.field(factory=list)
    starts: int = 0
    marks: set[str] = attrs.field(factory=set)
    unknown: bool = False
    """Whether the platform denied its existence: the matter is ended (g15), and a message that
    turns up again, in a room that was left and joined again, is a new one."""

    @property
    def open(self) -> bool:
        """Whether a claim has no record yet."""
        return self.claims > len(self.records)


def check(events: Iterable[TraceEvent], *, budget: int = 1) -> dict[str, _Message]:
    """Check one process's trace from its beginning; return what it says of each message."""
    messages: dict[str, _Message] = defaultdict(_Message)
    running: dict[str, str] = {}
    working: dict[str, bool] = {}
    closing = False
    for event in events:
        match event:
            case trace.Claimed(message_id=m, answer="claimed"):
                assert not closing, "g52: a claim after the stop began"
                assert not messages[m].open, f"g10: {m} was claimed twice without a record"
                messages[m].claims += 1
            case trace.Started(room_id=r, message_id=m):
                assert messages[m].open, f"g09: {m} started without a claim"
                assert r not in running, f"g01: {m} started while {running.get(r)} runs"
                done = "processed" in messages[m].records and not messages[m].unknown
                assert not done, f"g14, g21: {m} ran again"
                running[r] = m
                messages[m].starts += 1
            case trace.Ended(room_id=r, message_id=m):
                assert running.pop(r) == m, f"g01: {m} ended and did not run"
            case trace.Recorded(room_id=r, message_id=m, kind=kind):
                assert messages[m].open, f"g10: {m} was recorded twice"
                assert r not in running, f"g10: {m} was recorded while it runs"
                messages[m].records.append(kind)
            case trace.Marked(message_id=m, kind=kind, result=result):
                messages[m].marks.add(kind)
                messages[m].unknown |= result == "not_found"
            case trace.ActivityReported(room_id=r, working=on):
                assert on or working.get(r), f"g71: room {r} stopped working without a start"
                working[r] = on
            case _:
                pass
    for m, seen in messages.items():
        assert not seen.open, f"g10: the claim of {m} has no record"
        failed = seen.records.count("failed")
        assert failed <= budget, f"g34: {m} failed {failed} times with a budget of {budget}"
        assert len(seen.marks) <= len(set(seen.records)), f"g16: {m} was marked {seen.marks}"
    assert not any(working.values()), "g71: a room is still shown as working"
    return messages


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

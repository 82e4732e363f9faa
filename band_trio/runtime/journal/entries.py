"""The messages of one room: their phases, the one table of moves between them, and their index.

    listed → claiming → running → decided → confirmed

Beside that way a message may be held, set aside, refused, stopped or given up. An entry moves by
this table and by nothing else; a move that is not in it is a defect.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from typing import Final

import attrs

from band_trio.config.agent import SessionConfig
from band_trio.kit.backoff import half_jitter
from band_trio.protocol.rest import ChatMessage, Delivery
from band_trio.runtime.journal.verdict import Mark


class Phase(StrEnum):
    """Where a message stands. The texts are those of the documentation."""

    LISTED = "listed"
    """Seen, and nothing keeps it from running when its place has come."""
    CLAIMING = "claiming"
    """Its claim is on its way."""
    RUNNING = "running"
    """It is ours, and being worked on."""
    DECIDED = "decided"
    """There is a verdict that the platform has not confirmed."""
    CONFIRMED = "confirmed"
    """Processed; a late copy of its push is known by this."""
    HELD = "held"
    """Waits for its next run, and later messages wait behind it."""
    ASIDE = "aside"
    """Waits for its next run; later messages go on."""
    REFUSED = "refused"
    """Not ours to run for now; asked for again much later, or on a new connection."""
    STOPPED = "stopped"
    """A stop ended its turn: runs first after the play."""
    GIVEN_UP = "given_up"
    """Its runs are used up."""


class Move(StrEnum):
    """What can happen to a message."""

    SEE = "see"
    CHOOSE = "choose"
    CLAIM = "claim"
    HOLD = "hold"
    PUT_ASIDE = "put aside"
    REFUSE = "refuse"
    STOP = "stop"
    RELEASE = "release"
    DECIDE = "decide"
    CONFIRM = "confirm"
    GIVE_UP = "give up"


@attrs.frozen
class Step:
    """One row of the table."""

    before: frozenset[Phase | None]
    """Phases it may be made from; None: the message was not known."""
    after: Phase
    told: str
    """What the journal was told, for the documentation."""


_WAITING: Final = (Phase.LISTED, Phase.HELD, Phase.ASIDE, Phase.REFUSED, Phase.STOPPED)


def _step(after: Phase, told: str, *before: Phase | None) -> Step:
    return Step(frozenset(before), after, told)


MOVES: Final[dict[Move, Step]] = {
    Move.SEE: _step(Phase.LISTED, "a push or a page shows a message that may run", None),
    Move.CHOOSE: _step(Phase.CLAIMING, "the room begins with it", *_WAITING),
    Move.CLAIM: _step(Phase.RUNNING, "the platform answers that it is ours", Phase.CLAIMING),
    Move.HOLD: _step(
        Phase.HELD,
        "no answer to the claim, not accepted by the adapter, the mark of a failed run is final, or "
        "another room runs a message that may end the process",
        *_WAITING,
        Phase.CLAIMING,
        Phase.RUNNING,
        Phase.DECIDED,
    ),
    Move.PUT_ASIDE: _step(
        Phase.ASIDE,
        "it has held the room up for long enough",
        *_WAITING,
        Phase.CLAIMING,
        Phase.RUNNING,
        Phase.DECIDED,
    ),
    Move.REFUSE: _step(
        Phase.REFUSED,
        "the platform does not give it to us, or does not take its mark",
        Phase.CLAIMING,
        Phase.DECIDED,
    ),
    Move.STOP: _step(
        Phase.STOPPED,
        "a stop ended its turn; so it stays while its next claim finds the room stopped",
        Phase.RUNNING,
        Phase.CLAIMING,
    ),
    Move.RELEASE: _step(
        Phase.LISTED,
        "the turn ended without a verdict, or the first claim found the room stopped",
        Phase.CLAIMING,
        Phase.RUNNING,
    ),
    Move.DECIDE: _step(
        Phase.DECIDED,
        "the turn ended with a verdict, or one was there without a turn",
        Phase.RUNNING,
        *_WAITING,
        Phase.GIVEN_UP,
        Phase.CONFIRMED,
    ),
    Move.CONFIRM: _step(Phase.CONFIRMED, "the mark of a success is final", Phase.DECIDED),
    Move.GIVE_UP: _step(
        Phase.GIVEN_UP,
        "the mark of the last run is final, or the list shows the runs used up",
        Phase.DECIDED,
        Phase.LISTED,
        Phase.ASIDE,
        Phase.REFUSED,
    ),
}
"""Every move that there is."""

CAPACITY: Final = {
    Phase.LISTED: 128,
    Phase.CONFIRMED: 128,
    Phase.ASIDE: 100,
    Phase.REFUSED: 100,
    Phase.GIVEN_UP: 1000,
}
"""Entries per phase; the oldest is forgotten, and seen again on the list or by a claim. In the other
phases there is one entry at a time, or as many verdicts as `room_unsettled` lets wait."""
_TOLD_AGAIN: Final = {Phase.CONFIRMED, Phase.GIVEN_UP, Phase.REFUSED, Phase.ASIDE}
"""Phases for which the row is dropped: before such a message runs, the list tells of it."""
OVER: Final = {Phase.CONFIRMED, Phase.GIVEN_UP}
"""Those of them that it does not run from. For the others a pushed row is kept: it may be an edit
that is newer than the page of the list that is being looked through."""


@attrs.define(eq=False)
class Entry:
    """All that a room knows of one message. Times are trio's."""

    id: str
    phase: Phase | None = None
    """None: not known (any more)."""
    message: ChatMessage | None = None
    """The newest row that was seen; None where the platform's list has to tell it again."""
    inserted_at: datetime | None = None
    spent: int = 0
    """Runs that failed, as far as anyone can tell."""
    before: int = 0
    """Attempts that the platform listed before we began with it."""
    begun: bool = False
    """Whether we have: a live attempt that is listed from then on may be ours."""
    runs: int = 0
    """Runs that were begun here."""
    crashes: int = 0
    """Runs that ended an earlier process."""
    attempt: int = 1
    """Which run of the message this is, from 1, as far as anyone can tell; set when it is chosen."""
    tries: int = 0
    """How often it was put off in a row."""
    until: float = -math.inf
    """When it may run again."""
    hold_until: float = -math.inf
    """Until when it may keep later messages waiting, if it is held."""
    hold_left: float | None = None
    """Seconds for which it may go on doing so when it is held again; None: all of them."""
    was_aside: bool = False
    """Whether its time at the head of the room is used up."""
    late: bool = False
    """Whether others went before it, so that its time stamp says nothing about them."""
    resumes: bool = False
    """Whether a stop ended its last turn: then it runs first."""
    owed: bool = False
    """Whether its work is done although the platform did not take that in, or was called off before
    its claim was answered: it is marked when it turns up again, and nothing runs."""
    mark: Mark | None = None
    """Its verdict, while that is not confirmed."""

    @property
    def row(self) -> ChatMessage:
        """The newest row, of a message that may run."""
        if self.message is None:
            raise RuntimeError(f"message {self.id} is {self.phase}: no row of it is kept")
        return self.message

    def precedes(self, other: Entry) -> bool:
        """Tell whether it is older than another one, as far as time stamps tell."""
        mine, its = self.inserted_at, other.inserted_at
        return mine is not None and its is not None and mine < its

    def take(self, message: ChatMessage) -> None:
        """Keep a row, unless a newer one is kept."""
        if self.message is None or _is_newer(message, self.message):
            self.message = message

    def take_up(self, now: float) -> None:
        """It was put off, and its time has come: note what its waits have been."""
        if self.phase is Phase.HELD:
            left = self.hold_until - now
            self.hold_left = None if left == math.inf else max(0.0, left)
        self.was_aside |= self.phase is Phase.ASIDE
        self.late |= self.phase in (Phase.ASIDE, Phase.REFUSED)
        self.resumes = self.phase is Phase.STOPPED

    def retry_wait(self, session: SessionConfig) -> float:
        """Return the seconds until its next run, once it has failed."""
        return half_jitter(self.spent - 1, session.retry_base_seconds, session.retry_cap_seconds)

    def claim_wait(self, session: SessionConfig) -> float:
        """Return the seconds until its next claim; the room waits for each one.

        Hence those of a message that holds nobody up come more rarely each time.
        """
        cap = session.settle_cap_seconds
        if self.was_aside:
            cap = max(cap, session.idle_resync_max_seconds)
        return half_jitter(self.tries, session.settle_base_seconds, cap)

    def postpone(
        self, wait: float, now: float, hold: float, *, waited: float = 0.0, endless: bool = False
    ) -> bool:
        """Let it wait; tell whether it holds the room, which keeps the order.

        It does unless its time at the head is used up: *hold* seconds in all, of which *waited*
        have passed just now.
        """
        self.tries += 1
        self.until = now + wait
        if self.was_aside:
            return False
        left = hold if self.hold_left is None else self.hold_left
        self.hold_until = math.inf if endless else now + max(0.0, left - waited)
        return True


@attrs.define(eq=False)
class Entries:
    """id → entry; bounded."""

    hints: dict[str, Entry] = attrs.field(factory=dict, init=False)
    """Those that were pushed and have not been looked at, in order; a move ends that."""
    forgotten: datetime | None = attrs.field(default=None, init=False)
    """The newest that was forgotten for want of room: who is older may have been known."""
    _all: dict[str, Entry] = attrs.field(factory=dict, init=False)
    phases: dict[Phase, dict[str, Entry]] = attrs.field(factory=dict, init=False)
    """The same by phase, in the order in which they came into it."""

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._all.values()))

    def get(self, message_id: str) -> Entry | None:
        """Return what is known of a message."""
        return self._all.get(message_id)

    def of(self, phase: Phase) -> list[Entry]:
        """Return the entries in a phase, the longest there first."""
        entries = self.phases.get(phase)
        return list(entries.values()) if entries else []

    def count(self, phase: Phase) -> int:
        """Return how many messages are in a phase."""
        entries = self.phases.get(phase)
        return len(entries) if entries else 0

    def see(self, message: ChatMessage, delivery: Delivery) -> Entry:
        """Take in a row that was pushed or listed, and return its entry: the newest row counts."""
        entry = self._all.get(message.id)
        if entry is None:
            entry = Entry(message.id, inserted_at=message.inserted_at)
            self.move(entry, Move.SEE)
        if entry.phase not in OVER:
            entry.take(message)
        attempts = delivery.attempts
        if attempts:
            entry.spent = max(entry.spent, sum(each.status == "failed" for each in attempts))
            if not entry.begun:
                entry.before = len(attempts)
        return entry

    def move(self, entry: Entry, move: Move) -> None:
        """Make a move of the table.

        Raises:
            RuntimeError: it is not in the table.
        """
        step, before = MOVES[move], entry.phase
        if before not in step.before:
            raise RuntimeError(f"message {entry.id} is {before or 'not known'}: it cannot {move}")
        if before is None:
            self._all[entry.id] = entry
        else:
            del self.phases[before][entry.id]
        self.hints.pop(entry.id, None)
        entry.phase = step.after
        if step.after in _TOLD_AGAIN:
            entry.message = None
        entries = self.phases.setdefault(step.after, {})
        entries[entry.id] = entry
        if len(entries) > CAPACITY.get(step.after, math.inf):
            self._lose_oldest(entries, but=entry)

    def _lose_oldest(self, entries: dict[str, Entry], *, but: Entry) -> None:
        """Lose one of the entries of a phase; one whose work is done only in need.

        Rather a refused one that has just come: it is asked for too early, and nothing runs twice.
        """
        spare = [e for e in entries.values() if e is not but and e.id not in self.hints]
        if but.phase is Phase.REFUSED:
            spare.append(but)
        self._lose(next((e for e in spare if not e.owed), spare[0]))

    def _lose(self, entry: Entry) -> None:
        """Forget an entry for want of room: the list is asked about what is as old."""
        when = entry.inserted_at
        if when is not None and (self.forgotten is None or when > self.forgotten):
            self.forgotten = when
        self.forget(entry)

    def forget(self, entry: Entry) -> None:
        """Drop an entry."""
        if entry.phase is not None:
            del self._all[entry.id], self.phases[entry.phase][entry.id]
            self.hints.pop(entry.id, None)
            entry.phase = None

    def room_aside(self, now: float) -> bool:
        """Tell whether another message may be set aside.

        Where there is no room, one is forgotten whose time has come: the list tells of it again.
        One that still has to wait would run too early.
        """
        waiting = self.of(Phase.ASIDE)
        if len(waiting) < CAPACITY[Phase.ASIDE]:
            return True
        due = next((entry for entry in waiting if entry.until <= now), None)
        if due is not None:
            self._lose(due)
        return due is not None

    def next_due(self, after: float) -> float:
        """Return the first time later than *after* at which a waiting message may run again.

        Infinite if there is none. What was due before has been looked for by the read that began
        at *after*: if it is still here, the platform does not list it any more.
        """
        waiting = self.of(Phase.ASIDE) + self.of(Phase.REFUSED)
        return min((e.until for e in waiting if e.until > after), default=math.inf)


def _is_newer(row: ChatMessage, known: ChatMessage) -> bool:
    if row.updated_at is None or known.updated_at is None:
        return True  # the one that came later
    return row.updated_at >= known.updated_at

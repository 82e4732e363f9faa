"""Watches what a journal does with its messages: what must hold, named by the guarantees."""

from __future__ import annotations

import math
from typing import Final

import attrs

from band_trio.config.agent import SessionConfig
from band_trio.protocol.rest import ChatMessage
from band_trio.runtime.journal.entries import CAPACITY, Entry, Phase
from band_trio.runtime.journal.journal import Journal
from band_trio.runtime.journal.verdict import Fate, Verdict
from tests.machine.journal_model import Posted

IN_WORK: Final = (Phase.CLAIMING, Phase.RUNNING)
_EXCUSED: Final = {Phase.ASIDE, Phase.REFUSED, Phase.GIVEN_UP}


@attrs.define(eq=False)
class Notes:
    """What the one that watches knows of a message."""

    posted: Posted
    begun: bool = False
    """Whether the room has begun with it: what turns up later is not overtaken."""
    started: bool = False
    done: bool = False
    """Whether its work is done or was called off: it must not run again in this process."""
    failures: int = 0
    """Runs that failed in this membership."""
    not_before: float = -math.inf
    """Its back-off ends then."""
    excused: bool = False
    """Whether later ones need not wait for it: it was refused, set aside, given up or consumed."""
    told: bool = False
    """Whether the room has heard of it in this membership."""


@attrs.define(eq=False)
class Watch:
    """What is known of all messages, and is compared with the journal."""

    journal: Journal
    session: SessionConfig
    notes: dict[str, Notes] = attrs.field(factory=dict, init=False)
    covered: int = attrs.field(default=-1, init=False)
    """The newest message of which the last complete read must have told."""
    _newest: dict[Entry, int] = attrs.field(factory=dict, init=False)
    """The newest text that was seen of an entry."""
    _crowded: bool = attrs.field(default=False, init=False)
    """Whether more work is owed a mark than is remembered: what is forgotten may run again."""

    def posted(self, message_id: str) -> Posted:
        """Return a message of the platform."""
        return self.notes[message_id].posted

    # ------------------------------------------------------------------ told

    def saw(self, row: ChatMessage) -> None:
        """The journal was shown a row."""
        entry, text = self.journal.entries.get(row.id), int(row.content)
        if entry is not None:
            self._newest[entry] = max(text, self._newest.get(entry, 0))

    def ended(self, entry: Entry, verdict: Verdict, now: float) -> None:
        """A turn has ended."""
        notes, session = self.notes[entry.id], self.session
        notes.done |= verdict.fate is Fate.PROCESSED
        if verdict.fate is Fate.FAILED:
            notes.failures += 1
            wait = session.retry_base_seconds * 2 ** (notes.failures - 1)
            notes.not_before = now + min(wait, session.retry_cap_seconds) / 2

    def left(self) -> None:
        """The membership is over."""
        self.covered = -1
        for notes in self.notes.values():
            notes.failures, notes.told, notes.not_before = 0, False, -math.inf

    def blinded(self) -> None:
        """A list looked empty because the room is stopped: nobody can know what waits."""
        self.covered = -1
        for notes in self.notes.values():
            notes.told = False

    # ------------------------------------------------------------------ what must hold

    def before(self, entry: Entry) -> list[Notes]:
        """Return the messages that this one must not overtake, as far as the room knows of them."""
        mine = self.notes[entry.id]
        if mine.begun or mine.excused:
            return []
        return [
            notes
            for notes in self.notes.values()
            if notes.posted.number < mine.posted.number
            and (notes.told or notes.posted.number <= self.covered)
            and not (notes.posted.deleted or notes.posted.processed)
            and notes.posted.failed < self.session.max_message_retries
        ]

    def begins(self, entry: Entry, before: list[Notes], now: float) -> None:
        """The room begins with a message, behind those that it must not overtake."""
        notes, posted = self.notes[entry.id], self.posted(entry.id)
        budget = self.session.max_message_retries
        assert not notes.done or self._crowded, f"14, 21: {entry.id} runs again"
        assert not posted.processed, f"19: {entry.id} is processed"
        assert max(notes.failures, posted.failed) < budget, f"34: {entry.id} runs once too often"
        assert now >= notes.not_before, f"36: {entry.id} runs before its time"
        assert int(entry.row.content) == self._newest[entry], f"C95: an old text of {entry.id} runs"
        self._excuse()
        overtaken = [n.posted.id for n in before if not (n.started or n.excused or n.done)]
        assert not overtaken, f"4, 5: {entry.id} overtakes {overtaken}"
        again = notes.started or posted.failed
        assert entry.attempt > 1 or not again, f"81: {entry.id} does not know of the run before"
        notes.begun = True

    def look(self) -> None:
        """Look whether the memory of work that is owed a mark is full."""
        refused = self.journal.entries.of(Phase.REFUSED)
        full = len(refused) >= CAPACITY[Phase.REFUSED]
        self._crowded |= full and all(entry.owed for entry in refused)

    def check(self) -> None:
        """Check what must hold at any time."""
        entries, held = self.journal.entries, self.journal.held
        by_phase = [entry for phase in Phase for entry in entries.of(phase)]
        assert sorted(e.id for e in entries) == sorted(e.id for e in by_phase), "one entry per id"
        for phase in Phase:
            assert all(entry.phase is phase for entry in entries.of(phase))
            assert entries.count(phase) <= CAPACITY.get(phase, math.inf), f"77: {phase} is full"
        assert sum(entries.count(phase) for phase in IN_WORK) <= 1, "1: two at once"
        assert entries.count(Phase.STOPPED) <= 1, "49: two were stopped"
        most = self.session.room_unsettled + 1  # one may be consumed during a turn
        assert entries.count(Phase.DECIDED) <= most, "77: too many verdicts"
        assert len(entries.hints) <= self.session.room_hints, "77: too many hints"
        assert all(e.phase is Phase.LISTED and e.message for e in entries.hints.values())
        assert entries.of(Phase.HELD) in ([], [held]), "one message is held"
        assert held is None or held.phase in (Phase.HELD, Phase.DECIDED), "it waits"
        assert all((e.mark is not None) is (e.phase is Phase.DECIDED) for e in by_phase)
        self._excuse()

    def _excuse(self) -> None:
        for entry in self.journal.entries:
            self.notes[entry.id].excused |= entry.phase in _EXCUSED or entry.was_aside

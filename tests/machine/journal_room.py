"""Plays the room, its settler and all that tells a journal something, and watches what it answers.

Nothing here waits: time is a number, and whatever a room would wait for is a point at which it
stands until somebody answers. In each of them anything may be told.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from datetime import timedelta
from typing import Any, Final, Literal, TypeAlias

import attrs

from band_trio.config import SessionConfig
from band_trio.protocol.events import Mode
from band_trio.protocol.rest import ChatMessage
from band_trio.runtime.answers import ClaimOutcome, ClaimResult, MarkResult
from band_trio.runtime.entries import CAPACITY, Entry, Phase
from band_trio.runtime.journal import Journal
from band_trio.runtime.lifecycle import EndReason
from band_trio.runtime.reads import Dirty
from band_trio.runtime.todo import Probe, Read, Run, Settle, Todo, Wait
from band_trio.runtime.verdict import DONE, NOT_ACCEPTED, Fate, Verdict
from tests.machine.journal_model import BEGAN, ME, PAGE, Fault, Platform, Posted

FAILED: Final = Verdict(Fate.FAILED, error="no", plain_error="no")
HowEnded: TypeAlias = Literal["done", "failed", "not accepted"]
UNKNOWN: Final = ClaimOutcome(ClaimResult.UNKNOWN)
_EXCUSED: Final = {Phase.ASIDE, Phase.REFUSED, Phase.GIVEN_UP}
MOST_STEPS: Final = 600
"""In which everything must have come to its end once nothing goes wrong any more."""
_IN_WORK: Final = (Phase.CLAIMING, Phase.RUNNING)


@attrs.define(eq=False)
class Notes:
    """What the one that watches knows of a message."""

    posted: Posted
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


@attrs.frozen
class At:
    """Where the room stands: what it has asked for and not got yet."""

    what: Literal["choose", "claim", "turn", "mark", "place", "page", "probe", "wait"]
    entry: Entry | None = None
    until: float = -math.inf
    told: int = 0


class PassAbandoned(Exception):
    """As that of the drain."""


Steps: TypeAlias = Generator[At, Any, None]


@attrs.define(eq=False)
class Room:
    """A journal and what it is told."""

    session: SessionConfig
    platform: Platform = attrs.field(factory=Platform, init=False)
    now: float = attrs.field(default=1000.25, init=False)
    moves: int = attrs.field(default=0, init=False)
    """How often the journal was told or asked something."""
    notes: dict[str, Notes] = attrs.field(factory=dict, init=False)
    journal: Journal = attrs.field(init=False)
    at: At | None = attrs.field(default=None, init=False)
    """None while the room is not served."""
    _steps: Steps = attrs.field(init=False)
    _ended_by: EndReason | None = attrs.field(default=None, init=False)
    _aborted: bool = attrs.field(default=False, init=False)
    _last: tuple[Todo, int] | None = attrs.field(default=None, init=False)
    """The last answer, and how much had been told by then."""
    _told: int = attrs.field(default=0, init=False)
    _newest: dict[Entry, int] = attrs.field(factory=dict, init=False)
    """The newest text that was seen of an entry."""
    _covered: int = attrs.field(default=-1, init=False)
    """The newest message of which the last complete read must have told."""

    def __attrs_post_init__(self) -> None:
        self.journal = Journal("room", ME, self.session)
        self.enter(joined=False)

    def post(self) -> Posted:
        """A person writes a message."""
        posted = self.platform.post(self.now)
        self.notes[posted.id] = Notes(posted)
        return posted

    # ------------------------------------------------------------------ membership

    def enter(self, *, joined: bool) -> None:
        """A child begins to serve the room."""
        self._tell()
        self.journal.begin(self.now, joined=joined)
        self._steps = self._serve()
        self.at = next(self._steps)

    def breaks(self) -> None:
        """The child breaks wherever it stands, and another one begins."""
        self._end()
        self.enter(joined=True)

    def leave(self) -> None:
        """The agent is taken out of the room."""
        self.platform.member = False
        self._tell()
        self.journal.forget_controls()
        if (entry := self._in_work()) is not None:
            if entry.phase is Phase.CLAIMING:
                self.journal.claim_answered(entry, UNKNOWN, self.now)
            else:
                left = Verdict(Fate.RELEASED, EndReason.LEFT)
                self.journal.turn_ended(entry, left, self.now)
        self._end()
        self.journal.left()
        for notes in self.notes.values():
            notes.failures, notes.told, notes.not_before = 0, False, -math.inf

    def come_back(self) -> None:
        """The agent is in the room again."""
        self.platform.member, self._covered = True, -1
        self.enter(joined=False)

    def _end(self) -> None:
        self._steps.close()
        self.at = self._ended_by = None
        for entry in self.journal.entries.of(Phase.DECIDED):
            if entry.mark is not None:
                entry.mark.kept = True

    # ------------------------------------------------------------------ told

    def push(self, message: ChatMessage) -> None:
        """A push has arrived."""
        if self.at is None:
            return
        self._tell()
        self.journal.pushed(message, self.now)
        self.notes[message.id].told = True
        self._saw(message)

    def control(self, mode: Mode, correlation_id: str | None = None) -> None:
        """A control signal has arrived, or was seen in an answer."""
        self._tell()
        if not self.journal.control(mode, self.now, correlation_id) or mode == "play":
            return
        self._aborted = True
        if self._in_work() is not None:
            self._ended_by = EndReason.STOP if mode == "stop" else EndReason.INTERRUPT

    def joined(self) -> None:
        """The room's topic was joined."""
        self._tell()
        self.journal.reads.joined(self.now)

    def new_epoch(self) -> None:
        """The connection is a new one."""
        self._tell()
        self._aborted = True
        self.journal.new_epoch(self.now)

    def may_consume(self, posted: Posted) -> bool:
        """Tell whether the room may offer a message to the adapter now."""
        known = self.journal.is_known(posted.id, self.now)
        return self.notes[posted.id].told and not known and self.journal.has_room

    def consume(self, row: ChatMessage) -> None:
        """The adapter takes a message for itself before its turn."""
        self._tell()
        self.journal.decided_before(row, DONE, self.now)
        self.notes[row.id].done = self.notes[row.id].excused = True

    def _tell(self) -> None:
        self._told += 1
        self.moves += 1

    def _saw(self, row: ChatMessage) -> None:
        entry, text = self.journal.entries.get(row.id), int(row.content)
        if entry is not None:
            self._newest[entry] = max(text, self._newest.get(entry, 0))

    # ------------------------------------------------------------------ answers

    def step(self, fault: Fault = "no", how: HowEnded = "done") -> None:
        """Give the room what it stands and waits for, in a way."""
        at = self.at
        if at is None or (at.what == "wait" and self.now < at.until and at.told == self._told):
            return
        answer: Any = fault
        if at.what == "claim" and at.entry is not None:
            posted = self.notes[at.entry.id].posted
            answer = self.platform.answer_claim(posted, fault)
        elif at.what == "mark" and at.entry is not None:
            answer = self._try_mark(at.entry, fault)
        elif at.what == "turn":
            answer = self._verdict(how)
        self.at = self._steps.send(answer)

    def retry_marks(self, fault: Fault = "no") -> None:
        """The settler tries what is due."""
        for entry in self.journal.entries.of(Phase.DECIDED):
            mark = entry.mark
            if mark is not None and mark.kept and mark.due <= self.now:
                self._tell()
                mark.tries += 1
                self._mark_answered(entry, *self._try_mark(entry, fault))

    def _try_mark(self, entry: Entry, fault: Fault) -> tuple[MarkResult, float]:
        posted, mark = self.notes[entry.id].posted, entry.mark
        assert mark is not None
        if not mark.claimed:
            match self.platform.answer_claim(posted, fault).result:
                case ClaimResult.CLAIMED:
                    mark.claimed = True
                case ClaimResult.STOPPED:
                    return MarkResult.STOPPED, 0.0
                case ClaimResult.GONE:
                    return MarkResult.NOT_FOUND, 0.0
                case ClaimResult.REFUSED:
                    return MarkResult.REJECTED, 0.0
                case _:
                    return MarkResult.UNCONFIRMED, 0.0
        return self.platform.answer_mark(posted, mark.verdict.fate, fault)

    def _mark_answered(self, entry: Entry, result: MarkResult, told: float) -> None:
        self._tell()
        self.journal.mark_answered(entry, result, self.now, told=told)
        if result is MarkResult.STOPPED and self.at is not None:
            self._observe_stop()

    def _observe_stop(self) -> None:
        if not self.journal.controls.stopped:
            self.control("stop")

    def _verdict(self, how: HowEnded) -> Verdict:
        match self._ended_by:
            case EndReason.INTERRUPT:
                return DONE
            case EndReason.STOP:
                return Verdict(Fate.RELEASED, EndReason.STOP)
        if how == "not accepted":
            return Verdict(Fate.RELEASED, NOT_ACCEPTED)
        return DONE if how == "done" else FAILED

    def finish(self) -> None:
        """All faults have ended, and time runs on until nothing is left to do."""
        self.platform.stopped = False
        if self.at is None:
            self.come_back()
        for _ in range(MOST_STEPS):
            self.retry_marks()
            self.check()
            at = self.at
            assert at is not None
            if at.what == "wait" and at.told == self._told and self.now < at.until:
                if self._is_over():
                    return
                due = [e.mark.due for e in self.journal.entries.of(Phase.DECIDED) if e.mark]
                self.now = max(self.now, min([at.until, *due]))
            self.step()
        raise AssertionError(f"26: it does not come to an end, at {self.at}")

    def _is_over(self) -> bool:
        budget = self.session.max_message_retries
        left = [
            posted.id
            for posted in self.platform.actionable()
            if max(posted.failed, self.notes[posted.id].failures) < budget
        ]
        return not left and not self.journal.unsettled

    # ------------------------------------------------------------------ the loop of the room

    def _serve(self) -> Steps:
        while True:
            yield from self._do(self._ask())

    def _ask(self) -> Todo:
        self.moves += 1
        todo = self.journal.next(self.now)
        busy = self._last == (todo, self._told) and not isinstance(todo, Wait)
        assert not busy, f"asked again, it says {todo} again"
        self._last = (todo, self._told)
        if self.journal.controls.stopped:
            assert not isinstance(todo, Run | Read), f"50: stopped, and it says {todo}"
        return todo

    def _do(self, todo: Todo) -> Steps:
        match todo:
            case Run(entry):
                yield from self._run(entry)
            case Settle(entry):
                yield from self._settle(entry)
            case Read(cause):
                yield from self._read(cause)
            case Probe():
                yield from self._probe()
            case Wait(until):
                assert until > self.now, "waits for what is over"
                yield At("wait", until=until, told=self._told)

    def _run(self, entry: Entry) -> Steps:
        before = self._blockers(entry)
        yield At("choose", entry)
        self._tell()
        if self.journal.chosen(entry, self.now) is None:
            return
        self._check_choice(entry, before)
        self._ended_by = None
        claim = yield At("claim", entry)
        self._tell()
        interrupted = self._ended_by is EndReason.INTERRUPT
        self.journal.claim_answered(entry, claim, self.now, interrupted=interrupted)
        self.notes[entry.id].done |= entry.owed
        if claim.result is ClaimResult.STOPPED:
            self._observe_stop()
        if entry.phase is not Phase.RUNNING:
            return
        if self._ended_by is None:
            self.notes[entry.id].started = True
            self.journal.run_began(entry)
            verdict = yield At("turn", entry)
        else:
            verdict = self._verdict("done")
        self._tell()
        self.journal.turn_ended(entry, verdict, self.now)
        self._note(entry, verdict)
        if self._ended_by is EndReason.STOP:
            self._observe_stop()
        self._ended_by = None
        if entry.phase is Phase.DECIDED:
            yield from self._settle(entry)

    def _settle(self, entry: Entry) -> Steps:
        self._tell()
        assert entry.mark is not None
        entry.mark.tries += 1
        result, told = yield At("mark", entry)
        self._mark_answered(entry, result, told)
        if entry.mark is not None:
            entry.mark.kept = True

    def _probe(self) -> Steps:
        self._aborted, revision = False, self.journal.controls.revision
        fault = yield At("probe")
        resumed = fault == "no" and not self._aborted and bool(self.platform.listed(-1))
        self._tell()
        self.journal.reads.probed(self.now)
        if resumed and revision == self.journal.controls.revision:
            self.control("play")

    def _read(self, cause: Dirty) -> Steps:
        self._aborted = False
        found: list[bool] = []
        try:
            yield from self._pass(found)
        except PassAbandoned:
            self._tell()
            self.journal.reads.ask(Dirty.CAUSED if found else cause)

    def _pass(self, found: list[bool]) -> Steps:
        """Go over the list as the drain does."""
        yield At("place")
        if self._aborted:
            raise PassAbandoned
        self._tell()
        epoch, after, number = self.journal.reads.epoch, -1, 1
        # A clock that shows whole seconds.
        served_at, newest = BEGAN + timedelta(seconds=int(self.now)), len(self.notes) - 1
        self.journal.read_began(self.now)
        while True:
            rows = yield from self._page(after)
            shifted = yield from self._work_off(rows, found)
            if len(rows) < PAGE and (not shifted or number == 1):
                break
            after, number = (
                (-1, 1) if shifted else (self.notes[rows[-1].id].posted.number, number + 1)
            )
        self._tell()
        self.journal.read_ended(epoch, self.now, served_at, found=bool(found))
        self._covered = newest if not self.platform.stopped else -1

    def _page(self, after: int) -> Generator[At, Any, list[ChatMessage]]:
        while True:
            fault = yield At("page")
            if self._aborted:
                raise PassAbandoned
            if fault == "no":
                if self.platform.stopped:  # a list that looks empty: nobody can know what waits
                    self._forget_told()
                return [posted.row() for posted in self.platform.listed(after)]

    def _forget_told(self) -> None:
        self._covered = -1
        for notes in self.notes.values():
            notes.told = False

    def _work_off(self, rows: list[ChatMessage], found: list[bool]) -> Generator[At, Any, bool]:
        """Do what is to be done with the rows of a page; tell whether there was anything."""
        shifted, left = False, list(rows)
        while left:
            if self._aborted:
                raise PassAbandoned
            self._tell()
            todo = self.journal.listed(left[0], self.now)
            self._saw(left[0])
            if todo is None:
                left.pop(0)
                continue
            found.append(True)
            shifted = True
            yield from self._do(todo)
            if not self.journal.free:
                raise PassAbandoned
        return shifted

    # ------------------------------------------------------------------ what must hold

    def _in_work(self) -> Entry | None:
        return next((e for phase in _IN_WORK for e in self.journal.entries.of(phase)), None)

    def _note(self, entry: Entry, verdict: Verdict) -> None:
        notes, session = self.notes[entry.id], self.session
        notes.done |= verdict.fate is Fate.PROCESSED
        if verdict.fate is Fate.FAILED:
            notes.failures += 1
            wait = session.retry_base_seconds * 2 ** (notes.failures - 1)
            notes.not_before = self.now + min(wait, session.retry_cap_seconds) / 2

    def _blockers(self, entry: Entry) -> list[Notes]:
        """Return the messages that this one must not overtake, as far as the room knows of them."""
        mine = self.notes[entry.id]
        if mine.started or mine.excused:
            return []
        return [
            notes
            for notes in self.notes.values()
            if notes.posted.number < mine.posted.number
            and (notes.told or notes.posted.number <= self._covered)
            and not (notes.posted.deleted or notes.posted.processed)
            and notes.posted.failed < self.session.max_message_retries
        ]

    def _check_choice(self, entry: Entry, before: list[Notes]) -> None:
        notes, posted = self.notes[entry.id], self.notes[entry.id].posted
        budget = self.session.max_message_retries
        assert not notes.done, f"14, 21: {entry.id} runs again"
        assert not posted.processed, f"19: {entry.id} is processed"
        assert max(notes.failures, posted.failed) < budget, f"34: {entry.id} runs once too often"
        assert self.now >= notes.not_before, f"36: {entry.id} runs before its time"
        assert int(entry.row.content) == self._newest[entry], f"C95: an old text of {entry.id} runs"
        self._excuse()
        overtaken = [n.posted.id for n in before if not (n.started or n.excused or n.done)]
        assert not overtaken, f"4, 5: {entry.id} overtakes {overtaken}"
        if posted.failed or notes.started:
            assert entry.attempt > 1 or notes.posted.failed == 0, f"81: {entry.id} does not know"

    def check(self) -> None:
        """Check what must hold at any time."""
        journal, entries = self.journal, self.journal.entries
        by_phase = [entry for phase in Phase for entry in entries.of(phase)]
        assert sorted(e.id for e in entries) == sorted(e.id for e in by_phase), "one entry per id"
        for phase in Phase:
            assert all(entry.phase is phase for entry in entries.of(phase))
            assert entries.count(phase) <= CAPACITY.get(phase, math.inf), f"77: {phase} is full"
        assert sum(entries.count(phase) for phase in _IN_WORK) <= 1, "1: two at once"
        assert entries.count(Phase.STOPPED) <= 1, "49: two were stopped"
        most = self.session.room_unsettled + 1  # one may be consumed during a turn
        assert entries.count(Phase.DECIDED) <= most, "77: too many verdicts"
        assert len(entries.hints) <= self.session.room_hints, "77: too many hints"
        assert all(e.phase is Phase.LISTED and e.message for e in entries.hints.values())
        held = journal.held
        assert entries.of(Phase.HELD) in ([], [held]), "one message is held"
        assert held is None or held.phase in (Phase.HELD, Phase.DECIDED), "it waits"
        assert all((e.mark is not None) is (e.phase is Phase.DECIDED) for e in by_phase)
        self._excuse()

    def _excuse(self) -> None:
        for entry in self.journal.entries:
            self.notes[entry.id].excused |= entry.phase in _EXCUSED or entry.was_aside

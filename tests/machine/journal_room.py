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

from band_trio.config.agent import SessionConfig
from band_trio.protocol.events import Mode
from band_trio.protocol.rest import ChatMessage
from band_trio.runtime.journal.answers import ClaimOutcome, ClaimResult, MarkResult
from band_trio.runtime.journal.entries import Entry, Phase
from band_trio.runtime.journal.journal import Journal
from band_trio.runtime.journal.reads import Dirty
from band_trio.runtime.journal.todo import Probe, Read, Run, Settle, Todo, Wait
from band_trio.runtime.journal.verdict import DONE, NOT_ACCEPTED, Fate, Verdict
from band_trio.runtime.lifecycle import EndReason
from tests.machine.journal_model import BEGAN, PAGE, Fault, Platform, Posted
from tests.machine.journal_watch import IN_WORK, Notes, Watch
from tests.runtime.units.journal_kit import new_journal

FAILED: Final = Verdict(Fate.FAILED, error="no", plain_error="no")
Where: TypeAlias = Literal["choose", "claim", "turn", "mark", "place", "page", "probe", "wait"]
HowEnded: TypeAlias = Literal["done", "failed", "not accepted"]
UNKNOWN: Final = ClaimOutcome(ClaimResult.UNKNOWN)
MOST_STEPS: Final = 600
"""In which everything must have come to its end once nothing goes wrong any more."""


@attrs.frozen
class At:
    """Where the room stands: what it has asked for and not got yet."""

    what: Where
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
    journal: Journal = attrs.field(init=False)
    watch: Watch = attrs.field(init=False)
    at: At | None = attrs.field(default=None, init=False)
    """None while the room is not served."""
    _steps: Steps = attrs.field(init=False)
    _ended_by: EndReason | None = attrs.field(default=None, init=False)
    _aborted: bool = attrs.field(default=False, init=False)
    _last: tuple[Todo, int] | None = attrs.field(default=None, init=False)
    """The last answer, and how much had been told by then."""
    _told: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.journal = new_journal(self.session)
        self.watch = Watch(self.journal, self.session)
        self.enter(joined=False)

    def post(self) -> Posted:
        """A person writes a message."""
        posted = self.platform.post(self.now)
        self.watch.notes[posted.id] = Notes(posted)
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
        self.watch.left()

    def come_back(self) -> None:
        """The agent is in the room again."""
        self.platform.member = True
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
        self.watch.notes[message.id].told = True
        self.watch.saw(message)

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
        return self.watch.notes[posted.id].told and not known and self.journal.has_room

    def consume(self, row: ChatMessage) -> None:
        """The adapter takes a message for itself before its turn."""
        self._tell()
        self.journal.decided_before(row, DONE, self.now)
        self.watch.notes[row.id].done = self.watch.notes[row.id].excused = True

    def _tell(self) -> None:
        self._told += 1
        self.moves += 1
        self.watch.look()

    # ------------------------------------------------------------------ answers

    def step(self, fault: Fault = "no", how: HowEnded = "done") -> None:
        """Give the room what it stands and waits for, in a way."""
        at = self.at
        if at is None or self._only_waits(at):
            return
        answer: Any = fault
        if at.what == "claim" and at.entry is not None:
            posted = self.watch.posted(at.entry.id)
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
        posted, mark = self.watch.posted(entry.id), entry.mark
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

    def go_on(self, fault: Fault = "no", how: HowEnded = "done") -> None:
        """Answer, in a way, and let time pass where there is nothing to answer."""
        self.retry_marks(fault)
        if self.at is not None and self._only_waits(self.at):
            due = [e.mark.due for e in self.journal.entries.of(Phase.DECIDED) if e.mark]
            self.now = max(self.now, min([self.at.until, *due]))
        self.step(fault, how)

    def _only_waits(self, at: At) -> bool:
        return at.what == "wait" and at.told == self._told and self.now < at.until

    def finish(self) -> None:
        """All faults have ended, and time runs on until nothing is left to do."""
        self.platform.stopped = False
        if self.at is None:
            self.come_back()
        for _ in range(MOST_STEPS):
            self.watch.check()
            if self.at is not None and self._only_waits(self.at) and self._is_over():
                return
            self.go_on()
        raise AssertionError(f"26: it does not come to an end, at {self.at}")

    def _is_over(self) -> bool:
        budget = self.session.max_message_retries
        left = [
            posted.id
            for posted in self.platform.actionable()
            if max(posted.failed, self.watch.notes[posted.id].failures) < budget
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
        before = self.watch.before(entry)
        yield At("choose", entry)
        self._tell()
        if self.journal.chosen(entry, self.now) is None:
            return
        self.watch.begins(entry, before, self.now)
        self._turn_opens()
        claim = yield At("claim", entry)
        self._tell()
        interrupted = self._ended_by is EndReason.INTERRUPT
        self.journal.claim_answered(entry, claim, self.now, interrupted=interrupted)
        self.watch.notes[entry.id].done |= entry.owed
        if claim.result is ClaimResult.STOPPED:
            self._observe_stop()
        if not self.journal.entries.count(Phase.RUNNING):
            return
        if self._ended_by is None:
            self.watch.notes[entry.id].started = True
            self.journal.run_began(entry)
            verdict = yield At("turn", entry)
        else:
            verdict = self._verdict("done")
        self._tell()
        self.journal.turn_ended(entry, verdict, self.now)
        self.watch.ended(entry, verdict, self.now)
        if self._ended_by is EndReason.STOP:
            self._observe_stop()
        if entry.mark is not None:
            yield from self._settle(entry)

    def _turn_opens(self) -> None:
        self._ended_by = None

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
            self.journal.reads.abandoned(cause, found=bool(found))

    def _pass(self, found: list[bool]) -> Steps:
        """Go over the list as the drain does."""
        yield At("place")
        if self._aborted:
            raise PassAbandoned
        self._tell()
        epoch, after, number = self.journal.reads.epoch, -1, 1
        # A clock that shows whole seconds.
        served_at, newest = BEGAN + timedelta(seconds=int(self.now)), len(self.watch.notes) - 1
        self.journal.read_began(self.now)
        while True:
            rows = yield from self._page(after)
            shifted = yield from self._work_off(rows, found)
            if len(rows) < PAGE and (not shifted or number == 1):
                break
            after, number = (
                (-1, 1) if shifted else (self.watch.posted(rows[-1].id).number, number + 1)
            )
        self._tell()
        self.journal.read_ended(epoch, self.now, served_at, found=bool(found))
        self.watch.covered = newest if not self.platform.stopped else -1

    def _page(self, after: int) -> Generator[At, Any, list[ChatMessage]]:
        while True:
            fault = yield At("page")
            if self._aborted:
                raise PassAbandoned
            if fault == "no":
                if self.platform.stopped:
                    self.watch.blinded()
                return [posted.row() for posted in self.platform.listed(after)]

    def _work_off(self, rows: list[ChatMessage], found: list[bool]) -> Generator[At, Any, bool]:
        """Do what is to be done with the rows of a page; tell whether there was anything."""
        shifted = False
        for row in rows:
            self._look_up()
            self._tell()
            todo = self.journal.listed(row, self.now)
            self.watch.saw(row)
            if todo is not None:
                found.append(True)
                shifted = True
                yield from self._do(todo)
                if todo.entry.phase is None:
                    raise PassAbandoned
        self._look_up()
        return shifted

    def _look_up(self) -> None:
        if self._aborted or not self.journal.free:
            raise PassAbandoned

    def _in_work(self) -> Entry | None:
        return next((e for phase in IN_WORK for e in self.journal.entries.of(phase)), None)

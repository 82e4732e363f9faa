"""The journal of one room: all that it knows of its messages and of its list, without I/O.

It is told what happens, and asked what to do:

    told   pushed · listed · chosen · claim_answered · turn_ended · consumed · mark_answered
           read_began · read_ended · control · joined · new_epoch · left
    asked  next(now) → Run | Settle | Read | Probe | Wait

Messages are entries, one per id, which move between phases by the table in `entries`. The truth is
the platform's list: whatever is forgotten here is seen there again, and where nothing is sure the
answer is to read it. Time stamps decide only whether it is asked, never that a message is old.
Every *now* is in trio's time. A journal outlives the membership in its room until its last verdict
is confirmed.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Final

import attrs

from band_trio.config.agent import SessionConfig
from band_trio.protocol.events import Mode
from band_trio.protocol.rest import ChatMessage, Delivery
from band_trio.runtime.journal.answers import FINAL, ClaimOutcome, ClaimResult, MarkResult
from band_trio.runtime.journal.control import RoomControl
from band_trio.runtime.journal.entries import CAPACITY, OVER, Entries, Entry, Move, Phase
from band_trio.runtime.journal.reads import Dirty, Reads
from band_trio.runtime.journal.todo import Probe, Read, Run, Settle, Todo, Wait
from band_trio.runtime.journal.verdict import (
    CLAIMED_LATE,
    DONE,
    DONE_BEFORE,
    NOT_ACCEPTED,
    Fate,
    Mark,
    Verdict,
    offer_wait,
)
from band_trio.runtime.lifecycle import EndReason

BRIEFLY: Final = 1.0
"""Seconds after which the room looks again at what it could not begin with."""


@attrs.define(eq=False)
class Journal:
    """See the module."""

    room_id: str
    agent_id: str
    _session: SessionConfig
    reads: Reads
    controls: RoomControl = attrs.field(factory=RoomControl)
    held: Entry | None = attrs.field(default=None, init=False)
    """The one message that keeps later ones waiting; its last verdict may still be on its way."""
    watermark: datetime | None = attrs.field(default=None, init=False)
    """A push inserted then or later, and not known, is new for sure: the newest message that was
    handled here since the list was read to its end, or else the instant of that read."""
    entries: Entries = attrs.field(factory=Entries, init=False)
    _served: bool = attrs.field(default=False, init=False)

    # ------------------------------------------------------------------ asked

    def next(self, now: float) -> Todo:
        """Return what the room should do now."""
        phases = self.entries.phases
        for entry in phases.get(Phase.DECIDED, {}).values():
            if entry.mark is not None and not (entry.mark.tries or entry.mark.kept):
                return Settle(entry)
        if self.controls.stopped:
            return self._next_stopped(now)
        if self.held is not None:
            return self._next_held(self.held, now)
        if not self.has_room:  # a mark that is confirmed wakes the room
            return Wait(math.inf)
        for entry in phases.get(Phase.STOPPED, {}).values():
            return Run(entry)
        return self._next_read(now)

    def _next_stopped(self, now: float) -> Todo:
        probe = self.reads.probe
        if self.entries.hints:
            self.entries.hints.clear()
            probe.hasten(now)
        due = probe.due(now)
        return Wait(due) if now < due else Probe()

    def _next_read(self, now: float) -> Todo:
        reads = self.reads
        if reads.dirty is Dirty.CLEAN:
            for entry in self.entries.hints.values():
                return self._next_hint(entry)
            poll_at = reads.poll.due(now)
            wake = min(poll_at, self.entries.next_due(reads.began_at))
            if now < wake:
                return Wait(wake)
            if now >= poll_at:
                return Read(Dirty.POLL)
            reads.ask(Dirty.CAUSED)
        return Wait(reads.due) if now < reads.due else Read(reads.dirty)

    def _next_held(self, entry: Entry, now: float) -> Todo:
        if self._is_ready(entry, now) and self.has_room:
            return self._run_or_settle(entry, now)
        if entry.hold_until <= now and self.entries.room_aside(now):
            self.held = None
            entry.was_aside = True
            if entry.phase is Phase.HELD:
                self.entries.move(entry, Move.PUT_ASIDE)
            self.reads.ask(Dirty.CAUSED)
            return self.next(now)
        times = (entry.until, entry.hold_until, self.entries.next_due(now))
        return Wait(min((time for time in times if time > now), default=math.inf))

    def _next_hint(self, entry: Entry) -> Todo:
        if self.reads.read_in != self.reads.epoch or not self.follows(entry):
            self.reads.ask(Dirty.CAUSED)
            return Read(Dirty.CAUSED)
        return Run(entry)

    def _run_or_settle(self, entry: Entry, now: float) -> Run | Settle:
        return Settle(self._decide(entry, DONE, now, claimed=False)) if entry.owed else Run(entry)

    @property
    def free(self) -> bool:
        """Whether the next message of a list may be begun with."""
        waits = self.held is not None or self.entries.count(Phase.STOPPED)
        return not waits and not self.controls.stopped and self.has_room

    @property
    def has_room(self) -> bool:
        """Whether so few verdicts wait for confirmation that more may be claimed."""
        return self.unsettled < self._session.room_unsettled

    @property
    def unsettled(self) -> int:
        """How many verdicts the platform has not confirmed."""
        return len(self.entries.phases.get(Phase.DECIDED, ()))

    @property
    def of_no_use(self) -> bool:
        """Whether nothing in it would be missed by a room that is not served."""
        return not self.controls.revision and not any(self.entries)

    def is_for_us(self, message: ChatMessage) -> bool:
        """Tell whether a message is work at all: text, mentions us, from somebody else."""
        return (
            message.message_type == "text"
            and message.sender_id != self.agent_id
            and message.mentions(self.agent_id)
        )

    def is_actionable(self, message: ChatMessage) -> bool:
        """Tell whether it is work, and not processed yet as far as its row says."""
        return self.is_for_us(message) and message.delivery(self.agent_id).status != "processed"

    def is_known(self, message_id: str, now: float) -> bool:
        """Tell whether a message is handled already, being handled, or waits for its time."""
        entry = self.entries.get(message_id)
        return entry is not None and not self._is_ready(entry, now)

    def _is_ready(self, entry: Entry, now: float) -> bool:
        if entry.phase in (Phase.HELD, Phase.ASIDE, Phase.REFUSED):
            return entry.until <= now
        return entry.phase in (Phase.LISTED, Phase.STOPPED)

    def follows(self, message: Entry | ChatMessage) -> bool:
        """Tell whether a push that is not known is new for sure; else the list has to tell."""
        when, forgotten = message.inserted_at, self.entries.forgotten
        if when is None or self.watermark is None or when < self.watermark:
            return False
        return forgotten is None or when > forgotten

    # ------------------------------------------------------------------ told: from outside

    def begin(self, now: float, *, joined: bool) -> None:
        """The room is served from now on; *joined*: its topic is, from an earlier try."""
        for phase in (Phase.CLAIMING, Phase.RUNNING):  # of a child that broke
            for entry in self.entries.of(phase):
                self.entries.move(entry, Move.RELEASE)
        self.entries.hints.clear()
        self._served = True
        self.reads.begin(now, joined=joined)

    def pushed(self, message: ChatMessage, now: float) -> None:
        """A message that is for us was pushed: a hint that there is work."""
        delivery = message.delivery(self.agent_id)
        if delivery.status == "processed":
            return
        entry, hints = self.entries.see(message, delivery), self.entries.hints
        most = min(self._session.room_hints, CAPACITY[Phase.LISTED] - 1)
        if entry.id in hints or not self._is_ready(entry, now):
            return
        over = delivery.reopened or self.is_used_up(entry)
        is_new = entry.phase is Phase.LISTED and not over
        last = next(reversed(hints.values()), None)
        if not is_new or len(hints) >= most or (last is not None and entry.precedes(last)):
            self.reads.ask(Dirty.CAUSED)
        if is_new and len(hints) < most:
            hints[entry.id] = entry

    def new_epoch(self, now: float) -> None:
        """The connection is a new one: pushes may be lost, refusals may have changed."""
        for entry in self.entries.of(Phase.REFUSED):
            entry.until = now
        self.reads.new_epoch(now)

    def hurry(self, now: float) -> None:
        """Let every verdict be tried again as soon as told waits allow."""
        for entry in self.entries.of(Phase.DECIDED):
            if entry.mark is not None:
                entry.mark.hurry(now)

    def control(self, mode: Mode, now: float, correlation_id: str | None = None) -> bool:
        """A control signal; tell whether it acts (a copy does not)."""
        if correlation_id is not None and not self.controls.first_time(correlation_id):
            return False
        self.controls.apply(mode)
        if mode == "play":
            self.reads.caught_up = False  # the list of a stopped room looks empty
            self.hurry(now)
            self.reads.ask(Dirty.CAUSED)
        elif mode == "stop":
            self.reads.probed(now)
        return True

    def forget_controls(self) -> None:
        """The membership is over: what is told from now on is about the next one."""
        self.controls = RoomControl()

    def left(self) -> None:
        """The last turn of a membership has ended. Verdicts, and work that is owed a mark, stay."""
        self.entries.hints.clear()
        for entry in self.entries:
            if entry.mark is not None:
                entry.mark.orphan = True
            elif not entry.owed:
                self.entries.forget(entry)
            else:
                entry.until = -math.inf  # in the next membership it is asked for at once
                if entry.phase is Phase.HELD:
                    self.entries.move(entry, Move.PUT_ASIDE)
        self.held = self.watermark = None
        self._served = False

    # ------------------------------------------------------------------ told: the list

    def read_began(self, now: float) -> None:
        """A pass over the list begins. Hints that only asked for it are done with."""
        self.reads.began(now)
        for entry in list(self.entries.hints.values()):
            if not self.follows(entry):
                del self.entries.hints[entry.id]

    def listed(self, message: ChatMessage, now: float) -> Run | Settle | None:
        """A row of the list; return what is to be done with it now, if anything."""
        delivery = message.delivery(self.agent_id)
        if delivery.status == "processed" or not self.is_for_us(message):
            return None
        entry = self.entries.see(message, delivery)
        if entry.phase in OVER:
            return self._settle_again(entry, delivery, now)
        if entry.phase is Phase.HELD or not self._is_ready(entry, now):
            return None
        if self.is_used_up(entry) and not entry.owed:
            self.entries.move(entry, Move.GIVE_UP)  # it was told when that happened
            return self._settle_again(entry, delivery, now)
        entry.take(message)
        entry.owed |= delivery.reopened  # it was done before, in an earlier membership or process
        return self._run_or_settle(entry, now)

    def _settle_again(self, entry: Entry, delivery: Delivery, now: float) -> Settle | None:
        """Mark a message that is over, if a claim of ours was carried out after its last mark."""
        done = entry.phase is Phase.CONFIRMED
        live = delivery.reopened if done else delivery.status == "processing"
        if not live or entry.until > now:
            return None
        # Not at each read: a list may lag behind.
        entry.until = now + self._session.refused_recheck_seconds
        verdict = DONE_BEFORE if done else CLAIMED_LATE
        return Settle(self._decide(entry, verdict, now, claimed=True))

    def read_ended(
        self, epoch: int, now: float, served_at: datetime | None, *, found: bool
    ) -> None:
        """A pass has come to the end of the list, in an *epoch*; *found*: it ran something.

        *served_at* is the platform's clock when the list was read, if it said so. It shows whole
        seconds: what was inserted in this one may be on the list or not.
        """
        self.reads.ended(epoch, now, found=found)
        if self.watermark is None and served_at is not None:
            self.watermark = served_at + timedelta(seconds=1)

    # ------------------------------------------------------------------ told: one message

    def chosen(self, entry: Entry, now: float) -> ChatMessage | None:
        """The room begins with a message; return its newest row, or None if it may not any more.

        Between asking and beginning something may have waited: then it asks again.
        """
        if self.controls.stopped or not self.has_room or self.held not in (None, entry):
            return None
        if entry.owed or not self._is_ready(entry, now):
            return None
        if entry.message is not None:  # else the list has to tell it
            if entry.phase is not Phase.LISTED:
                entry.take_up(now)
            entry.begun, self.held = True, None
            entry.attempt = max(entry.before, entry.crashes) + entry.runs + 1
            self.entries.move(entry, Move.CHOOSE)
        return entry.message

    def claim_answered(
        self, entry: Entry, claim: ClaimOutcome, now: float, *, interrupted: bool = False
    ) -> None:
        """The claim of a chosen message has its answer, or none.

        *interrupted*: a person called it off meanwhile, so that it is not run once it is ours.
        """
        session = self._session
        match claim.result:
            case ClaimResult.CLAIMED:
                self.entries.move(entry, Move.CLAIM)
            case ClaimResult.STOPPED:
                self.entries.move(entry, Move.STOP if entry.resumes else Move.RELEASE)
            case ClaimResult.GONE | ClaimResult.REFUSED:  # a 404 may hide the whole room for now
                entry.owed |= interrupted and claim.result is ClaimResult.REFUSED
                entry.until = now + session.refused_recheck_seconds
                self.entries.move(entry, Move.REFUSE)
            case _:
                entry.owed |= interrupted
                wait = max(entry.claim_wait(session), claim.retry_after or 0.0)
                hold = session.hold_seconds
                self._keep(entry, entry.postpone(wait, now, hold, waited=claim.took))

    def put_off(self, entry: Entry, now: float) -> None:
        """The room cannot begin with it yet, for a reason that lies outside."""
        if entry.phase is not Phase.LISTED:
            entry.take_up(now)
        wait = entry.claim_wait(self._session)
        if not entry.was_aside:
            wait = min(wait, BRIEFLY)
        self._keep(entry, entry.postpone(wait, now, self._session.hold_seconds))

    def run_began(self, entry: Entry) -> None:
        """The handler of a claimed message is about to be called."""
        entry.runs += 1

    def turn_ended(self, entry: Entry, verdict: Verdict, now: float) -> None:
        """The turn of a claimed message has ended; its verdict does not change any more."""
        session = self._session
        if verdict.fate is Fate.RELEASED:
            if verdict.reason == EndReason.STOP:
                self.entries.move(entry, Move.STOP)
            elif verdict.reason == NOT_ACCEPTED:
                wait = offer_wait(entry.tries)
                self._keep(entry, entry.postpone(wait, now, session.hold_seconds, endless=True))
            else:
                self.entries.move(entry, Move.RELEASE)
            return
        if verdict.fate is Fate.FAILED:
            entry.spent += 1
            wait, left = entry.retry_wait(session), not self.is_used_up(entry)
            if left and entry.postpone(wait, now, session.hold_seconds):
                self.held = entry
        self._decide(entry, verdict, now, claimed=True)
        if verdict.fate is Fate.PROCESSED or self.is_used_up(entry):
            self._raise_watermark(entry)

    def is_used_up(self, entry: Entry) -> bool:
        """Tell whether a message has no runs left."""
        return entry.spent >= self._session.max_message_retries

    def decided_before(
        self, message: ChatMessage, verdict: Verdict, now: float, *, used_up: bool = False
    ) -> Entry:
        """There is a verdict about a message without a turn, and before its claim."""
        entry = self.entries.see(message, message.delivery(self.agent_id))
        if used_up:
            entry.spent = max(entry.spent, self._session.max_message_retries)
        return self._decide(entry, verdict, now, claimed=False)

    def mark_answered(
        self, entry: Entry, result: MarkResult, now: float, *, told: float = 0.0
    ) -> None:
        """A try has its answer, or none; *told*: seconds to wait before the next one."""
        mark = entry.mark
        if mark is not None and result in FINAL:
            self._settled(entry, mark, result, now)
        elif mark is not None:
            mark.answered(result, now, told, self._session)

    # ------------------------------------------------------------------ moves

    def _decide(self, entry: Entry, verdict: Verdict, now: float, *, claimed: bool) -> Entry:
        if not claimed and self.held is entry:
            self.held = None
        entry.mark = Mark(verdict, since=now, due=now, claimed=claimed)
        self.entries.move(entry, Move.DECIDE)
        return entry

    def _settled(self, entry: Entry, mark: Mark, result: MarkResult, now: float) -> None:
        """The platform knows, or does not want to; there is nothing left to tell it."""
        entry.mark = None
        done = mark.verdict.fate is Fate.PROCESSED
        entry.owed = done and not mark.verdict.again and result is not MarkResult.ACCEPTED
        if entry.owed:  # it may stay on the list, as when we left the room for a moment
            later = now + self._session.refused_recheck_seconds
            entry.until = -math.inf if mark.orphan else later
            self.entries.move(entry, Move.REFUSE)
        elif mark.orphan and not self._served:
            self.entries.forget(entry)
        elif done:
            self.entries.move(entry, Move.CONFIRM)
        elif self.is_used_up(entry):
            self.entries.move(entry, Move.GIVE_UP)
        else:
            self._keep(entry, holds=self.held is entry)

    def _keep(self, entry: Entry, holds: bool) -> None:
        """A message waits for its next run."""
        if holds:
            self.held = entry
        self.entries.move(entry, Move.HOLD if holds else Move.PUT_ASIDE)

    def _raise_watermark(self, entry: Entry) -> None:
        when = entry.inserted_at
        if when is None or entry.late or not self.reads.caught_up:
            return
        if self.watermark is None or when > self.watermark:
            self.watermark = when

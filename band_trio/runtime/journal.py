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
from datetime import datetime
from typing import Final, TypeAlias

import attrs

from band_trio.backoff import half_jitter
from band_trio.config import SessionConfig
from band_trio.protocol.events import Mode
from band_trio.protocol.rest import ChatMessage
from band_trio.runtime.answers import ClaimOutcome, ClaimResult, MarkResult
from band_trio.runtime.control import RoomControl
from band_trio.runtime.entries import Entries, Entry, Mark, Move, Phase
from band_trio.runtime.lifecycle import EndReason
from band_trio.runtime.reads import Dirty, Reads
from band_trio.runtime.verdict import DONE, NOT_ACCEPTED, Fate, Verdict

NOT_ACCEPTED_BASE: Final = 0.5
NOT_ACCEPTED_CAP: Final = 10.0
"""Seconds between two offers of a message that an adapter did not accept."""


@attrs.frozen
class Run:
    """Claim this message, and call the handler if it is ours."""

    entry: Entry


@attrs.frozen
class Settle:
    """Tell the platform this verdict: it was not tried yet."""

    entry: Entry


@attrs.frozen
class Read:
    """Read the list."""

    cause: Dirty


@attrs.frozen
class Probe:
    """Ask a stopped room's `next`: a message there says that it was resumed."""


@attrs.frozen
class Wait:
    """There is nothing to do before this time, unless something is told."""

    until: float


Todo: TypeAlias = Run | Settle | Read | Probe | Wait


@attrs.define(eq=False)
class Journal:
    """See the module."""

    room_id: str
    agent_id: str
    _session: SessionConfig
    controls: RoomControl = attrs.field(factory=RoomControl)
    held: Entry | None = attrs.field(default=None, init=False)
    """The one message that keeps later ones waiting; its last verdict may still be on its way."""
    watermark: datetime | None = attrs.field(default=None, init=False)
    """A push inserted then or later, and not known, is new for sure: the newest message that was
    handled here since the list was read to its end, or else the instant of that read."""
    entries: Entries = attrs.field(factory=Entries, init=False)
    _hints: dict[str, Entry] = attrs.field(factory=dict, init=False)
    """Those that were pushed and have not been looked at, in order."""
    reads: Reads = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        session = self._session
        self.reads = Reads(
            session.idle_resync_seconds,
            session.idle_resync_max_seconds,
            session.stopped_resync_seconds or session.idle_resync_seconds,
        )

    # ------------------------------------------------------------------ asked

    def next(self, now: float) -> Todo:
        """Return what the room should do now."""
        for entry in self.entries.of(Phase.DECIDED):
            if entry.mark is not None and not entry.mark.tries:
                return Settle(entry)
        if self.controls.stopped:
            return self._next_stopped(now)
        if self.held is not None:
            return self._next_held(self.held, now)
        if not self.has_room:  # a mark that is confirmed wakes the room
            return Wait(math.inf)
        for entry in self.entries.of(Phase.STOPPED):
            return Run(entry)
        return self._next_read(now)

    def _next_stopped(self, now: float) -> Todo:
        if self._hints or self.reads.probe_due(now):
            self._drop_hints()
            return Probe()
        return Wait(self.reads.probe_at)

    def _next_read(self, now: float) -> Todo:
        reads = self.reads
        if reads.dirty is Dirty.CLEAN:
            for entry in self._hints.values():
                return self._next_hint(entry, now)
            wake = min(reads.poll_at, self.entries.next_due(reads.began_at))
            if now < wake:
                return Wait(wake)
            reads.ask(Dirty.POLL if now >= reads.poll_at else Dirty.CAUSED)
        return Wait(reads.due) if now < reads.due else Read(reads.dirty)

    def _next_held(self, entry: Entry, now: float) -> Todo:
        if entry.phase is Phase.HELD and entry.until <= now:
            if entry.owed:
                return Settle(self._decide(entry, DONE, now, claimed=False))
            if self.has_room:
                return Run(entry)
        if entry.hold_until <= now and self.entries.room_aside(now):
            self.held = None
            entry.was_aside = True
            if entry.phase is Phase.HELD:
                self._move(entry, Move.PUT_ASIDE)
            self.reads.ask(Dirty.CAUSED)
            return self.next(now)
        times = (entry.until, entry.hold_until, self.entries.next_due(now))
        return Wait(min((time for time in times if time > now), default=math.inf))

    def _next_hint(self, entry: Entry, now: float) -> Todo:
        if not self.reads.complete or not self.follows(entry):
            self.reads.ask(Dirty.CAUSED)
            return Read(Dirty.CAUSED)
        if entry.owed:
            return Settle(self._decide(entry, DONE, now, claimed=False))
        return Run(entry)

    @property
    def free(self) -> bool:
        """Whether the next message of a list may be begun with."""
        return (
            not self.controls.stopped and self.held is None and not self.entries.of(Phase.STOPPED)
        )

    @property
    def has_room(self) -> bool:
        """Whether so few verdicts wait for confirmation that more may be claimed."""
        return self.unsettled < self._session.room_unsettled

    @property
    def unsettled(self) -> int:
        """How many verdicts the platform has not confirmed."""
        return self.entries.count(Phase.DECIDED)

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
        """Tell whether it is work, and not processed yet as far as its delivery status says."""
        return self.is_for_us(message) and message.delivery(self.agent_id).status != "processed"

    def is_known(self, message_id: str, now: float) -> bool:
        """Tell whether a message is handled already, being handled, or waits for its time."""
        entry = self.entries.get(message_id)
        return entry is not None and not self._may_run(entry, now)

    def _may_run(self, entry: Entry, now: float) -> bool:
        if entry.phase in (Phase.ASIDE, Phase.REFUSED):
            return entry.until <= now
        return entry.phase in (Phase.LISTED, Phase.STOPPED)

    def follows(self, message: Entry | ChatMessage) -> bool:
        """Tell whether a push that is not known is new for sure; else the list has to tell."""
        when = message.inserted_at
        return self.watermark is not None and when is not None and when >= self.watermark

    # ------------------------------------------------------------------ told: from outside

    def begin(self, now: float, *, joined: bool) -> None:
        """The room is served from now on; *joined*: its topic is, from an earlier try."""
        for phase in (Phase.CLAIMING, Phase.RUNNING):  # of a child that broke
            for entry in self.entries.of(phase):
                self._move(entry, Move.RELEASE)
        self._drop_hints()
        self.reads.begin(now, joined=joined)

    def pushed(self, message: ChatMessage, now: float) -> None:
        """A message that is for us was pushed: a hint that there is work."""
        if message.delivery(self.agent_id).status == "processed":
            return
        entry = self.entries.see(message, self.agent_id)
        if not self._may_run(entry, now) or entry.id in self._hints:
            return
        if len(self._hints) < self._session.room_hints:
            entry.message = message
            self._hints[entry.id], entry.hinted = entry, True
        else:
            self.reads.ask(Dirty.CAUSED)

    def new_epoch(self, now: float) -> None:
        """The connection is a new one: pushes may be lost, refusals may have changed."""
        for entry in self.entries.of(Phase.REFUSED):
            entry.until = now
        self.hurry(now)
        self.reads.new_epoch(now)

    def hurry(self, now: float) -> None:
        """Let every verdict be tried again as soon as told waits allow."""
        for entry in self.entries.of(Phase.DECIDED):
            if entry.mark is not None:
                entry.mark.stopped, entry.mark.due = False, max(now, entry.mark.not_before)

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
        self._drop_hints()
        for entry in self.entries:
            if entry.mark is not None:
                entry.mark.orphan = True
            elif not entry.owed:
                self.entries.forget(entry)
            elif entry.phase is Phase.HELD:
                self._move(entry, Move.PUT_ASIDE)
                entry.until = -math.inf
        self.held = self.watermark = None

    # ------------------------------------------------------------------ told: the list

    def read_began(self, now: float) -> None:
        """A pass over the list begins. Hints that only asked for it are done with."""
        self.reads.began(now)
        for entry in list(self._hints.values()):
            if not self.follows(entry):
                self._drop_hint(entry)

    def listed(self, message: ChatMessage, now: float) -> Run | Settle | None:
        """A row of the list; return what is to be done with it now, if anything."""
        if not self.is_actionable(message):
            return None
        entry = self.entries.see(message, self.agent_id)
        if not self._may_run(entry, now):
            return None
        if entry.spent >= self._session.max_message_retries:
            self._move(entry, Move.GIVE_UP)  # it was told when that happened
            return None
        if entry.owed:
            return Settle(self._decide(entry, DONE, now, claimed=False))
        if not self.has_room:
            return None
        entry.message = message
        return Run(entry)

    def read_ended(
        self, epoch: int, now: float, served_at: datetime | None, *, found: bool
    ) -> None:
        """A pass has come to the end of the list, in an *epoch*; *found*: it ran something.

        *served_at* is the platform's clock when the list was read, if it said so.
        """
        self.reads.ended(epoch, now, found=found)
        if self.watermark is None:
            self.watermark = served_at

    # ------------------------------------------------------------------ told: one message

    def chosen(self, entry: Entry, now: float) -> bool:
        """The room wants to begin with a message; tell whether it still may.

        Between asking and beginning something may have waited: then it asks again.
        """
        if self.controls.stopped or not self.has_room or entry.owed or entry.message is None:
            return False
        if entry.phase is None or self.held not in (None, entry):
            return False
        ready = entry.phase is Phase.HELD and entry.until <= now
        if not ready and not self._may_run(entry, now):
            return False
        if entry is self.held:
            self.held = None
            left = entry.hold_until - now
            entry.hold_left = None if left == math.inf else max(0.0, left)
        entry.was_aside |= entry.phase is Phase.ASIDE
        entry.late |= entry.phase in (Phase.ASIDE, Phase.REFUSED)
        entry.resumes = entry.phase is Phase.STOPPED
        entry.begun = True
        self._move(entry, Move.CHOOSE)
        return True

    def claim_answered(
        self, entry: Entry, claim: ClaimOutcome, now: float, *, interrupted: bool = False
    ) -> None:
        """The claim of a chosen message has its answer, or none.

        *interrupted*: a person called it off meanwhile, so that it is not run once it is ours.
        """
        match claim.result:
            case ClaimResult.CLAIMED:
                self._move(entry, Move.CLAIM)
            case ClaimResult.STOPPED:
                self._move(entry, Move.STOP if entry.resumes else Move.RELEASE)
            case ClaimResult.GONE | ClaimResult.REFUSED:  # a 404 may hide the whole room for now
                entry.owed |= interrupted and claim.result is ClaimResult.REFUSED
                entry.until = now + self._session.refused_recheck_seconds
                self._move(entry, Move.REFUSE)
            case _:
                entry.owed |= interrupted
                wait = max(self._claim_wait(entry), claim.retry_after or 0.0)
                self._postpone(entry, wait, now, waited=claim.took)
                self._move(entry, Move.HOLD if self.held is entry else Move.PUT_ASIDE)

    def run_began(self, entry: Entry) -> None:
        """The handler of a claimed message is about to be called."""
        entry.runs += 1

    def turn_ended(self, entry: Entry, verdict: Verdict, now: float) -> None:
        """The turn of a claimed message has ended; its verdict does not change any more."""
        session = self._session
        if verdict.fate is Fate.RELEASED:
            if verdict.reason == EndReason.STOP:
                self._move(entry, Move.STOP)
            elif verdict.reason == NOT_ACCEPTED:
                wait = half_jitter(entry.tries, NOT_ACCEPTED_BASE, NOT_ACCEPTED_CAP)
                self._postpone(entry, wait, now, endless=True)
                self._move(entry, Move.HOLD if self.held is entry else Move.PUT_ASIDE)
            else:
                self._move(entry, Move.RELEASE)
            return
        if verdict.fate is Fate.FAILED:
            entry.spent += 1
            if not self.is_used_up(entry):
                base, cap = session.retry_base_seconds, session.retry_cap_seconds
                self._postpone(entry, half_jitter(entry.spent - 1, base, cap), now)
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
        entry = self.entries.see(message, self.agent_id)
        if used_up:
            entry.spent = max(entry.spent, self._session.max_message_retries)
        return self._decide(entry, verdict, now, claimed=False)

    def mark_began(self, entry: Entry) -> None:
        """A try to tell the platform is about to be made."""
        if entry.mark is not None:
            entry.mark.tries += 1

    def mark_answered(
        self, entry: Entry, result: MarkResult, now: float, *, told: float = 0.0
    ) -> None:
        """A try has its answer, or none; *told*: seconds to wait before the next one."""
        mark, session = entry.mark, self._session
        if mark is None:
            return
        if result.final:
            self._settled(entry, mark, result, now)
            return
        mark.plain |= result is MarkResult.BAD_TEXT
        mark.not_before = now + told
        base, cap = session.settle_base_seconds, session.settle_cap_seconds
        mark.due = max(now + half_jitter(mark.tries - 1, base, cap), mark.not_before)
        mark.stopped = result is MarkResult.STOPPED
        if mark.stopped:  # a play that was missed is found in this time
            mark.due += session.stopped_resync_seconds or session.idle_resync_seconds

    # ------------------------------------------------------------------ moves

    def _move(self, entry: Entry, move: Move) -> None:
        if move is not Move.SEE:
            self._drop_hint(entry)
        self.entries.move(entry, move, keep=self.watermark)

    def _decide(self, entry: Entry, verdict: Verdict, now: float, *, claimed: bool) -> Entry:
        if not claimed and self.held is entry:
            self.held = None
        entry.mark = Mark(verdict, since=now, due=now, claimed=claimed)
        self._move(entry, Move.DECIDE)
        return entry

    def _settled(self, entry: Entry, mark: Mark, result: MarkResult, now: float) -> None:
        """The platform knows, or does not want to; there is nothing left to tell it."""
        entry.mark = None
        done = mark.verdict.fate is Fate.PROCESSED
        entry.owed = done and result is not MarkResult.ACCEPTED
        if entry.owed:  # it may stay on the list, as when we left the room for a moment
            entry.until = now + self._session.refused_recheck_seconds
            self._move(entry, Move.REFUSE)
        elif mark.orphan:
            self.entries.forget(entry)
        elif done:
            self._move(entry, Move.CONFIRM)
        elif self.is_used_up(entry):
            self._move(entry, Move.GIVE_UP)
        else:
            self._move(entry, Move.HOLD if self.held is entry else Move.PUT_ASIDE)

    def _postpone(
        self,
        entry: Entry,
        wait: float,
        now: float,
        *,
        waited: float = 0.0,
        endless: bool = False,
    ) -> None:
        """Let a message wait; it has held the room up for *waited* seconds already.

        It is held, and keeps the order of its room, unless its time at the head is used up.
        """
        entry.tries += 1
        entry.until = now + wait
        if entry.was_aside:
            return
        left = self._session.hold_seconds if entry.hold_left is None else entry.hold_left
        entry.hold_until = math.inf if endless else now + max(0.0, left - waited)
        self.held = entry

    def _claim_wait(self, entry: Entry) -> float:
        """Return the back-off of a claim; one that holds nobody up waits longer each time.

        The room waits for each claim, so that those of a message that was set aside must be rare.
        """
        session = self._session
        cap = session.settle_cap_seconds
        if entry.was_aside:
            cap = max(cap, session.idle_resync_max_seconds)
        return half_jitter(entry.tries, session.settle_base_seconds, cap)

    def _raise_watermark(self, entry: Entry) -> None:
        when = entry.inserted_at
        if when is None or entry.late or not self.reads.caught_up:
            return
        if self.watermark is None or when > self.watermark:
            self.watermark = when

    def _drop_hint(self, entry: Entry) -> None:
        if entry.hinted:
            del self._hints[entry.id]
            entry.hinted = False

    def _drop_hints(self) -> None:
        for entry in list(self._hints.values()):
            self._drop_hint(entry)

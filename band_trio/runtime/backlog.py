"""Which message of a room may run, which waits, and what an outcome means for those behind it.

Decisions only: nothing here awaits or sends. Time comes from trio's clock.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Final

import attrs
import trio

from band_trio.backoff import half_jitter
from band_trio.config import SessionConfig
from band_trio.protocol.rest import ChatMessage
from band_trio.runtime.claim import ClaimOutcome, ClaimResult
from band_trio.runtime.cycle import CycleEnd
from band_trio.runtime.intake import Dirty, Intake
from band_trio.runtime.known import Known, KnownMessage
from band_trio.runtime.lifecycle import EndReason
from band_trio.runtime.outbox import Outbox
from band_trio.runtime.record import NOT_ACCEPTED, Fate, Record
from band_trio.trace import GivenUp, Tracer

NOT_ACCEPTED_BASE: Final = 0.5
NOT_ACCEPTED_CAP: Final = 10.0
"""Seconds between two offers of a message that an adapter did not accept."""


class Cause(StrEnum):
    """Why a message is held."""

    FAILED = "failed"
    UNCLAIMED = "unclaimed"
    NOT_ACCEPTED = "not accepted"


@attrs.define(eq=False)
class Held:
    """The one message that waits and keeps later ones of its room waiting."""

    message: ChatMessage
    cause: Cause
    due: float
    """When it may run again, in trio's time."""
    since: float
    """When it was held, in trio's time."""
    may_hold: float
    """Seconds from *since* for which it may delay later messages; then it is set aside."""
    spent: int
    """Runs that failed."""
    tries: int
    """How often it was held, this time included."""

    @property
    def limit(self) -> float:
        """When it is set aside, in trio's time."""
        return self.since + self.may_hold


@attrs.define(eq=False)
class Backlog:
    """The order of one room's messages."""

    _room_id: str
    _agent_id: str
    _session: SessionConfig
    _intake: Intake
    _outbox: Outbox
    _tracer: Tracer
    held: Held | None = attrs.field(default=None, init=False)
    resume: ChatMessage | None = attrs.field(default=None, init=False)
    """The message that a stop interrupted: runs first after the play. Kept until something has
    come of it: another stop may come before it is claimed."""
    _carried: Held | None = attrs.field(default=None, init=False)
    """The held message while it runs again; its counts go on if it is held once more."""
    _stopped: tuple[str, int] | None = attrs.field(default=None, init=False)
    """Id and failed runs of the message that a stop interrupted last, or whose claim was answered
    `stopped`. Its row, the one in *resume* too, may be older than those runs, so the count is kept
    here."""

    # ------------------------------------------------------------------ questions

    def is_for_us(self, message: ChatMessage) -> bool:
        """Tell whether a message is work at all: text, mentions us, from somebody else."""
        return (
            message.message_type == "text"
            and message.sender_id != self._agent_id
            and message.mentions(self._agent_id)
        )

    def is_actionable(self, message: ChatMessage) -> bool:
        """Tell whether it is work, and not processed yet as far as its delivery status says."""
        return self.is_for_us(message) and message.delivery(self._agent_id).status != "processed"

    def is_known(self, message_id: str) -> bool:
        """Tell whether a message is already handled, held, postponed or awaiting confirmation."""
        known = self._intake.ids.get(message_id)
        held = self.held is not None and self.held.message.id == message_id
        waits = known is not None and known.until > trio.current_time()
        return held or waits or self._outbox.holds(self._room_id, message_id)

    def follows(self, message: ChatMessage) -> bool:
        """Tell whether a push that is not known is new for sure; else the platform is asked."""
        return self._intake.follows(message)

    def is_runnable(self, message: ChatMessage) -> bool:
        """Tell whether a listed message may run now; one that is used up is noted on the way."""
        if not self.is_actionable(message) or self.is_known(message.id):
            return False
        if self.spent(message) >= self._session.max_message_retries:
            # It was reported when that happened, perhaps by an earlier process.
            entry = KnownMessage(Known.GIVEN_UP, inserted_at=message.inserted_at)
            self._intake.note(message.id, entry)
            return False
        return self.has_room()

    def has_room(self) -> bool:
        """Tell whether so few records wait for confirmation that more may be claimed."""
        return self._outbox.unsettled(self._room_id) < self._session.room_unsettled

    def spent(self, message: ChatMessage) -> int:
        """Return how many runs of a message have failed: the platform's count, or ours."""
        known = self._intake.ids.get(message.id)
        own = known.spent if known is not None else 0
        for waiting in (self._held_before(message), self.held):
            if waiting is not None and waiting.message.id == message.id:
                own = max(own, waiting.spent)
        if self._stopped is not None and self._stopped[0] == message.id:
            own = max(own, self._stopped[1])
        return max(message.delivery(self._agent_id).spent or 0, own)

    # ------------------------------------------------------------------ holding

    def next_due(self) -> float:
        """Return when a message that was set aside or refused may run again."""
        return self._intake.ids.next_due(self._intake.read_at)

    def take_due(self) -> ChatMessage | None:
        """Return the held message if its time has come and its last mark is final."""
        held = self.held
        if held is None or held.due > trio.current_time():
            return None
        if self._outbox.holds(self._room_id, held.message.id):
            return None
        now = trio.current_time()
        may_hold = max(0.0, held.may_hold - (now - held.since))
        self.held, self._carried = None, attrs.evolve(held, since=now, may_hold=may_hold)
        return held.message

    def set_aside_late(self) -> bool:
        """Set the held message aside if it has held the room up for long enough, and can be."""
        held, now = self.held, trio.current_time()
        if held is None or held.limit > now or not self._intake.ids.make_room(now):
            return False
        self.held = None
        self._set_aside(held.message, held.due, held.spent, held.tries)
        self._intake.mark(Dirty.CAUSED)
        return True

    def next_change(self) -> float:
        """Return when time alone may change what becomes of the held message, in trio's time."""
        now = trio.current_time()
        times = [self._intake.ids.next_due(now)]
        if self.held is not None:
            times += (self.held.due, self.held.limit)
        return min((time for time in times if time > now), default=math.inf)

    def _set_aside(self, message: ChatMessage, due: float, spent: int, tries: int) -> None:
        entry = KnownMessage(Known.SET_ASIDE, until=due, spent=spent, tries=tries)
        self._intake.note(message.id, entry)

    def _hold(
        self, message: ChatMessage, cause: Cause, wait: float, spent: int, waited: float = 0.0
    ) -> None:
        """Let a message wait; it has held the room up for *waited* seconds already."""
        now, tries = trio.current_time(), self._tries(message) + 1
        if self._aside(message) is not None:
            self._set_aside(message, now + wait, spent, tries)  # its time at the head is used up
            return
        before = self._held_before(message)
        may_hold = self._session.hold_seconds
        if before is not None and before.cause is not Cause.NOT_ACCEPTED:
            may_hold = before.may_hold
        may_hold = math.inf if cause is Cause.NOT_ACCEPTED else max(0.0, may_hold - waited)
        self.held = Held(message, cause, now + wait, now, may_hold, spent, tries)

    def _aside(self, message: ChatMessage) -> KnownMessage | None:
        known = self._intake.ids.get(message.id)
        return known if known is not None and known.state is Known.SET_ASIDE else None

    def _held_before(self, message: ChatMessage) -> Held | None:
        before = self._carried
        return before if before is not None and before.message.id == message.id else None

    def _tries(self, message: ChatMessage) -> int:
        before = self._held_before(message) or self._aside(message)
        return before.tries if before is not None else 0

    # ------------------------------------------------------------------ outcomes

    def after(self, message: ChatMessage, end: CycleEnd) -> None:
        """Take in what came of a message."""
        if self.resume is message and end.claim.result is not ClaimResult.STOPPED:
            self.resume = None
        if end.record is None:
            self._after_claim(message, end.claim)
        elif end.record.fate is Fate.PROCESSED:
            self._intake.done_if_new(message, Known.RECENT)
            if self._outbox.done.has(self._room_id, message.id):  # listed again: mark it again
                self._ask_later(message)
        elif end.decided_before:
            self._intake.done_if_new(message, Known.GIVEN_UP)
        elif end.record.fate is Fate.FAILED:
            self._after_failure(message)
        else:
            self._after_release(message, end.record)
        self._carried = None

    def consumed(self, message: ChatMessage) -> None:
        """Take in that the adapter took a message as a chat control: its place is void.

        The watermark stays: messages before it may still wait.
        """
        self._intake.note(message.id, KnownMessage(Known.RECENT))
        if self.resume is message:
            self.resume = None

    def _after_claim(self, message: ChatMessage, claim: ClaimOutcome) -> None:
        match claim.result:
            case ClaimResult.STOPPED:  # the list serves it after the play, behind what is older
                self._stopped = (message.id, self.spent(message))
            case ClaimResult.GONE | ClaimResult.REFUSED:  # a 404 may hide the whole room for now
                self._ask_later(message)
            case _:
                wait = max(self._claim_wait(message), claim.retry_after or 0.0)
                self._hold(message, Cause.UNCLAIMED, wait, self.spent(message), claim.took)

    def _ask_later(self, message: ChatMessage) -> None:
        """Leave a message alone for a long while, or until a new epoch."""
        until = trio.current_time() + self._session.refused_recheck_seconds
        self._intake.note(message.id, KnownMessage(Known.REFUSED, until=until))

    def _claim_wait(self, message: ChatMessage) -> float:
        """Return the back-off of a claim; one that holds nobody up waits longer each time.

        The room waits for each claim, so that those of a message that was set aside must be rare.
        """
        session = self._session
        cap = session.settle_cap_seconds
        if self._aside(message) is not None:
            cap = max(cap, session.idle_resync_max_seconds)
        return half_jitter(self._tries(message), session.settle_base_seconds, cap)

    def _after_failure(self, message: ChatMessage) -> None:
        spent = self.spent(message) + 1
        session = self._session
        if spent >= session.max_message_retries:
            self._intake.done_if_new(message, Known.GIVEN_UP)
            self._tracer(GivenUp(self._room_id, message.id))
        else:
            wait = half_jitter(spent - 1, session.retry_base_seconds, session.retry_cap_seconds)
            self._hold(message, Cause.FAILED, wait, spent)

    def _after_release(self, message: ChatMessage, record: Record) -> None:
        if record.reason == NOT_ACCEPTED:
            wait = half_jitter(self._tries(message), NOT_ACCEPTED_BASE, NOT_ACCEPTED_CAP)
            self._hold(message, Cause.NOT_ACCEPTED, wait, self.spent(message))
        elif record.reason == EndReason.STOP:
            self.resume, self._stopped = message, (message.id, self.spent(message))

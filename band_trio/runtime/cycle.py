"""One message, step by step: claim → roster → preprocessor → handler → record → settle."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

import attrs
import trio

from band_trio.errors import BandConnectionError
from band_trio.runtime.activity import WorkingIndicator
from band_trio.runtime.blocking import timed
from band_trio.runtime.briefing import Briefing
from band_trio.runtime.claim import ClaimOutcome, ClaimResult, claim_outcome
from band_trio.runtime.hooks import contained
from band_trio.runtime.judgement import did_its_work
from band_trio.runtime.lifecycle import EndReason
from band_trio.runtime.outbox import Entry
from band_trio.runtime.record import Fate, Record
from band_trio.runtime.reports import failure_report, log_failed_turn
from band_trio.runtime.room_context import TurnContext
from band_trio.runtime.services import RoomServices
from band_trio.runtime.turn import ActiveTurn, later_end
from band_trio.runtime.watch import watched
from band_trio.shares import work_of
from band_trio.trace import Claimed, Ended, Recorded, Started
from band_trio.types import AgentInput

_log: Final = logging.getLogger(__name__)


@attrs.frozen
class CycleEnd:
    """What came of a message: a record if it was claimed, else the claim's answer."""

    claim: ClaimOutcome
    record: Record | None = None
    decided_before: bool = False
    """Whether nothing was run, because its fate was decided before this claim."""


@attrs.define(eq=False)
class Cycle:
    """Runs the messages of one room, one at a time."""

    _room_id: str
    _services: RoomServices
    _briefing: Briefing
    _indicator: WorkingIndicator
    _nursery: trio.Nursery
    """The room's; the indicator's reports are sent there."""
    _closed: Callable[[], None]
    """Called with the record: from then on controls do not touch the turn."""
    _stalls: Callable[[ActiveTurn], None]
    """Called when a turn goes on although it was ended."""

    async def run(self, turn: ActiveTurn) -> CycleEnd:
        """Take a message from its claim to its record, and settle it.

        Nothing but cancellation and what ends the program comes out, and then the record is
        written all the same.
        """
        claim = ClaimOutcome(ClaimResult.UNKNOWN)
        decided: Record | None = None
        try:
            with turn.scope:
                claim = await self._claim(turn)
                turn.claim_answered()
                if claim.result is ClaimResult.CLAIMED:
                    decided = self._decided_before(turn, claim)
                    if decided is None and turn.ended_by is None:
                        await self._work(turn)
        except BaseException:
            # The run itself is being cancelled, or the program ends: released, without a write.
            turn.ended_by = later_end(turn.ended_by, self._services.lifecycle.end_reason)
            if claim.result is ClaimResult.CLAIMED:
                _, entry = self._decide(turn, decided)
                if entry is not None:  # an interrupt had decided before
                    self._services.outbox.keep(entry)
            self._closed()
            raise
        if claim.result is not ClaimResult.CLAIMED:
            self._keep_interrupt(turn, claim)
            self._closed()
            return CycleEnd(claim)
        record, entry = self._decide(turn, decided)
        self._closed()
        if entry is not None:
            await self._services.outbox.settle(entry)
        return CycleEnd(claim, record, decided is not None)

    # ------------------------------------------------------------------ claim

    async def _claim(self, turn: ActiveTurn) -> ClaimOutcome:
        services, message_id = self._services, turn.message.id
        began = trio.current_time()
        try:
            answer = await services.rest.claim(
                self._room_id, message_id, within=services.session.claim_seconds
            )
        except BandConnectionError as exc:
            _log.info("claim of message %s is unanswered: %s", message_id, type(exc).__name__)
            outcome = ClaimOutcome(ClaimResult.UNKNOWN)
        else:
            outcome = claim_outcome(answer)
        services.tracer(Claimed(self._room_id, message_id, outcome.result))
        return attrs.evolve(outcome, took=trio.current_time() - began)

    def _decided_before(self, turn: ActiveTurn, claim: ClaimOutcome) -> Record | None:
        """Return the record of a message that is not to be run (again), None if it is."""
        services, message = self._services, turn.message
        if services.outbox.done.has(self._room_id, message.id):
            return Record(self._room_id, message.id, Fate.PROCESSED)
        listed = message.delivery(services.me.id).attempts is not None
        number = claim.attempt_number or 0
        if listed or turn.ended_by is not None or number <= services.session.max_message_retries:
            return None
        # Its runs were used up by an earlier process, and only its number says so.
        return Record(self._room_id, message.id, Fate.FAILED, error="given up before")

    def _keep_interrupt(self, turn: ActiveTurn, claim: ClaimOutcome) -> None:
        """Let an interrupt hold for the next claim of a message that may be ours by then.

        A room that is stopped keeps the message for its play, as after a stop that came later.
        """
        over = claim.result in (ClaimResult.STOPPED, ClaimResult.GONE)
        if turn.ended_by is EndReason.INTERRUPT and not over:
            self._services.outbox.done.add(self._room_id, turn.message.id)

    # ------------------------------------------------------------------ work

    async def _work(self, turn: ActiveTurn) -> None:
        session = self._services.session
        stalls = partial(self._stalls, turn)
        show = partial(self._indicator.show, self._nursery)
        beside = show if session.enable_working_state else trio.sleep_forever
        async with watched("the turn", session.stall_seconds, stalls, beside):
            await self._handle(turn)

    async def _handle(self, turn: ActiveTurn) -> None:
        services, message = self._services, turn.message
        await self._briefing.refresh()
        context = self._briefing.context(turn.ledger)
        inp = await turn.attempt(partial(self._preprocess, turn, context))
        if inp is None:
            turn.declined = turn.error is None
            turn.ledger.close()
            return
        try:
            await turn.run(partial(self._start, turn, inp))
        finally:
            if turn.started:
                services.tracer(Ended(self._room_id, message.id, turn.how))

    async def _preprocess(self, turn: ActiveTurn, context: TurnContext) -> AgentInput | None:
        services = self._services
        limit = services.session.max_cycle_seconds
        if limit is not None and context.is_session_bootstrap:
            limit += services.session.history_seconds  # loading it has a bound of its own
        turn.limit(limit)
        inp: object = await services.preprocessor.process(context, turn.message, services.me.id)
        if inp is None:
            return None
        if not isinstance(inp, AgentInput):
            raise TypeError(
                f"the preprocessor returned {type(inp).__name__}; it must be an AgentInput or None"
            )
        turn.commit = inp.commit_context or context.commit_context
        return inp

    async def _start(self, turn: ActiveTurn, inp: AgentInput) -> None:
        """Call the handler, unless something came in the last moment before it.

        A cancellation is seen at the next checkpoint only, which would be one in the handler.
        """
        services = self._services
        if services.lifecycle.closing:  # claimed, but not started: released
            turn.end(services.lifecycle.end_reason)
        if turn.ended_by is not None:
            return
        number, bootstrap = turn.spent + 1, inp.is_session_bootstrap
        services.tracer(Started(self._room_id, turn.message.id, number, bootstrap))
        turn.started = True
        if not turn.ledger.detached:
            turn.limit(services.session.max_cycle_seconds)
        with work_of(self._room_id):
            await timed(
                services.adapter.handle(inp),
                services.session.stall_seconds,
                partial(self._tell_blocked, turn.message.id),
            )

    def _tell_blocked(self, message_id: str, seconds: float) -> None:
        _log.warning(
            "room %s: the handler of message %s blocked the thread for %.1f s; nothing else ran",
            self._room_id, message_id, seconds,
        )  # fmt: skip

    # ------------------------------------------------------------------ record

    def _decide(self, turn: ActiveTurn, decided: Record | None) -> tuple[Record, Entry | None]:
        """Decide, and hand the decision to the outbox, before anything else can happen."""
        turn.ledger.close()
        outbox = self._services.outbox
        record = decided or self._judge(turn)
        entry = outbox.put(record) if record.fate is not Fate.RELEASED else None
        try:
            self._tell(turn, record)
        except BaseException:  # the program ends
            if entry is not None:
                outbox.keep(entry)
            raise
        return record, entry

    def _judge(self, turn: ActiveTurn) -> Record:
        services = self._services
        record = services.judgement.record(turn, self._room_id)
        if record.fate is Fate.FAILED:
            last = turn.spent + 1 >= services.session.max_message_retries
            report = services.session.report_turn_failures_to_room and not turn.ledger.reported
            if last and report:
                return attrs.evolve(record, report=failure_report(turn))
        return record

    def _tell(self, turn: ActiveTurn, record: Record) -> None:
        """Tell log, observer and preprocessor what became of a turn."""
        services = self._services
        if record.fate is Fate.FAILED:
            log_failed_turn(turn, record, services.judgement.secrets)
        services.tracer(Recorded(self._room_id, turn.message.id, record.trace_word))
        if turn.commit is not None and did_its_work(turn, record):
            contained("commit_context", turn.commit, None)

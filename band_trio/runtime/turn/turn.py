"""One message from its claim to its verdict: a cancel scope, and the reason it was cancelled for.

Interrupt, stop, leave, time-out and shutdown are all `end(reason)`: the reason is stored first,
then the scope is cancelled, and the reason decides the verdict. What the handler does with the
cancellation does not matter: whether **our** scope was cancelled does.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

import attrs
import trio

from band_trio.contract import AgentInput
from band_trio.errors import BandConnectionError, RoomExecutionStoppedError
from band_trio.kit.leaves import leaf_errors, program_end
from band_trio.kit.limiter import ROOM
from band_trio.kit.nurseries import is_cancellation
from band_trio.protocol.rest import ChatMessage
from band_trio.runtime.deadlines import Deadline
from band_trio.runtime.hooks import contained
from band_trio.runtime.journal.answers import ClaimOutcome, ClaimResult, claim_outcome
from band_trio.runtime.journal.entries import Entry, Phase
from band_trio.runtime.journal.journal import Journal
from band_trio.runtime.journal.judgement import Ending, log_failure
from band_trio.runtime.journal.verdict import Fate, Verdict
from band_trio.runtime.lifecycle import EndReason
from band_trio.runtime.turn.activity import WorkingIndicator
from band_trio.runtime.turn.briefing import Briefing
from band_trio.runtime.turn.room_context import TurnContext
from band_trio.runtime.turn.services import RoomServices
from band_trio.tools.ledger import Ledger
from band_trio.trace import Claimed, Ended, GivenUp, Recorded, Started

_log: Final = logging.getLogger(__name__)

T = TypeVar("T")

_DECIDING: Final = (EndReason.INTERRUPT, EndReason.STOP)


def later_end(before: EndReason | None, new: EndReason) -> EndReason:
    """Return the reason that counts: the last interrupt or stop; anything else never overrides."""
    if before is None or new in _DECIDING:
        return new
    return new if before is EndReason.TIMEOUT else before


@attrs.define(eq=False)
class Turn:
    """A message that the room has chosen."""

    entry: Entry
    message: ChatMessage
    ledger: Ledger
    _journal: Journal
    _services: RoomServices
    _briefing: Briefing
    _indicator: WorkingIndicator
    _claims: bool = True
    """Whether the platform knows of the message: else there is nothing to claim and to settle."""
    verdict: Verdict | None = attrs.field(default=None, init=False)
    """What became of it, once it was ours."""
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    claim: ClaimOutcome = attrs.field(default=ClaimOutcome(ClaimResult.UNKNOWN), init=False)
    ended_by: EndReason | None = attrs.field(default=None, init=False)
    """Why it was ended from outside."""
    stalls: bool = attrs.field(default=False, init=False)
    """Whether it was told to end some time ago and still runs."""
    _told_at: float = attrs.field(default=math.inf, init=False)
    """When it was first told to end, in trio's time; its own deadline tells it as well."""
    _watch: Deadline | None = attrs.field(default=None, init=False)
    _claiming: bool = attrs.field(default=True, init=False)
    """Whether the claim has not been answered yet."""
    _started: bool = attrs.field(default=False, init=False)
    """Whether the handler has been called."""
    _error: BaseException | None = attrs.field(default=None, init=False)
    """What left the handler, its nursery or the preprocessor; a lone leaf is unwrapped."""
    _context: TurnContext | None = attrs.field(default=None, init=False)
    """What it was told of the room; committed once it has done its work."""
    _commit: Callable[[], None] | None = attrs.field(default=None, init=False)
    """Commits that, where the preprocessor has a way of its own."""
    _declined: bool = attrs.field(default=False, init=False)
    """Whether the preprocessor wanted no turn for it."""

    def end(self, reason: EndReason) -> None:
        """End the turn from outside, for a reason. The reason is stored before anything else.

        A claim that is under way is left to its answer for an interrupt or a stop: whether the
        message is ours decides what they mean. Leaving and shutting down do not wait for it.
        """
        self.ended_by = later_end(self.ended_by, reason)
        self._told_at = min(self._told_at, trio.current_time())
        self._look_out(self._told_at)
        if not (self._claiming and reason in _DECIDING):
            self.scope.cancel(reason=f"turn ended: {reason}")

    async def run(self) -> None:
        """Take the message from its claim to its verdict, and tell the journal.

        Nothing but cancellation and what ends the program comes out, and then the verdict is
        given all the same: released, without a write, unless an interrupt had decided before.
        """
        try:
            with self.scope:
                if self._claims:
                    await self._claim()
                else:
                    self._claiming, self.claim = False, ClaimOutcome(ClaimResult.CLAIMED)
                if self.claim.result is ClaimResult.CLAIMED and self.ended_by is None:
                    await self._work()
        except BaseException:
            self.end(self._services.lifecycle.end_reason)
            raise
        finally:
            self._close()

    # ------------------------------------------------------------------ claim

    async def _claim(self) -> None:
        """Ask for the message; from the answer on every end cancels the scope."""
        services, began = self._services, trio.current_time()
        room_id, message_id = self._journal.room_id, self.entry.id
        try:
            answer = await services.rest.claim(
                room_id, message_id, within=services.session.claim_seconds
            )
        except BandConnectionError as exc:
            _log.info("claim of message %s is unanswered: %s", message_id, type(exc).__name__)
            self.claim = ClaimOutcome(ClaimResult.UNKNOWN, took=trio.current_time() - began)
        else:
            self.claim = claim_outcome(answer, trio.current_time() - began)
        self._claiming = False
        services.tracer(Claimed(room_id, message_id, self.claim.result))
        self._tell_claim()

    def _tell_claim(self) -> None:
        interrupted = self.ended_by is EndReason.INTERRUPT
        now = trio.current_time()
        self._journal.claim_answered(self.entry, self.claim, now, interrupted=interrupted)

    # ------------------------------------------------------------------ work

    async def _work(self) -> None:
        """Prepare the input and run the handler on it."""
        services, attempt = self._services, self.entry.attempt
        await self._briefing.refresh(self.message)
        context = self._context = self._briefing.context(self.ledger, attempt)
        limit = services.session.max_cycle_seconds
        if limit is not None and (context.is_session_bootstrap or attempt > 1):
            limit += services.session.history_seconds  # loading it has a bound of its own
        self._limit(limit)
        process = services.app.preprocessor.process
        inp: object = await self._attempt(partial(process, context, self.message, services.me.id))
        if inp is None:
            self._declined = self._error is None
        elif not isinstance(inp, AgentInput):
            self._error = TypeError(
                f"the preprocessor returned {type(inp).__name__}; it must be an AgentInput or None"
            )
        elif self._may_start(bootstrap=inp.is_session_bootstrap):
            if inp.commit_context not in (None, context.commit_context):
                self._commit = inp.commit_context
            await self._handle(inp)

    def _may_start(self, *, bootstrap: bool) -> bool:
        """Note that the handler starts, unless something came in the last moment before it.

        A cancellation is seen at the next checkpoint only, which would be one in the handler.
        """
        services, room_id = self._services, self._journal.room_id
        if services.lifecycle.closing:  # claimed, but not started: released
            self.end(services.lifecycle.end_reason)
        if self.ended_by is not None:
            return False
        services.tracer(Started(room_id, self.entry.id, self.ledger.attempt, bootstrap))
        self._started = True
        self._journal.run_began(self.entry)
        services.crashes.begin(room_id, self.entry.id)
        if services.session.enable_working_state and room_id != services.hub.room_id:
            self._indicator.begin()
        if not self.ledger.detached:
            self._limit(services.session.max_cycle_seconds)
        return True

    async def _handle(self, inp: AgentInput) -> None:
        """Run the handler in the turn's own nursery until both have ended; keep what came out."""
        token = ROOM.set(self._journal.room_id)
        try:
            async with trio.open_nursery() as nursery:
                self.ledger.open_in(nursery)
                # A task of its own: what it sets in its context ends with it.
                handler = self._services.app.adapter.adapter.on_event
                nursery.start_soon(handler, inp, name=f"turn of message {self.entry.id}")
        except BaseException as exc:  # noqa: ASYNC103, BLE001 - the boundary to the application
            self._keep(exc)
        finally:
            ROOM.reset(token)
            self._lift_limit()
            self._services.tracer(Ended(self._journal.room_id, self.entry.id, self._how))

    async def _attempt(self, step: Callable[[], Awaitable[T]]) -> T | None:
        """Run a step before the handler behind the same boundary; None if it failed."""
        try:
            return await step()
        except BaseException as exc:  # noqa: ASYNC103, BLE001 - the boundary to the application
            self._keep(exc)
            return None  # noqa: ASYNC104 - kept
        finally:
            self._lift_limit()

    def _keep(self, exc: BaseException) -> None:
        """Keep what failed the turn; our cancellation and the end of the program pass."""
        if is_cancellation(exc):
            raise exc
        if (end := program_end(exc)) is not None:
            raise end
        leaves = [leaf for leaf in leaf_errors(exc) if not isinstance(leaf, trio.Cancelled)]
        if any(isinstance(leaf, RoomExecutionStoppedError) for leaf in leaves):
            self.ended_by = later_end(self.ended_by, EndReason.STOP)
        self._error = leaves[0] if len(leaves) == 1 else exc

    @property
    def _how(self) -> str:
        return self.ended_by or ("raised" if self._error else "returned")

    # ------------------------------------------------------------------ limits

    def _limit(self, seconds: float | None) -> None:
        """Let the step that begins now take so many seconds; None is no limit."""
        if seconds is not None:
            self.scope.deadline = trio.current_time() + seconds
            self._look_out(self.scope.deadline)

    def _lift_limit(self) -> None:
        if self.ended_by is None and self.scope.cancel_called:
            self.ended_by = EndReason.TIMEOUT  # nobody ended it: the scope's own deadline did
        self.scope.deadline = math.inf
        if self._watch is not None and self.ended_by is None:
            self._watch.cancel()  # it looks after the step that is over
            self._watch = None

    def _look_out(self, told_at: float) -> None:
        """Look `stall_seconds` after the turn was told to end whether it has."""
        if self._watch is None:
            when = told_at + self._services.session.stall_seconds
            self._watch = self._services.deadlines.at(when, self._name_stalled)

    def _name_stalled(self) -> float | None:
        """Name a turn that does not end; it holds up its own room only."""
        now, seconds = trio.current_time(), self._services.session.stall_seconds
        told_at = min(self._told_at, self.scope.deadline)
        if now < told_at + seconds:
            return min(told_at, now) + seconds
        self.stalls = True
        _log.warning(
            "room %s: the turn of message %s was told to end (%s) %g s ago and still runs",
            self._journal.room_id, self.entry.id, self.ended_by or EndReason.TIMEOUT, seconds,
        )  # fmt: skip
        return None

    # ------------------------------------------------------------------ verdict

    def _close(self) -> None:
        """Give the verdict, and write it into the journal, before anything else can happen."""
        self.ledger.close()
        services, entry, room_id = self._services, self.entry, self._journal.room_id
        if self._watch is not None:
            self._watch.cancel()
        if self._started:
            self._indicator.end()
            services.crashes.end(room_id, entry.id)
            if services.lifecycle.closing:
                services.lifecycle.tally(self.ended_by)
        if entry.phase is Phase.RUNNING or not self._claims:
            self._decide()
        elif entry.phase is Phase.CLAIMING:  # given up before its answer came
            self._tell_claim()

    def _decide(self) -> None:
        services, entry, room_id = self._services, self.entry, self._journal.room_id
        last = self._claims and entry.spent + 1 >= services.session.max_message_retries
        ending = Ending(self.ended_by, self._error, self.ledger, declined=self._declined, last=last)
        verdict = self.verdict = services.judgement.verdict(ending)
        if self._claims:
            self._journal.turn_ended(entry, verdict, trio.current_time())
            services.tracer(Recorded(room_id, entry.id, verdict.word))
        if verdict.fate is Fate.FAILED:
            log_failure(entry.id, room_id, verdict, self._error, services.judgement.secrets)
        if verdict.did_its_work and self._commit is not None:
            contained("commit_context", self._commit, None)
        elif verdict.did_its_work and self._context is not None:
            self._briefing.commit(self._context)
        if verdict.fate is Fate.FAILED and last:
            services.tracer(GivenUp(room_id, entry.id))

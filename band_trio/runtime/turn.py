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

from band_trio.errors import BandConnectionError, RoomExecutionStoppedError
from band_trio.leaves import leaf_errors, program_end
from band_trio.nurseries import is_cancellation
from band_trio.protocol.rest import ChatMessage
from band_trio.runtime.answers import ClaimOutcome, ClaimResult, claim_outcome
from band_trio.runtime.briefing import Briefing
from band_trio.runtime.lifecycle import EndReason
from band_trio.runtime.services import RoomServices
from band_trio.shares import work_of
from band_trio.tools.ledger import Ledger
from band_trio.trace import Claimed, Ended, Started
from band_trio.types import AgentInput

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
    """A message that is being claimed or run."""

    message: ChatMessage
    attempt: int
    """Which run of the message it is, from 1."""
    room_id: str
    ledger: Ledger
    _services: RoomServices
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    ended_by: EndReason | None = attrs.field(default=None, init=False)
    """Why it was ended from outside."""
    told_at: float = attrs.field(default=math.inf, init=False)
    """When it was first told so, in trio's time; its own deadline tells it as well."""
    claiming: bool = attrs.field(default=True, init=False)
    """Whether the claim has not been answered yet."""
    started: bool = attrs.field(default=False, init=False)
    """Whether the handler has been called."""
    error: BaseException | None = attrs.field(default=None, init=False)
    """What left the handler, its nursery or the preprocessor; a lone leaf is unwrapped."""
    commit: Callable[[], None] | None = attrs.field(default=None, init=False)
    """Commits what the turn was told of the room, once it has done its work."""
    declined: bool = attrs.field(default=False, init=False)
    """Whether the preprocessor wanted no turn for it."""

    def end(self, reason: EndReason) -> None:
        """End the turn from outside, for a reason. The reason is stored before anything else.

        A claim that is under way is left to its answer for an interrupt or a stop: whether the
        message is ours decides what they mean. Leaving and shutting down do not wait for it.
        """
        self.ended_by = later_end(self.ended_by, reason)
        self.told_at = min(self.told_at, trio.current_time())
        if not (self.claiming and reason in _DECIDING):
            self.scope.cancel(reason=f"turn ended: {reason}")

    # ------------------------------------------------------------------ claim

    async def claim(self) -> ClaimOutcome:
        """Ask for the message; from the answer on every end cancels the scope."""
        services, began = self._services, trio.current_time()
        try:
            answer = await services.rest.claim(
                self.room_id, self.message.id, within=services.session.claim_seconds
            )
        except BandConnectionError as exc:
            _log.info("claim of message %s is unanswered: %s", self.message.id, type(exc).__name__)
            outcome = ClaimOutcome(ClaimResult.UNKNOWN, took=trio.current_time() - began)
        else:
            outcome = claim_outcome(answer, trio.current_time() - began)
        self.claiming = False
        services.tracer(Claimed(self.room_id, self.message.id, outcome.result))
        return outcome

    # ------------------------------------------------------------------ work

    async def work(self, briefing: Briefing, started: Callable[[], None]) -> None:
        """Prepare the input and run the handler on it; *started* is called right before it."""
        await briefing.refresh(self.message)
        context = briefing.context(self.ledger, self.attempt)
        services, limit = self._services, self._services.session.max_cycle_seconds
        if limit is not None and (context.is_session_bootstrap or self.attempt > 1):
            limit += services.session.history_seconds  # loading it has a bound of its own
        self._limit(limit)
        process = services.app.preprocessor.process
        inp: object = await self._attempt(partial(process, context, self.message, services.me.id))
        if self.error is not None or inp is None:
            self.declined = self.error is None
            self.ledger.close()
            return
        if not isinstance(inp, AgentInput):
            self.error = TypeError(
                f"the preprocessor returned {type(inp).__name__}; it must be an AgentInput or None"
            )
            return
        self.commit = inp.commit_context or context.commit_context
        try:
            await self._run(inp, started)
        finally:
            if self.started:
                services.tracer(Ended(self.room_id, self.message.id, self.how))

    async def _run(self, inp: AgentInput, started: Callable[[], None]) -> None:
        """Run the handler in the turn's own nursery until both have ended; keep what came out.

        Nothing starts if something came in the last moment before it: a cancellation is seen at the
        next checkpoint only, which would be one in the handler.
        """
        services = self._services
        if services.lifecycle.closing:  # claimed, but not started: released
            self.end(services.lifecycle.end_reason)
        if self.ended_by is not None:
            return
        services.tracer(
            Started(self.room_id, self.message.id, self.attempt, inp.is_session_bootstrap)
        )
        self.started = True
        started()
        if not self.ledger.detached:
            self._limit(services.session.max_cycle_seconds)
        try:
            with work_of(self.room_id):
                async with trio.open_nursery() as nursery:
                    self.ledger.open_in(nursery)
                    # A task of its own: what it sets in its context ends with it.
                    nursery.start_soon(
                        services.app.adapter.handle, inp, name=f"turn of message {self.message.id}"
                    )
        except BaseException as exc:  # noqa: ASYNC103, BLE001 - the boundary to the application
            self._keep(exc)
        finally:
            self._lift_limit()
            self.ledger.close()

    async def _attempt(self, step: Callable[[], Awaitable[T]]) -> T | None:
        """Run a step before the handler behind the same boundary; None if it failed."""
        try:
            return await step()
        except BaseException as exc:  # noqa: ASYNC103, BLE001 - the boundary to the application
            self._keep(exc)
            return None  # noqa: ASYNC104 - kept
        finally:
            self._lift_limit()

    def _limit(self, seconds: float | None) -> None:
        """Let the step that begins now take so many seconds; None is no limit."""
        if seconds is not None:
            self.scope.deadline = trio.current_time() + seconds

    def _lift_limit(self) -> None:
        if self.ended_by is None and self.scope.cancel_called:
            self.ended_by = EndReason.TIMEOUT  # nobody ended it: the scope's own deadline did
        self.scope.deadline = math.inf

    def _keep(self, exc: BaseException) -> None:
        """Keep what failed the turn; our cancellation and the end of the program pass."""
        if is_cancellation(exc):
            raise exc
        if (end := program_end(exc)) is not None:
            raise end
        leaves = [leaf for leaf in leaf_errors(exc) if not isinstance(leaf, trio.Cancelled)]
        if any(isinstance(leaf, RoomExecutionStoppedError) for leaf in leaves):
            self.ended_by = later_end(self.ended_by, EndReason.STOP)
        self.error = leaves[0] if len(leaves) == 1 else exc

    @property
    def how(self) -> str:
        """How the handler ended, for traces: `returned`, `raised`, or why it was ended."""
        return self.ended_by or ("raised" if self.error else "returned")

"""One message from its claim to its record: a cancel scope, and the reason it was cancelled for.

Interrupt, stop, leave, time-out and shutdown are all `end(reason)`: the reason is stored first,
then the scope is cancelled, and the reason decides the record. What the handler does with the
cancellation does not matter: whether **our** scope was cancelled does.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import attrs
import trio

from band_trio.errors import RoomExecutionStoppedError
from band_trio.leaves import leaf_errors, program_end
from band_trio.nurseries import GuardedNursery, as_error, is_own_cancellation
from band_trio.protocol.rest import ChatMessage
from band_trio.runtime.lifecycle import EndReason
from band_trio.tools.ledger import Ledger

T = TypeVar("T")

_DECIDING: Final = (EndReason.INTERRUPT, EndReason.STOP)


def later_end(before: EndReason | None, new: EndReason) -> EndReason:
    """Return the reason that counts: the last interrupt or stop; anything else never overrides."""
    if before is None or new in _DECIDING:
        return new
    return new if before is EndReason.TIMEOUT else before


@attrs.define(eq=False)
class ActiveTurn:
    """A message that is being claimed or run."""

    message: ChatMessage
    ledger: Ledger
    spent: int = 0
    """How many runs of the message have failed before."""
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    ended_by: EndReason | None = None
    """Why it was ended from outside."""
    told_at: float = math.inf
    """When it was first told so, in trio's time; its own deadline tells it as well."""
    claiming: bool = True
    """Whether the claim has not been answered yet."""
    started: bool = False
    """Whether the handler has been called."""
    error: BaseException | None = None
    """What left the handler, its nursery or the preprocessor; a lone leaf is unwrapped."""
    commit: Callable[[], None] | None = None
    """Commits what the turn was told of the room, once it has done its work."""
    declined: bool = False
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

    def claim_answered(self) -> None:
        """The claim is not under way any more: from now on every end cancels the scope."""
        self.claiming = False

    async def run(self, handler: Callable[[], Awaitable[None]]) -> None:
        """Run *handler* in the turn's own nursery until both have ended; keep what came out.

        This is the boundary to the application: every error becomes `self.error`. Only
        cancellation and what ends the program (`SystemExit`, `KeyboardInterrupt`) pass.
        """
        try:
            async with GuardedNursery("the turn") as nursery:
                self.ledger.open_in(nursery)
                nursery.start_soon(handler, name=f"turn of message {self.message.id}")
        except BaseException as exc:  # noqa: ASYNC103, BLE001 - the boundary to the application
            self._keep(exc)
        finally:
            self._lift_limit()
            self.ledger.close()

    def limit(self, seconds: float | None) -> None:
        """Let the step that begins now take so many seconds; None is no limit."""
        if seconds is not None:
            self.scope.deadline = trio.current_time() + seconds

    def _lift_limit(self) -> None:
        if self.ended_by is None and self.scope.cancel_called:
            self.ended_by = EndReason.TIMEOUT  # nobody ended it: the scope's own deadline did
        self.scope.deadline = math.inf

    async def attempt(self, step: Callable[[], Awaitable[T]]) -> T | None:
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
        if is_own_cancellation(exc):
            raise exc
        if (end := program_end(exc)) is not None:
            raise end
        exc = as_error(exc)
        leaves = [leaf for leaf in leaf_errors(exc) if not isinstance(leaf, trio.Cancelled)]
        if any(isinstance(leaf, RoomExecutionStoppedError) for leaf in leaves):
            self.ended_by = later_end(self.ended_by, EndReason.STOP)
        self.error = leaves[0] if len(leaves) == 1 else exc

    @property
    def how(self) -> str:
        """How the handler ended, for traces: `returned`, `raised`, or why it was ended."""
        return self.ended_by or ("raised" if self.error else "returned")

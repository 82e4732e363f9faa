"""What the answer to a claim means for the message (platform docs, Message state machine)."""

from __future__ import annotations

from enum import StrEnum

import attrs

from band_trio.link.api import Answer
from band_trio.link.routes import says_stopped
from band_trio.protocol.errors import RemoteProtocolError
from band_trio.protocol.rest import MarkReceipt
from band_trio.protocol.structure import structure


class ClaimResult(StrEnum):
    """The kinds of answers to `POST processing`."""

    CLAIMED = "claimed"
    STOPPED = "stopped"
    """The agent is stopped in this room; the message is kept for play."""
    GONE = "gone"
    """Nothing is there: deleted, or hidden while the agent is not in the room; as refused."""
    REFUSED = "refused"
    """Not ours to run: skipped, asked again much later."""
    LATER = "later"
    """Rate limited: claimed again, not before the told time."""
    DENIED = "denied"
    """The key was refused; to be checked, else as unknown."""
    UNKNOWN = "unknown"
    """Nobody knows; claiming again is safe."""


@attrs.frozen
class ClaimOutcome:
    """A claim's result with what the platform told beside it."""

    result: ClaimResult
    attempt_number: int | None = None
    retry_after: float | None = None
    """Seconds to wait before claiming again."""
    took: float = 0.0
    """Seconds for which it was waited for."""


_BY_STATUS = {
    204: ClaimResult.STOPPED,
    401: ClaimResult.DENIED,
    404: ClaimResult.GONE,
    409: ClaimResult.REFUSED,
    422: ClaimResult.REFUSED,
    429: ClaimResult.LATER,
}


def claim_outcome(answer: Answer) -> ClaimOutcome:
    """Read the answer to a claim; only a 200 lets a handler start."""
    if answer.status == 200:
        try:
            number = structure(answer.data, MarkReceipt).attempt_number
        except RemoteProtocolError:  # claimed all the same: the status decides
            number = None
        return ClaimOutcome(ClaimResult.CLAIMED, number)
    if answer.status == 403:
        stopped = says_stopped(answer.status, answer.error)
        return ClaimOutcome(ClaimResult.STOPPED if stopped else ClaimResult.REFUSED)
    result = _BY_STATUS.get(answer.status, ClaimResult.UNKNOWN)
    return ClaimOutcome(result, retry_after=answer.retry_after)

"""What the answers to a claim and to a mark mean (platform docs, Message state machine)."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import attrs

from band_trio.link.rest.api import Answer
from band_trio.link.rest.routes import says_stopped


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
    retry_after: float | None = None
    """Seconds to wait before claiming again."""
    took: float = 0.0
    """Seconds for which it was waited for."""


_BY_STATUS = {
    200: ClaimResult.CLAIMED,
    204: ClaimResult.STOPPED,
    401: ClaimResult.DENIED,
    403: ClaimResult.REFUSED,
    404: ClaimResult.GONE,
    409: ClaimResult.REFUSED,
    422: ClaimResult.REFUSED,
    429: ClaimResult.LATER,
}


def claim_outcome(answer: Answer, took: float = 0.0) -> ClaimOutcome:
    """Read the answer to a claim; only a 200 lets a handler start.

    Whatever its body says: the number in it counts claims, and decides nothing.
    """
    result = _BY_STATUS.get(answer.status, ClaimResult.UNKNOWN)
    if answer.status == 403 and says_stopped(answer.status, answer.error):
        result = ClaimResult.STOPPED
    return ClaimOutcome(result, answer.retry_after, took)


class MarkResult(StrEnum):
    """The kinds of answers to `POST processed` and `POST failed`."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    """No live attempt: there is nothing left to settle."""
    NOT_FOUND = "not_found"
    STOPPED = "stopped"
    """The agent is stopped in the room: kept until play."""
    BAD_TEXT = "bad_text"
    """The error text was refused: tried again with the bare class name."""
    UNCONFIRMED = "unconfirmed"


FINAL: Final = (MarkResult.ACCEPTED, MarkResult.REJECTED, MarkResult.NOT_FOUND)
"""Results after which the matter is closed."""


def mark_result(answer: Answer) -> MarkResult:
    """Read the answer to `processed` or `failed`."""
    if answer.status == 200:
        data = answer.body.get("data") if isinstance(answer.body, dict) else None
        refused = isinstance(data, dict) and data.get("success") is False
        return MarkResult.UNCONFIRMED if refused else MarkResult.ACCEPTED
    if answer.status == 204:
        return MarkResult.STOPPED
    if answer.status == 404:
        return MarkResult.NOT_FOUND
    if answer.status == 409:
        return MarkResult.REJECTED
    if answer.status == 422:
        details = answer.error.details
        if details.get("/processing_attempt"):
            return MarkResult.REJECTED
        if "/error" in details:
            return MarkResult.BAD_TEXT
    return MarkResult.UNCONFIRMED

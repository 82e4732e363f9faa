"""What the answer to a mark means for its record (platform docs, Answers to a terminal write)."""

from __future__ import annotations

from enum import StrEnum

from band_trio.link.api import Answer


class MarkResult(StrEnum):
    """What an answer to `processed` or `failed` says."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    """No live attempt: there is nothing left to settle."""
    NOT_FOUND = "not_found"
    STOPPED = "stopped"
    """The agent is stopped in the room: kept until play."""
    BAD_TEXT = "bad_text"
    """The error text was refused: tried again with the bare class name."""
    UNCONFIRMED = "unconfirmed"

    @property
    def final(self) -> bool:
        """Whether the matter is closed."""
        return self in (MarkResult.ACCEPTED, MarkResult.REJECTED, MarkResult.NOT_FOUND)


def mark_result(answer: Answer) -> MarkResult:
    """Read the answer to `processed` or `failed`."""
    if answer.status == 200:
        body = answer.data
        refused = isinstance(body, dict) and body.get("success") is False
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

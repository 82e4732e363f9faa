"""A platform with one room, as much of it as a journal can tell apart, and what goes wrong there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, Literal, TypeAlias

import attrs

from band_trio.protocol.rest import ChatMessage
from band_trio.runtime.journal.answers import ClaimOutcome, ClaimResult, MarkResult
from band_trio.runtime.journal.verdict import Fate

ME: Final = "agent-1"
PAGE: Final = 3
"""Rows of a page."""
DISOWNED: Final = 3
"""Most successes that the platform denies: what a journal can remember of them is bounded."""
BEGAN: Final = datetime(2026, 1, 1, tzinfo=UTC)

Fault: TypeAlias = Literal["no", "refused", "hidden", "told wait", "lost", "late", "odd"]
"""What goes wrong with a request: nothing; it is refused; what it is about is said not to be there;
it has to wait; it does not arrive; its answer does not; nobody understands the answer."""
FAULTS: Final[tuple[Fault, ...]] = ("no", "refused", "hidden", "told wait", "lost", "late", "odd")


@attrs.define(eq=False)
class Posted:
    """A message as the platform knows it."""

    id: str
    number: int
    """Its place in the room."""
    at: float
    text: int = 0
    """Rises when it is edited."""
    live: bool = False
    """Whether it has a live attempt."""
    processed: bool = False
    failed: int = 0
    """Attempts that failed."""
    deleted: bool = False

    def row(self) -> ChatMessage:
        """Return it as it is listed and pushed now."""
        status = "processed" if self.processed else "processing" if self.live else "delivered"
        attempts = ["failed"] * self.failed + ["processing"] * self.live
        delivery = {"status": status, "attempts": [{"status": each} for each in attempts]}
        return ChatMessage(
            id=self.id, content=str(self.text), message_type="text",
            sender_id="user-1", sender_type="User",
            inserted_at=BEGAN + timedelta(seconds=self.at),
            updated_at=BEGAN + timedelta(seconds=self.text),
            metadata={"mentions": [{"id": ME}], "delivery_status": {ME: delivery}},
        )  # fmt: skip


@attrs.define(eq=False)
class Platform:
    """The room at the other end (platform docs, Message state machine)."""

    messages: dict[str, Posted] = attrs.field(factory=dict)
    posted: int = 0
    """How many there have been."""
    stopped: bool = False
    member: bool = True
    disowned: int = 0
    """Successes that it was told of and says to know nothing of."""

    def post(self, at: float) -> Posted:
        number, self.posted = self.posted, self.posted + 1
        self.messages[f"m{number}"] = message = Posted(f"m{number}", number, at)
        return message

    def actionable(self) -> list[Posted]:
        return [m for m in self.messages.values() if not m.processed and not m.deleted]

    def listed(self, after: int) -> list[Posted]:
        """Return a page of the list, behind a message's place."""
        if self.stopped or not self.member:
            return []
        return [m for m in self.actionable() if m.number > after][:PAGE]

    def claim(self, message: Posted) -> ClaimResult:
        if message.deleted or not self.member:
            return ClaimResult.GONE
        if self.stopped:
            return ClaimResult.STOPPED
        message.live, message.processed = True, False  # one that is processed is opened again
        return ClaimResult.CLAIMED

    def mark(self, message: Posted, fate: Fate) -> MarkResult:
        if message.deleted or not self.member:
            return MarkResult.NOT_FOUND
        if self.stopped:
            return MarkResult.STOPPED
        if not message.live:
            return MarkResult.REJECTED
        message.live = False
        message.processed = fate is Fate.PROCESSED
        message.failed += fate is Fate.FAILED
        return MarkResult.ACCEPTED

    # ------------------------------------------------------------------ with faults

    def answer_claim(self, message: Posted, fault: Fault) -> ClaimOutcome:
        """Answer a claim, in a way."""
        match fault:
            case "refused":
                return ClaimOutcome(ClaimResult.REFUSED)
            case "hidden":
                return ClaimOutcome(ClaimResult.GONE)
            case "told wait":
                return ClaimOutcome(ClaimResult.LATER, retry_after=7.0)
            case "late":
                self.claim(message)
        if fault != "no":
            return ClaimOutcome(ClaimResult.UNKNOWN, took=3.0)
        return ClaimOutcome(self.claim(message))

    def answer_mark(self, message: Posted, fate: Fate, fault: Fault) -> tuple[MarkResult, float]:
        """Answer a mark, in a way; also how long to wait, as the platform said."""
        if fault in ("refused", "hidden") and fate is Fate.PROCESSED and self.disowned < DISOWNED:
            self.disowned += 1
            return MarkResult.REJECTED if fault == "refused" else MarkResult.NOT_FOUND, 0.0
        if fault == "odd" and fate is Fate.FAILED:
            return MarkResult.BAD_TEXT, 0.0
        if fault == "late":
            self.mark(message, fate)
        if fault != "no":
            return MarkResult.UNCONFIRMED, 7.0 if fault == "told wait" else 0.0
        return self.mark(message, fate), 0.0

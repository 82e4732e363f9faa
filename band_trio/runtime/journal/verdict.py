"""The verdict about a claimed message, and its way to the platform.

It is made synchronously when its turn closes, before anything is awaited; from then on no control
and no cancellation can change or lose it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

import attrs

from band_trio.config.agent import SessionConfig
from band_trio.kit.backoff import half_jitter
from band_trio.runtime.journal.answers import MarkResult


class Fate(StrEnum):
    """What becomes of a claimed message."""

    PROCESSED = "processed"
    FAILED = "failed"
    RELEASED = "released"
    """Ended without a write: the platform serves it again."""


OFFER_BASE: Final = 0.5
OFFER_CAP: Final = 10.0
"""Seconds between two offers of a message that the adapter does not accept."""
NOT_ACCEPTED: Final = "not-accepted"
"""Reason of a release: the adapter did not take the message. The other reasons are `EndReason`s."""


@attrs.frozen
class Report:
    """The one error event that the room gets when a message is given up."""

    content: str
    metadata: dict[str, Any]


@attrs.frozen
class Verdict:
    """The decision about one claimed message; never changed afterwards."""

    fate: Fate
    reason: str = ""
    """Why it was released."""
    error: str = ""
    """Text of a failed mark: clean, not empty."""
    plain_error: str = ""
    """Used when the platform refuses *error*: the bare class name."""
    report: Report | None = None
    """What the room is told behind the mark."""
    did_its_work: bool = False
    """Whether its turn did what a message asks for: what it was told of its room is committed."""
    again: bool = False
    """Whether it is about an attempt that a late claim opened: it was decided and marked before."""
    word: str = attrs.field(init=False)
    """For traces: `processed`, `failed`, either with `:again`, or `released:` and the reason."""

    @word.default
    def _word(self) -> str:
        if self.fate is Fate.RELEASED:
            return f"{self.fate}:{self.reason}"
        return f"{self.fate}:again" if self.again else self.fate.value


DONE: Final = Verdict(Fate.PROCESSED)
DONE_BEFORE: Final = Verdict(Fate.PROCESSED, again=True)
"""About an attempt that nothing runs in: the claim was carried out after its message was done."""
CLAIMED_LATE: Final = Verdict(
    Fate.FAILED,
    error="the runs of this message are used up",
    plain_error="used up",
    again=True,
)
"""About an attempt that nothing runs in: the claim was carried out after its message was given up."""
WORKED: Final = Verdict(Fate.PROCESSED, did_its_work=True)


@attrs.define(eq=False)
class Mark:
    """A verdict on its way to the platform."""

    verdict: Verdict
    since: float
    """When it was decided."""
    claimed: bool = True
    """Whether the platform has a live attempt of ours to settle."""
    tries: int = 0
    due: float = 0.0
    """When the next try is to be made."""
    not_before: float = 0.0
    """The told wait of the last answer: no try before it, whatever happens."""
    plain: bool = False
    """Whether the bare class name is used as error text: the other one was refused."""
    kept: bool = False
    """Whether the settler makes the next tries."""
    orphan: bool = False
    """Whether the agent has left the room since: what comes of it says nothing about the next
    membership."""

    def answered(self, result: MarkResult, now: float, told: float, session: SessionConfig) -> None:
        """A try did not bring it through: note when the next one may be made."""
        self.plain |= result is MarkResult.BAD_TEXT
        self.not_before = now + told
        wait = half_jitter(self.tries - 1, session.settle_base_seconds, session.settle_cap_seconds)
        self.due = max(now + wait, self.not_before)
        if result is MarkResult.STOPPED:  # a play that was missed is found in this time
            self.due += session.stopped_resync_seconds or session.idle_resync_seconds

    def hurry(self, now: float) -> None:
        """Let it be tried again as soon as the told wait allows."""
        self.due = max(now, self.not_before)


def offer_wait(tries: int) -> float:
    """Return the seconds until a message is offered again that the adapter did not accept.

    *tries*: how often in a row it was put off before.
    """
    return half_jitter(tries, OFFER_BASE, OFFER_CAP)

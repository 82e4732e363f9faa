"""The verdict about a claimed message.

It is made synchronously when its turn closes, before anything is awaited; from then on no control
and no cancellation can change or lose it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

import attrs


class Fate(StrEnum):
    """What becomes of a claimed message."""

    PROCESSED = "processed"
    FAILED = "failed"
    RELEASED = "released"
    """Ended without a write: the platform serves it again."""


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
    word: str = attrs.field(init=False)
    """For traces: `processed`, `failed` or `released:` and the reason."""

    @word.default
    def _word(self) -> str:
        return f"{self.fate}:{self.reason}" if self.fate is Fate.RELEASED else self.fate.value


DONE: Final = Verdict(Fate.PROCESSED)
WORKED: Final = Verdict(Fate.PROCESSED, did_its_work=True)

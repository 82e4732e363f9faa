"""What becomes of a turn that has ended, decided from what it holds; and how a failure is told."""

from __future__ import annotations

import logging
from typing import Final

import attrs

from band_trio.errors import InputNotAccepted
from band_trio.kit.hygiene import error_text, traceback_text
from band_trio.kit.leaves import leaf_errors
from band_trio.runtime.journal.verdict import DONE, NOT_ACCEPTED, WORKED, Fate, Report, Verdict
from band_trio.runtime.lifecycle import EndReason
from band_trio.tools.failures import (
    CRASH_FAILURE,
    FAILURE_KEY,
    MISSING_REPLY_FAILURE,
    TIMEOUT_FAILURE,
    TURN_FAILURE,
    AgentFailure,
)
from band_trio.tools.ledger import Ledger

_log: Final = logging.getLogger(__name__)

ERROR_CHARS: Final = 1000
"""Characters of an error text that is sent to the platform: its head and its tail."""


@attrs.frozen
class Ending:
    """What a turn holds when it has ended."""

    by: EndReason | None
    """Why it was ended from outside."""
    error: BaseException | None
    """What left the handler, its nursery or the preprocessor."""
    ledger: Ledger
    declined: bool = attrs.field(default=False, kw_only=True)
    """Whether the preprocessor wanted no turn."""
    last: bool = attrs.field(default=False, kw_only=True)
    """Whether another failure of the message would be one too many."""


@attrs.frozen
class Judgement:
    """Texts and limits that a verdict is written with."""

    secrets: tuple[str, ...] = attrs.field(repr=False)
    max_cycle_seconds: float | None
    reports: bool
    """Whether the room is told of a message that is given up."""

    def verdict(self, turn: Ending) -> Verdict:
        """Decide the fate of a claimed message; a pure function of what its turn holds."""
        match turn.by:
            case EndReason.INTERRUPT:
                return DONE
            case EndReason.STOP | EndReason.LEFT | EndReason.SHUTDOWN | EndReason.SUPERSEDED:
                return Verdict(Fate.RELEASED, reason=turn.by)
            case EndReason.TIMEOUT:
                limit = self.max_cycle_seconds
                text = f"turn exceeded max_cycle_seconds ({limit:g} s)"
                return self._failed(turn, text, TIMEOUT_FAILURE)
        if turn.error is not None:
            leaves = leaf_errors(turn.error)
            if all(isinstance(leaf, InputNotAccepted) for leaf in leaves):
                return Verdict(Fate.RELEASED, reason=NOT_ACCEPTED)
            text = error_text(turn.error, ERROR_CHARS, self.secrets)
            return self._failed(turn, text, TURN_FAILURE, type(leaves[0]).__name__)
        if turn.declined:
            return DONE
        if not turn.ledger.judged or turn.ledger.complete:
            return WORKED
        return self._failed(turn, "turn ended without a reply", MISSING_REPLY_FAILURE)

    def _failed(self, turn: Ending, error: str, failure: AgentFailure, plain: str = "") -> Verdict:
        told = turn.last and self.reports and not turn.ledger.reported
        report = _report(failure) if told else None
        return Verdict(Fate.FAILED, error=error, plain_error=plain or error, report=report)

    def crashed(self, times: int) -> Verdict:
        """Return the verdict about a message whose runs ended the process, so many of them."""
        report = _report(CRASH_FAILURE) if self.reports else None
        text = f"{times} runs of this message ended the agent's process; it is not run again"
        return Verdict(Fate.FAILED, error=text, plain_error=text, report=report)


def _report(failure: AgentFailure) -> Report:
    """Return the event for the room: a fixed text, never an exception's."""
    return Report(failure.text, {FAILURE_KEY: failure.to_dict()})


def log_failure(
    message_id: str,
    room_id: str,
    verdict: Verdict,
    error: BaseException | None,
    secrets: tuple[str, ...],
) -> None:
    """Log a failed turn by its ids, with the traceback of what was raised, secrets masked."""
    if error is None:
        _log.warning("turn of message %s in room %s failed: %s", message_id, room_id, verdict.error)
        return
    _log.error(
        "turn of message %s in room %s failed\n%s",
        message_id, room_id, traceback_text(error, secrets),
    )  # fmt: skip

"""How a failed turn is told: one event to the room, one record to the log."""

from __future__ import annotations

import logging
from typing import Final

from band_trio.hygiene import traceback_text
from band_trio.runtime.lifecycle import EndReason
from band_trio.runtime.record import Record, Report
from band_trio.runtime.turn import ActiveTurn
from band_trio.tools.failures import (
    FAILURE_KEY,
    MISSING_REPLY_FAILURE,
    TIMEOUT_FAILURE,
    TURN_FAILURE,
)

_log: Final = logging.getLogger(__name__)


def failure_report(turn: ActiveTurn) -> Report:
    """Return the event for a message that is given up: a fixed text, never an exception's."""
    if turn.ended_by is EndReason.TIMEOUT:
        failure = TIMEOUT_FAILURE
    elif turn.error is not None:
        failure = TURN_FAILURE
    else:
        failure = MISSING_REPLY_FAILURE
    return Report(failure.text, {FAILURE_KEY: failure.to_dict()})


def log_failed_turn(turn: ActiveTurn, record: Record, secrets: tuple[str, ...]) -> None:
    """Log a failed turn by its ids, with the traceback of what was raised, secrets masked."""
    if turn.error is None:
        _log.warning(
            "turn of message %s in room %s failed: %s",
            record.message_id, record.room_id, record.error,
        )  # fmt: skip
        return
    _log.error(
        "turn of message %s in room %s failed\n%s",
        record.message_id, record.room_id, traceback_text(turn.error, secrets),
    )  # fmt: skip

"""What becomes of a turn that has ended: decided from what it holds, without I/O."""

from __future__ import annotations

from typing import Final

import attrs

from band_trio.errors import InputNotAccepted
from band_trio.hygiene import error_text
from band_trio.leaves import leaf_errors
from band_trio.runtime.lifecycle import EndReason
from band_trio.runtime.record import NOT_ACCEPTED, Fate, Record
from band_trio.runtime.turn import ActiveTurn

ERROR_CHARS: Final = 1000
"""Characters of an error text that is sent to the platform: its head and its tail."""


@attrs.frozen
class Judgement:
    """Texts and limits that a record is written with."""

    secrets: tuple[str, ...] = attrs.field(repr=False)
    max_cycle_seconds: float | None

    def record(self, turn: ActiveTurn, room_id: str) -> Record:
        """Decide the fate of a claimed message; a pure function of what the turn holds."""

        def decide(fate: Fate, reason: str = "", error: str = "", plain: str = "") -> Record:
            return Record(room_id, turn.message.id, fate, reason, error, plain or error)

        match turn.ended_by:
            case EndReason.INTERRUPT:
                return decide(Fate.PROCESSED)
            case EndReason.STOP | EndReason.LEFT | EndReason.SHUTDOWN | EndReason.SUPERSEDED:
                return decide(Fate.RELEASED, reason=turn.ended_by)
            case EndReason.TIMEOUT:
                limit = self.max_cycle_seconds
                return decide(Fate.FAILED, error=f"turn exceeded max_cycle_seconds ({limit:g} s)")
        if turn.error is not None:
            if all(isinstance(leaf, InputNotAccepted) for leaf in leaf_errors(turn.error)):
                return decide(Fate.RELEASED, reason=NOT_ACCEPTED)
            text = error_text(turn.error, ERROR_CHARS, self.secrets)
            plain = type(leaf_errors(turn.error)[0]).__name__
            return decide(Fate.FAILED, error=text, plain=plain)
        if turn.declined or not turn.ledger.judged or turn.ledger.complete:
            return decide(Fate.PROCESSED)
        return decide(Fate.FAILED, error="turn ended without a reply")


def did_its_work(turn: ActiveTurn, record: Record) -> bool:
    """Tell whether a record says that a turn did its work, so that its context is committed."""
    return (
        record.fate is Fate.PROCESSED
        and turn.ended_by is None
        and turn.error is None
        and not turn.declined
    )

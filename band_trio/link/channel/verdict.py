"""What the end of a connection, or of a try to connect, means: a table without I/O."""

from __future__ import annotations

import random
from typing import Final

import attrs

from band_trio.errors import (
    BandAuthError,
    BandConfigError,
    BandError,
    BandPolicyError,
    BandSupersededError,
)
from band_trio.protocol.events import Supersede

POLICY_VIOLATION: Final = 1008
RESTARTING: Final[dict[int, tuple[float, float]]] = {1012: (1.0, 5.0), 1013: (30.0, 60.0)}
"""Close code → the shortest and the longest wait (platform docs, How a connection ends)."""
CONFLICT: Final = 409


@attrs.frozen
class ConnectionEnd:
    """How a connection ended, or why there was none."""

    reason: str
    """In words, for people; holds no secret."""
    status: int | None = None
    """Of a refused upgrade."""
    code: int | None = None
    """Close code."""
    retry_after: float | None = None
    """Seconds to wait, as told by the platform."""
    supersede: Supersede | None = None
    """A newer connection took over."""


@attrs.frozen
class GiveUp:
    """End the run with *error*."""

    error: BandError


@attrs.frozen
class Wait:
    """Connect again after this many seconds."""

    seconds: float


@attrs.frozen
class BackOff:
    """Connect again after the usual back-off."""


@attrs.frozen
class CheckKey:
    """Ask the REST side whether the key is refused there too; else back off."""

    error: BandAuthError


@attrs.frozen
class Conflict:
    """The agent is connected elsewhere and was asked to be refused: wait, within a limit."""

    retry_after: float | None


Verdict = GiveUp | Wait | BackOff | CheckKey | Conflict


def judge(end: ConnectionEnd, where: str, *, first: bool) -> Verdict:
    """Decide what follows *end*. *where* names the URL, *first* means before the first success."""
    if end.supersede is not None and not end.supersede.retryable:
        return GiveUp(BandSupersededError(end.supersede.reason, end.supersede.message))
    if end.code == POLICY_VIOLATION:
        return GiveUp(
            BandPolicyError(
                f"{where} closed for a policy violation: {end.reason}. "
                "What the agent sends is against the rules of the platform; ask its operator."
            )
        )
    if end.code in RESTARTING:
        return Wait(max(end.retry_after or 0.0, random.uniform(*RESTARTING[end.code])))
    if end.status is not None:
        return _judge_status(end, end.status, where, first=first)
    return BackOff() if end.retry_after is None else _wait_as_told(end.retry_after)


def _judge_status(end: ConnectionEnd, status: int, where: str, *, first: bool) -> Verdict:
    if status in (401, 403):
        error = BandAuthError(
            f"{where} refused the API key ({end.reason}). Check the agent id and its key."
        )
        return GiveUp(error) if first else CheckKey(error)
    if status in (400, 404, 426) and first:
        return GiveUp(
            BandConfigError(f"{where} refused the connection: {end.reason}. Check the URL.")
        )
    if status == CONFLICT and first:
        return Conflict(end.retry_after)
    if status in (429, 503) and end.retry_after is not None:
        return _wait_as_told(end.retry_after)
    return BackOff()


def _wait_as_told(retry_after: float) -> Wait:
    """Wait at least as told, and a little longer by chance: others were told the same."""
    return Wait(retry_after + random.uniform(0, 0.1 * retry_after))

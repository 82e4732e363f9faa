"""How long to wait before the next try: pure functions; the caller does the waiting."""

from __future__ import annotations

import random


def full_jitter(attempt: int, base: float, cap: float) -> float:
    """Return a wait uniform in (0, min(cap, base·2^attempt)), in seconds; *attempt* from 0.

    For reconnects: many clients that lost one server must not come back together.
    """
    return _ceiling(attempt, base, cap) * (1 - random.random())


def half_jitter(attempt: int, base: float, cap: float) -> float:
    """Return a wait between half of min(cap, base·2^attempt) and all of it, in seconds.

    For retries that promise a minimum distance; *attempt* from 0.
    """
    return _ceiling(attempt, base, cap) * (0.5 + 0.5 * random.random())


def _ceiling(attempt: int, base: float, cap: float) -> float:
    # 2**64 is beyond every cap; larger powers would overflow a float.
    return min(cap, base * 2.0 ** min(attempt, 64))

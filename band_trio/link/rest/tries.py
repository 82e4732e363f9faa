"""The tries of one call: what is left of its time, and how long to wait between them."""

from __future__ import annotations

from typing import Final

import trio

from band_trio.config.agent import AgentConfig
from band_trio.errors import BandApiError, BandConnectionError
from band_trio.kit.backoff import half_jitter

RETRY_BASE_SECONDS: Final = 0.5
RETRY_CAP_SECONDS: Final = 8.0
"""Back-off between two tries; the whole call ends after `rest_call_seconds` anyway."""


class NotSentError(BandConnectionError):
    """Nothing of the request reached the server: it may be sent again, whatever it was."""


class Tries:
    """The clock of one call."""

    def __init__(self, config: AgentConfig, within: float | None) -> None:
        self._config = config
        seconds = config.rest_call_seconds if within is None else within
        self._deadline = trio.current_time() + seconds
        self._begun = 0

    def begin(self) -> float:
        """Begin a try; return how many seconds it may take."""
        self._begun += 1
        left = max(0.0, self._deadline - trio.current_time())
        return min(self._config.rest_try_seconds, left)

    def after_error(self, error: BandConnectionError) -> float:
        """Return how long to wait after *error*, or raise it when the time does not allow that.

        An outcome that is unknown only because the time is over is a `BandConnectionError`: the
        caller may repeat the whole call.
        """
        wait = self._back_off()
        if trio.current_time() + wait < self._deadline:
            return wait
        if isinstance(error, NotSentError):
            raise error
        raise BandConnectionError(str(error)) from error

    def after_no(self, retry_after: float | None, error: BandApiError) -> float:
        """Return how long to wait after a no for now, at least *retry_after* seconds.

        Raises *error* when that is above the cap, or when the time does not allow it.
        """
        wait = max(self._back_off(), retry_after or 0.0)
        too_long = wait > self._config.retry_after_cap_seconds
        if too_long or trio.current_time() + wait >= self._deadline:
            raise error
        return wait

    def _back_off(self) -> float:
        return half_jitter(self._begun - 1, RETRY_BASE_SECONDS, RETRY_CAP_SECONDS)

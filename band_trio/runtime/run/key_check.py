"""Whether the key is still good: asked once, however many answers have refused it."""

from __future__ import annotations

import logging
from typing import Final, Never

import attrs
import trio

from band_trio.errors import BandAuthError, BandError
from band_trio.link.rest.rest import RestClient
from band_trio.runtime.lifecycle import Lifecycle

_log: Final = logging.getLogger(__name__)


@attrs.define(eq=False)
class KeyCheck:
    """Looks after a 401: it may have been meant."""

    _rest: RestClient
    _lifecycle: Lifecycle

    async def serve(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> Never:
        """Ask the platform whenever there is a doubt, one request at a time.

        Raises:
            BandAuthError: the key is refused.
        """
        task_status.started()
        while True:
            await self._rest.api.denied.wait()
            try:
                refused = await self._rest.key_is_refused()
            except BandError as exc:
                _log.info("the key could not be checked: %s", exc)
            else:
                if refused and not self._lifecycle.closing:  # else somebody has found out before
                    url = self._rest.api.rest_url
                    raise BandAuthError(f"{url} refuses the key now. Was it revoked?")

"""Steps of the start: who the agent is, and that its adapter learns it.

Those that talk to the platform try until the shared patience is over.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar
from uuid import UUID

import trio

from band_trio.contract import FrameworkAdapter
from band_trio.errors import BandApiError, BandAuthError, BandConfigError, BandConnectionError
from band_trio.kit.backoff import half_jitter
from band_trio.kit.nurseries import hidden_nursery
from band_trio.link.rest.rest import RestClient
from band_trio.link.rest.routes import UNREADABLE
from band_trio.protocol.rest import AgentMe
from band_trio.runtime.hooks import Hooks

_log: Final = logging.getLogger(__name__)

T = TypeVar("T")

BASE_SECONDS: Final = 0.5
CAP_SECONDS: Final = 10.0
"""Back-off between two tries of one step."""


def is_foreign(error: BandApiError) -> bool:
    """Tell whether the answer is none of a platform's: a bare 3xx or 4xx, or a 2xx of other shape."""
    return error.code == UNREADABLE or (error.code is None and error.message is None)


async def identify(rest: RestClient, agent_id: str, patience_until: float) -> AgentMe:
    """Ask the platform who the key belongs to; also the check of the key.

    Raises:
        BandConfigError: it belongs to another agent than *agent_id*.
        BandAuthError: the key was refused.
        BandConnectionError: not reached before *patience_until* (trio's time), or what answers is
            no Band platform.
        BandApiError: another definite no.
    """
    me = await with_patience(rest, rest.try_me, patience_until, "asking for the agent's identity")
    if not _is_same(me.id, agent_id):
        raise BandConfigError(
            f"The API key belongs to the agent {me.id!r}, not to {agent_id!r}: use the "
            "agent_id and the api_key of one agent."
        )
    return me


def _is_same(one: str, other: str) -> bool:
    """Compare two ids: as UUIDs where both are, in any spelling, else as the texts they are."""
    try:
        return UUID(one) == UUID(other)
    except ValueError:
        return one == other


async def with_patience(
    rest: RestClient, ask: Callable[[], Awaitable[T]], until: float, what: str
) -> T:
    """Repeat *ask* over transient failures; the first one is one warning line with the URL.

    Raises:
        As `identify`; each text says what was asked, where, and what to do.
    """
    url = rest.api.rest_url
    error: BandApiError | BandConnectionError = BandConnectionError(
        f"{url} gave no answer in time."
    )
    tries = 0
    with trio.move_on_at(until):
        while True:
            told = 0.0
            try:
                return await ask()
            except BandApiError as exc:
                if exc.status in (401, 403):
                    raise BandAuthError(
                        f"{url} refused the key ({exc.status}). Check agent id and API key."
                    ) from None
                if not exc.is_transient:
                    raise _definite(exc, what, url) from None
                error, told = exc, exc.retry_after or 0.0
            except BandConnectionError as exc:
                error = exc
            if not tries:
                _log.warning("%s, trying again: %s", _failed(what, url, error), error)
            await trio.sleep(max(told, half_jitter(tries, BASE_SECONDS, CAP_SECONDS)))
            tries += 1
    raise BandConnectionError(
        f"{_failed(what, url, error)}: {str(error).rstrip('.')}. Is the platform up, and the URL right?"
    ) from None


def _definite(error: BandApiError, what: str, url: str) -> BandApiError | BandConnectionError:
    """Return the error for an answer that asking again would not change."""
    if is_foreign(error):
        return BandConnectionError(
            f"no Band platform answers at {url}: {what} was answered with the status "
            f"{error.status} and nothing a platform would say. Check the URL."
        )
    return BandApiError(
        error.status, error.code, error.message,
        request_id=error.request_id, details=error.details, retry_after=error.retry_after,
        context=f"{what} was refused by {url}, check the URL and the agent",
    )  # fmt: skip


def _failed(what: str, url: str, error: Exception) -> str:
    """Say what failed, and where unless *error* names the URL itself."""
    return f"{what} failed" if url in str(error) else f"{what} failed at {url}"


async def tell_started(adapter: FrameworkAdapter, me: AgentMe, hooks: Hooks) -> None:
    """Call `on_started` in a task of its own, which ends with it.

    A nursery or cancel scope belongs to the task that opened it, and cannot outlive it: one that
    stays open would end everything around it in the wrong order.

    Raises:
        BandConfigError: it left a nursery open.
        Exception: what it raises.
    """

    left_open: list[trio.Nursery] = []

    async def call() -> None:
        try:
            await adapter.on_started(me.name, me.description)
        finally:
            left_open.extend(trio.lowlevel.current_task().child_nurseries)

    try:
        async with (
            hooks.watched("on_started", of_end=True),
            hidden_nursery("on_started") as nursery,
        ):
            nursery.start_soon(call, name="on_started")
    except Exception as exc:
        if not left_open:
            raise
        raise BandConfigError(
            f"{type(adapter).__name__}.on_started left a nursery open, its own or that of a client "
            "it entered: open what lives as long as the agent in `async def serve(self, *, "
            "task_status)`, inside `async with`: then task_status.started(), and wait there with "
            "trio.sleep_forever()."
        ) from exc

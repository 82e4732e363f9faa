"""`Agent`: what an application holds."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import attrs
import trio

from band_trio.checks import (
    check_adapter,
    check_callbacks,
    check_kinds,
    check_preprocessor,
    check_trio,
)
from band_trio.config.agent import AgentConfig, ContactEventConfig, SessionConfig
from band_trio.config.credentials import Credentials, load_agent_config
from band_trio.config.endpoints import resolve_endpoints
from band_trio.config.environment import tell_unread
from band_trio.config.importing import refuse_while_loading
from band_trio.config.keywords import answers_keywords, check_keywords
from band_trio.contract import FrameworkAdapter, Preprocessor
from band_trio.errors import AgentAlreadyRunningError, BandConfigError
from band_trio.kit.callables import Hook
from band_trio.kit.hygiene import traceback_text
from band_trio.kit.logs import thinned_lines
from band_trio.kit.nurseries import hidden_nursery
from band_trio.runtime.lifecycle import ShutdownReport
from band_trio.runtime.run.health import Health
from band_trio.runtime.run.platform_runtime import PlatformRuntime
from band_trio.runtime.run.settings import RunSettings
from band_trio.runtime.turn.preprocessing import DefaultPreprocessor
from band_trio.runtime.turn.services import Callbacks

_log: Final = logging.getLogger(__name__)

STOP_GRACE: Final = 30.0
"""Seconds that running turns get by default to finish."""


class Agent:
    """An agent on the platform: connects, turns messages into calls of its adapter, settles them.

    Make one with `Agent.create` or `Agent.from_config`; nothing is opened until `run`.
    """

    def __init__(self, settings: RunSettings) -> None:
        self._settings = settings
        self._runtime: PlatformRuntime | None = None
        self._report: ShutdownReport | None = None
        self._context: AbstractAsyncContextManager[Agent] | None = None

    def __repr__(self) -> str:
        state = "running" if self._runtime is not None else "not running"
        return f"Agent({self._settings.credentials.agent_id!r}, {state})"

    # ------------------------------------------------------------------ making one

    @classmethod
    @answers_keywords
    def create(
        cls,
        *,
        adapter: FrameworkAdapter,
        agent_id: str,
        api_key: str,
        ws_url: str | None = None,
        rest_url: str | None = None,
        config: AgentConfig | None = None,
        session_config: SessionConfig | None = None,
        contact_config: ContactEventConfig | None = None,
        preprocessor: Preprocessor | None = None,
        on_participant_added: Hook | None = None,
        on_participant_removed: Hook | None = None,
    ) -> Agent:
        """Check everything and return an agent that is ready to run; no I/O.

        URLs default to `BAND_REST_URL` and `BAND_WS_URL`, then to the public platform; session
        options to the environment (`SessionConfig.from_environment`). The callbacks get
        `(room_id, participant)`, sync or async.

        Raises:
            BandConfigError: an option, a URL, a credential, the adapter or a callback is not
                usable.
            TypeError: a keyword is unknown.
        """
        check_kinds(
            config=(config, AgentConfig),
            session_config=(session_config, SessionConfig),
            contact_config=(contact_config, ContactEventConfig),
        )
        config = config or AgentConfig()
        check_adapter(adapter)
        check_preprocessor(preprocessor)
        check_callbacks(
            on_participant_added=on_participant_added,
            on_participant_removed=on_participant_removed,
        )
        tell_unread(
            attrs.fields_dict(SessionConfig), attrs.fields_dict(AgentConfig), _adapter_variables
        )
        return cls(
            RunSettings(
                adapter=adapter,
                credentials=Credentials(agent_id, api_key),
                endpoints=resolve_endpoints(
                    rest_url, ws_url, allow_insecure=config.allow_insecure, proxy=config.proxy
                ),
                config=config,
                session=session_config or SessionConfig.from_environment(),
                preprocessor=preprocessor or DefaultPreprocessor(),
                callbacks=Callbacks(on_participant_added, on_participant_removed),
                contacts=contact_config or ContactEventConfig(),
            )
        )

    @classmethod
    def from_config(
        cls,
        name: str,
        *,
        adapter: FrameworkAdapter,
        config_path: str | Path | None = None,
        **kwargs: Any,
    ) -> Agent:
        """Like `create`, with id and key of *name* from `agent_config.yaml` or *config_path*.

        Raises:
            BandConfigError: as `create`, or the file does not give both.
            TypeError: as `create`.
        """
        check_keywords("Agent.from_config", kwargs, cls.create, "config_path")
        agent_id, api_key = load_agent_config(name, config_path=config_path)
        return cls.create(adapter=adapter, agent_id=agent_id, api_key=api_key, **kwargs)

    # ------------------------------------------------------------------ running

    @answers_keywords
    async def run(
        self, *, task_status: trio.TaskStatus[Agent] = trio.TASK_STATUS_IGNORED
    ) -> ShutdownReport:
        """Run until `stop`, an error that ends the agent, or cancellation; return how it ended.

        `task_status.started(agent)` is called once the agent is connected, has listed its rooms
        and they are joining: `await nursery.start(agent.run)` embeds it. Cancelling it is a stop
        without grace. A `stop` during the start undoes the start and returns; under
        `nursery.start` that is trio's RuntimeError, because `started` was never called.

        Raises:
            AgentAlreadyRunningError: it runs already, here or elsewhere.
            BandConfigError: it is called outside trio or while `band-trio run` loads its target, the
                key belongs to another agent, the first connection was refused for good (400, 404,
                426), `on_started` left a nursery open, or the lock file cannot be opened.
            BandAuthError: the key was refused.
            BandConnectionError: not reached within `start_patience_seconds`, or what answers is
                no Band platform.
            BandApiError: the platform refused another step of the start.
            BandPolicyError: closed for a policy violation.
            BandSupersededError: a newer connection took over.
            SystemExit, KeyboardInterrupt: raised by the adapter, or by a signal; the agent has
                ended in order.
            Exception: what `on_started` or `serve` of the adapter raises.
            ExceptionGroup: several errors at once.
        """
        check_trio()
        refuse_while_loading()
        if self._runtime is not None:
            raise AgentAlreadyRunningError(
                f"Agent {self._settings.credentials.agent_id} is running already: one run at a "
                "time. Stop it first, or create a second Agent."
            )
        runtime = self._runtime = PlatformRuntime(self._settings)
        self._report = None
        try:
            with thinned_lines(trio.current_time):
                report = await runtime.serve(lambda: task_status.started(self))
        except trio.Cancelled:
            _raise_errors(runtime.lifecycle.errors)  # a cancellation does not hide what came first
            raise
        finally:
            self._runtime, self._report = None, runtime.report
        _raise_errors(runtime.lifecycle.errors)
        return report

    @answers_keywords
    def stop(self, *, grace: float = STOP_GRACE) -> None:
        """Stop the agent: nothing new is claimed, running turns get *grace* seconds.

        Returns at once; may be called from any task of the same trio run, also from a handler,
        and again: a later call can only bring the deadline forward. Before `run` it has no
        effect.

        Raises:
            BandConfigError: *grace* is negative or not a number.
        """
        check_grace(grace)
        if self._runtime is not None:
            self._runtime.lifecycle.stop(grace)

    async def __aenter__(self) -> Self:
        check_trio()
        context = self._running()
        await context.__aenter__()
        self._context = context  # only now: entering a running agent must not replace its own
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        context, self._context = self._context, None
        assert context is not None  # entered before it is left
        # Leaving stops the agent, whose end is bounded by itself.
        return await context.__aexit__(exc_type, exc, traceback)  # noqa: ASYNC102

    @asynccontextmanager
    async def _running(self) -> AsyncGenerator[Agent]:
        """Run in the background of a block; leaving the block stops the agent and waits."""
        async with hidden_nursery("Agent") as nursery:
            await nursery.start(self.run)
            try:
                yield self
            finally:
                self.stop()

    # ------------------------------------------------------------------ looking

    @property
    def settings(self) -> RunSettings:
        """What the agent was made of; `Agent(attrs.evolve(…))` makes one with other options.

        Internal: its fields follow the runtime and may change in any version.
        """
        return self._settings

    @property
    def is_connected(self) -> bool:
        """Whether a socket is serving at this moment."""
        link = self._runtime.link if self._runtime is not None else None
        return link is not None and link.is_connected

    @property
    def name(self) -> str | None:
        """The agent's name on the platform, once it has said so."""
        identity = self._runtime.identity if self._runtime is not None else None
        return identity.name if identity is not None else None

    @property
    def report(self) -> ShutdownReport | None:
        """How the last run ended, also by an error or a cancellation; None before its end."""
        return self._report

    def health(self) -> Health:
        """Return a snapshot of how the agent is doing; plain data."""
        return self._runtime.health() if self._runtime is not None else Health()


def check_grace(grace: object) -> None:
    """Refuse what is no time for running turns.

    Raises:
        BandConfigError: it is negative or not a number.
    """
    if isinstance(grace, bool) or not isinstance(grace, int | float) or not grace >= 0:
        raise BandConfigError(f"grace must be zero or more seconds, not {grace!r}")


def _adapter_variables() -> tuple[str, ...]:
    """Return the variables of adapters, or their beginnings; asked for rarely, so loaded then."""
    from band_trio.adapters.options import variables_of_adapters

    return variables_of_adapters()


def _raise_errors(errors: list[BaseException]) -> None:
    program_ends = [each for each in errors if isinstance(each, SystemExit | KeyboardInterrupt)]
    if program_ends:  # bare, so that a program ends with its exit code, whatever else has failed
        for error in errors:
            if error is not program_ends[0]:
                _log.error("the agent also failed\n%s", traceback_text(error))
        raise program_ends[0]
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise BaseExceptionGroup("Agent.run", errors)

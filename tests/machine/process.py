"""One process of the agent: it can be stopped in order, or crash, which nobody outside notices."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs
import httpx  # noqa: ASYNC127 - what the agent's transport is made of
import trio
import trio.abc

from band_trio import Agent, AgentConfig, BandError, SessionConfig
from band_trio.localband.band import LocalAgent, LocalBand
from band_trio.localband.fault_rules import Cut
from band_trio.runtime.lifecycle import ShutdownReport
from band_trio.trace import Started, TraceEvent
from tests.machine.actor import Actor
from tests.runtime.invariants import Checker


@attrs.define(eq=False)
class Leash(httpx.AsyncBaseTransport):
    """The network of one process; after a crash nothing passes any more, in no direction."""

    inner: httpx.AsyncBaseTransport
    open_inner: Any
    crashed: bool = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Pass a request on while the process lives."""
        if self.crashed:
            await trio.lowlevel.checkpoint()
            raise httpx.ConnectError("the process is gone", request=request)
        response = await self.inner.handle_async_request(request)
        if self.crashed:
            raise httpx.RemoteProtocolError("the process is gone", request=request)
        return response

    async def open_stream(self, url: str) -> trio.abc.Stream:
        """Open a byte stream while the process lives."""
        await trio.lowlevel.checkpoint()
        if self.crashed:
            raise ConnectionRefusedError("the process is gone")
        stream: trio.abc.Stream = await self.open_inner(url)
        return stream


@attrs.define(eq=False)
class Process:
    """One run of one agent, with everything it keeps in memory."""

    band: LocalBand
    account: LocalAgent
    actor: Actor
    checker: Checker
    session: SessionConfig
    options: dict[str, Any]
    agent: Agent = attrs.field(init=False)
    leash: Leash = attrs.field(init=False)
    trace: list[tuple[float, TraceEvent]] = attrs.field(factory=list)
    problems: list[str] = attrs.field(factory=list)
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    up: bool = False
    stop_at: float | None = None
    """When the grace of a stop is over."""
    report: ShutdownReport | None = None
    ended: trio.Event = attrs.field(factory=trio.Event)
    on_start: Callable[[str], Iterable[str]] = lambda _message_id: ()
    """Looks at the platform when a handler starts; yields what is wrong."""
    calls_checked: int = 0
    """How many calls of the actor were looked at."""

    def __attrs_post_init__(self) -> None:
        kwargs = self.band.connection(self.account)
        plain: AgentConfig = kwargs["config"]
        assert plain.rest_transport is not None
        self.leash = Leash(plain.rest_transport, plain.open_stream)
        kwargs["config"] = AgentConfig(
            rest_transport=self.leash,
            open_stream=self.leash.open_stream,
            observer=self.observe,
            single_instance=False,
            **self.options,
        )
        self.agent = Agent.create(adapter=self.actor, session_config=self.session, **kwargs)

    @property
    def alive(self) -> bool:
        """Whether it runs and has neither crashed nor been told to stop."""
        return not (self.ended.is_set() or self.leash.crashed or self.stop_at is not None)

    def observe(self, event: TraceEvent) -> None:
        """Check an event at once; what is found is kept, for observers must not raise."""
        if self.leash.crashed:
            return
        self.trace.append((trio.current_time(), event))
        try:
            self.checker.see(event, trio.current_time())
            if isinstance(event, Started):
                self.problems += self.on_start(event.message_id)
        except AssertionError as exc:
            self.problems.append(f"{exc} [{event}]")

    async def run(self) -> None:
        """Run until the agent has ended, however it does."""
        try:
            with self.scope:
                self.report = await self.agent.run(task_status=self)
        except Exception as exc:  # noqa: BLE001 - judged, and reported with the other problems
            self._judge(exc)
        finally:
            self.ended.set()
        if not self.leash.crashed:
            self._judge_end()

    def started(self, value: object = None) -> None:
        """Be told that the start is complete."""
        self.up = True

    def _judge(self, error: BaseException) -> None:
        """Only a start may fail, and only because the platform could not be used."""
        if not self.leash.crashed and (self.up or not isinstance(error, BandError)):
            self.problems.append(f"g45: the run ended with {error!r}")

    def _judge_end(self) -> None:
        if self.report is None:
            return
        late = trio.current_time() - (self.stop_at if self.stop_at is not None else 0)
        overhead = self.agent.settings.config.stop_overhead_seconds
        stuck = any("could not be ended" in each for each in self.report.cleanup_errors)
        if self.stop_at is not None and late > overhead + 1e-6 and not stuck:
            self.problems.append(f"g51: it took {late - overhead:g} s too long to stop")
        graceful = not self.report.turns_cancelled and not self.report.settles_pending
        if self.report.graceful != graceful:
            self.problems.append(f"g53: {self.report}")
        served = [r for r, room in self.checker.rooms.items() if room.served]
        if served and not stuck:
            self.problems.append(f"g54, g56: rooms were not cleaned up: {served}")

    def stop(self, grace: float) -> None:
        """Stop it in order."""
        end = trio.current_time() + grace
        self.stop_at = end if self.stop_at is None else min(self.stop_at, end)
        self.checker.closing = True
        self.agent.stop(grace=grace)

    def crash(self) -> None:
        """Lose all that it has in memory: nothing that it still does reaches anybody."""
        self.band.cut(self.account, Cut.RST)
        self.leash.crashed = True
        self.scope.cancel(reason="the process has crashed")

"""One run of an agent: the composition root.

Everything is nested, so that the start goes inwards and the end, or a failed start, goes outwards
in exactly the reverse order: lock ⊃ REST ⊃ socket ⊃ adapter ⊃ rooms ⊃ turns.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, closing, nullcontext
from functools import partial
from typing import Final

import attrs
import trio

from band_trio.errors import BandError
from band_trio.kit.hygiene import traceback_text
from band_trio.kit.leaves import lone_leaf
from band_trio.kit.nurseries import hidden_nursery, hide_nursery, is_cancellation
from band_trio.link.link import BandLink
from band_trio.link.rest.api import open_api
from band_trio.link.rest.rest import RestClient
from band_trio.protocol.events import agent_contacts, agent_rooms
from band_trio.protocol.rest import AgentMe
from band_trio.runtime.adapter_port import AdapterPort
from band_trio.runtime.crashes import CrashRecord, crash_file, open_crash_record
from band_trio.runtime.deadlines import Deadlines
from band_trio.runtime.hooks import Hooks
from band_trio.runtime.instance_lock import instance_lock
from band_trio.runtime.lifecycle import ROOMS, Lifecycle, ShutdownReport, StartAborted
from band_trio.runtime.membership.presence import RoomPresence
from band_trio.runtime.problems import Problems
from band_trio.runtime.run.health import Health, health_of
from band_trio.runtime.run.key_check import KeyCheck
from band_trio.runtime.run.parts import Parts, make_parts
from band_trio.runtime.run.settings import RunSettings
from band_trio.runtime.run.start import identify, tell_started, with_patience
from band_trio.runtime.run.watchdog import Watchdog
from band_trio.runtime.turn.services import Application
from band_trio.trace import ShutDown, Tracer, tracer_of
from band_trio.types import PlatformConnection

_log: Final = logging.getLogger(__name__)


@attrs.define(eq=False)
class PlatformRuntime:
    """One run. `serve` it once."""

    settings: RunSettings
    lifecycle: Lifecycle = attrs.field(init=False)
    identity: AgentMe | None = attrs.field(default=None, init=False)
    """Who the agent is, once the platform has said so."""
    parts: Parts | None = attrs.field(default=None, init=False)
    """Journals, presence and link, once they are made."""
    report: ShutdownReport | None = attrs.field(default=None, init=False)
    """How the run has ended, also where `serve` raises."""
    _tracer: Tracer = attrs.field(init=False)
    _port: AdapterPort = attrs.field(init=False)
    _problems: Problems = attrs.field(factory=Problems, init=False)
    _deadlines: Deadlines = attrs.field(factory=Deadlines, init=False)
    _hooks: Hooks = attrs.field(init=False)
    _patience_until: float = attrs.field(default=0.0, init=False)

    def __attrs_post_init__(self) -> None:
        self.lifecycle = Lifecycle(self.settings.config.stop_overhead_seconds)
        self._tracer = tracer_of(self.settings.config.observer)
        self._hooks = Hooks(self._problems, self._deadlines)
        self._port = AdapterPort(self.settings.adapter)

    @property
    def link(self) -> BandLink | None:
        """The connection, once it is made."""
        return self.parts.link if self.parts is not None else None

    @property
    def _presence(self) -> RoomPresence | None:
        return self.parts.presence if self.parts is not None else None

    async def serve(self, ready: Callable[[], None]) -> ShutdownReport:
        """Run the agent until it is stopped, fails for good, or is cancelled.

        *ready* is called once it is connected, has listed its rooms, and they are joining.
        Cancelling is a stop without grace: what has to be said is said, then the cancellation
        goes on.
        """
        self._patience_until = trio.current_time() + self.settings.config.start_patience_seconds
        with hide_nursery("Agent.run"):
            async with trio.open_nursery() as watch:
                watch.start_soon(self._watch_for_cancellation)
                watch.start_soon(self._deadlines.serve)
                watchdog = Watchdog(self.settings.session.stall_seconds, self._problems.note)
                with watchdog, closing(self._deadlines), self.lifecycle.whole:
                    await self._run(ready)
                # Made before the nursery ends: leaving it raises the cancellation.
                report = self.report = self._report()
                watch.cancel_scope.cancel(reason="the run is over")
        return report

    async def _watch_for_cancellation(self) -> None:
        """Wait for the run's caller to be cancelled.

        `lifecycle.whole` shields the run from that. This task stands outside the shield, and
        turns the cancellation into a stop without grace.
        """
        try:
            await trio.sleep_forever()
        finally:
            self.lifecycle.stop(0)

    async def _run(self, ready: Callable[[], None]) -> None:
        """The nesting, on one screen."""
        settings = self.settings
        only_one = settings.config.single_instance
        lock = instance_lock(settings.credentials.agent_id) if only_one else nullcontext()
        try:
            record = crash_file(settings.config.state_dir, settings.credentials.agent_id)
            with lock, open_crash_record(record) as crashes:
                async with open_api(
                    settings.endpoints, settings.credentials, settings.config
                ) as api:
                    rest = RestClient(api)
                    with self.lifecycle.step():
                        given = settings.credentials
                        me = await identify(rest, given.agent_id, self._patience_until)
                    self.identity = me
                    # From here on the id is spelled as the platform spells it.
                    self.settings = attrs.evolve(
                        settings, credentials=attrs.evolve(given, agent_id=me.id)
                    )
                    async with (
                        _nursery("link") as sockets,
                        self._started_adapter(me),
                        _nursery("rooms") as rooms,
                    ):
                        parts = self.parts = self._make_parts(rest, me, rooms, crashes)
                        await self._serve_rooms(rest, parts, sockets, rooms, ready)
                        await self._end_rooms(parts)
        except StartAborted:
            _log.info("stopped while starting")
        except trio.Cancelled:
            raise
        except BaseException as exc:  # noqa: ASYNC103, BLE001 - the run ends with it
            self.lifecycle.fail(lone_leaf(exc))

    async def _serve_rooms(
        self,
        rest: RestClient,
        parts: Parts,
        sockets: trio.Nursery,
        rooms: trio.Nursery,
        ready: Callable[[], None],
    ) -> None:
        """Start, and go on until the end; returns also when the start is aborted or fails.

        Rooms may be served before the start is complete, and have to be ended in order.
        """
        try:
            await self._start_parts(rest, parts, sockets, rooms)
            ready()
            await self.lifecycle.wait_stopping()
        except StartAborted:
            _log.info("stopped while starting")
        except Exception as exc:  # noqa: BLE001 - becomes the error of the run
            self.lifecycle.fail(lone_leaf(exc))
        except (KeyboardInterrupt, SystemExit) as exc:
            # Ctrl-C arrives in the main task, which may be this one: an end like any other.
            self.lifecycle.fail(exc)

    # ------------------------------------------------------------------ start

    @asynccontextmanager
    async def _started_adapter(self, me: AgentMe) -> AsyncGenerator[None]:
        """Start the adapter; its clean-up runs while REST is open and the socket is up."""
        settings, port = self.settings, self._port
        port.prepare(
            PlatformConnection(
                me.id, settings.credentials.api_key,
                settings.endpoints.rest_url, settings.endpoints.ws_url,
            ),
            me.feature_flags,
        )  # fmt: skip
        async with _nursery("adapter") as nursery:
            try:
                with self.lifecycle.step():
                    part, serve = (
                        partial(self._part, endless=False),
                        partial(port.serve, self._hooks),
                    )
                    await nursery.start(part, "the adapter's serve", serve)
                with self.lifecycle.step():
                    await tell_started(port.adapter, me, self._hooks)
                yield
            finally:
                seconds = settings.session.hook_seconds
                # Each hook has a shield with a deadline of its own.
                await port.clean_up(self._hooks, self.lifecycle, seconds)  # noqa: ASYNC102

    def _make_parts(
        self, rest: RestClient, me: AgentMe, rooms: trio.Nursery, crashes: CrashRecord
    ) -> Parts:
        settings = self.settings
        app = Application(self._port, settings.preprocessor, settings.callbacks, self._hooks)
        return make_parts(
            settings, me, app, rest=rest, rooms=rooms, lifecycle=self.lifecycle,
            problems=self._problems, crashes=crashes, deadlines=self._deadlines,
            tracer=self._tracer,
        )  # fmt: skip

    async def _start_parts(
        self, rest: RestClient, parts: Parts, sockets: trio.Nursery, rooms: trio.Nursery
    ) -> None:
        """Connect, list the rooms, start their children."""
        link, patience_until = parts.link, self._patience_until
        await rooms.start(self._part, "the check of the key", KeyCheck(rest, self.lifecycle).serve)
        await rooms.start(self._part, "presence", parts.presence.serve)
        with self.lifecycle.step():
            await sockets.start(self._part, "link", partial(link.serve, patience_until))
        link.want(agent_rooms(self.settings.credentials.agent_id))
        if self.settings.contacts.wants_events:
            link.want(agent_contacts(self.settings.credentials.agent_id))
            await rooms.start(self._part, "contacts", parts.contacts.serve)
        with self.lifecycle.step():
            await with_patience(
                rest, parts.presence.first_listing, patience_until, "listing the rooms"
            )

    # ------------------------------------------------------------------ while it runs

    async def _part(
        self,
        name: str,
        serve: Callable[..., Awaitable[None]],
        *,
        endless: bool = True,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Run one part. Before it is up, its error is its starter's; afterwards it ends the run."""
        up = False

        class Status:
            def started(self, value: None = None) -> None:
                nonlocal up
                up = True
                task_status.started(value)

        try:
            await serve(task_status=Status())
            if endless:
                raise RuntimeError(f"{name} ended by itself")
        except BaseException as exc:  # noqa: ASYNC103 - the run ends with it
            if is_cancellation(exc) or not up:
                raise
            if not isinstance(exc, BandError):
                _log.error("%s failed\n%s", name, traceback_text(exc))
            self.lifecycle.fail(lone_leaf(exc))

    def health(self) -> Health:
        """Return a snapshot of the run; plain data."""
        return health_of(self.parts, self._problems)

    # ------------------------------------------------------------------ the end

    async def _end_rooms(self, parts: Parts) -> None:
        """Let running turns finish until the grace is over, then cut them off and clean up."""
        life, presence = self.lifecycle, parts.presence
        presence.close()
        with life.grace:
            await presence.wait_empty()
        presence.cut_off()
        with life.shield(math.inf, ROOMS):
            await presence.wait_empty()
        for room_id in presence.unfinished():
            _log.error("room %s could not be ended; the run waits for its handler", room_id)
            self._problems.note(f"room {room_id} could not be ended", of_end=True)
        with life.shield(math.inf, ROOMS):
            await parts.settler.drain()

    def _report(self) -> ShutdownReport:
        life = self.lifecycle
        pending = self.parts.journals.unsettled() if self.parts is not None else 0
        began = life.stopped_at if life.stopped_at is not None else trio.current_time()
        report = ShutdownReport(
            graceful=not life.turns_cancelled and not pending,
            turns_finished=life.turns_finished,
            turns_cancelled=life.turns_cancelled,
            settles_pending=pending,
            cleanup_errors=self._problems.of_end(),
            duration=trio.current_time() - began,
        )
        self._tracer(ShutDown(report.graceful))
        return report


@asynccontextmanager
async def _nursery(what: str) -> AsyncGenerator[trio.Nursery]:
    """Open a nursery that is cancelled when its block ends, and hidden from errors."""
    async with hidden_nursery(what) as nursery:
        yield nursery
        nursery.cancel_scope.cancel(reason=f"{what}: the end")

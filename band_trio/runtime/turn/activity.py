"""The working indicator of a room: strictly serial reports that nobody waits for.

A turn shows itself only after a delay; the end of a series is one `false`, sent by the room's
own sender, so neither a turn nor a mark is ever behind it (platform docs, Activity).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Final

import attrs
import trio

from band_trio.config.agent import SessionConfig
from band_trio.errors import BandError
from band_trio.kit.logs import RepeatedLog
from band_trio.link.rest.rest import RestClient
from band_trio.runtime.deadlines import Deadline, Deadlines
from band_trio.runtime.journal.journal import Journal
from band_trio.trace import ActivityReported, Tracer

_repeated: Final = RepeatedLog(logging.getLogger(__name__))


@attrs.define(eq=False)
class WorkingIndicator:
    """Sends `working` reports of one room, one at a time and in order."""

    _room_id: str
    _rest: RestClient
    _session: SessionConfig
    _tracer: Tracer
    _journal: Journal
    _on_stopped: Callable[[int], None]
    """Told, with the plays of the moment when it was asked, when the platform answers `false` to `true`: the agent is stopped in this room."""
    _deadlines: Deadlines
    _nursery: trio.Nursery
    """The room's, which outlives the turn: reports are sent there."""
    _waiting: tuple[bool, ...] = attrs.field(default=(), init=False)
    """Reports to send. At most `false, true`: a refresh that finds one waiting is left out, and
    a `true` that was not sent before its turn ended is taken back."""
    _latest: bool = attrs.field(default=False, init=False)
    """The last report that was sent or is being sent."""
    _sending: bool = attrs.field(default=False, init=False)
    _sent: trio.Event | None = attrs.field(default=None, init=False)
    """Set when nothing is left to send; there while somebody waits for it."""
    _failing: bool = attrs.field(default=False, init=False)
    _next: Deadline | None = attrs.field(default=None, init=False)
    """The next report of the turn."""
    _until: float | None = attrs.field(default=None, init=False)
    """How long the turn is shown, in trio's time; None while it is not."""

    def begin(self) -> None:
        """Show the turn that begins now as working, once the delay is over and until `end`."""
        shown_at = trio.current_time() + self._session.activity_delay_seconds
        self._next = self._deadlines.at(shown_at, self._show)

    def end(self) -> None:
        """Take back that a turn is working, where it was said; without `begin` nothing happens."""
        if self._next is not None:
            self._next.look = None
            self._hide()
            self._next = None

    async def flush(self) -> None:
        """Wait until the last report is out; the caller bounds it."""
        while self._sending:
            self._sent = self._sent or trio.Event()
            await self._sent.wait()

    def _show(self) -> float | None:
        """Say that the turn is working; return when to say so again."""
        now = trio.current_time()
        if self._until is None:
            limit = self._session.max_working_state_seconds
            self._until = math.inf if limit is None else now + limit
        if now >= self._until:
            self._hide()
            return None
        self._report(working=True)
        return min(now + self._session.working_keep_alive_seconds, self._until)

    def _hide(self) -> None:
        if self._until is not None:
            self._until = None
            self._report(working=False)

    def _report(self, *, working: bool) -> None:
        last = self._waiting[-1] if self._waiting else self._latest
        if self._waiting and last:
            if working:
                return
            self._waiting = self._waiting[:-1]
            last = self._waiting[-1] if self._waiting else self._latest
        if working or last:
            self._waiting += (working,)
        if self._waiting and not self._sending:
            self._sending = True
            self._nursery.start_soon(self._send, name=f"working indicator of {self._room_id}")

    async def _send(self) -> None:
        try:
            while self._waiting:
                self._latest, *rest = self._waiting
                self._waiting = tuple(rest)
                await self._send_one(self._latest)
        finally:
            self._sending = False
            if self._sent is not None:
                self._sent.set()
                self._sent = None

    async def _send_one(self, working: bool) -> None:
        within = self._session.working_request_timeout_seconds
        plays = self._journal.controls.plays
        try:
            answer = await self._rest.report_activity(self._room_id, working, within=within)
        except BandError as exc:
            self._log_failure(type(exc).__name__)
        else:
            if answer.ok:
                self._failing = False
                shown = answer.data.get("working") if isinstance(answer.data, dict) else None
                if working and shown is False:
                    self._on_stopped(plays)
            else:
                self._log_failure(str(answer.status))
        self._tracer(ActivityReported(self._room_id, working))

    def _log_failure(self, what: str) -> None:
        if not self._failing:
            self._failing = True
            _repeated.warning(
                "working reports of room %s fail (%s); work goes on", self._room_id, what
            )

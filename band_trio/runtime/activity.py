"""The working indicator of a room: strictly serial reports that nobody waits for.

A turn shows itself only after a delay; the end of a series is one `false`, sent by the room's
own sender, so neither a turn nor a mark is ever behind it (platform docs, Activity).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Final

import attrs
import trio

from band_trio.bell import Bell
from band_trio.config import SessionConfig
from band_trio.errors import BandError
from band_trio.link.rest import RestClient
from band_trio.logs import RepeatedLog
from band_trio.runtime.control import RoomControl
from band_trio.trace import ActivityReported, Tracer

_repeated: Final = RepeatedLog(logging.getLogger(__name__))


@attrs.define(eq=False)
class WorkingIndicator:
    """Sends `working` reports of one room, one at a time and in order."""

    _room_id: str
    _rest: RestClient
    _session: SessionConfig
    _tracer: Tracer
    _control: RoomControl
    _on_stopped: Callable[[], None]
    """Told when the platform answers `false` to `true`: the agent is stopped in this room."""
    _waiting: deque[bool] = attrs.field(factory=deque, init=False)
    """Reports to send. At most `false, true`: a refresh that finds one waiting is left out, and
    a `true` that was not sent before its turn ended is taken back."""
    _latest: bool = attrs.field(default=False, init=False)
    """The last report that was sent or is being sent."""
    _sending: bool = attrs.field(default=False, init=False)
    _failing: bool = attrs.field(default=False, init=False)
    _sent: Bell = attrs.field(factory=Bell, init=False)
    """Rung when nothing is left to send."""

    async def show(self, nursery: trio.Nursery) -> None:
        """Show a turn as working until cancelled; reports are sent in *nursery*, the room's."""
        await trio.sleep(self._session.activity_delay_seconds)
        limit = self._session.max_working_state_seconds
        shown = False
        try:
            with trio.move_on_after(float("inf") if limit is None else limit):
                while True:
                    self._report(working=True, nursery=nursery)
                    shown = True
                    await trio.sleep(self._session.working_keep_alive_seconds)
        finally:
            if shown:
                self._report(working=False, nursery=nursery)

    async def flush(self) -> None:
        """Wait until the last report is out; the caller bounds it."""
        while self._sending:
            await self._sent.wait()

    def _report(self, *, working: bool, nursery: trio.Nursery) -> None:
        last = self._waiting[-1] if self._waiting else self._latest
        if self._waiting and last:
            if working:
                return
            self._waiting.pop()
            last = self._waiting[-1] if self._waiting else self._latest
        if working or last:
            self._waiting.append(working)
        if self._waiting and not self._sending:
            self._sending = True
            nursery.start_soon(self._send, name=f"working indicator of {self._room_id}")

    async def _send(self) -> None:
        try:
            while self._waiting:
                self._latest = self._waiting.popleft()
                await self._send_one(self._latest)
        finally:
            self._sending = False
            self._sent.ring()

    async def _send_one(self, working: bool) -> None:
        within = self._session.working_request_timeout_seconds
        plays = self._control.plays
        try:
            answer = await self._rest.report_activity(self._room_id, working, within=within)
        except BandError as exc:
            self._log_failure(type(exc).__name__)
        else:
            if answer.ok:
                self._failing = False
                shown = answer.data.get("working") if isinstance(answer.data, dict) else None
                if working and shown is False and plays == self._control.plays:
                    self._on_stopped()
            else:
                self._log_failure(str(answer.status))
        self._tracer(ActivityReported(self._room_id, working))

    def _log_failure(self, what: str) -> None:
        if not self._failing:
            self._failing = True
            _repeated.warning(
                "working reports of room %s fail (%s); work goes on", self._room_id, what
            )

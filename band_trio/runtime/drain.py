"""Reading a room's list and running what is runnable, in the platform's order.

A pass begins at `next`, goes on page by page past what is not runnable, and ends when a walk to
the last page finds nothing to run (platform docs, Listing and next).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

import attrs
import trio

from band_trio.backoff import half_jitter
from band_trio.errors import BandApiError, BandError
from band_trio.logs import RepeatedLog
from band_trio.protocol.rest import ChatMessage
from band_trio.runtime.backlog import Backlog
from band_trio.runtime.control import RoomControl
from band_trio.runtime.intake import Dirty, Intake
from band_trio.runtime.services import RoomServices
from band_trio.trace import Read

_log: Final = logging.getLogger(__name__)
_repeated: Final = RepeatedLog(_log)

T = TypeVar("T")

READ_BASE: Final = 0.5
READ_CAP: Final = 30.0
"""Seconds between two tries of a read that fails."""


class _PassAbandoned(Exception):
    """The pass cannot go on: its answers are out of date, or a read failed. It starts again."""


@attrs.define(eq=False)
class Drain:
    """The passes over one room's list."""

    _room_id: str
    _services: RoomServices
    _intake: Intake
    _backlog: Backlog
    _control: RoomControl
    _run: Callable[[ChatMessage], Awaitable[None]]
    """Runs one message to its record."""
    _free: Callable[..., bool]
    """Whether the room may run a message now, or this one: not ending, not stopped, nothing held,
    none (but this one) that a stop interrupted."""
    _drained_in: int = attrs.field(default=-1, init=False)
    _failures: int = attrs.field(default=0, init=False)
    _asking: trio.CancelScope | None = attrs.field(default=None, init=False)
    found_work: bool = attrs.field(default=False, init=False)
    """Whether the last pass ran anything."""

    @property
    def drained(self) -> bool:
        """Whether the list was read to its end in this epoch and nothing asks for a new read."""
        return (
            self._drained_in == self._services.current_epoch() and self._intake.dirty is Dirty.CLEAN
        )

    def abort(self) -> None:
        """Give up a read that is under way: its answer would be thrown away."""
        if self._asking is not None:
            self._asking.cancel(reason="a control, leave or stop made the answer useless")

    async def run_pass(self) -> None:
        """Read and run until nothing runnable is left, or the room has to look elsewhere."""
        cause = self._intake.clear()
        epoch = self._services.current_epoch()
        self.found_work = False
        try:
            if cause is Dirty.SPECULATIVE:
                await self._wait_for_token()
            empty = await self._from_head()
            # While the agent is stopped `next` looks empty, and the signal may come later. Where
            # something told of work, the list is asked as well: else what comes next overtakes it.
            if not empty or cause is Dirty.CAUSED:
                await self._walk()
        except _PassAbandoned:
            self._intake.mark(Dirty.CAUSED)
        else:
            self._drained_in = epoch
            self._intake.caught_up = True

    async def probe(self) -> bool:
        """Ask a stopped room's `next`; a message says that it was resumed meanwhile."""
        revision = self._control.revision
        try:
            head = await self._ask(partial(self._services.rest.get_next, self._room_id))
        except BandError as exc:
            _log.info("room %s: probing while stopped failed: %s", self._room_id, exc)
            return False
        except _PassAbandoned:
            return False
        self._services.tracer(Read(self._room_id, "next"))
        return head is not None and revision == self._control.revision

    # ------------------------------------------------------------------ one pass

    async def _from_head(self) -> bool:
        """Run the stopped message or the oldest one; tell whether the list is empty."""
        stopped = self._backlog.resume
        if stopped is not None:
            await self._run_one(stopped)
            return False
        head = await self._read("next", partial(self._services.rest.get_next, self._room_id))
        if head is None:
            return True
        if self._backlog.is_runnable(head):
            await self._run_one(head)
        return False

    async def _walk(self) -> None:
        cursor: str | None = None
        while True:
            read_page = partial(self._services.rest.list_messages, self._room_id, cursor)
            page = await self._read("messages", read_page)
            ran = False
            for message in page.items:
                if self._backlog.is_runnable(message):
                    await self._run_one(message)
                    ran = True
            if ran:
                cursor = None  # settling shifts the list: a cursor from before may skip rows
            elif page.next_cursor is None or page.next_cursor == cursor:
                return
            else:
                cursor = page.next_cursor

    async def _run_one(self, message: ChatMessage) -> None:
        if not self._free(message):
            raise _PassAbandoned
        self.found_work = True
        await self._run(message)
        if not self._free():
            raise _PassAbandoned

    # ------------------------------------------------------------------ reads

    async def _read(self, kind: str, ask: Callable[[], Awaitable[T]]) -> T:
        """Read once; an answer from before a control, or none at all, ends the pass."""
        revision = self._control.revision
        try:
            answer = await self._ask(ask)
        except BandError as exc:
            await self._back_off(exc)  # noqa: ASYNC120 - cancelled, nobody needs the error
            raise _PassAbandoned from None
        self._failures = 0
        self._services.tracer(Read(self._room_id, kind))
        if revision != self._control.revision or not self._free():
            raise _PassAbandoned
        return answer

    async def _ask(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask the platform, unless the room has to look elsewhere meanwhile."""
        with trio.CancelScope() as self._asking:
            try:
                return await ask()
            finally:
                self._asking = None
        raise _PassAbandoned

    async def _back_off(self, error: BandError) -> None:
        self._failures += 1
        wait = half_jitter(self._failures - 1, READ_BASE, READ_CAP)
        if isinstance(error, BandApiError):
            wait = max(wait, error.retry_after or 0.0)
            if error.status == 401:
                self._services.check_key()
            elif error.status in (403, 404):
                self._services.doubt(self._room_id)
        _repeated.log(
            logging.INFO,
            "room %s: reading its list failed, next try in %.1f s: %s",
            self._room_id,
            wait,
            error,
        )
        epoch, due = self._services.current_epoch(), trio.current_time() + wait
        while self._free() and epoch == self._services.current_epoch():
            if trio.current_time() >= due:
                return
            await self._intake.bell.wait_until(due)

    async def _wait_for_token(self) -> None:
        """Wait for the agent's bucket, unless something turns up that asks for a read."""
        due = self._services.bucket.reserve()
        while trio.current_time() < due:
            if not self._free():
                raise _PassAbandoned
            if self._intake.dirty is Dirty.CAUSED or self._intake.waiting:
                return
            await self._intake.bell.wait_until(due)

"""Reading a room's list and running what is runnable, in the platform's order.

A pass begins at `next`, goes on page by page past what is not runnable, and ends when a walk to
the last page finds nothing to run (platform docs, Listing and next). So does a walk that ends before
the last page: `next` still serves the oldest message, and the next poll looks again.
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
from band_trio.link.pages import PageWalk
from band_trio.link.routes import says_stopped
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
FAILS_AFTER: Final = 3
"""Tries in a row after which a read that fails is told as a warning."""


class _PassAbandoned(Exception):
    """The pass cannot go on: its answers are out of date. It starts again."""


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
    _on_stopped: Callable[[], None]
    """Told when an answer says that the agent is stopped in the room."""
    _drained_in: int = attrs.field(default=-1, init=False)
    _speculative: bool = attrs.field(default=True, init=False)
    """Whether nothing has said yet that this pass will find work: each try takes a token."""
    _failures: int = attrs.field(default=0, init=False)
    """Tries that failed in a row."""
    _refused: int = attrs.field(default=0, init=False)
    """Tries in a row that were answered with 403 or 404."""
    failing_since: float | None = attrs.field(default=None, init=False)
    """When the first of them failed, in trio's time."""
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
        self._speculative = self._intake.clear() is not Dirty.CAUSED
        epoch = self._services.current_epoch()
        self.found_work = False
        try:
            await self._wait_for_token()
            empty = await self._from_head()
            # While the agent is stopped `next` looks empty, and the signal may come later. Where
            # something told of work, the list is asked as well: else what comes next overtakes it.
            if not empty or not self._speculative:
                await self._walk()
        except _PassAbandoned:
            self._intake.mark(Dirty.SPECULATIVE if self._speculative else Dirty.CAUSED)
        else:
            self._drained_in = epoch
            self._intake.caught_up = True

    async def probe(self) -> bool:
        """Ask a stopped room's `next`; a message says that it was resumed meanwhile."""
        revision = self._control.revision
        try:
            head = await self._once("next", partial(self._services.rest.get_next, self._room_id))
        except (BandError, _PassAbandoned):
            return False
        return bool(head.items) and revision == self._control.revision

    # ------------------------------------------------------------------ one pass

    async def _from_head(self) -> bool:
        """Run the stopped message or the oldest one; tell whether the list is empty."""
        stopped = self._backlog.resume
        if stopped is not None:
            await self._run_one(stopped)
            return False
        head = await self._read("next", partial(self._services.rest.get_next, self._room_id))
        for message in head.items:
            if self._backlog.is_runnable(message):
                await self._run_one(message)
        return not head.items and not head.dropped

    async def _walk(self) -> None:
        walk = PageWalk(f"the list of room {self._room_id}")
        while not walk.ended:
            await walk.pace()
            read_page = partial(self._services.rest.list_messages, self._room_id, walk.cursor)
            page = await self._read("messages", read_page)
            ran = False
            for message in page.items:
                if self._backlog.is_runnable(message):
                    await self._run_one(message)
                    ran = True
            if ran:  # settling shifts the list: a cursor from before may skip rows
                walk = PageWalk(walk.what)
            else:
                walk.follow(page)

    async def _run_one(self, message: ChatMessage) -> None:
        if not self._free(message):
            raise _PassAbandoned
        self.found_work, self._speculative = True, False
        await self._run(message)
        if not self._free():
            raise _PassAbandoned

    # ------------------------------------------------------------------ reads

    async def _read(self, kind: str, ask: Callable[[], Awaitable[T]]) -> T:
        """Read until there is an answer; one from before a control ends the pass."""
        while True:
            revision = self._control.revision
            try:
                answer = await self._once(kind, ask)
            except BandError as exc:
                told = exc.retry_after if isinstance(exc, BandApiError) else None
            else:
                if revision != self._control.revision or not self._free():
                    raise _PassAbandoned
                return answer
            await self._back_off(told or 0.0)
            await self._wait_for_token()

    async def _once(self, kind: str, ask: Callable[[], Awaitable[T]]) -> T:
        """Read once, and keep count of failures."""
        try:
            answer = await self._ask(ask)
        except BandError as exc:
            if isinstance(exc, BandApiError) and says_stopped(exc.status, exc):
                self._on_stopped()
            else:
                self._note_failure(exc)
            raise
        self._failures, self._refused, self.failing_since = 0, 0, None
        self._services.tracer(Read(self._room_id, kind))
        return answer

    async def _ask(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask the platform, unless the room has to look elsewhere meanwhile."""
        with trio.CancelScope() as self._asking:
            try:
                return await ask()
            finally:
                self._asking = None
        raise _PassAbandoned

    def _note_failure(self, error: BandError) -> None:
        self._failures += 1
        if self.failing_since is None:
            self.failing_since = trio.current_time()
        status = error.status if isinstance(error, BandApiError) else None
        self._refused = self._refused + 1 if status in (403, 404) else 0
        if status == 401:
            self._services.check_key()
        elif self._refused.bit_count() == 1:  # 1, 2, 4 … in a row: what it asks for costs a listing
            self._services.doubt(self._room_id, status == 404)
        if self._failures < FAILS_AFTER:
            _log.debug("room %s: its list could not be read: %s", self._room_id, error)
        else:
            _repeated.warning(
                "room %s: its list could not be read %d times in a row: %s",
                self._room_id, self._failures, error,
            )  # fmt: skip

    async def _back_off(self, told: float) -> None:
        """Wait before the next try, at least as told, and at most until a new connection."""
        wait = max(half_jitter(self._failures - 1, READ_BASE, READ_CAP), told)
        epoch, due = self._services.current_epoch(), trio.current_time() + wait
        while trio.current_time() < due:
            if not self._free() or epoch != self._services.current_epoch():
                raise _PassAbandoned
            await self._intake.bell.wait_until(due)

    async def _wait_for_token(self) -> None:
        """Wait for the agent's bucket, unless something has turned up that asks for a read."""
        if self._is_asked_for():
            return
        due = self._services.bucket.reserve()
        while trio.current_time() < due and not self._is_asked_for():
            if not self._free():
                raise _PassAbandoned
            await self._intake.bell.wait_until(due)

    def _is_asked_for(self) -> bool:
        intake = self._intake
        return not self._speculative or intake.dirty is Dirty.CAUSED or intake.waiting

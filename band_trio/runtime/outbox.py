"""The outbox: records on their way to the platform, until it has heard.

It takes a record in synchronously and keeps it for as long as the process lives. It makes every
try, the first one on behalf of the room that waits for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

import attrs
import trio

from band_trio.backoff import half_jitter
from band_trio.bell import Bell
from band_trio.config import SessionConfig
from band_trio.errors import (
    BandApiError,
    BandConnectionError,
    BandError,
    RoomExecutionStoppedError,
)
from band_trio.link.api import Answer
from band_trio.link.rest import RestClient
from band_trio.link.tries import NotSentError
from band_trio.logs import RepeatedLog
from band_trio.runtime.done import DoneMessages
from band_trio.runtime.lifecycle import MARKS, Lifecycle
from band_trio.runtime.mark import MarkResult, mark_result
from band_trio.runtime.record import Fate, Record, Report
from band_trio.trace import Marked, Posted, Tracer

_log: Final = logging.getLogger(__name__)
_repeated: Final = RepeatedLog(_log)


@attrs.define(eq=False)
class Entry:
    """A record on its way to the platform."""

    record: Record
    since: float = attrs.field(factory=trio.current_time)
    """When it was recorded, in trio's time."""
    tries: int = 0
    not_before: float = 0.0
    """Told wait of the last answer, in trio's time."""
    claimed: bool = True
    """Whether the platform has a live attempt of ours to settle."""
    plain: bool = False
    """Whether the bare class name is used as error text."""
    stopped: bool = False
    """Whether it waits for a play."""
    wake: trio.Event = attrs.field(factory=trio.Event)


@attrs.define(eq=False)
class Outbox:
    """Records that the platform has not confirmed yet. Entries outlive rooms and sockets."""

    _rest: RestClient
    _session: SessionConfig
    _lifecycle: Lifecycle
    _tracer: Tracer
    _try_seconds: float
    _on_stopped: Callable[[str], None] = attrs.field(kw_only=True)
    """Told when an answer says that the agent is stopped in a room."""
    _plays_of: Callable[[str], int] = attrs.field(kw_only=True)
    """Rises with each play of a room: "stopped" from before one is out of date."""
    _on_final: Callable[[str], None] = attrs.field(kw_only=True)
    """Told when a mark that its room did not wait for has become final."""
    _on_denied: Callable[[], None] = attrs.field(kw_only=True)
    """Told when the key was refused."""
    done: DoneMessages = attrs.field(factory=DoneMessages, init=False)
    _entries: dict[tuple[str, str], Entry] = attrs.field(factory=dict, init=False)
    _per_room: dict[str, int] = attrs.field(factory=dict, init=False)
    _reports: int = attrs.field(default=0, init=False)
    _done: Bell = attrs.field(factory=Bell, init=False)
    """Rung when an entry or a report is done with."""
    _nursery: trio.Nursery | None = attrs.field(default=None, init=False)

    def __len__(self) -> int:
        return len(self._entries)

    def holds(self, room_id: str, message_id: str) -> bool:
        """Tell whether the fate of a message is decided but not confirmed."""
        return (room_id, message_id) in self._entries

    def unsettled(self, room_id: str) -> int:
        """Return how many records of a room are not confirmed."""
        return self._per_room.get(room_id, 0)

    def oldest_age(self) -> float:
        """Return the seconds since the oldest unconfirmed record was made; 0 without one."""
        first = next(iter(self._entries.values()), None)
        return 0.0 if first is None else trio.current_time() - first.since

    def put(self, record: Record) -> Entry:
        """Take a record in, synchronously; it cannot be lost from here on."""
        entry = Entry(record, claimed=not record.claim_first)
        self._entries[record.room_id, record.message_id] = entry
        self.done.remove(record.room_id, record.message_id)
        self._per_room[record.room_id] = self.unsettled(record.room_id) + 1
        return entry

    async def settle(self, entry: Entry) -> None:
        """Make the first try for the room that waits; what is not final then is tried on here.

        Not cut off by anything but its own deadline, `settle_seconds`; while the run ends that
        is earlier, so that clean-up keeps its time, and `drain` tries once more.
        """
        try:
            await self._try(entry, self._lifecycle.shield(self._session.settle_seconds, MARKS))
        finally:
            self.keep(entry)

    def keep(self, entry: Entry) -> None:
        """Try an entry again, for as long as it takes, without anybody waiting for it."""
        if self._open(entry) and self._nursery is not None:
            self._nursery.start_soon(self._persist, entry, name=f"settle {entry.record.message_id}")

    def nudge(self, room_id: str | None = None) -> None:
        """Try again now: after a reconnect all entries, after a play those of one room."""
        for entry in self._entries.values():
            if room_id is None or entry.record.room_id == room_id:
                entry.stopped = False
                entry.wake.set()

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold the nursery in which unconfirmed entries are tried again, until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                self._nursery = None

    async def drain(self) -> None:
        """Try everything once more now and wait until nothing is left; the caller bounds it."""
        self.nudge()
        while self._entries or self._reports:
            await self._done.wait()

    # ------------------------------------------------------------------ tries

    def _open(self, entry: Entry) -> bool:
        key = (entry.record.room_id, entry.record.message_id)
        return self._entries.get(key) is entry

    async def _persist(self, entry: Entry) -> None:
        """Try an entry for as long as the process lives, with back-off and told waits."""
        while self._open(entry):
            due = max(trio.current_time() + self._wait(entry), entry.not_before)
            # A stopped room's entry waits for its play; the cap finds a play that was missed.
            with trio.move_on_at(due if not entry.stopped else due + self._stopped_wait()):
                await entry.wake.wait()
            await trio.sleep_until(entry.not_before)
            entry.wake = trio.Event()  # before the try: a nudge during it is not lost
            bound = trio.move_on_after(self._try_seconds)  # noqa: ASYNC122 - entered at once
            await self._try(entry, bound)
            if not self._open(entry):
                self._on_final(entry.record.room_id)

    def _wait(self, entry: Entry) -> float:
        if not entry.tries:
            return 0.0
        session = self._session
        return half_jitter(entry.tries - 1, session.settle_base_seconds, session.settle_cap_seconds)

    def _stopped_wait(self) -> float:
        return self._session.stopped_resync_seconds or self._session.idle_resync_seconds

    async def _try(self, entry: Entry, bound: AbstractContextManager[trio.CancelScope]) -> None:
        record = entry.record
        entry.tries += 1
        plays = self._plays_of(record.room_id)
        result, why = MarkResult.UNCONFIRMED, "no answer in time"
        with bound:
            try:
                answer = await self._claim(entry) or await self._mark(entry)
            except BandConnectionError as exc:
                why = type(exc).__name__
            else:
                result, why = mark_result(answer), str(answer.status)
                self._note(entry, answer, result, plays)
        self._tracer(Marked(record.room_id, record.message_id, record.trace_word, result.value))
        if result.final:
            self._close(entry, result)
        elif entry.tries in (1, 5) or entry.tries % 50 == 0:
            _repeated.warning(
                "mark %s of message %s in room %s is not confirmed (%s, try %d); it is kept",
                record.trace_word, record.message_id, record.room_id, why, entry.tries,
            )  # fmt: skip

    async def _claim(self, entry: Entry) -> Answer | None:
        """Claim first what was never claimed; the answer if there is nothing to mark (yet)."""
        if entry.claimed:
            return None
        record = entry.record
        answer = await self._rest.claim(record.room_id, record.message_id, within=self._try_seconds)
        if answer.status == 422:
            return Answer(409)  # not ours to claim: read by `mark_result` as REJECTED
        if answer.status != 200:
            return answer
        entry.claimed = True
        return None

    async def _mark(self, entry: Entry) -> Answer:
        record, within = entry.record, self._try_seconds
        if record.fate is Fate.PROCESSED:
            return await self._rest.mark_processed(record.room_id, record.message_id, within=within)
        text = record.plain_error if entry.plain else record.error
        return await self._rest.mark_failed(record.room_id, record.message_id, text, within=within)

    def _note(self, entry: Entry, answer: Answer, result: MarkResult, plays: int) -> None:
        room_id = entry.record.room_id
        if result is MarkResult.STOPPED and plays == self._plays_of(room_id):
            entry.stopped = True
            self._on_stopped(room_id)
        elif result is MarkResult.BAD_TEXT:
            entry.plain = True
        if answer.status == 401:
            self._on_denied()
        if answer.retry_after is not None:
            entry.not_before = trio.current_time() + answer.retry_after

    def _close(self, entry: Entry, result: MarkResult) -> None:
        record = entry.record
        del self._entries[record.room_id, record.message_id]
        if result is not MarkResult.ACCEPTED and record.fate is Fate.PROCESSED:
            self.done.add(record.room_id, record.message_id)
        left = self.unsettled(record.room_id) - 1
        if left:
            self._per_room[record.room_id] = left
        else:
            self._per_room.pop(record.room_id, None)
        # A rejected mark is ours too: its first answer may have been lost.
        if record.report and result is not MarkResult.NOT_FOUND and self._nursery is not None:
            self._reports += 1
            self._nursery.start_soon(self._post_report, record.room_id, record.report)
        self._done.ring()

    async def _post_report(self, room_id: str, report: Report) -> None:
        """Tell the room, once: tried again only while it was definitely not posted."""
        tries, outcome = 0, "ok"
        try:
            while (wait := await self._try_report(room_id, report, tries)) is not None:
                await trio.sleep(wait)
                tries += 1
        except BandError as exc:
            outcome = type(exc).__name__
            _log.warning("the failure report for room %s was not posted: %s", room_id, exc)
        finally:
            self._reports -= 1
            self._done.ring()
        self._tracer(Posted(room_id, "error", outcome))

    async def _try_report(self, room_id: str, report: Report, tries: int) -> float | None:
        """Post once; return how long to wait before the next try, None when it is posted."""
        session, told = self._session, 0.0
        try:
            await self._rest.post_event(room_id, report.content, "error", report.metadata)
        except NotSentError:
            pass
        except RoomExecutionStoppedError:
            told = self._stopped_wait()
        except BandApiError as exc:
            if exc.status != 429:
                raise
            told = exc.retry_after or 0.0
        else:
            return None
        return max(
            told, half_jitter(tries, session.settle_base_seconds, session.settle_cap_seconds)
        )

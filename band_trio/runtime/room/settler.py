"""Verdicts on their way to the platform, until it has heard.

The verdicts stand in the journals; here is who tells them. The first try is made by the room that
waits for it, every further one in the settler's own nursery, for as long as the process lives:
rooms and sockets come and go meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Final

import attrs
import trio

from band_trio.config.agent import AgentConfig, SessionConfig
from band_trio.errors import (
    BandApiError,
    BandConnectionError,
    BandError,
    RoomExecutionStoppedError,
)
from band_trio.kit.backoff import half_jitter
from band_trio.kit.bell import Bell
from band_trio.kit.hygiene import traceback_text
from band_trio.kit.logs import RepeatedLog
from band_trio.link.rest.api import Answer
from band_trio.link.rest.rest import RestClient
from band_trio.link.rest.tries import NotSentError
from band_trio.runtime.journal.answers import (
    FINAL,
    ClaimResult,
    MarkResult,
    claim_outcome,
    mark_result,
)
from band_trio.runtime.journal.entries import Entry, Phase
from band_trio.runtime.journal.journal import Journal
from band_trio.runtime.journal.verdict import Fate, Mark, Report
from band_trio.runtime.lifecycle import MARKS, Lifecycle
from band_trio.runtime.room.journals import Journals
from band_trio.trace import Claimed, Marked, Posted, Recorded, Tracer

_log: Final = logging.getLogger(__name__)
_repeated: Final = RepeatedLog(_log)


@attrs.define(eq=False)
class Settler:
    """Tells the platform the verdicts of all journals."""

    _rest: RestClient
    _config: AgentConfig
    _session: SessionConfig
    _lifecycle: Lifecycle
    _journals: Journals
    _tracer: Tracer
    _nursery: trio.Nursery
    _reports: int = attrs.field(default=0, init=False)
    """Failure reports on their way."""
    _nudged: trio.Event = attrs.field(factory=trio.Event, init=False)
    """Set, and replaced, when all waits are to be looked at again."""
    _done: Bell = attrs.field(factory=Bell, init=False)
    """Rung when a verdict or a report is done with."""

    async def settle(self, journal: Journal, entry: Entry) -> None:
        """Make the first try for the room that waits; what is not final then is tried on here.

        Not cut off by anything but its own deadline, `settle_seconds`; while the run ends that
        is earlier, so that clean-up keeps its time, and `drain` tries once more.
        """
        mark = entry.mark
        if mark is None or mark.kept:
            return  # somebody else makes the tries
        mark.kept = True
        try:
            await self._try(
                journal, entry, self._lifecycle.shield(self._session.settle_seconds, MARKS)
            )
        finally:
            if entry.mark is mark:
                self._go_on(journal, entry, mark)

    def keep(self, journal: Journal) -> None:
        """Try the verdicts of a journal for as long as it takes, without anybody waiting."""
        for entry in journal.entries.of(Phase.DECIDED):
            mark = entry.mark
            if mark is not None and not mark.kept:
                mark.kept = True
                self._go_on(journal, entry, mark)

    def _go_on(self, journal: Journal, entry: Entry, mark: Mark) -> None:
        persist = partial(self._persist, journal, entry, mark)
        self._nursery.start_soon(self._guarded, persist, name=f"settle {entry.id}")

    def nudge(self) -> None:
        """Look at all waits again: some may be over sooner."""
        self._nudged.set()
        self._nudged = trio.Event()

    async def drain(self) -> None:
        """Try everything once more now and wait until nothing is left; the caller bounds it."""
        self._journals.hurry()
        self.nudge()
        while self._journals.unsettled() or self._reports:
            await self._done.wait()

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run a task of our own; a defect in it ends the run in order, and is raised there."""
        try:
            await work()
        except trio.Cancelled:
            raise
        except BaseException as exc:  # noqa: ASYNC103, BLE001 - the run ends with it
            _log.error("settling failed\n%s", traceback_text(exc))
            self._lifecycle.fail(exc)

    # ------------------------------------------------------------------ tries

    async def _persist(self, journal: Journal, entry: Entry, mark: Mark) -> None:
        """Try a verdict for as long as the process lives, with back-off and told waits."""
        while entry.mark is mark:
            if trio.current_time() < mark.due:
                nudged = self._nudged
                with trio.move_on_at(mark.due):
                    await nudged.wait()
                continue
            bound = trio.move_on_after(self._config.rest_try_seconds)  # noqa: ASYNC122 - entered at once
            await self._try(journal, entry, bound)
        self._journals.ring(journal.room_id)  # what was kept back may go on

    async def _try(
        self, journal: Journal, entry: Entry, bound: AbstractContextManager[trio.CancelScope]
    ) -> None:
        mark = entry.mark
        if mark is None:
            return
        mark.tries += 1
        plays = journal.controls.plays
        answer, why = None, "no answer in time"
        with bound:
            try:
                answer = await self._claim(journal, entry, mark) or await self._mark(
                    journal, entry, mark
                )
            except BandConnectionError as exc:
                why = type(exc).__name__
        result = MarkResult.UNCONFIRMED if answer is None else mark_result(answer)
        told = (answer.retry_after or 0.0) if answer is not None else 0.0
        outdated = result is MarkResult.STOPPED and plays != journal.controls.plays
        meant = MarkResult.UNCONFIRMED if outdated else result
        journal.mark_answered(entry, meant, trio.current_time(), told=told)
        if mark.claimed:  # else only the claim before it was tried
            self._tracer(Marked(journal.room_id, entry.id, mark.verdict.word, result.value))
        if result in FINAL:
            self._confirmed(journal, mark, result)
        elif mark.tries in (1, 5) or mark.tries % 50 == 0:
            _repeated.warning(
                "mark %s of message %s in room %s is not confirmed (%s, try %d); it is kept",
                mark.verdict.word, entry.id, journal.room_id,
                why if answer is None else answer.status, mark.tries,
            )  # fmt: skip
        if meant is MarkResult.STOPPED:
            self._journals.observe_stop(journal.room_id, plays)

    async def _claim(self, journal: Journal, entry: Entry, mark: Mark) -> Answer | None:
        """Claim first what has no attempt of ours; the answer if there is nothing to mark (yet)."""
        if mark.claimed:
            return None
        within = self._config.rest_try_seconds
        answer = await self._rest.claim(journal.room_id, entry.id, within=within)
        claim = claim_outcome(answer)
        self._tracer(Claimed(journal.room_id, entry.id, claim.result))
        if claim.result is ClaimResult.CLAIMED:
            mark.claimed = True
            self._tracer(Recorded(journal.room_id, entry.id, mark.verdict.word))
            return None
        # Not ours to claim is read by `mark_result` as nothing left to settle.
        return Answer(409) if answer.status == 422 else answer

    async def _mark(self, journal: Journal, entry: Entry, mark: Mark) -> Answer:
        verdict, within = mark.verdict, self._config.rest_try_seconds
        if verdict.fate is Fate.PROCESSED:
            return await self._rest.mark_processed(journal.room_id, entry.id, within=within)
        text = verdict.plain_error if mark.plain else verdict.error
        return await self._rest.mark_failed(journal.room_id, entry.id, text, within=within)

    def _confirmed(self, journal: Journal, mark: Mark, result: MarkResult) -> None:
        # A rejected mark is ours too: its first answer may have been lost.
        report = mark.verdict.report
        if report is not None and result is not MarkResult.NOT_FOUND:
            self._reports += 1
            post = partial(self._post_report, journal.room_id, report)
            self._nursery.start_soon(self._guarded, post)
        self._journals.release(journal)
        self._done.ring()

    # ------------------------------------------------------------------ reports

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
            told = session.stopped_resync_seconds or session.idle_resync_seconds
        except BandApiError as exc:
            if exc.status != 429:
                raise
            told = exc.retry_after or 0.0
        else:
            return None
        return max(
            told, half_jitter(tries, session.settle_base_seconds, session.settle_cap_seconds)
        )

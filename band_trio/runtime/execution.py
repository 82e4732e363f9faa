"""One room: a child nursery whose intake is the only door, and a loop that looks at values.

SYNC, IDLE, TURN, HELD, STOPPED and ENDING are not stored: they follow from the dirty flag, the
held message, the running turn, the control state and the reason to end. Controls, leave and
shutdown arrive as synchronous calls, change a value and ring the bell.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import attrs
import trio

from band_trio.bell import Bell
from band_trio.protocol.events import Mode
from band_trio.protocol.rest import ChatMessage
from band_trio.runtime.activity import WorkingIndicator
from band_trio.runtime.backlog import Backlog
from band_trio.runtime.briefing import Briefing
from band_trio.runtime.chat_control import ChatControls
from band_trio.runtime.claim import ClaimResult
from band_trio.runtime.control import RoomControl
from band_trio.runtime.cycle import Cycle, CycleEnd
from band_trio.runtime.drain import Drain
from band_trio.runtime.intake import Dirty, Intake
from band_trio.runtime.interrupts import InterruptHooks
from band_trio.runtime.known import Known
from band_trio.runtime.lifecycle import HOOKS, MARKS, EndReason
from band_trio.runtime.resync import IdlePolls
from band_trio.runtime.services import RoomServices
from band_trio.runtime.turn import ActiveTurn
from band_trio.runtime.turn_listener import RoomTurnListener
from band_trio.tools.ledger import Ledger
from band_trio.trace import CleanedUp, Controlled
from band_trio.types import is_contact_hub_turn

_log: Final = logging.getLogger(__name__)


class RoomState(StrEnum):
    """What a room is doing."""

    SYNC = "sync"
    IDLE = "idle"
    TURN = "turn"
    HELD = "held"
    STOPPED = "stopped"
    ENDING = "ending"


@attrs.define(eq=False)
class ExecutionContext:
    """The child of one room, for one membership."""

    room_id: str
    _services: RoomServices
    _control: RoomControl
    briefing: Briefing = attrs.field(init=False)
    stalled: bool = attrs.field(default=False, init=False)
    """Whether a turn was told to end and does not."""
    cleaned_up: bool = attrs.field(default=False, init=False)
    """Whether `on_cleanup` was called."""
    _intake: Intake = attrs.field(init=False)
    _backlog: Backlog = attrs.field(init=False)
    _drain: Drain = attrs.field(init=False)
    _indicator: WorkingIndicator = attrs.field(init=False)
    _interrupts: InterruptHooks = attrs.field(init=False)
    _chat_controls: ChatControls = attrs.field(init=False)
    _turn: ActiveTurn | None = attrs.field(default=None, init=False)
    _ending: EndReason | None = attrs.field(default=None, init=False)
    _nursery: trio.Nursery | None = attrs.field(default=None, init=False)
    _cycle: Cycle | None = attrs.field(default=None, init=False)
    _polls: IdlePolls = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        services, room_id = self._services, self.room_id
        session, tracer = services.session, services.tracer
        self.briefing = Briefing(room_id, services)
        self._intake = Intake(Bell(), session.room_hints)
        self._backlog = Backlog(
            room_id, services.me.id, session, self._intake, services.outbox, tracer
        )
        self._drain = Drain(
            room_id, services, self._intake, self._backlog, self._control,
            self._run, self._is_free, self.observe_stop,
        )  # fmt: skip
        self._indicator = WorkingIndicator(
            room_id, services.rest, session, tracer, self._control, self.observe_stop
        )
        self._polls = IdlePolls(session.idle_resync_seconds, session.idle_resync_max_seconds)
        self._interrupts = InterruptHooks(room_id, services)
        self._chat_controls = ChatControls(
            room_id, services, self.briefing, self._backlog, self._is_open
        )

    # ------------------------------------------------------------------ told from outside: sync

    @property
    def state(self) -> RoomState:
        """What the room is doing, derived: the order of the questions is their precedence."""
        if self._ending is not None:
            return RoomState.ENDING
        if self._turn is not None:
            return RoomState.TURN
        if self._control.stopped:
            return RoomState.STOPPED
        if self._backlog.held is not None:
            return RoomState.HELD
        reads = self._intake.dirty or self._drain.failing_since is not None
        return RoomState.SYNC if reads else RoomState.IDLE

    @property
    def holds(self) -> bool:
        """Whether a message waits and keeps later ones waiting."""
        return self._backlog.held is not None

    @property
    def unread_since(self) -> float | None:
        """Since when its list cannot be read, in trio's time; None when the last try was fine."""
        return self._drain.failing_since

    @property
    def given_up(self) -> int:
        """How many messages are known to be given up."""
        return self._intake.ids.count(Known.GIVEN_UP)

    def offer(self, message: ChatMessage) -> None:
        """Take a pushed message as a hint; what is no work for us is dropped here."""
        if self._ending is not None or not self._backlog.is_for_us(message):
            return
        self._intake.offer(message)
        busy = self._is_open() and self.state in (RoomState.TURN, RoomState.HELD)
        if busy and self._nursery is not None and self._chat_controls.enabled:
            self._chat_controls.offer_early(message, self._nursery)

    def mark_dirty(self, cause: Dirty) -> None:
        """Ask for a read of the list."""
        self._intake.mark(cause)

    def participant_added(self, person: Mapping[str, Any]) -> None:
        """Somebody came into the room."""
        self.briefing.roster.added(person)
        self._intake.bell.ring()

    def participant_removed(self, person_id: str) -> None:
        """Somebody left the room."""
        self.briefing.roster.removed(person_id)
        self._intake.bell.ring()

    def new_epoch(self) -> None:
        """The socket was replaced: pushes may have been missed, refusals may have changed."""
        self.briefing.roster.stale = True
        self._intake.ids.recheck_refused()
        self._intake.mark(Dirty.SPECULATIVE)

    def control(self, mode: Mode, correlation_id: str | None = None) -> bool:
        """Apply interrupt, stop or play; tell whether it acted (a copy does not)."""
        new = correlation_id is None or self._control.first_time(correlation_id)
        self._services.tracer(Controlled(mode, self.room_id, new))
        if not new:
            return False
        was_stopped = self._control.stopped
        self._control.apply(mode)
        self._drain.abort()
        if mode == "play":
            self._services.outbox.nudge(self.room_id)
            self._intake.caught_up = False  # the list of a stopped room looks empty
            self._intake.mark(Dirty.CAUSED)
        elif mode == "stop":
            self.briefing.end_callbacks()
            self._end_turn(EndReason.STOP)
            if not was_stopped:
                self._call_interrupt_hook(mode)
        elif self._turn is not None:
            self._end_turn(EndReason.INTERRUPT)
            self._call_interrupt_hook(mode)
        self._intake.bell.ring()
        return True

    def observe_stop(self) -> None:
        """An answer of the platform says that the agent is stopped here; acts like a stop."""
        if self._ending is None and not self._control.stopped:
            self.control("stop")

    def leave(self) -> None:
        """The agent is no longer in the room: end the turn and then the child."""
        self._ending = EndReason.LEFT
        self._end_turn(EndReason.LEFT)
        self._hurry()

    def close(self) -> None:
        """The agent is stopping: no new turn; a running one goes on until it is cut off."""
        self._ending = self._ending or self._services.lifecycle.end_reason
        self._hurry()

    def _hurry(self) -> None:
        """Have the room look around at once, whatever it does between two turns."""
        self._drain.abort()
        self.briefing.end_callbacks()
        self._intake.bell.ring()

    def cut_off(self) -> None:
        """The grace is over: end the running turn."""
        self.close()
        self._end_turn(self._services.lifecycle.end_reason)

    def _end_turn(self, reason: EndReason) -> None:
        if self._turn is not None:
            self._turn.end(reason)

    def _call_interrupt_hook(self, mode: Mode) -> None:
        if self._nursery is not None:
            self._interrupts.start(self._nursery, mode)

    # ------------------------------------------------------------------ the loop

    async def run(self) -> None:
        """Serve the room until it ends; everything that belongs to it ends with this call."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                self._cycle = Cycle(
                    self.room_id, self._services, self.briefing, self._indicator, nursery,
                    self._turn_closed, self._turn_stalls,
                )  # fmt: skip
                while self._ending is None:
                    await self._step()
                await self._finish()
                nursery.cancel_scope.cancel(reason="the room has ended")
        finally:
            self._nursery = None
            self._intake.close()

    async def _step(self) -> None:
        """Look at the room's state and do one thing."""
        match self.state:
            case RoomState.STOPPED:
                await self._stay_stopped()
            case RoomState.HELD:
                await self._hold()
            case RoomState.SYNC:
                await self._sync()
            case _:  # IDLE: no turn runs between two steps, and the loop is over when ENDING
                await self._idle()

    def _is_free(self, message: ChatMessage | None = None) -> bool:
        first = self._backlog.resume
        free = self._is_open() and self._backlog.held is None
        return free and (first is None or first is message)

    def _is_open(self) -> bool:
        return self._ending is None and not self._control.stopped

    async def _sync(self) -> None:
        await self._drain.run_pass()
        self._polls.after_pass(trio.current_time(), found_work=self._drain.found_work)

    async def _idle(self) -> None:
        hint = self._intake.take()
        if hint is not None:
            await self._on_hint(hint)
            return
        wake = min(self._polls.at, self._backlog.next_due())
        if trio.current_time() >= wake:
            polled = trio.current_time() >= self._polls.at
            self._intake.mark(Dirty.SPECULATIVE if polled else Dirty.CAUSED)
            return
        if self.briefing.roster.has_changes:
            await self.briefing.run_callbacks()
            return
        await self._intake.bell.wait_until(wake)

    async def _on_hint(self, hint: ChatMessage) -> None:
        """Run a hint at once where that is safe; else have the list read."""
        if not self._backlog.is_actionable(hint) or self._backlog.is_known(hint.id):
            return
        if self._drain.drained and self._backlog.follows(hint) and self._backlog.has_room():
            await self._run(hint)
        else:
            self._intake.drop_stale()
            self._intake.mark(Dirty.CAUSED)

    async def _hold(self) -> None:
        await self._interrupts.wait()
        if not self.holds or not self._is_open():
            return
        message = self._backlog.take_due()
        if message is not None:
            await self._run(message)
            self._intake.mark(Dirty.CAUSED)
        elif not self._backlog.set_aside_late():
            await self._intake.bell.wait_until(self._backlog.next_change())

    async def _stay_stopped(self) -> None:
        """Claim nothing; ask now and then, on a hint and in a new epoch, whether to go on."""
        session = self._services.session
        due = trio.current_time() + (session.stopped_resync_seconds or session.idle_resync_seconds)
        epoch = self._services.current_epoch()
        while self._is_stopped() and trio.current_time() < due:
            if self._intake.drop_hints() or epoch != self._services.current_epoch():
                break
            await self._intake.bell.wait_until(due)
        token = self._services.bucket.reserve() if self._is_stopped() else 0.0
        while self._is_stopped() and trio.current_time() < token:
            await self._intake.bell.wait_until(token)
        if self._is_stopped() and await self._drain.probe():
            self.control("play")

    def _is_stopped(self) -> bool:
        return self._control.stopped and self._ending is None

    # ------------------------------------------------------------------ one message

    async def _run(self, message: ChatMessage) -> None:
        await self._interrupts.wait()
        if not self._is_free(message):
            self._intake.mark(Dirty.CAUSED)  # the message stays on the platform's list
            return
        assert self._cycle is not None  # set before the loop began
        if self._chat_controls.enabled and await self._chat_controls.consumed(message):
            return
        if not self._is_free(message):  # something has changed while it was offered
            self._intake.mark(Dirty.CAUSED)
            return
        turn = self._open_turn(message)
        self._turn, plays = turn, self._control.plays
        try:
            end = await self._cycle.run(turn)
        finally:
            self._tally(turn)
        if self._ending is None or end.record is not None:
            self._backlog.after(message, end)
        self._note_platform_state(end, plays)

    def _open_turn(self, message: ChatMessage) -> ActiveTurn:
        hub = is_contact_hub_turn(sender_type=message.sender_type, sender_id=message.sender_id)
        judged = self._services.adapter.judges and not hub
        ledger = Ledger(judged=judged, since=message.inserted_at)
        turn = ActiveTurn(message, ledger, spent=self._backlog.spent(message))
        ledger.listener = RoomTurnListener(
            self.room_id, turn.scope, self.briefing.roster, self._services.tracer, self.observe_stop
        )
        return turn

    def _turn_closed(self) -> None:
        """The record is written: controls do not touch this turn any more."""
        self._turn = None
        self.stalled = False

    def _tally(self, turn: ActiveTurn) -> None:
        lifecycle = self._services.lifecycle
        if not lifecycle.closing or not turn.started:
            return
        if turn.ended_by in (EndReason.SHUTDOWN, EndReason.SUPERSEDED):
            lifecycle.turns_cancelled += 1
        else:
            lifecycle.turns_finished += 1

    def _note_platform_state(self, end: CycleEnd, plays: int) -> None:
        """Act on what answers said, unless a play that came meanwhile is newer."""
        released = end.record is not None and end.record.reason == EndReason.STOP
        if released or end.claim.result is ClaimResult.STOPPED:
            if plays == self._control.plays:
                self.observe_stop()
        elif end.claim.result is ClaimResult.DENIED:
            self._services.check_key()

    def _turn_stalls(self, turn: ActiveTurn) -> None:
        """Name a handler that was told to end and does not; it holds up its own room only."""
        self.stalled = True
        _log.warning(
            "room %s: the turn of message %s was told to end (%s) %g s ago and still runs",
            self.room_id, turn.message.id, turn.ended_by or EndReason.TIMEOUT,
            self._services.session.stall_seconds,
        )  # fmt: skip

    # ------------------------------------------------------------------ the end

    async def _finish(self) -> None:
        services, lifecycle = self._services, self._services.lifecycle
        seconds = services.session.hook_seconds
        if self._ending is not EndReason.LEFT:
            with lifecycle.shield(seconds, MARKS):
                await self._indicator.flush()
        self.cleaned_up = True
        await services.hooks.guard(
            f"on_cleanup of room {self.room_id}", services.adapter.adapter.on_cleanup,
            (self.room_id,), bound=lifecycle.shield(seconds, HOOKS),
            # All rooms end at once with the run, which names those that do not end.
            cleans_up=True, watch=self._ending is EndReason.LEFT,
        )  # fmt: skip
        services.rest.sent.forget(self.room_id)
        services.tracer(CleanedUp(self.room_id))

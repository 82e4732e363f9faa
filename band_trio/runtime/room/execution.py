"""One room: a child nursery, and a loop that asks the journal what to do, does it, and tells it.

Its memory channel is the only door for messages. Everything else that is told from outside is a
value that the loop looks at: controls, leave and shutdown change it, end what has to end at once,
and ring the bell.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from typing import Any

import attrs
import trio

from band_trio.errors import RoomExecutionStoppedError
from band_trio.kit.bell import Bell
from band_trio.protocol.events import Mode
from band_trio.protocol.rest import ChatMessage
from band_trio.runtime.journal.answers import ClaimResult
from band_trio.runtime.journal.entries import Entry, Phase
from band_trio.runtime.journal.journal import Journal
from band_trio.runtime.journal.reads import Dirty
from band_trio.runtime.journal.todo import Probe, Read, Run, Settle, Todo, Wait
from band_trio.runtime.journal.verdict import Verdict
from band_trio.runtime.lifecycle import HOOKS, MARKS, EndReason
from band_trio.runtime.room.chat_control import ChatControls
from band_trio.runtime.room.drain import Drain, Pass, PassAbandoned
from band_trio.runtime.room.interrupts import InterruptHooks
from band_trio.runtime.room.settler import Settler
from band_trio.runtime.room.unclaimed import Unclaimed
from band_trio.runtime.turn.activity import WorkingIndicator
from band_trio.runtime.turn.briefing import Briefing
from band_trio.runtime.turn.services import RoomServices
from band_trio.runtime.turn.turn import Turn
from band_trio.runtime.turn.turn_listener import RoomTurnListener
from band_trio.tools.ledger import Ledger
from band_trio.trace import CleanedUp, Controlled, GivenUp


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
    """The child of one room, for one membership; made inside its nursery."""

    journal: Journal
    _services: RoomServices
    _settler: Settler
    _nursery: trio.Nursery
    briefing: Briefing = attrs.field(init=False)
    cleaned_up: bool = attrs.field(default=False, init=False)
    """Whether `on_cleanup` was called."""
    _bell: Bell = attrs.field(factory=Bell, init=False)
    """Rung whenever there is something to look at."""
    unclaimed: Unclaimed = attrs.field(init=False)
    _send: trio.MemorySendChannel[ChatMessage] = attrs.field(init=False)
    _receive: trio.MemoryReceiveChannel[ChatMessage] = attrs.field(init=False)
    _drain: Drain = attrs.field(init=False)
    _indicator: WorkingIndicator = attrs.field(init=False)
    _interrupts: InterruptHooks = attrs.field(init=False)
    _chat_controls: ChatControls | None = attrs.field(init=False)
    _turn: Turn | None = attrs.field(default=None, init=False)
    _pass: Pass | None = attrs.field(default=None, init=False)
    """The way over the list that is under way."""
    _ending: EndReason | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        services = self._services
        # Full: the message is dropped and the room becomes dirty, so that the list is read instead.
        self._send, self._receive = trio.open_memory_channel[ChatMessage](
            services.session.room_hints
        )
        self.briefing = Briefing(self.room_id, services)
        self._drain = Drain(services, self.journal)
        self.unclaimed = Unclaimed(self._bell)
        self._indicator = WorkingIndicator(
            self.room_id, services.rest, services.session, services.tracer, self.journal,
            self.observe_stop, services.deadlines, self._nursery,
        )  # fmt: skip
        self._interrupts = InterruptHooks(self.room_id, services)
        wanted = services.app.adapter.chat_control is not None
        self._chat_controls = (
            ChatControls(services, self.journal, self.briefing, self._settler) if wanted else None
        )

    @property
    def room_id(self) -> str:
        """The room's id."""
        return self.journal.room_id

    # ------------------------------------------------------------------ told from outside: sync

    @property
    def state(self) -> RoomState:
        """What the room is doing, derived: the order of the questions is their precedence."""
        if self._ending is not None:
            return RoomState.ENDING
        if self._turn is not None:
            return RoomState.TURN
        if self.journal.controls.stopped:
            return RoomState.STOPPED
        if self.journal.held is not None:
            return RoomState.HELD
        reads = self._pass is not None or self.journal.reads.dirty
        return RoomState.SYNC if reads else RoomState.IDLE

    @property
    def unread_since(self) -> float | None:
        """Since when its list cannot be read, in trio's time; None when the last try was fine."""
        return self._drain.failing_since

    def ring(self) -> None:
        """Have the loop look around."""
        self._bell.ring()

    def offer(self, message: ChatMessage) -> None:
        """Take a pushed message as a hint; what is no work for us is dropped here."""
        if self._ending is not None or not self.journal.is_for_us(message):
            return
        try:
            self._send.send_nowait(message)
        except trio.WouldBlock:
            self.journal.reads.ask(Dirty.CAUSED)
        if self._drain.queued:
            self._drain.hurry()
        self._bell.ring()
        if self._chat_controls is not None and self.is_open:
            busy = self.state in (RoomState.TURN, RoomState.HELD)
            if busy:
                self._chat_controls.offer_early(message, self._nursery)

    def joined(self) -> None:
        """The room's topic was joined."""
        self.journal.reads.joined(trio.current_time())
        self._bell.ring()

    def participant_added(self, person: Mapping[str, Any]) -> None:
        """Somebody came into the room."""
        self.briefing.roster.added(person)
        self._bell.ring()

    def participant_removed(self, person_id: str) -> None:
        """Somebody left the room."""
        self.briefing.roster.removed(person_id)
        self._bell.ring()

    def new_epoch(self) -> None:
        """The socket was replaced: pushes may have been missed, refusals may have changed."""
        self.briefing.roster.stale = True
        self.journal.new_epoch(trio.current_time())
        self._drain.abort()
        self._bell.ring()

    def control(self, mode: Mode, correlation_id: str | None = None) -> None:
        """Apply interrupt, stop or play; a copy of one that was applied does nothing."""
        was_stopped = self.journal.controls.stopped
        new = self.journal.control(mode, trio.current_time(), correlation_id)
        self._services.tracer(Controlled(mode, self.room_id, new))
        if not new:
            return
        self._drain.abort()
        turn = self._turn
        if mode == "play":
            self._settler.nudge()
        elif mode == "stop":
            self.briefing.end_callbacks()
            if turn is not None:
                turn.end(EndReason.STOP)
            if not was_stopped and not self.cleaned_up:
                self._interrupts.start(self._nursery, mode)
        elif turn is not None:
            turn.end(EndReason.INTERRUPT)
            self._interrupts.start(self._nursery, mode)
        self._bell.ring()

    def observe_stop(self, plays: int) -> None:
        """An answer of the platform says that the agent is stopped here; acts like a stop.

        *plays*: those that the journal knew of when it was asked. A later one has the last word.
        """
        controls = self.journal.controls
        if self._ending is None and not controls.stopped and plays == controls.plays:
            self.control("stop")

    def leave(self) -> None:
        """The agent is no longer in the room: end the turn and then the child."""
        self._ending = EndReason.LEFT
        if self._turn is not None:
            self._turn.end(EndReason.LEFT)
        self._look_up()

    def close(self) -> None:
        """The agent is stopping: no new turn; a running one goes on until it is cut off."""
        self._ending = self._ending or self._services.lifecycle.end_reason
        self._look_up()

    def cut_off(self) -> None:
        """The grace is over: end the running turn."""
        self.close()
        if self._turn is not None:
            self._turn.end(self._services.lifecycle.end_reason)

    def _look_up(self) -> None:
        """Have the room look around at once, whatever it does between two turns."""
        self._drain.abort()
        self.briefing.end_callbacks()
        self._bell.ring()

    @property
    def is_open(self) -> bool:
        """Whether the room works now: not ending, not stopped."""
        return self._ending is None and not self.journal.controls.stopped

    # ------------------------------------------------------------------ the loop

    async def run(self) -> None:
        """Serve the room until it ends."""
        with self._send, self._receive:
            try:
                while self._ending is None:
                    self._take_pushes()
                    if self.unclaimed.message is not None and self.journal.free:
                        await self._run_unclaimed(self.unclaimed.message)
                        continue
                    await self._do(self.journal.next(trio.current_time()))
                await self._finish()
            except BaseException:
                self._ending = self._ending or EndReason.SHUTDOWN  # told nothing any more
                raise
            finally:
                self.unclaimed.close()

    async def _do(self, todo: Todo) -> None:
        match todo:
            case Run(entry):
                await self._run(entry)
            case Settle(entry):
                await self._settler.settle(self.journal, entry)
            case Read(cause):
                await self._read(cause)
            case Probe():
                await self._probe()
            case Wait(until):
                if self.briefing.roster.waiting and self.journal.free:
                    await self.briefing.run_callbacks()
                else:
                    await self._bell.wait_until(until)

    def _take_pushes(self) -> None:
        now = trio.current_time()
        while True:
            try:
                message = self._receive.receive_nowait()
            except trio.WouldBlock:
                return
            self.journal.pushed(message, now)

    async def _read(self, cause: Dirty) -> None:
        """Read the list, and do what it asks for, until nothing is left or something is told."""
        current, plays = self._drain.begin(cause), self.journal.controls.plays
        self._pass = current
        try:
            while (todo := await self._drain.find(current)) is not None:
                await self._do(todo)
                if todo.entry.phase is None:  # forgotten meanwhile, and still before the next row
                    raise PassAbandoned
        except PassAbandoned:
            self.journal.reads.abandoned(current.cause, found=current.found)
        except RoomExecutionStoppedError:
            self.observe_stop(plays)
        finally:
            self._pass = None

    async def _probe(self) -> None:
        revision = self.journal.controls.revision
        resumed = await self._drain.probe()
        self.journal.reads.probed(trio.current_time())
        if resumed and self._ending is None and revision == self.journal.controls.revision:
            self.control("play")

    # ------------------------------------------------------------------ one message

    async def _run(self, entry: Entry) -> None:
        """Take a message from its claim to its verdict, and have that settled.

        Whatever waits before the claim, the journal is asked again after it.
        """
        if self._interrupts.running:
            await self._interrupts.wait()
        if not self.is_open:
            return
        if self._chat_controls is not None and await self._chat_controls.consumed(entry):
            return
        crashes = self._services.crashes
        if crashes.counts and not await self._may_run_again(entry):
            return
        try:
            if self._ending is None:
                message = self.journal.chosen(entry, trio.current_time())
                if message is not None:
                    await self._run_turn(entry, message)
        finally:
            if crashes.alone == self.room_id:
                crashes.done_alone(self.room_id)

    async def _run_turn(
        self, entry: Entry, message: ChatMessage, *, claims: bool = True
    ) -> Verdict | None:
        services, plays = self._services, self.journal.controls.plays
        ledger = Ledger(judged=services.app.adapter.judges and claims, since=message.inserted_at)
        turn = self._turn = Turn(
            entry, message, ledger, self.journal, services, self.briefing, self._indicator, claims
        )
        ledger.listener = RoomTurnListener(
            self.room_id, turn.scope, self.briefing.roster, services.tracer,
            partial(self.observe_stop, plays),
        )  # fmt: skip
        try:
            await turn.run()
        finally:
            self._turn = None  # controls do not touch it any more
        if turn.claim.result is ClaimResult.STOPPED or turn.ended_by is EndReason.STOP:
            self.observe_stop(plays)
        if entry.phase is Phase.DECIDED:
            await self._settler.settle(self.journal, entry)
        return turn.verdict

    async def _run_unclaimed(self, message: ChatMessage) -> None:
        """Run a message that there is nothing to claim of, for who waits for its verdict."""
        verdict, services = None, self._services
        try:
            if self._interrupts.running:
                await self._interrupts.wait()
            times = services.crashes.count(self.room_id, message.id)
            if times >= services.session.max_crashes:
                verdict = services.judgement.crashed(times)
            elif self.is_open:
                verdict = await self._run_turn(Entry(message.id), message, claims=False)
        finally:
            self.unclaimed.end(verdict)

    async def _may_run_again(self, entry: Entry) -> bool:
        """Tell whether a message may run although its runs may end the process.

        Such messages run one at a time across all rooms, so that the culprit is found; after
        `max_crashes` of its runs it is given up.
        """
        services = self._services
        entry.crashes = services.crashes.count(self.room_id, entry.id)
        if entry.crashes >= services.session.max_crashes:
            verdict, now = services.judgement.crashed(entry.crashes), trio.current_time()
            self.journal.decided_before(entry.row, verdict, now, used_up=True)
            services.tracer(GivenUp(self.room_id, entry.id))
            await self._settler.settle(self.journal, entry)
            services.crashes.end(self.room_id, entry.id)  # not before somebody was told
            return False
        if entry.crashes and not services.crashes.try_alone(self.room_id):
            self.journal.put_off(entry, trio.current_time())
            return False
        return True

    @property
    def stalled(self) -> bool:
        """Whether a turn was told to end and does not."""
        return self._turn is not None and self._turn.stalls

    # ------------------------------------------------------------------ the end

    async def _finish(self) -> None:
        services, lifecycle = self._services, self._services.lifecycle
        seconds = services.session.hook_seconds
        if self._ending is not EndReason.LEFT:
            with lifecycle.shield(seconds, MARKS):
                await self._indicator.flush()
        self.cleaned_up = True
        await services.app.hooks.guard(
            f"on_cleanup of room {self.room_id}", services.app.adapter.adapter.on_cleanup,
            (self.room_id,), bound=lifecycle.shield(seconds, HOOKS),
            # All rooms end at once with the run, which names those that do not end.
            cleans_up=True, watch=self._ending is EndReason.LEFT,
        )  # fmt: skip
        services.rest.sent.forget(self.room_id)
        services.tracer(CleanedUp(self.room_id))

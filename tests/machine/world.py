"""What the rules of the machines act on: a platform, people, rooms, and processes of one agent."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from typing import Any, Final

import attrs
import trio

from band_trio import BandApiError, SessionConfig
from band_trio.localband.band import LocalAgent, LocalBand, open_local_band
from band_trio.localband.fault_rules import PushFacts, PushFault, PushRule
from band_trio.localband.records import ActivityRecord
from band_trio.localband.room import Message
from band_trio.protocol.events import Mode, chat_room
from band_trio.tools.failures import FAILURE_KEY, RUNTIME_PROVIDER
from band_trio.trace import EpochBegan, Read
from tests.machine.actor import Actor, ControlledActor, Notebook, contents
from tests.machine.process import Process
from tests.runtime.invariants import Checker

HISTORY: Final = 4
OPTIONS: Final[dict[str, Any]] = {
    "start_patience_seconds": 60,
    "connect_seconds": 4,
    "join_seconds": 4,
    "reconnect_cap_seconds": 8,
    "heartbeat_seconds": 10,
    "dead_seconds": 20,
    "rest_try_seconds": 6,
    "rest_call_seconds": 20,
}
SESSION: Final[dict[str, Any]] = {
    "retry_base_seconds": 1,
    "retry_cap_seconds": 8,
    "hold_seconds": 10,
    "refused_recheck_seconds": 60,
    "max_cycle_seconds": 30,
    "stall_seconds": 5,
    "claim_seconds": 5,
    "settle_seconds": 3,
    "settle_cap_seconds": 5,
    "idle_resync_seconds": 20,
    "idle_resync_max_seconds": 40,
    "stopped_resync_seconds": 15,
    "max_context_messages": HISTORY,
    "history_seconds": 10,
    "roster_seconds": 3,
    "hook_seconds": 3,
    "control_hook_seconds": 2,
    "room_hints": 3,
    "room_unsettled": 3,
}


@attrs.define(eq=False)
class Sent:
    """A message for the agent, as the model knows it."""

    number: int
    behaviour: str
    room: int
    id: str = ""
    """Empty until it was sent."""
    row: dict[str, Any] = attrs.field(factory=dict)
    """How it looked when it was new."""
    disturbed: bool = False
    """Whether its push was swallowed, delayed or held."""
    reached: bool = False
    """Whether a handler has run for it."""


@attrs.define(eq=False)
class World:
    """The platform with the model of what was done to it."""

    band: LocalBand
    account: LocalAgent
    other: LocalAgent
    notebook: Notebook
    nursery: trio.Nursery
    session: SessionConfig = attrs.field(factory=partial(SessionConfig, **SESSION))
    controlled: bool = False
    """Whether the agent takes controls in chat."""
    rooms: list[str] = attrs.field(factory=list)
    sent: list[Sent] = attrs.field(factory=list)
    by_id: dict[str, Sent] = attrs.field(factory=dict)
    processes: list[Process] = attrs.field(factory=list)
    signals: list[tuple[Mode, int | None, str]] = attrs.field(factory=list)
    holds: list[PushRule] = attrs.field(factory=list)
    murky: set[str] = attrs.field(factory=set)
    """Messages of which a request was under way when a process ended: it may still take effect."""
    left: set[str] = attrs.field(factory=set)
    """Rooms that the agent was taken out of: it writes nothing there, not even that it has ended."""
    context_faults: bool = False
    activity_faults: bool = False

    @property
    def process(self) -> Process | None:
        """The process that was started last."""
        return self.processes[-1] if self.processes else None

    @property
    def alive(self) -> bool:
        """Whether a process runs that was neither stopped nor crashed."""
        return self.process is not None and self.process.alive

    # ------------------------------------------------------------------ processes

    async def start(self) -> None:
        """Start a process; it comes up while time passes."""
        await trio.lowlevel.checkpoint()
        expected: dict[str, str] = {}
        checker = Checker(
            self.session.max_message_retries,
            self.session.retry_base_seconds,
            history_may_fail=self.context_faults,
            expected=expected,
        )
        kind = ControlledActor if self.controlled else Actor
        process = Process(
            self.band, self.account, kind(self.notebook, expected), checker, self.session, OPTIONS
        )
        process.on_start = partial(self._check_order, process)
        self.processes.append(process)
        self.nursery.start_soon(self._run, process)

    async def _run(self, process: Process) -> None:
        await process.run()
        self._note_murky()

    def _check_order(self, process: Process, message_id: str) -> Iterator[str]:
        """Look for older messages of the room that should have been run before this one."""
        world = self.band.world
        started = world.messages.get(message_id)
        if started is None or process.checker.messages[message_id].starts > 1:
            return
        for each in world.rooms[started.room_id].messages[: started.number]:
            sent = self.by_id.get(each.id)
            if sent is None or sent.disturbed or each.id in self.murky:
                continue
            tried = process.checker.messages.get(each.id)
            if tried is None and not self.is_settled(sent):
                yield f"g04, g05: #{self.by_id[message_id].number} started before #{sent.number}"

    async def stop(self, grace: float) -> None:
        """Stop the current process."""
        await trio.lowlevel.checkpoint()
        if self.process is not None:
            self.process.stop(grace)

    async def crash(self) -> None:
        """Let the current process crash."""
        await trio.lowlevel.checkpoint()
        if self.process is not None and not self.process.ended.is_set():
            self.process.crash()
            self._note_murky()

    def _note_murky(self) -> None:
        """Note what is under way: a write that the platform makes late hits the next attempt."""
        for row in self.band.log.requests(party_id=self.account.id):
            if row.status is None and not row.committed and row.message_id is not None:
                self.murky.add(row.message_id)

    # ------------------------------------------------------------------ people

    async def open_room(self) -> None:
        """Make a room with the agent in it."""
        room = await self.band.user.create_room(f"room {len(self.rooms)}")
        self.rooms.append(room.id)
        await self.band.user.add(room.id, self.account)

    async def add(self, room: int, other: bool = False) -> None:
        """Bring the agent, or another one, into a room."""
        with suppress(BandApiError):
            await self.band.user.add(self.rooms[room], self.other if other else self.account)

    async def remove(self, room: int, other: bool = False) -> None:
        """Take the agent, or another one, out of a room."""
        self.left.add(self.rooms[room])
        with suppress(BandApiError):
            await self.band.user.remove(self.rooms[room], self.other if other else self.account)

    async def delete(self, room: int) -> None:
        """Delete a room."""
        with suppress(BandApiError):
            await self.band.user.delete_room(self.rooms[room])

    async def say(self, sent: Sent) -> None:
        """Send a message to the agent."""
        with suppress(BandApiError):  # the room is gone, or the agent is not in it
            sent.id = await self.band.user.send(
                self.rooms[sent.room], f"{sent.behaviour} #{sent.number}.", mentions=[self.account]
            )
            self.by_id[sent.id] = sent
            sent.row = self.band.world.messages[sent.id].render()

    async def push_again(self, sent: Sent, *, as_new: bool) -> None:
        """Push a message once more, as it was or as it is."""
        await trio.lowlevel.checkpoint()
        message = self.band.world.messages.get(sent.id)
        if message is not None:
            row = sent.row if as_new else message.render()
            topic = chat_room(message.room_id)
            self.band.send_frame(self.account, topic, "message_created", row)

    async def control(self, mode: Mode, room: int | None) -> None:
        """Stop or let go on all agents of a room, or interrupt this agent, as a person does."""
        with suppress(BandApiError):
            if mode == "interrupt":
                await self.band.user.interrupt(self.account)
            elif room is not None and mode == "stop":
                await self.band.user.stop(self.rooms[room])
            elif room is not None:
                await self.band.user.play(self.rooms[room])

    async def signal(self, mode: Mode, room: int | None, correlation_id: str) -> None:
        """Push a control without any change of state."""
        await trio.lowlevel.checkpoint()
        self.band.signal(
            self.account,
            mode,
            room_id=None if room is None else self.rooms[room],
            correlation_id=correlation_id,
        )

    def disturb(self, sent: Sent, fault: PushFault) -> PushRule:
        """Let a fault strike the push of a message that is about to be sent."""

        def is_it(facts: PushFacts) -> bool:
            content = facts.frame.payload.get("content")
            return isinstance(content, str) and f" #{sent.number}." in content

        return self.band.faults.on_push(fault, event="message_created", when=is_it)

    # ------------------------------------------------------------------ checks after every step

    def problems(self) -> list[str]:
        """Return every guarantee that is known to be broken."""
        found = list(self.notebook.problems)
        for process in self.processes:
            found += process.problems
            if not process.leash.crashed:
                broke = [p for p in process.agent.health().problems if "broke:" in p]
                found += [f"g45: {each}" for each in broke]
        for process in self.processes:
            found += self._wrong_history(process)
        found += self._said_twice()
        return found

    def messages(self) -> Iterator[Message]:
        """Yield the rows of all rooms that exist."""
        for room in self.band.world.rooms.values():
            yield from room.messages

    def _said_twice(self) -> Iterator[str]:
        said = Counter(
            row.content.split(" ", 1)[-1]
            for row in self.messages()
            if row.sender.id == self.account.id and row.message_type == "text"
        )
        for text, times in said.items():
            if times > 1:
                yield f"g76: {text!r} was said {times} times"
            if text.startswith("late"):
                yield f"g42: {text!r} was said after its turn"

    def _wrong_history(self, process: Process) -> Iterator[str]:
        new, process.calls_checked = process.calls_checked, len(process.actor.seen)
        for call in process.actor.seen[new:]:
            got = contents(call.history)
            message = self.band.world.messages.get(call.msg.id)
            if message is None or (not got and not call.bootstrap):
                continue
            room = self.band.world.rooms[message.room_id]
            rows = room.contexts.get(self.account.id, [])
            before = [room.messages[n].id for n in rows if n < message.number][-HISTORY:]
            if got != before:
                yield f"g63: {call.number} was given {got}, not {before}"

    # ------------------------------------------------------------------ checks at the end

    def expected_work(self) -> list[Sent]:
        """Return the messages that exist and are in rooms that the agent is in."""
        world = self.band.world
        return [
            each
            for each in self.sent
            if each.id in world.messages
            and world.messages[each.id].room_id in world.rooms_of[self.account.id]
        ]

    def is_settled(self, sent: Sent) -> bool:
        """Tell whether a message needs no more work, whatever the agent thinks."""
        state = self.band.state(sent.id, self.account)
        if state == "processed":
            return True
        failed = self.band.attempts(sent.id, self.account).count("failed")
        return state == "failed" and failed >= self.session.max_message_retries

    def unsettled(self) -> list[str]:
        """Return what is left to do, and for which there is no excuse."""
        excused = set(self.murky)
        for process in self.processes:
            for m, seen in process.checker.messages.items():
                lied_to = "gone" in seen.answers or seen.results & {"rejected", "not_found"}
                if lied_to:  # a fault told the agent that there is nothing to be done
                    excused.add(m)
        return [
            f"g26: {each.behaviour} #{each.number} is {self.band.state(each.id, self.account)}, "
            f"{self.band.attempts(each.id, self.account)}"
            for each in self.expected_work()
            if not self.is_settled(each) and each.id not in excused
        ]

    def final_problems(self) -> list[str]:
        """Compare platform and agent after all faults have ended and time has passed."""
        found = self.problems() + self.unsettled()
        found += self._wrong_attempts()
        found += self._wrong_records()
        found += self._wrong_topics()
        found += self._wrong_reports()
        found += self._still_working()
        return found

    def _wrong_attempts(self) -> Iterator[str]:
        for each in self.expected_work():
            if each.id in self.murky:
                continue
            attempts = self.band.attempts(each.id, self.account)
            # That nothing runs again is seen in the trace; a claim that was carried out late may
            # open an attempt behind a success, which is settled too.
            if "success" in attempts[:-1] and attempts[-1] == "processing":
                yield f"g19, g21: #{each.number} was left open after it was processed: {attempts}"
            if attempts.count("failed") > self.session.max_message_retries:
                yield f"g34: #{each.number} was run too often: {attempts}"

    def _wrong_records(self) -> Iterator[str]:
        process = self.process
        assert process is not None
        for each in self.expected_work():
            seen = process.checker.messages.get(each.id)
            if seen is None or not seen.records or each.id in self.murky:
                continue
            if seen.results & {"rejected", "not_found"}:
                continue
            state = self.band.state(each.id, self.account)
            if seen.records[-1] in ("processed", "failed") and seen.records[-1] != state:
                yield f"g11, g12, g17: #{each.number} is recorded {seen.records}, and {state}"

    def _wrong_topics(self) -> Iterator[str]:
        session = self.band.session(self.account)
        assert session is not None
        rooms = set(self.band.world.rooms_of[self.account.id])
        want = {f"agent_control:{self.account.id}", f"agent_rooms:{self.account.id}"}
        want |= {f"{kind}:{room}" for room in rooms for kind in ("chat_room", "room_participants")}
        if set(session.joined) != want:
            yield f"g28, g29: joined is {sorted(session.joined)}, wanted {sorted(want)}"
        process = self.process
        assert process is not None
        served = {r for r, room in process.checker.rooms.items() if room.served}
        if served != rooms:
            yield f"g29: served is {sorted(served)}, member of {sorted(rooms)}"
        events = [event for _, event in process.trace]
        last = max(
            (n for n, event in enumerate(events) if isinstance(event, EpochBegan)), default=0
        )
        read = {event.room_id for event in events[last:] if isinstance(event, Read)}
        if rooms - read:
            yield f"g25: rooms {sorted(rooms - read)} were not read since the last connect"
        health = process.agent.health()
        if not health.connected or health.pending_topics or health.unconfirmed or health.held:
            yield f"g28, g77: {health}"

    def _wrong_reports(self) -> Iterator[str]:
        """Compare the runtime's error events of each room with the messages given up there."""
        for room_id in self.band.world.rooms_of[self.account.id]:
            rows = self.band.world.rooms[room_id].messages
            posted = sum(
                row.message_type == "error"
                and row.metadata.get(FAILURE_KEY, {}).get("provider") == RUNTIME_PROVIDER
                for row in rows
            )
            given_up = [
                each
                for each in self.expected_work()
                if self.band.world.messages[each.id].room_id == room_id
                and self.band.attempts(each.id, self.account).count("failed")
                >= self.session.max_message_retries
            ]
            if posted > len(given_up):
                yield f"g37, g69: {posted} reports for {len(given_up)} messages in {room_id}"

    def _still_working(self) -> Iterator[str]:
        if self.activity_faults or len(self.processes) > 1:
            return
        rows = self.band.log.of(ActivityRecord)
        last = {row.room_id: row.working for row in rows if row.agent_id == self.account.id}
        for room_id in self.band.world.rooms_of[self.account.id]:
            if last.get(room_id) and room_id not in self.left:
                yield f"g71: room {room_id} is shown as working"


def _clock() -> Any:
    began = datetime(2026, 1, 1, tzinfo=UTC)
    return lambda: began + timedelta(seconds=trio.current_time())


def _ids() -> Any:
    numbers = count(1)
    return lambda: f"00000000-0000-4000-8000-{next(numbers):012d}"


@asynccontextmanager
async def open_world() -> AsyncGenerator[World]:
    """Open a platform with one agent account, another agent, and nobody running."""
    notebook = Notebook()
    async with (
        open_local_band(memory=True, now=_clock(), new_id=_ids()) as band,
        trio.open_nursery() as nursery,
    ):
        notebook.leaks = nursery
        account, other = band.register_agent("Scribe"), band.register_agent("Other")
        yield World(band, account, other, notebook, nursery)
        nursery.cancel_scope.cancel(reason="the example is over")

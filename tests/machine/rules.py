"""The rules of the machines, in groups; a machine is a choice of groups."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Final

import attrs
import trio
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from band_trio.localband.fault_rules import Cut, PushAction, PushFault
from band_trio.localband.faults import Faults
from band_trio.protocol.events import Mode, agent_control, agent_rooms, chat_room, room_participants
from tests.machine.actor import BEHAVIOURS
from tests.machine.world import Sent, World, open_world
from tests.support.trio_machine import TrioMachine

MOST_ROOMS: Final = 3
AT_ONCE: Final = 4
"""Actions that are put into one moment at most."""

gaps = st.one_of(st.none(), st.integers(0, 8))
"""Scheduler steps before the next action; None lets everything settle first."""
rooms = st.integers(0, MOST_ROOMS - 1)
pauses = st.sampled_from([0.1, 0.3, 1, 3, 7, 20, 60])
common = st.sampled_from(["reply", "work", "fail", "hang"])
behaviours = st.one_of(common, st.sampled_from(sorted(BEHAVIOURS)))
turns = st.one_of(st.none(), common)
"""What runs while something happens, or None: rooms are idle, stopped or left most of the time."""

Action = Callable[[], Awaitable[None]]


class AgentMachine(TrioMachine[World]):
    """An agent, one to three rooms, people who write, and time."""

    def __init__(self) -> None:
        self.begun = self.broken = False
        self.waiting: list[tuple[Action, int | None]] = []
        super().__init__()

    def open_world(self) -> AbstractAsyncContextManager[World]:
        return open_world()

    @initialize(budget=st.integers(1, 3), controlled=st.booleans(), rooms=st.integers(1, 3))
    def begin(self, budget: int, controlled: bool, rooms: int) -> None:
        """Open rooms and start the agent."""
        self.world.session = attrs.evolve(self.world.session, max_message_retries=budget)
        self.world.controlled = controlled
        for _ in range(rooms):
            self.do(self.world.open_room)
        self.do(self.world.start)
        self.begun = True

    # ------------------------------------------------------------------ acting

    def act(self, action: Action, gap: int | None = None) -> None:
        """Do something now, or together with what comes next if there is a gap."""
        self.waiting.append((action, gap))
        if gap is None or len(self.waiting) >= AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Do what has been put together, and let everything settle."""
        waiting, self.waiting = self.waiting, []

        async def together() -> None:
            for action, gap in waiting:
                await action()
                for _ in range(gap or 0):
                    await trio.lowlevel.checkpoint()

        if waiting:
            self.do(together)

    def _run(self, job: Action) -> None:
        try:
            super()._run(job)
        except BaseException:
            self.broken = True
            raise

    def let_run(self, behaviour: str | None, room: int) -> None:
        """Have a turn run in a room, whatever has become of that; None: nothing."""
        world, room = self.world, self.room_of(room)
        if behaviour is None:
            return
        self.flush()
        self.do(world.add, room)
        self.do(world.control, "play", room)
        sent = Sent(len(world.sent) + 1, behaviour, room)
        world.sent.append(sent)
        self.do(world.say, sent)
        self.advance(0.2)

    def room_of(self, room: int) -> int:
        """Return a room that exists, or existed."""
        return room % len(self.world.rooms)

    # ------------------------------------------------------------------ rules

    @rule(
        room=rooms,
        behaviour=behaviours,
        fault=st.sampled_from(["", "", "", "suppress", "delay", "duplicate", "hold"]),
        gap=gaps,
    )
    def say(self, room: int, behaviour: str, fault: str, gap: int | None) -> None:
        """Write to the agent; the push may be disturbed."""
        sent = Sent(len(self.world.sent) + 1, behaviour, self.room_of(room))
        self.world.sent.append(sent)
        if fault:
            action = PushAction(fault)
            sent.disturbed = action is not PushAction.DUPLICATE
            held = self.world.disturb(sent, PushFault(action, seconds=2, copies=3))
            if action is PushAction.HOLD:
                self.world.holds.append(held)
        self.act(partial(self.world.say, sent), gap)

    @rule(seconds=pauses)
    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.flush()
        self.advance(seconds)

    @invariant()
    def nothing_is_broken(self) -> None:
        """Look at trace and platform."""
        if self.begun and not self.broken:
            self.fail_on(self.world.problems())

    def fail_on(self, problems: list[str]) -> None:
        """Fail if there are any, once."""
        self.broken = self.broken or bool(problems)
        assert not problems, "\n".join(problems)

    # ------------------------------------------------------------------ the end

    def teardown(self) -> None:
        try:
            if self.begun and not self.broken:
                self.finish()
        finally:
            super().teardown()

    def finish(self) -> None:
        """End all faults, let time pass until nothing is left to do, and look at everything."""
        self.flush()
        world = self.world
        self.do(self.end_faults)
        for _ in range(40):
            if world.process is None or world.process.ended.is_set():
                self.do(world.start)
            self.advance(30)
            if world.alive and not world.unsettled():
                break
        self.advance(140)
        self.fail_on(world.final_problems())
        self.do(world.stop, 0)
        self.advance(10)
        assert world.process is not None
        ended = world.process.ended.is_set()
        self.fail_on(world.problems() + ([] if ended else ["g51: the agent does not stop"]))

    async def end_faults(self) -> None:
        """Lift every fault and let every room go on."""
        self.world.band.faults.clear()
        for room in range(len(self.world.rooms)):
            await self.world.control("play", room)


# --------------------------------------------------------------------------- faults

ROUTES: Final = [
    "next", "messages", "processing", "processed", "failed", "post_message", "post_event",
    "participants", "context", "activity", "chats", "me",
]  # fmt: skip

RequestFaultMaker = Callable[..., Any]
REQUEST_FAULTS: Final[dict[str, RequestFaultMaker]] = {
    "500": lambda f, **m: f.refuse(500, **m),
    "503": lambda f, **m: f.refuse(503, retry_after=2, **m),
    "429": lambda f, **m: f.refuse(429, retry_after=7, **m),
    "401": lambda f, **m: f.refuse(401, **m),
    "403": lambda f, **m: f.refuse(403, **m),
    "404": lambda f, **m: f.refuse(404, **m),
    "409": lambda f, **m: f.refuse(409, **m),
    "late": lambda f, **m: f.delay(1.5, **m),
    "late answer": lambda f, **m: f.delay(2.5, answer=True, **m),
    "done, then 500": lambda f, **m: f.drop_after_commit(500, **m),
    "done, then hang": lambda f, **m: f.hang(**m),
    "hang": lambda f, **m: f.hang(commit=False, **m),
    "done, then cut": lambda f, **m: f.cut_request(**m),
    "cut": lambda f, **m: f.cut_request(commit=False, **m),
    "unreachable": lambda f, **m: f.unreachable(**m),
    "odd body": lambda f, **m: f.odd_answer(b"[1", **m),
}

SOCKET_FAULTS: Final[dict[str, Callable[[World], object]]] = {
    "fin": lambda w: w.band.cut(w.account),
    "rst": lambda w: w.band.cut(w.account, Cut.RST),
    "silence": lambda w: w.band.silence(w.account),
    "not read": lambda w: w.band.stop_reading(w.account),
    "1001": lambda w: w.band.close(w.account, 1001),
    "1011": lambda w: w.band.close(w.account, 1011, "oops"),
    "1012": lambda w: w.band.close(w.account, 1012),
    "mute": lambda w: w.band.faults.mute_heartbeats(times=3),
    "refused 500": lambda w: w.band.faults.refuse_upgrade(500),
    "refused 503": lambda w: w.band.faults.refuse_upgrade(503, retry_after=3, times=2),
    "refused 429": lambda w: w.band.faults.refuse_upgrade(429, retry_after=3),
    "no frame": lambda w: w.band.send_raw(w.account, '[1, {"}'),
    "odd frame": lambda w: w.band.send_raw(w.account, '[null,null,"phoenix","x",[]]'),
}


class WithRequestFaults(AgentMachine):
    """Requests are refused, lost, late, or done without an answer."""

    @rule(
        route=st.sampled_from(ROUTES),
        fault=st.sampled_from(sorted(REQUEST_FAULTS)),
        times=st.integers(1, 4),
        skip=st.integers(0, 2),
        turn=turns,
        room=rooms,
    )
    def break_requests(
        self, route: str, fault: str, times: int, skip: int, turn: str | None, room: int
    ) -> None:
        """Break the next requests of a route."""
        self._break_requests(route, fault, times, skip)
        self.let_run(turn, room)

    def _break_requests(self, route: str, fault: str, times: int, skip: int) -> None:
        self.world.context_faults |= route == "context"
        self.world.activity_faults |= route == "activity"
        process = self.world.process
        if route == "context" and process is not None:
            process.checker.history_may_fail = True
        faults: Faults = self.world.band.faults
        if route == "me" and fault in ("401", "403"):
            return  # the key is refused for good: the run has to end
        match: dict[str, Any] = {
            "route": route,
            "times": times,
            "skip": skip,
            "agent": self.world.account,
        }
        if route in ("processed", "failed") and fault in ("404", "409"):
            # "There is nothing to mark" is what the platform says once it is marked, never before.
            faults.drop_after_commit(int(fault), **match)
        else:
            REQUEST_FAULTS[fault](faults, **match)

    @rule()
    def end_faults_now(self) -> None:
        """Let everything work again."""
        self.world.holds.clear()
        self.do(self._clear)

    async def _clear(self) -> None:
        await trio.lowlevel.checkpoint()
        self.world.band.faults.clear()


class WithSocketFaults(AgentMachine):
    """Sockets die in all ways; joins are refused; topics crash; pushes come twice and late."""

    @rule(fault=st.sampled_from(sorted(SOCKET_FAULTS)), gap=gaps, turn=turns, room=rooms)
    def break_socket(self, fault: str, gap: int | None, turn: str | None, room: int) -> None:
        """Do something to the socket."""
        self.let_run(turn, room)

        async def strike() -> None:
            await trio.lowlevel.checkpoint()
            SOCKET_FAULTS[fault](self.world)

        self.act(strike, gap)

    def topic(self, kind: str, room: int) -> str:
        """Return a topic of the agent."""
        if kind == "agent_rooms":
            return agent_rooms(self.world.account.id)
        if kind == "agent_control":
            return agent_control(self.world.account.id)
        room_id = self.world.rooms[self.room_of(room)]
        return chat_room(room_id) if kind == "chat_room" else room_participants(room_id)

    kinds = st.sampled_from(["chat_room", "chat_room", "room_participants", "agent_rooms"])

    @rule(kind=kinds, room=rooms, ignore=st.booleans(), times=st.integers(1, 3))
    def break_joins(self, kind: str, room: int, ignore: bool, times: int) -> None:
        """Refuse or ignore the next joins of a topic."""
        faults = self.world.band.faults
        fault = faults.ignore_join if ignore else faults.reject_join
        fault(self.topic(kind, room), times=times)

    @rule(
        kind=st.sampled_from(["chat_room", "room_participants", "agent_rooms", "agent_control"]),
        room=rooms,
        event=st.sampled_from(["phx_error", "phx_close"]),
        stale=st.booleans(),
        gap=gaps,
    )
    def crash_topic(self, kind: str, room: int, event: str, stale: bool, gap: int | None) -> None:
        """End a topic from the platform's side, or the join before this one."""
        refs: dict[str, str | None] = {"join_ref": "0"} if stale else {}

        async def strike() -> None:
            await trio.lowlevel.checkpoint()
            band, topic = self.world.band, self.topic(kind, room)
            session = band.session(self.world.account)
            if session is not None and topic in session.joined:
                band.send_frame(self.world.account, topic, event, {}, **refs)

        self.act(strike, gap)

    @precondition(lambda self: self.begun and self.world.sent)
    @rule(which=st.integers(0, 100), as_new=st.booleans(), gap=gaps)
    def push_again(self, which: int, as_new: bool, gap: int | None) -> None:
        """Push an old message once more."""
        sent = self.world.sent[which % len(self.world.sent)]
        self.act(partial(self.world.push_again, sent, as_new=as_new), gap)

    @precondition(lambda self: self.begun and self.world.holds)
    @rule(reverse=st.booleans())
    def release(self, reverse: bool) -> None:
        """Let pushes go that were held."""
        holds, self.world.holds = self.world.holds, []

        async def go() -> None:
            await trio.lowlevel.checkpoint()
            for each in reversed(holds) if reverse else holds:
                each.release()

        self.act(go)


# --------------------------------------------------------------------------- people


class WithControls(AgentMachine):
    """Interrupt, stop and play: by people, as copies, late, and out of order."""

    modes = st.sampled_from(["interrupt", "stop", "play"])

    @rule(mode=modes, room=rooms, gap=gaps, turn=turns)
    def control(self, mode: Mode, room: int, gap: int | None, turn: str | None) -> None:
        """Control as a person does."""
        self.let_run(turn, room)
        self.act(partial(self.world.control, mode, self.room_of(room)), gap)

    @rule(mode=modes, room=st.one_of(st.none(), rooms), gap=gaps, turn=turns)
    def signal(self, mode: Mode, room: int | None, gap: int | None, turn: str | None) -> None:
        """Push a signal that is new, for a room or for all."""
        self.let_run(turn, room or 0)
        target = None if room is None else self.room_of(room)
        signal: tuple[Mode, int | None, str] = (mode, target, f"signal {len(self.world.signals)}")
        self.world.signals.append(signal)
        self.act(partial(self.world.signal, *signal), gap)

    @precondition(lambda self: self.begun and self.world.signals)
    @rule(which=st.integers(0, 100), gap=gaps)
    def signal_again(self, which: int, gap: int | None) -> None:
        """Push a copy of an old signal."""
        signal = self.world.signals[which % len(self.world.signals)]
        self.act(partial(self.world.signal, *signal), gap)


class WithMembership(AgentMachine):
    """Rooms come and go, and people in them."""

    @precondition(lambda self: self.begun and len(self.world.rooms) < MOST_ROOMS)
    @rule(gap=gaps)
    def open_room(self, gap: int | None) -> None:
        """Make another room."""
        self.act(self.world.open_room, None)

    @rule(room=rooms, back=st.booleans(), other=st.booleans(), gap=gaps, turn=turns)
    def move(self, room: int, back: bool, other: bool, gap: int | None, turn: str | None) -> None:
        """Take the agent, or another one, out of a room, or bring it in."""
        self.let_run(turn, room)
        do = self.world.add if back else self.world.remove
        self.act(partial(do, self.room_of(room), other), gap)

    @rule(room=rooms, gap=gaps, turn=turns)
    def leave_and_return(self, room: int, gap: int | None, turn: str | None) -> None:
        """Take the agent out of a room and bring it back at once."""
        self.let_run(turn, room)
        self.act(partial(self.world.remove, self.room_of(room)), gap or 0)
        self.act(partial(self.world.add, self.room_of(room)), gap)

    @precondition(lambda self: self.begun and len(self.world.sent) > 6)
    @rule(room=rooms, gap=gaps)
    def delete_room(self, room: int, gap: int | None) -> None:
        """Delete a room."""
        self.act(partial(self.world.delete, self.room_of(room)), gap)


class WithEnds(AgentMachine):
    """The agent is stopped, crashes, and is started again."""

    @precondition(lambda self: self.begun and self.world.alive)
    @rule(grace=st.sampled_from([0, 0.5, 5, 60]), gap=gaps, turn=turns, room=rooms)
    def stop(self, grace: float, gap: int | None, turn: str | None, room: int) -> None:
        """Stop the agent in order."""
        self.let_run(turn, room)
        self.act(partial(self.world.stop, grace), gap)

    @precondition(lambda self: self.begun and self.world.alive)
    @rule(gap=gaps, turn=turns, room=rooms)
    def crash(self, gap: int | None, turn: str | None, room: int) -> None:
        """Let the agent crash."""
        self.let_run(turn, room)
        self.act(self.world.crash, gap)

    @precondition(lambda self: self.begun and not self.world.alive)
    @rule()
    def start(self) -> None:
        """Start the agent again, once its old process is gone."""
        self.flush()
        process = self.world.process
        if process is None or process.ended.is_set() or process.leash.crashed:
            self.do(self.world.start)

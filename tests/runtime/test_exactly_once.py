"""Random sends over some rooms, random handlers, random cuts: each message once, in order, at once.

One trio run per example. Time stands still while a step acts and is let on from deadline to
deadline, so that the rules are checked in every moment in which nothing is left to do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import attrs
import pytest
import trio
import trio.testing
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from band_trio import Agent
from band_trio.localband.fault_rules import Cut
from band_trio.protocol.rest import ChatMessage
from band_trio.runtime.journal.entries import Entry
from band_trio.runtime.journal.journal import Journal
from band_trio.runtime.room.execution import ExecutionContext
from band_trio.runtime.run.dispatcher import Dispatcher
from tests.marks import guarantee
from tests.runtime.harness import Call, Stage, reply, stage
from tests.runtime.invariants import check, check_final

# ------------------------------------------------------------------ the steps of an example


@attrs.frozen
class Say:
    """A person writes in a room; the handler of that message lasts so long."""

    room: int
    seconds: float


@attrs.frozen
class Wait:
    """Time passes."""

    seconds: float


@attrs.frozen
class Lose:
    """The socket is cut, or from now on loses all bytes without telling anybody."""

    how: Cut | None


@attrs.frozen
class Block:
    """The next upgrades are refused."""

    times: int


Step = Say | Wait | Lose | Block

EXAMPLES = {"ci": 25, "deep": 2_000}.get(settings.get_current_profile_name(), 20)
"""A broken runtime is found by them, as the last test here shows."""

ROOMS = st.integers(0, 3)
# From "in the same moment" to "longer than a heartbeat", on a grid that lets times coincide.
SECONDS = (0.0, 0.25, 0.5, 1.0, 2.0, 5.0, 20.0, 70.0)
STEP = st.one_of(
    st.builds(Say, ROOMS, st.sampled_from(SECONDS)),
    st.builds(Say, ROOMS, st.sampled_from(SECONDS)),
    st.builds(Wait, st.sampled_from(SECONDS[1:])),
    st.builds(Lose, st.sampled_from([Cut.FIN, Cut.RST, None])),
    st.builds(Block, st.integers(1, 3)),
)
# A list of lists is longer on the average than a list, and still shrinks to nothing.
STEPS = st.lists(st.lists(STEP, max_size=8), max_size=8).map(
    lambda parts: [step for part in parts for step in part]
)

# ------------------------------------------------------------------ one example


@attrs.define(eq=False)
class Play:
    """An agent that serves four rooms, and the model: what was said in each, in order."""

    here: Stage
    agent: Agent
    clock: trio.testing.MockClock
    rooms: list[str]
    said: dict[str, list[str]] = attrs.field(factory=lambda: defaultdict(list))
    lost: int = 0
    """Number of the socket that loses all bytes."""

    async def handle(self, call: Call) -> None:
        """Handle a message for as long as its step said."""
        await trio.sleep(float(call.text))
        await reply(call)

    async def act(self, step: Step) -> None:
        """Do one step and check; waiting checks at every deadline on its way."""
        match step:
            case Say(number, seconds):
                room = self.rooms[number]
                self.said[room].append(await self.here.say(room, f"{seconds}"))
            case Lose(None):
                session = self.here.band.session(self.here.account)
                self.lost = session.number if session is not None else self.lost
                self.here.band.silence(self.here.account)
            case Lose(Cut() as how):
                self.here.band.cut(self.here.account, how)
            case Block(times):
                self.here.band.faults.refuse_upgrade(503, times=times)
            case Wait(seconds):
                await self.pass_time(seconds)
        await trio.testing.wait_all_tasks_blocked()
        self.check()

    async def pass_time(self, seconds: float) -> None:
        """Let time pass, with a stop and a check at each deadline."""
        end = trio.current_time() + seconds
        while (left := end - trio.current_time()) > 0:
            await trio.testing.wait_all_tasks_blocked()
            self.check()
            deadline = trio.lowlevel.current_statistics().seconds_to_next_deadline
            self.clock.jump(min(left, max(deadline, 1e-9)))

    def check(self) -> None:
        """Check everything that must hold whenever all tasks wait."""
        adapter, health = self.here.adapter, self.agent.health()
        assert not adapter.overlapped, "g01: calls of one room overlap"
        handled = defaultdict(list)
        for call in adapter.calls:
            handled[call.room_id].append(call.msg.id)
        running = {call.room_id for call in adapter.running}
        live = health.connected and not health.pending_topics
        for room in self.rooms:
            begun = handled[room]
            assert begun == self.said[room][: len(begun)], "g04, g21: lost, doubled or moved"
            # Nothing else of the agent keeps a room from working: rooms overlap in time.
            if live and not self.silent and len(begun) < len(self.said[room]):
                assert room in running, "g03, g06, g25: there is work, and the room is idle"

    @property
    def silent(self) -> bool:
        """Whether bytes are being lost that nobody can miss yet."""
        session = self.here.band.session(self.here.account)
        return session is None or self.lost == session.number


async def play(steps: list[Step], clock: trio.testing.MockClock) -> None:
    """Act one example out and check its end."""
    async with stage() as here:
        rooms = [await here.room() for _ in range(4)]
        async with here.running() as agent:
            play = Play(here, agent, clock, rooms)
            here.adapter.behaviour = play.handle
            await trio.testing.wait_all_tasks_blocked()
            for step in steps:
                await play.act(step)
            clock.autojump_threshold = 0
            sent = [message for room in rooms for message in play.said[room]]
            with trio.fail_after(5000):
                await here.settled(*sent)
            await trio.sleep(300)
            play.check()
        assert sorted(call.msg.id for call in here.adapter.calls) == sorted(sent), "g06: once each"
        for message in sent:
            assert here.band.attempts(message, here.account) == ["success"]
        check_final(here.band, here.account, check(event for _, event in here.trace), sent)


def run(steps: list[Step]) -> None:
    """Run one example in a trio program of its own."""
    clock = trio.testing.MockClock()
    trio.run(play, steps, clock, clock=clock)


@guarantee(1, 3, 4, 6, 21, 25)
@settings(max_examples=EXAMPLES)
@given(steps=STEPS, seed=st.random_module())
def test_each_message_once_in_order_while_rooms_overlap(steps: list[Step], seed: object) -> None:
    run(steps)


@guarantee(3)
def test_two_rooms_and_a_cut_in_the_middle() -> None:
    """One example by hand: a long handler, a cut, and work for both rooms meanwhile."""
    run([
        Say(0, 20.0), Say(1, 1.0), Wait(0.5), Lose(Cut.RST), Block(2), Say(0, 0.0), Say(1, 5.0),
        Wait(20.0), Lose(None), Say(2, 0.0), Wait(70.0), Say(3, 0.25),
    ])  # fmt: skip


# ------------------------------------------------------------------ the property can fail


def lose_hints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lose every second push without a trace."""
    real, count = ExecutionContext.offer, iter(range(1_000_000))

    def offer(self: ExecutionContext, message: ChatMessage) -> None:
        if next(count) % 2:
            real(self, message)

    monkeypatch.setattr(ExecutionContext, "offer", offer)


def forget_reconnects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not look for what was missed while the socket was down."""
    for name in ("connected", "joined"):
        monkeypatch.setattr(Dispatcher, name, lambda *args: None)


def forget_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run what a push brings although it was run before."""

    def settled(self: Journal, entry: Entry, *args: Any) -> None:
        message = entry.message
        real(self, entry, *args)
        if message is not None and entry.id not in again:
            again.add(entry.id)
            self.entries.forget(entry)
            self.pushed(message, trio.current_time())

    real, again = Journal._settled, set[str]()
    monkeypatch.setattr(Journal, "_settled", settled)
    monkeypatch.setattr(Journal, "follows", lambda *args: True)


def share_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all rooms wait for each other."""
    real = ExecutionContext._run
    locks: dict[object, trio.Lock] = {}

    async def run(self: ExecutionContext, entry: Entry) -> None:
        async with locks.setdefault(trio.lowlevel.current_root_task(), trio.Lock()):
            await real(self, entry)

    monkeypatch.setattr(ExecutionContext, "_run", run)


@pytest.mark.slow
@pytest.mark.parametrize("bug", [lose_hints, forget_reconnects, forget_ids, share_one_turn])
def test_the_property_finds_a_bug(
    bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    bug(monkeypatch)
    quick = settings(
        max_examples=EXAMPLES, database=None, derandomize=True, phases=[Phase.generate]
    )
    prop = given(steps=STEPS)(run)
    with pytest.raises((AssertionError, trio.TooSlowError, BaseExceptionGroup)):  # noqa: ASYNC401 - bare or in groups, both count
        quick(prop)()

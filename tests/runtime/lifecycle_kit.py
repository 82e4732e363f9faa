"""What a run may leave behind, counted; and a way to strike at every step of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
import trio.abc
import trio.testing
from hypothesis import settings

from band_trio import Agent, SessionConfig, ShutdownReport
from band_trio.localband.records import RequestRecord
from band_trio.localband.sockets import UPGRADE_SECONDS
from band_trio.runtime.instance_lock import instance_lock
from tests.runtime.harness import Behaviour, Scripted, Stage, reply, stage

OVERHEAD = 2.0
"""`stop_overhead_seconds` by default: what an end without grace may take."""

WRITES = frozenset({"processing", "processed", "failed", "post_message", "post_event"})
"""Routes that change something on the platform."""


class Noted(Scripted):
    """Notes when it was started and cleaned up; its hooks do what a test puts in."""

    def __init__(self, behaviour: Behaviour = reply) -> None:
        super().__init__(behaviour)
        self.notes: list[str] = []
        self.hooks: dict[str, Callable[[], Awaitable[None]]] = {}
        """Name of a method of the adapter → what it does after it has made its note."""

    async def _do(self, name: str) -> None:
        if name in self.hooks:
            await self.hooks[name]()

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self.notes.append("serve")
        try:
            await self._do("serve")
            task_status.started()
            await trio.sleep_forever()
        finally:
            self.notes.append("served")

    async def on_started(self, agent_name: str, agent_description: str) -> None:
        await super().on_started(agent_name, agent_description)
        self.notes.append("started")
        await self._do("on_started")

    async def on_interrupt(self, room_id: str, mode: str) -> None:
        await super().on_interrupt(room_id, mode)
        await self._do("on_interrupt")

    async def on_cleanup(self, room_id: str) -> None:
        await super().on_cleanup(room_id)
        await self._do("on_cleanup")

    async def cleanup_all(self) -> None:
        self.notes.append("cleaned")
        await self._do("cleanup_all")


@attrs.define(eq=False)
class Ready:
    """A task status that keeps the time of `started`, and may do something then."""

    then: Callable[[], None] = lambda: None
    at: float | None = None
    value: object = None

    def started(self, value: object = None) -> None:
        self.at, self.value = trio.current_time(), value
        self.then()


@attrs.define(eq=False)
class CountedStream(trio.abc.Stream):
    """Tells when it is closed, and the codes of the close frames that the client sends."""

    inner: trio.abc.Stream
    on_close: Callable[[], None]
    close_codes: list[int]

    async def send_all(self, data: Any) -> None:
        if data[0] == 0x88:  # a frame of its own: FIN, opcode 8; length, mask, masked code
            self.close_codes.append((data[6] ^ data[2]) << 8 | (data[7] ^ data[3]))
        await self.inner.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self.inner.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self.inner.receive_some(max_bytes)

    async def aclose(self) -> None:
        self.on_close()
        await self.inner.aclose()


@attrs.define(eq=False)
class LifeStage(Stage):
    """A stage that counts streams and tasks, with a host lock that is on."""

    streams: int = 0
    """Byte streams that are open."""
    close_codes: list[int] = attrs.field(factory=list)
    """Of the close frames that the agent sent."""
    before: int = 0
    """Tasks that were alive before the run."""

    @property
    def noted(self) -> Noted:
        """The adapter."""
        assert isinstance(self.adapter, Noted)
        return self.adapter

    def agent(self, session: SessionConfig | None = None, **options: Any) -> Agent:
        options = {"single_instance": True, "open_stream": self._open_stream, **options}
        return super().agent(session, **options)

    async def _open_stream(self, url: str) -> trio.abc.Stream:
        real = self.band.connection(self.account)["config"].open_stream
        stream = await real(url)
        self.streams += 1
        open_now = [True]

        def closed() -> None:
            self.streams -= open_now.pop() if open_now else 0

        return CountedStream(stream, closed, self.close_codes)

    async def assert_nothing_left(self) -> None:
        """Everything that a run opened is closed, and everything it started has ended."""
        assert self.streams == 0, "a socket is left open"
        # The platform waits so long for the upgrade of a client that went away before it.
        await trio.sleep(UPGRADE_SECONDS + 1)
        assert tasks() == self.before, "a task is left"
        with instance_lock(self.account.id):
            pass  # else: AgentAlreadyRunningError
        notes = self.noted.notes
        assert notes.count("serve") == notes.count("served"), "the adapter still serves"
        assert notes.count("started") <= notes.count("cleaned"), "the adapter was not cleaned up"

    def requests(self, *routes: str) -> list[RequestRecord]:
        """Return the agent's requests, of these routes or of all, oldest first."""
        made = self.band.log.requests(party_id=self.account.id)
        return [each for each in made if not routes or each.route in routes]

    def writes(self) -> list[tuple[str, str | None]]:
        """Return the agent's claims, marks and posts: route and message id."""
        return [(each.route, each.message_id) for each in self.requests(*WRITES)]


@asynccontextmanager
async def life(behaviour: Behaviour = reply) -> AsyncGenerator[LifeStage]:
    """Open a platform with one agent account whose runs are counted."""
    async with stage() as plain:
        await trio.testing.wait_all_tasks_blocked()
        here = LifeStage(plain.band, plain.account, Noted(behaviour))
        here.before = tasks()
        yield here


def tasks() -> int:
    """Return the number of living tasks of this trio run."""
    return trio.lowlevel.current_statistics().tasks_living


def lasting(seconds: float) -> Callable[[], Awaitable[None]]:
    """Return a hook that lasts so long."""

    async def work() -> None:
        await trio.sleep(seconds)

    return work


def raises(error: BaseException) -> Callable[[], Awaitable[None]]:
    """Return a hook that fails after a while."""

    async def fail() -> None:
        await trio.sleep(0.5)
        raise error

    return fail


async def stopped(here: LifeStage, agent: Agent, grace: float) -> ShutdownReport:
    """Run the agent until *grace* after a stop that comes at 10 s; check the time that it took."""
    reports: list[ShutdownReport] = []

    async def run() -> None:
        reports.append(await agent.run())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await trio.sleep(10)
        began = trio.current_time()
        agent.stop(grace=grace)
    took = trio.current_time() - began
    assert took <= grace + OVERHEAD
    assert reports[0].duration == pytest.approx(took)
    here.band.faults.clear()
    await here.assert_nothing_left()
    return reports[0]


# ------------------------------------------------------------------ striking at a step


def stride() -> int:
    """Return how many scheduler steps a sweep goes on at a time: `deep` tries all.

    trio draws the order of tasks anew each time, so that others are struck each time.
    """
    return {"ci": 3, "deep": 1}.get(settings.get_current_profile_name(), 7)


@attrs.define(eq=False)
class AtStep(trio.abc.Instrument):
    """Calls *strike* after the n-th step of a task or of any of its descendants."""

    root: trio.lowlevel.Task
    step: int
    strike: Callable[[], None]
    steps: int = 0

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if not self._is_ours(task):
            return
        self.steps += 1
        if self.steps == self.step:
            self.strike()

    def _is_ours(self, task: trio.lowlevel.Task | None) -> bool:
        while task is not None:
            if task is self.root:
                return True
            nursery = task.eventual_parent_nursery or task.parent_nursery
            task = nursery.parent_task if nursery is not None else None
        return False


@attrs.define(eq=False)
class Outcome:
    """How a run went that was struck at a step."""

    struck: bool
    """False: it was over before that step."""
    ready: Ready
    report: ShutdownReport | None
    """None: cancelled."""
    seconds: float
    """Virtual seconds from the strike to the end of the run."""


async def run_and_strike(
    agent: Agent,
    step: int,
    strike: Callable[[Agent, trio.CancelScope], None],
    *,
    when_up: Callable[[Agent], None] = lambda agent: agent.stop(grace=0),
) -> Outcome:
    """Run an agent in a task of its own and call *strike* after its n-th step.

    *when_up* is called when its start is complete.
    """
    ready = Ready(lambda: when_up(agent))
    box: list[ShutdownReport] = []
    when: list[float] = []
    scope = trio.CancelScope()

    def hit() -> None:
        when.append(trio.current_time())
        strike(agent, scope)

    async def run() -> None:
        instrument = AtStep(trio.lowlevel.current_task(), step, hit)
        trio.lowlevel.add_instrument(instrument)
        try:
            with scope:
                box.append(await agent.run(task_status=ready))
        finally:
            trio.lowlevel.remove_instrument(instrument)

    async with trio.open_nursery() as nursery:  # noqa: ASYNC112 - a task of its own is the point
        nursery.start_soon(run)
    now = trio.current_time()
    return Outcome(bool(when), ready, box[0] if box else None, now - when[0] if when else 0.0)


def by_caller(agent: Agent, scope: trio.CancelScope) -> None:
    """Cancel the task that runs the agent."""
    scope.cancel(reason="the test cancels the run")


def by_stop(agent: Agent, scope: trio.CancelScope) -> None:
    """Stop the agent without grace."""
    agent.stop(grace=0)

"""A running agent on an in-memory platform, with a handler that tests script and a trace.

Everything runs under the virtual clock (`autojump_clock`), through the real protocol on both ends.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import attrs
import trio

from band_trio import Agent, PlatformMessage, SessionConfig, ShutdownReport, SimpleAdapter
from band_trio.localband.band import LocalAgent, LocalBand, open_local_band
from band_trio.tools.protocol import AgentToolsProtocol
from band_trio.trace import TraceEvent
from band_trio.types import HistoryProvider

E = TypeVar("E", bound=TraceEvent)

MADE_WITH = ("contact_config", "preprocessor", "on_participant_added", "on_participant_removed")
"""Arguments of `Agent.create` that a stage passes on."""

PATIENCE = 5000.0
"""Virtual seconds after which a test has waited in vain."""


@attrs.frozen
class Call:
    """One call of the adapter, as it was given."""

    msg: PlatformMessage
    tools: AgentToolsProtocol
    history: HistoryProvider
    participants_msg: str | None
    contacts_msg: str | None
    bootstrap: bool
    room_id: str

    @property
    def text(self) -> str:
        """The content without the leading mention."""
        return self.msg.content.split(" ", 1)[-1]


Behaviour = Callable[[Call], Awaitable[None]]


async def reply(call: Call) -> None:
    """Answer the sender."""
    await call.tools.send_message(f"re: {call.text}", mentions=[call.msg.sender_id])


class Scripted(SimpleAdapter[HistoryProvider]):
    """Runs *behaviour* for each call, or the one registered for the message's text."""

    def __init__(self, behaviour: Behaviour = reply) -> None:
        super().__init__()
        self.behaviour = behaviour
        self.by_text: dict[str, Behaviour] = {}
        self.calls: list[Call] = []
        self.running: list[Call] = []
        self.overlapped = False
        """Whether two calls of one room ever ran at once."""
        self.rooms_at_once = 0
        """Most calls that ran at the same time."""
        self.interrupts: list[tuple[str, str]] = []
        self.cleaned: list[str] = []
        self._changed = trio.Event()

    def on(self, text: str) -> Callable[[Behaviour], Behaviour]:
        """Register a behaviour for messages with this text."""

        def register(behaviour: Behaviour) -> Behaviour:
            self.by_text[text] = behaviour
            return behaviour

        return register

    async def on_message(
        self,
        msg: PlatformMessage,
        tools: AgentToolsProtocol,
        history: HistoryProvider,
        participants_msg: str | None,
        contacts_msg: str | None,
        *,
        is_session_bootstrap: bool,
        room_id: str,
    ) -> None:
        call = Call(
            msg, tools, history, participants_msg, contacts_msg, is_session_bootstrap, room_id
        )
        self.calls.append(call)
        self.overlapped |= any(other.room_id == room_id for other in self.running)
        self.running.append(call)
        self._changed.set()
        self.rooms_at_once = max(self.rooms_at_once, len(self.running))
        try:
            await self.by_text.get(call.text, self.behaviour)(call)
        finally:
            self.running.remove(call)
            self._changed.set()

    async def on_interrupt(self, room_id: str, mode: str) -> None:
        self.interrupts.append((room_id, mode))

    async def on_cleanup(self, room_id: str) -> None:
        self.cleaned.append(room_id)

    async def until_running(self, count: int = 1) -> None:
        """Wait until so many calls run at once."""
        while len(self.running) < count:
            self._changed = trio.Event()
            await self._changed.wait()

    @property
    def texts(self) -> list[str]:
        """The texts of all calls, in order."""
        return [call.text for call in self.calls]


@attrs.define(eq=False)
class Stage:
    """A platform with one agent account; the agent runs while `running` is entered."""

    band: LocalBand
    account: LocalAgent
    adapter: Scripted
    trace: list[tuple[float, TraceEvent]] = attrs.field(factory=list)
    reports: list[ShutdownReport] = attrs.field(factory=list)

    def observe(self, event: TraceEvent) -> None:
        """Be the observer."""
        self.trace.append((trio.current_time(), event))

    def seen(self, kind: type[E]) -> list[E]:
        """Return the trace events of a kind, in order."""
        return [event for _, event in self.trace if isinstance(event, kind)]

    async def room(self, title: str | None = None) -> str:
        """Make a room with the agent in it and return its id."""
        room_id = (await self.band.user.create_room(title)).id
        await self.band.user.add(room_id, self.account)
        return room_id

    async def say(self, room_id: str, text: str) -> str:
        """Send a message that mentions the agent; return its id."""
        return await self.band.user.send(room_id, text, mentions=[self.account])

    def agent(self, session: SessionConfig | None = None, **options: Any) -> Agent:
        """Make an agent for the account; *options* are those of AgentConfig and `Agent.create`."""
        made = {name: options.pop(name) for name in MADE_WITH if name in options}
        options = {"observer": self.observe, "single_instance": False, **options}
        return Agent.create(
            adapter=self.adapter,
            session_config=session or SessionConfig(),
            **made,
            **self.band.connection(self.account, **options),
        )

    @asynccontextmanager
    async def running(
        self, session: SessionConfig | None = None, *, grace: float = 30.0, **options: Any
    ) -> AsyncGenerator[Agent]:
        """Run an agent in the background; leaving stops it and keeps its report."""
        agent = self.agent(session, **options)

        async def run(  # noqa: ASYNC128 - the agent calls it
            *, task_status: trio.TaskStatus[Agent] = trio.TASK_STATUS_IGNORED
        ) -> None:
            self.reports.append(await agent.run(task_status=task_status))

        async with trio.open_nursery() as nursery:
            await nursery.start(run)
            yield agent
            agent.stop(grace=grace)

    async def settled(self, *message_ids: str, state: str = "processed") -> None:
        """Wait until the platform has all these messages in a state."""
        with trio.fail_after(PATIENCE):
            await self.band.until(
                lambda: all(self.band.state(each, self.account) == state for each in message_ids)
            )


@asynccontextmanager
async def stage(behaviour: Behaviour = reply) -> AsyncGenerator[Stage]:
    """Open a platform in memory with one agent account."""
    async with open_local_band(memory=True) as band:
        yield Stage(band, band.register_agent("Scribe"), Scripted(behaviour))

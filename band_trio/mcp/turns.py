"""Calls from outside the turn's own tasks, such as those of a server, run inside the turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager

import attrs
import trio

from band_trio import texts
from band_trio.errors import BandConfigError, RoomExecutionStoppedError, TurnClosedError
from band_trio.tools.protocol import AgentToolsProtocol
from band_trio.types import ToolCallOutcome


@attrs.define(eq=False)
class OpenTurns:
    """The turns that run now, by room. An adapter opens its turn here around its backend's work."""

    # At most one entry for each room that the agent is in: rooms run one turn at a time.
    _tools: dict[str, AgentToolsProtocol] = attrs.field(factory=dict, init=False)

    @contextmanager
    def open(self, tools: AgentToolsProtocol) -> Generator[None]:
        """Let calls for the room of *tools* reach this turn, until the block ends.

        Raises:
            BandConfigError: a turn of this room is open.
        """
        if tools.room_id in self._tools:
            raise BandConfigError(f"a turn of room {tools.room_id} is open already")
        self._tools[tools.room_id] = tools
        try:
            yield
        finally:
            del self._tools[tools.room_id]

    def get(self, room_id: str | None) -> AgentToolsProtocol | None:
        """Return the tools of a room's turn; for None those of the only open turn, if it is one."""
        if room_id is not None:
            return self._tools.get(room_id)
        only = list(self._tools.values())
        return only[0] if len(only) == 1 else None


def failed(text: str) -> ToolCallOutcome:
    """Return the outcome of a call that failed for this reason."""
    return ToolCallOutcome(text, ok=False, error_message=text)


async def call_in_turn(tools: AgentToolsProtocol, name: str, arguments: object) -> ToolCallOutcome:
    """Run a tool in the nursery of its turn, so that it ends with the turn at the latest.

    A caller that is cancelled cancels the call and nothing else. Tools without a turn that runs,
    as programs without an agent have them, are called where the caller is.
    """

    async def work() -> ToolCallOutcome:
        try:
            return await tools.execute_tool_call_structured(name, arguments)
        except RoomExecutionStoppedError:
            # The runtime was told when the answer was seen, and ends the turn.
            return failed(texts.tool_failed(name, texts.MCP_STOPPED))

    try:
        nursery = tools.turn.nursery
    except TurnClosedError:
        if tools.turn.closed:
            return failed(texts.tool_failed(name, texts.MCP_NO_TURN))
        return await work()
    visit = _Visit(work, failed(texts.tool_failed(name, texts.MCP_NO_TURN)))
    try:
        nursery.start_soon(visit.run, name=f"{name} over MCP")
    except RuntimeError:
        return visit.outcome  # its last task has just ended, its fence closes in this moment
    try:
        await visit.ended.wait()
    finally:
        visit.scope.cancel(reason="nobody waits for it any more")
    return visit.outcome


@attrs.define(eq=False)
class _Visit:
    """A call that runs in somebody else's nursery."""

    work: Callable[[], Awaitable[ToolCallOutcome]]
    outcome: ToolCallOutcome
    """What the caller gets; at first, for a call that the end of the turn cuts off."""
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    ended: trio.Event = attrs.field(factory=trio.Event, init=False)

    async def run(self) -> None:
        """Do the work."""
        try:
            with self.scope:
                self.outcome = await self.work()
        finally:
            self.ended.set()

"""`AgentTools`: the tools of one turn in one room."""

from __future__ import annotations

from typing import Self, cast

from band_trio.tools.contacts import Contacts
from band_trio.tools.dispatch import Dispatch
from band_trio.tools.files import Files
from band_trio.tools.ledger import Ledger
from band_trio.tools.memories import Memories
from band_trio.tools.people import People
from band_trio.tools.tasks import Tasks
from band_trio.types import RoomContext


class AgentTools(People, Contacts, Memories, Files, Tasks, Dispatch):
    """What a model or an adapter can do in a room, bound to one room and one turn.

    Every tool is a method, named as the tool without `band_`; `execute_tool_call` runs one by
    name with a model's arguments. When the turn is over every method refuses with
    `TurnClosedError` and requests nothing. What succeeds is recorded on `turn`, from which the
    runtime judges whether the message was dealt with.
    """

    @classmethod
    def from_context(cls, ctx: RoomContext) -> Self:
        """Make the tools for the turn that *ctx* describes."""
        return cls(
            ctx.room_id,
            ctx.rest,
            ctx.participants,
            hub_room_id=ctx.hub_room_id,
            agent_id=ctx.agent_id,
            features=ctx.features,
            # The context's ledger is the runtime's own, which is what the tools write.
            turn=cast(Ledger, ctx.turn),
        )

"""`AgentTools`: the tools of one turn in one room."""

from __future__ import annotations

from band_trio.tools.contacts import Contacts
from band_trio.tools.dispatch import Dispatch
from band_trio.tools.files import Files
from band_trio.tools.memories import Memories
from band_trio.tools.people import People
from band_trio.tools.protocol import AgentToolsProtocol
from band_trio.tools.tasks import Tasks


class AgentTools(People, Contacts, Memories, Files, Tasks, Dispatch):
    """What a model or an adapter can do in a room, bound to one room and one turn.

    Every tool is a method, named as the tool without `band_`; `execute_tool_call` runs one by
    name with a model's arguments. When the turn is over every method refuses with
    `TurnClosedError` and requests nothing. What succeeds is recorded on `turn`, from which the
    runtime judges whether the message was dealt with.
    """


# What a method does is said where it does it; `help` of the protocol says the same.
for _name, _shown in vars(AgentToolsProtocol).items():
    if not (_name.startswith("_") or _shown.__doc__):
        _shown.__doc__ = getattr(AgentTools, _name, _shown).__doc__

"""The registry of tools, and who gets which: capabilities, the contact hub, and filters.

A new tool is a class for its arguments, a row here, and a method of the same name (without
`band_`) on the tools object. Everything else follows from the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Final, TypeVar

import attrs

from band_trio.errors import BandConfigError
from band_trio.tools import chat_inputs as chat
from band_trio.tools import contact_inputs as contacts
from band_trio.tools import file_inputs as files
from band_trio.tools import memory_inputs as memories
from band_trio.tools import task_inputs as tasks
from band_trio.tools.definitions import BandTool, Surface, ToolDefinition
from band_trio.tools.spellings import OLD_SEND_MESSAGE
from band_trio.types import AdapterFeatures, Capabilities, Capability, ToolCategory, TurnEffect

E = TypeVar("E", bound=StrEnum)
T = TypeVar("T")


def _tool(
    tool: BandTool,
    model: type[attrs.AttrsInstance],
    category: ToolCategory,
    effect: TurnEffect,
    *,
    room_bound: bool = False,
) -> ToolDefinition:
    method = tool.value.removeprefix("band_")
    return ToolDefinition(tool.value, model, method, category, effect, room_bound)


_CHAT, _CONTACTS, _MEMORY = ToolCategory.CHAT, ToolCategory.CONTACTS, ToolCategory.MEMORY
_FILES, _TASKS = ToolCategory.FILES, ToolCategory.TASKS
_OBSERVE, _ACT, _REPLY = TurnEffect.OBSERVE, TurnEffect.ACT, TurnEffect.REPLY

_ROWS: Final = [
    _tool(BandTool.SEND_MESSAGE, chat.SendMessageInput, _CHAT, _REPLY, room_bound=True),
    _tool(BandTool.SEND_EVENT, chat.SendEventInput, _CHAT, _OBSERVE, room_bound=True),
    _tool(BandTool.NO_REPLY, chat.NoReplyInput, _CHAT, TurnEffect.DECLINE),
    _tool(BandTool.ADD_PARTICIPANT, chat.AddParticipantInput, _CHAT, _ACT, room_bound=True),
    _tool(BandTool.REMOVE_PARTICIPANT, chat.RemoveParticipantInput, _CHAT, _ACT, room_bound=True),
    _tool(BandTool.LOOKUP_PEERS, chat.LookupPeersInput, _CHAT, _OBSERVE, room_bound=True),
    _tool(BandTool.GET_PARTICIPANTS, chat.GetParticipantsInput, _CHAT, _OBSERVE, room_bound=True),
    _tool(BandTool.CREATE_CHATROOM, chat.CreateChatroomInput, _CHAT, _ACT),
    _tool(BandTool.LIST_CONTACTS, contacts.ListContactsInput, _CONTACTS, _OBSERVE),
    _tool(BandTool.ADD_CONTACT, contacts.AddContactInput, _CONTACTS, _ACT),
    _tool(BandTool.REMOVE_CONTACT, contacts.RemoveContactInput, _CONTACTS, _ACT),
    _tool(BandTool.LIST_CONTACT_REQUESTS, contacts.ListContactRequestsInput, _CONTACTS, _OBSERVE),
    _tool(BandTool.RESPOND_CONTACT_REQUEST, contacts.RespondContactRequestInput, _CONTACTS, _ACT),
    _tool(BandTool.LIST_MEMORIES, memories.ListMemoriesInput, _MEMORY, _OBSERVE),
    _tool(BandTool.STORE_MEMORY, memories.StoreMemoryInput, _MEMORY, _ACT),
    _tool(BandTool.GET_MEMORY, memories.GetMemoryInput, _MEMORY, _OBSERVE),
    _tool(BandTool.SUPERSEDE_MEMORY, memories.SupersedeMemoryInput, _MEMORY, _ACT),
    _tool(BandTool.ARCHIVE_MEMORY, memories.ArchiveMemoryInput, _MEMORY, _ACT),
    _tool(BandTool.LIST_ROOM_FILES, files.ListRoomFilesInput, _FILES, _OBSERVE, room_bound=True),
    _tool(BandTool.READ_ROOM_FILE, files.ReadRoomFileInput, _FILES, _OBSERVE, room_bound=True),
    _tool(BandTool.SEND_ROOM_FILE, files.SendRoomFileInput, _FILES, _REPLY, room_bound=True),
    _tool(BandTool.LIST_TASKS, tasks.ListTasksInput, _TASKS, _OBSERVE, room_bound=True),
    _tool(BandTool.CREATE_TASK, tasks.CreateTaskInput, _TASKS, _ACT, room_bound=True),
    _tool(BandTool.GET_TASK, tasks.GetTaskInput, _TASKS, _OBSERVE, room_bound=True),
    _tool(BandTool.UPDATE_TASK, tasks.UpdateTaskInput, _TASKS, _ACT, room_bound=True),
    _tool(BandTool.GET_TASK_HISTORY, tasks.GetTaskHistoryInput, _TASKS, _OBSERVE, room_bound=True),
    _tool(BandTool.GET_BOARD, tasks.GetBoardInput, _TASKS, _OBSERVE, room_bound=True),
    _tool(BandTool.SET_BOARD, tasks.SetBoardInput, _TASKS, _ACT, room_bound=True),
]

TOOL_DEFINITIONS: Final[dict[str, ToolDefinition]] = {row.name: row for row in _ROWS}
"""All tools by name, in the order in which they are offered."""

TOOL_MODELS: Final[dict[str, type[attrs.AttrsInstance]]] = {
    row.name: row.input_model for row in _ROWS if row.surface is Surface.AGENT
}
"""Argument classes of the agent tools by name."""


def checked_members(
    given: Iterable[str] | str | None, kind: type[E], option: str, *, called: str = ""
) -> tuple[E, ...]:
    """Return *given* as members of *kind*; a bare text is one of them.

    *called* is what a member is, where there are too many to list them in the error.

    Raises:
        BandConfigError: one is unknown, or *given* is nothing to choose from.
    """
    if not isinstance(given, Iterable | None):
        raise BandConfigError(f"{option} must be members of {kind.__name__}, not {given!r}.")
    known = [member.value for member in kind]
    names = (given,) if isinstance(given, str) else tuple(given or ())
    for name in names:
        if name not in known:
            what = f"no {called}" if called else f"unknown; there are {', '.join(known)}"
            raise BandConfigError.with_suggestion(
                f"{option}: {name!r} is {what}.", str(name), known, max_distance=4
            )
    return tuple(map(kind, names))


def iter_tool_definitions(
    *, surface: Surface = Surface.AGENT, capabilities: Capabilities = None
) -> list[ToolDefinition]:
    """Return the tools that *capabilities* open, in order; None opens the chat tools only.

    Raises:
        BandConfigError: a capability is unknown.
    """
    opened = checked_members(capabilities, Capability, "capabilities")
    return [
        row
        for row in TOOL_DEFINITIONS.values()
        if row.surface is surface and _is_open(row.category, opened)
    ]


def _is_open(category: ToolCategory | None, opened: Iterable[str]) -> bool:
    return category is None or category is ToolCategory.CHAT or category.value in opened


def withheld_tool_names(capabilities: Capabilities) -> frozenset[str]:
    """Return the names of agent tools that *capabilities* do not open."""
    offered = {row.name for row in iter_tool_definitions(capabilities=capabilities)}
    return frozenset(TOOL_MODELS) - offered


def get_band_tool_category(name: str) -> ToolCategory | None:
    """Return the category of the platform tool *name*; None for any other name."""
    row = TOOL_DEFINITIONS.get(name)
    return row.category if row else None


def turn_effect(name: str, *, custom_effects: dict[str, TurnEffect] | None = None) -> TurnEffect:
    """Return what a successful call of *name* means; platform names first, unknown = observe."""
    row = TOOL_DEFINITIONS.get(BandTool.SEND_MESSAGE if name == OLD_SEND_MESSAGE else name)
    if row is not None:
        return row.effect
    return (custom_effects or {}).get(name, TurnEffect.OBSERVE)


# --------------------------------------------------------------------------- filters


@lru_cache(maxsize=256)
def selected_tool_definitions(
    features: AdapterFeatures, *, is_hub_room: bool = False
) -> tuple[ToolDefinition, ...]:
    """Return the tools that an adapter with *features* offers; the hub room adds contacts."""
    capabilities = features.capabilities | (
        frozenset([Capability.CONTACTS]) if is_hub_room else frozenset()
    )
    rows = iter_tool_definitions(capabilities=capabilities)
    return tuple(
        filter_tool_schemas(
            rows,
            features,
            get_name=lambda row: row.name,
            get_category=lambda row: row.category,
        )
    )


def filter_tool_schemas(
    schemas: Sequence[T],
    features: AdapterFeatures,
    *,
    get_name: Callable[[T], str],
    get_category: Callable[[T], ToolCategory | None] | None = None,
) -> list[T]:
    """Narrow *schemas* by included categories, then included names, then excluded names.

    Filters act on platform tools only: what has another name always passes.
    """
    kept: list[T] = []
    for each in schemas:
        name = get_name(each)
        category = get_category(each) if get_category else get_band_tool_category(name)
        if name not in TOOL_DEFINITIONS or _passes(name, category, features):
            kept.append(each)
    return kept


def _passes(name: str, category: ToolCategory | None, features: AdapterFeatures) -> bool:
    if features.include_categories is not None and category not in features.include_categories:
        return False
    if features.include_tools is not None and name not in features.include_tools:
        return False
    return name not in (features.exclude_tools or ())

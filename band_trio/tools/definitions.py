"""What a tool is: a name, a class for its arguments, and what calling it means."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, get_type_hints

import attrs

from band_trio.types import ToolCategory, TurnEffect


class Surface(StrEnum):
    """Who may be offered a tool."""

    AGENT = "agent"
    HUMAN = "human"


class BandTool(StrEnum):
    """The names of all agent tools, in the order in which they are offered."""

    SEND_MESSAGE = "band_send_message"
    SEND_EVENT = "band_send_event"
    NO_REPLY = "band_no_reply"
    ADD_PARTICIPANT = "band_add_participant"
    REMOVE_PARTICIPANT = "band_remove_participant"
    LOOKUP_PEERS = "band_lookup_peers"
    GET_PARTICIPANTS = "band_get_participants"
    CREATE_CHATROOM = "band_create_chatroom"
    LIST_CONTACTS = "band_list_contacts"
    ADD_CONTACT = "band_add_contact"
    REMOVE_CONTACT = "band_remove_contact"
    LIST_CONTACT_REQUESTS = "band_list_contact_requests"
    RESPOND_CONTACT_REQUEST = "band_respond_contact_request"
    LIST_MEMORIES = "band_list_memories"
    STORE_MEMORY = "band_store_memory"
    GET_MEMORY = "band_get_memory"
    SUPERSEDE_MEMORY = "band_supersede_memory"
    ARCHIVE_MEMORY = "band_archive_memory"
    LIST_ROOM_FILES = "band_list_room_files"
    READ_ROOM_FILE = "band_read_room_file"
    SEND_ROOM_FILE = "band_send_room_file"
    LIST_TASKS = "band_list_tasks"
    CREATE_TASK = "band_create_task"
    GET_TASK = "band_get_task"
    UPDATE_TASK = "band_update_task"
    GET_TASK_HISTORY = "band_get_task_history"
    GET_BOARD = "band_get_board"
    SET_BOARD = "band_set_board"


HUMAN_TOOL_NAMES: Final = frozenset(
    f"band_{name}"
    for name in (
        "list_my_agents", "register_my_agent", "list_my_chats", "get_my_chat_room",
        "create_my_chat_room", "list_my_contacts", "remove_my_contact", "resolve_handle",
        "create_contact_request", "list_received_contact_requests", "list_sent_contact_requests",
        "approve_contact_request", "reject_contact_request", "cancel_contact_request",
        "list_my_chat_messages", "send_my_chat_message", "list_my_chat_participants",
        "add_my_chat_participant", "remove_my_chat_participant", "list_user_memories",
        "get_user_memory", "supersede_user_memory", "archive_user_memory", "restore_user_memory",
        "delete_user_memory", "get_my_profile", "update_my_profile", "list_my_peers",
    )
)  # fmt: skip
"""The platform's tools for people. No agent is offered them, and no custom tool has their names."""

BAND_MCP_SERVER_NAME: Final = "band"
MCP_TOOL_PREFIX: Final = f"mcp__{BAND_MCP_SERVER_NAME}__"
"""What Claude puts before the tools of an MCP server of that name."""
SERVER_PREFIX: Final = f"{BAND_MCP_SERVER_NAME}-"
"""What others put before them."""

OLD_SEND_MESSAGE: Final = "create_agent_chat_message"
"""What band_send_message was called once; it only helps to classify calls of the past."""


def mcp_tool_names(names: Iterable[str]) -> list[str]:
    """Return *names* as Claude spells them when they come from our MCP server, sorted."""
    return sorted(MCP_TOOL_PREFIX + name for name in names)


def canonicalize_mcp_tool_name(name: str, own: Collection[str]) -> str:
    """Return a name without our server's prefix, if what is left is one of *own*.

    Names with the prefix of another server stay as they are: they are not ours.
    """
    bare = name.removeprefix(SERVER_PREFIX)
    return bare if bare in own else name


@attrs.frozen
class ToolDefinition:
    """One tool. Its description is the docstring of *input_model*; the arguments are the fields."""

    name: str
    input_model: type[attrs.AttrsInstance]
    category: ToolCategory | None
    effect: TurnEffect
    """What a successful call means for the judgement of the turn."""
    room_bound: bool
    surface: Surface = Surface.AGENT

    @property
    def method_name(self) -> str:
        """The method of the tools object that does the work."""
        return self.name.removeprefix("band_")


ID: Final = "[A-Za-z0-9_-]+"
"""What an id that a model gives may consist of: it becomes part of a path."""

ARGUMENT: Final = "band_trio.argument"
"""Key under which a field's metadata holds its `Argument`."""


@attrs.frozen
class Argument:
    """What a field adds to its type: words for the model and limits for the value."""

    description: str
    visible: bool = False
    """At least one character that a reader sees is needed."""
    pattern: str | None = None
    """A regular expression for the whole text."""
    low: int | None = None
    high: int | None = None
    longest: int | None = None
    """Most characters of a text."""
    prefix: str = ""
    """Stripped once from the beginning; a whole number is then a text as well."""
    one_line: bool = False
    """Control characters are removed."""
    mentions: bool = False
    """Items may be objects with an id, handle or name."""
    aliases: tuple[str, ...] = ()
    """Other names that are accepted, but not advertised."""


def argument(
    description: str,
    *,
    default: Any = attrs.NOTHING,
    kw_only: bool = False,
    aliases: Sequence[str] = (),
    **limits: Any,
) -> Any:
    """Declare an argument of a tool as an attrs field; without *default* it is required.

    *limits* are the other fields of `Argument`. Bounds are not part of the schema that a model
    sees, so *description* should state them.
    """
    spec = Argument(description, aliases=tuple(aliases), **limits)
    return attrs.field(default=default, kw_only=kw_only, metadata={ARGUMENT: spec})


def need_one_of(instance: object, problem: str, *names: str, blank: bool = True) -> None:
    """Check that one of the optional arguments *names* is given; whether *blank* text counts.

    Raises:
        ValueError: none is; the text is *problem*.
    """
    missing = (None,) if blank else (None, "")
    if all(getattr(instance, name) in missing for name in names):
        raise ValueError(problem)


def argument_of(field: attrs.Attribute[Any] | dataclasses.Field[Any]) -> Argument:
    """Return what *field* was declared with; plain fields may carry a `description`."""
    spec = field.metadata.get(ARGUMENT)
    if isinstance(spec, Argument):
        return spec
    return Argument(str(field.metadata.get("description", "")))


@attrs.frozen
class ClassField:
    """One argument of a class."""

    name: str
    kind: Any
    """Its annotation, resolved."""
    default: Any
    """`attrs.NOTHING` where it is required; an `attrs.Factory` where it is made anew."""
    spec: Argument


def has_fields(cls: Any) -> bool:
    """Tell whether *cls* is an attrs class or a dataclass."""
    return isinstance(cls, type) and (attrs.has(cls) or dataclasses.is_dataclass(cls))


@lru_cache(maxsize=1024)
def class_fields(cls: type) -> tuple[ClassField, ...]:
    """Return what an instance of an attrs class or a dataclass is made from, in order.

    Raises:
        NameError: an annotation cannot be resolved.
    """
    if attrs.has(cls):
        fields = attrs.fields(attrs.resolve_types(cls))
        return tuple(
            ClassField(each.name, each.type, each.default, argument_of(each))
            for each in fields
            if each.init
        )
    hints = get_type_hints(cls, include_extras=True)
    return tuple(
        ClassField(each.name, hints[each.name], _default(each), argument_of(each))
        for each in dataclasses.fields(cls)
        if each.init
    )


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return attrs.Factory(field.default_factory)
    return attrs.NOTHING if field.default is dataclasses.MISSING else field.default


def is_pydantic(kind: Any) -> bool:
    """Tell whether a class is a pydantic model, by its methods: pydantic is never imported."""
    return isinstance(kind, type) and all(
        callable(getattr(kind, name, None)) for name in ("model_validate", "model_json_schema")
    )

"""Data and protocols that every layer shares: messages, features, and what an adapter is.

Nothing here does anything; it is the vocabulary of the package.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Self, TypedDict, TypeVar

import attrs

if TYPE_CHECKING:
    import trio

    from band_trio.link.rest import RestClient
    from band_trio.tools.custom import CustomToolDef, CustomTools

T_co = TypeVar("T_co", covariant=True)

SYNTHETIC_SENDER_TYPE: Final = "System"
SYNTHETIC_CONTACT_EVENTS_SENDER_ID: Final = "contact-events"
SYNTHETIC_CONTACT_EVENTS_SENDER_NAME: Final = "Contact Events"

ToolFormat = Literal["openai", "anthropic"]
RoomMode = Literal["interrupt", "stop", "play"]


# --------------------------------------------------------------------------- features


class _Combinable(StrEnum):
    """A string enum whose members combine with `|` into a frozenset of the same enum."""

    # The override is deliberate: `str` has no `|`, and a set is what callers mean.
    def __or__(self, other: Self | Iterable[Self]) -> frozenset[Self]:
        return frozenset([self]) | self._members(other)

    __ror__ = __or__

    def _members(self, other: object) -> frozenset[Self]:
        if isinstance(other, type(self)):
            return frozenset([other])
        if isinstance(other, frozenset | set) and all(isinstance(o, type(self)) for o in other):
            return frozenset(other)
        raise TypeError(f"cannot combine {type(self).__name__} with {other!r}")


class Capability(_Combinable):
    """What an agent may use beside the chat tools; each switches one category of tools on."""

    MEMORY = "memory"
    CONTACTS = "contacts"
    FILES = "files"
    TASKS = "tasks"


class Emit(_Combinable):
    """What an adapter posts to the room about its own work."""

    TOOL_CALLS = "tool_calls"
    """Each tool call and its result, as events."""
    THOUGHTS = "thoughts"
    """The model's reasoning, as thought events."""
    TASK_EVENTS = "task_events"
    """Progress and resume data of a backend."""
    USAGE = "usage"
    """Token usage, once per turn."""


class ToolCategory(StrEnum):
    """The group a tool belongs to; filters and capabilities act on groups."""

    CHAT = "chat"
    CONTACTS = "contacts"
    MEMORY = "memory"
    FILES = "files"
    TASKS = "tasks"


class TurnEffect(StrEnum):
    """What a successful tool call means for the judgement of its turn."""

    OBSERVE = "observe"
    """Looked, or left a note: does not complete a turn."""
    ACT = "act"
    """Changed something."""
    REPLY = "reply"
    """Said something to somebody."""
    DECLINE = "decline"
    """Decided that nothing needs to be said."""

    @property
    def did_work(self) -> bool:
        """Whether a turn with this effect is complete."""
        return self is not TurnEffect.OBSERVE


class MessageType(StrEnum):
    """Types of rows in a room; only `text` is ever work for an agent."""

    TEXT = "text"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    THOUGHT = "thought"
    ERROR = "error"
    TASK = "task"
    USAGE = "usage"


class ToolEventKey(StrEnum):
    """Keys of the JSON text in `tool_call` and `tool_result` events; other readers rely on them."""

    NAME = "name"
    ARGS = "args"
    OUTPUT = "output"
    TOOL_CALL_ID = "tool_call_id"
    IS_ERROR = "is_error"


@attrs.frozen
class AdapterFeatures:
    """What an adapter asked for, after negotiation with the platform."""

    capabilities: frozenset[Capability] = frozenset()
    emit: frozenset[Emit] = frozenset()
    include_tools: tuple[str, ...] | None = None
    exclude_tools: tuple[str, ...] | None = None
    include_categories: tuple[ToolCategory, ...] | None = None


class FeatureKwargs(TypedDict, total=False):
    """The keyword arguments by which an adapter chooses its features."""

    emit: Emit | str | Iterable[Emit | str]
    capabilities: Capability | str | Iterable[Capability | str]
    include_tools: Iterable[str] | None
    exclude_tools: Iterable[str] | None
    include_categories: Iterable[ToolCategory | str] | None


class AdapterKwargs(FeatureKwargs, total=False):
    """What an adapter passes on to `SimpleAdapter`: features, and the application's own tools."""

    additional_tools: Sequence[CustomToolDef]
    tool_timeout: float | None


# --------------------------------------------------------------------------- messages


@attrs.frozen
class PlatformMessage:
    """A message of a room as an adapter gets it, its mentions rewritten to readable handles."""

    id: str
    room_id: str
    content: str
    sender_id: str
    sender_type: str
    """`User`, `Agent`, or `System` for synthetic messages."""
    sender_name: str | None
    message_type: str
    metadata: dict[str, Any]
    created_at: datetime

    def format_for_llm(self) -> str:
        """Return `[label]: content`; no name and no content can forge another speaker's line."""
        return speaker_line(self.sender_name or self.sender_type or "Unknown", self.content)


_LABEL_CHARS: Final = 80
_BIDI: Final = frozenset("\u061c\u200b\u200c\u200d\u200e\u200f\u2028\u2029\ufeff") | {
    chr(c) for c in (*range(0x202A, 0x202F), *range(0x2060, 0x206A))
}


def speaker_label(name: str) -> str:
    """Return *name* as a label: one line, no brackets, no control or bidi characters, ≤ 80."""
    cleaned = "".join(
        " " if char.isspace() or ord(char) < 32 or 127 <= ord(char) < 160 else char
        for char in name
        if char not in "[]" and char not in _BIDI
    )
    return " ".join(cleaned.split())[:_LABEL_CHARS] or "Unknown"


def speaker_line(name: str, content: str) -> str:
    """Return `[label]: content`, later lines that begin with `[` indented by two spaces."""
    first, *rest = content.split("\n")
    lines = [f"  {line}" if line.startswith("[") else line for line in rest]
    return "\n".join([f"[{speaker_label(name)}]: {first}", *lines])


@attrs.frozen
class HistoryProvider:
    """The raw items before a message, oldest first, for an adapter without a converter."""

    raw: list[dict[str, Any]] = attrs.field(factory=list)

    def convert(self, converter: HistoryConverter[T_co]) -> T_co:
        """Return the items in the form of *converter*."""
        return converter.convert(self.raw)

    def __len__(self) -> int:
        return len(self.raw)


@attrs.frozen
class AgentInput:
    """Everything one turn is given."""

    msg: PlatformMessage
    tools: AgentToolsProtocol
    history: HistoryProvider
    participants_msg: str | None
    """Who is in the room; present exactly when that differs from what was last committed."""
    contacts_msg: str | None
    """Pending system lines, joined by newlines."""
    is_session_bootstrap: bool
    """True until a turn of this room was committed."""
    room_id: str
    commit_context: Callable[[], None] | None = None


@attrs.frozen
class PlatformConnection:
    """Where the agent is connected; for adapters whose backend talks to the platform itself."""

    agent_id: str
    api_key: str = attrs.field(repr=False)
    rest_url: str
    ws_url: str


@attrs.frozen
class TurnUsage:
    """Tokens of one or several model calls."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    def __add__(self, other: TurnUsage) -> TurnUsage:
        return TurnUsage(
            *(a + b for a, b in zip(attrs.astuple(self), attrs.astuple(other), strict=True))
        )

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    @property
    def is_empty(self) -> bool:
        """Whether nothing was counted."""
        return not any(attrs.astuple(self))

    def to_dict(self) -> dict[str, int]:
        """Return the four counts by name."""
        return attrs.asdict(self)

    @classmethod
    def from_object(
        cls,
        src: object,
        *,
        input: str,  # noqa: A002 - the words of the four counts
        output: str,
        cache_read: str | None = None,
        cache_write: str | None = None,
        reasoning: str | None = None,
    ) -> TurnUsage:
        """Read the counts from attributes of *src*; what is no int counts as 0."""

        def count(name: str | None) -> int:
            return _count(getattr(src, name, None) if name else None)

        return cls(
            count(input), count(output) + count(reasoning), count(cache_read), count(cache_write)
        )

    @classmethod
    def from_mapping(
        cls,
        src: Mapping[str, object],
        *,
        input: str,  # noqa: A002 - the words of the four counts
        output: str,
        cache_read: str | None = None,
        cache_write: str | None = None,
        reasoning: str | None = None,
    ) -> TurnUsage:
        """Read the counts from keys of *src*; what is no int counts as 0."""

        def count(name: str | None) -> int:
            return _count(src.get(name) if name else None)

        return cls(
            count(input), count(output) + count(reasoning), count(cache_read), count(cache_write)
        )


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


@attrs.frozen
class ToolCallOutcome:
    """What a call by name came to: a result, or a text that a model can act on."""

    value: Any
    """The JSON-safe result; the text of the failure where `ok` is false."""
    ok: bool
    error_message: str | None = None


def delivery_status_for_agent(metadata: Mapping[str, Any] | None, agent_id: str) -> str | None:
    """Return what the platform says of a message for one agent, out of its *metadata*.

    `delivered`, `processing`, `processed` or `failed`; None where it says nothing.
    """
    entries = (metadata or {}).get("delivery_status")
    entry = entries.get(agent_id) if isinstance(entries, Mapping) else None
    status = entry.get("status") if isinstance(entry, Mapping) else None
    return status if isinstance(status, str) else None


def is_contact_hub_turn(*, sender_type: str, sender_id: str) -> bool:
    """Tell whether a message is a synthetic contact event of the hub room."""
    return sender_type == SYNTHETIC_SENDER_TYPE and sender_id == SYNTHETIC_CONTACT_EVENTS_SENDER_ID


# --------------------------------------------------------------------------- protocols


class HistoryConverter(Protocol[T_co]):
    """Turns raw history items into what a model's API wants. Raw items are dicts with `role`
    (`assistant` for our own), `content`, `sender_name`, `sender_type`, `sender_id`,
    `message_type`, `metadata` and `id`."""

    def convert(self, raw: list[dict[str, Any]]) -> T_co: ...


class TurnLedger(Protocol):
    """What an adapter may do with the turn it runs in; see `band_trio.tools.turn.Turn`."""

    judged: bool

    @property
    def nursery(self) -> trio.Nursery: ...
    @property
    def replied(self) -> bool: ...
    @property
    def complete(self) -> bool: ...
    @property
    def detached(self) -> bool: ...
    @property
    def closed(self) -> bool: ...
    def record(self, effect: TurnEffect) -> None: ...
    def settle(self) -> None: ...
    def note_reported(self) -> None: ...
    def detach(self) -> None: ...


class AgentToolsProtocol(Protocol):
    """The tools of one turn in one room, real (`AgentTools`) or fake (`FakeAgentTools`)."""

    @property
    def room_id(self) -> str: ...
    @property
    def agent_id(self) -> str | None: ...
    @property
    def turn(self) -> TurnLedger: ...
    @property
    def participants(self) -> list[dict[str, Any]]: ...
    @property
    def is_hub_room(self) -> bool: ...
    @property
    def features(self) -> AdapterFeatures | None: ...

    async def send_message(
        self,
        content: str,
        mentions: Sequence[str | Mapping[str, Any]] | str | None = None,
        *,
        attachment_ids: Sequence[str] | None = None,
    ) -> dict[str, Any] | None: ...
    async def send_event(
        self, content: str, message_type: str, metadata: Mapping[str, Any] | None = None
    ) -> dict[str, Any] | None: ...
    async def no_reply(self, reason: str | None = None) -> dict[str, Any]: ...
    async def add_participant(self, identifier: str, role: str = "member") -> dict[str, Any]: ...
    async def remove_participant(self, identifier: str) -> dict[str, Any]: ...
    async def lookup_peers(self, page: int = 1, page_size: int = 50) -> dict[str, Any]: ...
    async def get_participants(self) -> list[dict[str, Any]]: ...
    async def create_chatroom(self, task_id: str | None = None) -> str: ...
    async def list_contacts(self, page: int = 1, page_size: int = 50) -> dict[str, Any]: ...
    async def add_contact(self, handle: str, message: str | None = None) -> dict[str, Any]: ...
    async def remove_contact(
        self, handle: str | None = None, contact_id: str | None = None
    ) -> dict[str, Any]: ...
    async def list_contact_requests(
        self, page: int = 1, page_size: int = 50, sent_status: str = "pending"
    ) -> dict[str, Any]: ...
    async def respond_contact_request(
        self, action: str, handle: str | None = None, request_id: str | None = None
    ) -> dict[str, Any]: ...
    async def list_memories(
        self,
        subject_id: str | None = None,
        scope: str | None = None,
        system: str | None = None,
        type: str | None = None,  # noqa: A002 - the platform's word
        segment: str | None = None,
        content_query: str | None = None,
        status: str | None = None,
        page_size: int = 50,
    ) -> dict[str, Any]: ...
    async def store_memory(
        self,
        content: str,
        system: str,
        type: str,  # noqa: A002 - the platform's word
        segment: str,
        thought: str,
        scope: str,
        subject_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]: ...
    async def get_memory(self, memory_id: str) -> dict[str, Any]: ...
    async def supersede_memory(self, memory_id: str) -> dict[str, Any]: ...
    async def archive_memory(self, memory_id: str) -> dict[str, Any]: ...
    async def list_room_files(self, cursor: str | None = None) -> dict[str, Any]: ...
    async def read_room_file(self, file_id: str) -> dict[str, Any]: ...
    async def send_room_file(
        self,
        content: str,
        filename: str,
        caption: str = "",
        mentions: Sequence[str | Mapping[str, Any]] | str | None = None,
    ) -> dict[str, Any]: ...
    async def list_tasks(
        self, state: str | None = None, cursor: str | None = None, limit: int | None = None
    ) -> dict[str, Any]: ...
    async def create_task(
        self, subject: str, detail: str | None = None, supersedes_id: str | None = None
    ) -> dict[str, Any]: ...
    async def get_task(self, id: str, include: str | None = None) -> dict[str, Any]: ...  # noqa: A002
    async def update_task(
        self,
        id: str,  # noqa: A002 - the platform's word
        status: str | None = None,
        active_form: str | None = None,
        comment: str | None = None,
        subject: str | None = None,
        detail: str | None = None,
        state: str | None = None,
    ) -> dict[str, Any]: ...
    async def get_task_history(
        self,
        id: str,  # noqa: A002 - the platform's word
        cursor: str | None = None,
        limit: int | None = None,
    ) -> dict[str, Any]: ...
    async def get_board(self, include: str | None = None) -> dict[str, Any]: ...
    async def set_board(
        self, goal_title: str | None = None, goal_summary: str | None = None
    ) -> dict[str, Any]: ...
    async def send_notice(
        self, content: str, mentions: Sequence[str | Mapping[str, Any]] | str
    ) -> dict[str, Any] | None: ...
    async def deliver_reply(
        self, content: str, mentions: Sequence[str | Mapping[str, Any]] | str
    ) -> dict[str, Any] | None: ...
    async def deliver_notice(
        self, content: str, mentions: Sequence[str | Mapping[str, Any]] | str
    ) -> dict[str, Any] | None: ...
    async def send_failure(self, failure: Any) -> dict[str, Any] | None: ...
    async def fetch_room_context(
        self, *, room_id: str | None = None, cursor: str | None = None, limit: int = 50
    ) -> dict[str, Any]: ...
    def available_mention_handles(self) -> list[str]: ...
    def use_custom_tools(self, tools: CustomTools) -> None: ...
    @property
    def tool_models(self) -> dict[str, type[attrs.AttrsInstance]]: ...
    def get_openai_tool_schemas(
        self, *, capabilities: Iterable[Capability] | None = None
    ) -> list[dict[str, Any]]: ...
    def get_anthropic_tool_schemas(
        self, *, capabilities: Iterable[Capability] | None = None
    ) -> list[dict[str, Any]]: ...
    def get_tool_schemas(
        self,
        format: ToolFormat,  # noqa: A002 - the public word
        *,
        capabilities: Iterable[Capability] | None = None,
    ) -> list[dict[str, Any]]: ...
    async def execute_tool_call(
        self, name: str, args: Any, *, call_id: str | None = None
    ) -> Any: ...
    async def execute_tool_call_structured(
        self, name: str, args: Any, *, call_id: str | None = None
    ) -> ToolCallOutcome: ...


class RoomContext(Protocol):
    """What a preprocessor may see of a room: one room, one turn, read only."""

    @property
    def room_id(self) -> str: ...
    @property
    def agent_id(self) -> str: ...
    @property
    def hub_room_id(self) -> str | None: ...
    @property
    def rest(self) -> RestClient: ...
    @property
    def features(self) -> AdapterFeatures: ...
    @property
    def turn(self) -> TurnLedger: ...
    @property
    def participants(self) -> list[dict[str, Any]]: ...
    @property
    def is_session_bootstrap(self) -> bool: ...
    @property
    def participants_msg(self) -> str | None: ...
    @property
    def contacts_msg(self) -> str | None: ...
    async def load_history(self, message: Any) -> list[dict[str, Any]] | None: ...
    def commit_context(self) -> None: ...


class Preprocessor(Protocol):
    """Turns a claimed message into the input of a turn, or declines it."""

    async def process(self, ctx: RoomContext, event: Any, agent_id: str) -> AgentInput | None: ...


class FrameworkAdapter(Protocol):
    """The least an adapter is. `SimpleAdapter` adds the comfortable parts and is what to subclass."""

    async def on_event(self, inp: AgentInput) -> None: ...
    async def on_cleanup(self, room_id: str) -> None: ...
    async def on_started(self, agent_name: str, agent_description: str) -> None: ...


Hook = Callable[..., Awaitable[None] | None]
"""A callback of the application: async, or sync and then run in a worker thread."""

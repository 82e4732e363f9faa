"""Data and protocols that every layer shares: messages, features, and what an adapter is.

Nothing here does anything; it is the vocabulary of the package.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import attrs

from band_trio.features import (
    AdapterFeatures,
    AdapterKwargs,
    Capability,
    Emit,
    FeatureKwargs,
    MessageType,
    ToolCategory,
    ToolEventKey,
    TurnEffect,
)
from band_trio.tools_protocol import (
    AgentToolsProtocol,
    ToolCallOutcome,
    ToolFormat,
    TurnLedger,
)

if TYPE_CHECKING:
    from band_trio.link.rest import RestClient

__all__ = [
    "SYNTHETIC_CONTACT_EVENTS_SENDER_ID",
    "SYNTHETIC_CONTACT_EVENTS_SENDER_NAME",
    "SYNTHETIC_SENDER_TYPE",
    "AdapterFeatures",
    "AdapterKwargs",
    "AgentInput",
    "AgentToolsProtocol",
    "Capability",
    "Emit",
    "FeatureKwargs",
    "FrameworkAdapter",
    "HistoryConverter",
    "HistoryProvider",
    "Hook",
    "MessageType",
    "PlatformConnection",
    "PlatformMessage",
    "Preprocessor",
    "RoomContext",
    "ToolCallOutcome",
    "ToolCategory",
    "ToolEventKey",
    "ToolFormat",
    "TurnEffect",
    "TurnLedger",
    "TurnUsage",
    "delivery_status_for_agent",
    "is_contact_hub_turn",
    "poses_as_platform",
    "speaker_label",
    "speaker_line",
]

T_co = TypeVar("T_co", covariant=True)

SYNTHETIC_SENDER_TYPE: Final = "System"
SYNTHETIC_CONTACT_EVENTS_SENDER_ID: Final = "contact-events"
SYNTHETIC_CONTACT_EVENTS_SENDER_NAME: Final = "Contact Events"


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
        name = self.sender_name or self.sender_type or "Unknown"
        if self.sender_type != SYNTHETIC_SENDER_TYPE and poses_as_platform(name):
            name = f"{name} (participant)"
        return speaker_line(name, self.content)


_LABEL_CHARS: Final = 80
_INVISIBLE: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | {
    chr(c) for c in (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))
}
"""Letters and marks that leave no trace, beside what Unicode calls format characters."""
_LINE_ENDS: Final = re.compile("\r\n|[\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029]")


def _is_invisible(char: str) -> bool:
    category = unicodedata.category(char)
    return char in _INVISIBLE or (category in ("Cc", "Cf", "Cs") and char != "\t")


@lru_cache(maxsize=1024)
def speaker_label(name: str) -> str:
    """Return *name* as a label: one line, no brackets, no control or bidi characters, ≤ 80."""
    spaced = (
        " " if char.isspace() or unicodedata.category(char) == "Cc" else char for char in name
    )
    cleaned = "".join(char for char in spaced if char not in "[]" and not _is_invisible(char))
    return " ".join(cleaned.split())[:_LABEL_CHARS] or "Unknown"


def poses_as_platform(name: str) -> bool:
    """Tell whether a participant's name would look like the platform's own label."""
    label = unicodedata.normalize("NFKC", speaker_label(name))
    return label.casefold() == SYNTHETIC_SENDER_TYPE.casefold()


def speaker_line(name: str, content: str) -> str:
    """Return `[label]: content`, later lines that begin with `[` indented by two spaces.

    Every line end counts and becomes a newline; characters that nobody sees do not hide a `[`.
    """
    first, *rest = _LINE_ENDS.split(content)
    return "\n".join([f"[{speaker_label(name)}]: {first}", *map(_indented, rest)])


def _indented(line: str) -> str:
    seen = next((char for char in line if not _is_invisible(char) and char != " "), "")
    return f"  {line}" if seen == "[" and not line.startswith("  ") else line


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
    attempt: int = 1
    """Which run of this message it is, as far as anyone can tell. From 2 on `history` also holds
    what the agent itself has said since the message (`since_trigger`)."""


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
    `message_type`, `metadata` and `id`. Those at the end that have `since_trigger` (true) are our
    own and newer than the message of the turn: it is worked on again."""

    def convert(self, raw: list[dict[str, Any]]) -> T_co: ...


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
    def attempt(self) -> int: ...
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

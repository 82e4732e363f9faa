"""The data that every layer shares: messages, features, and what a call of a tool came to.

Nothing here does anything; it is the vocabulary of the package.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, Literal, Protocol, TypeVar

import attrs
import trio

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

__all__ = [
    "SYNTHETIC_CONTACT_EVENTS_SENDER_ID",
    "SYNTHETIC_CONTACT_EVENTS_SENDER_NAME",
    "SYNTHETIC_SENDER_TYPE",
    "AdapterFeatures",
    "AdapterKwargs",
    "Capabilities",
    "Capability",
    "Emit",
    "FeatureKwargs",
    "HistoryConverter",
    "HistoryProvider",
    "MessageType",
    "PlatformConnection",
    "PlatformMessage",
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


# --------------------------------------------------------------------------- tools


ToolFormat = Literal["openai", "anthropic"]

Capabilities = Iterable[Capability | str] | str | None
"""A capability or several, as members or as their texts; None for none."""


@attrs.frozen
class ToolCallOutcome:
    """What a call by name came to: a result, or a text that a model can act on."""

    value: Any
    """The JSON-safe result; the text of the failure where `ok` is false."""
    ok: bool
    error_message: str | None = None


class TurnLedger(Protocol):
    """What an adapter may do with the turn it runs in; see `band_trio.tools.ledger.Ledger`."""

    judged: bool

    @property
    def attempt(self) -> int:
        """Which run of the message this is, from 1; from 2 on it may have been answered already."""

    @property
    def nursery(self) -> trio.Nursery:
        """For work beside or after `on_message`; the turn ends when both have.

        Raises:
            TurnClosedError: the turn is over, or never had a nursery.
        """

    @property
    def replied(self) -> bool:
        """Whether something was said, or declined to be said."""

    @property
    def complete(self) -> bool:
        """Whether the turn did what a message asks for."""

    @property
    def detached(self) -> bool:
        """Whether the time limit of the turn is suspended."""

    @property
    def closed(self) -> bool:
        """Whether the turn is over; its tools then refuse every call."""

    def record(self, effect: TurnEffect) -> None:
        """Note what a tool call did that has succeeded."""

    def settle(self) -> None:
        """Declare the turn complete although nothing was said."""

    def note_reported(self) -> None:
        """Note that the room knows of the failure; it is not reported again."""

    def detach(self) -> None:
        """Suspend `max_cycle_seconds`, because the turn waits for a person."""


# --------------------------------------------------------------------------- protocols


class HistoryConverter(Protocol[T_co]):
    """Turns raw history items into what a model's API wants. Raw items are dicts with `role`
    (`assistant` for our own), `content`, `sender_name`, `sender_type`, `sender_id`,
    `message_type`, `metadata` and `id`. Those at the end that have `since_trigger` (true) are our
    own and newer than the message of the turn: it is worked on again."""

    def convert(self, raw: list[dict[str, Any]]) -> T_co:
        """Return the history, oldest first, as the model's API takes it; *raw* is not changed."""

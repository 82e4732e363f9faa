"""What happened in a room, as a conversation that every provider accepts.

`build_exchanges` reads raw history items and returns entries: texts of others, texts of our own,
and exchanges of tool calls with exactly one result each. The converters of this package write
the entries in the format of a provider.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

import attrs

from band_trio.converters.echoes import Echoes
from band_trio.converters.tool_events import ToolCallEvent, parse_tool_call, parse_tool_result
from band_trio.kit.hygiene import has_visible, without_surrogates
from band_trio.types import MessageType, poses_as_platform, speaker_label, speaker_line

INTERRUPTED_TOOL_TEXT: Final = "This call was interrupted; its result is unknown."
"""The result of a call that has none."""
EARLIER_TEXT: Final = "Earlier messages are not shown."
"""Goes first where the history would begin with our own words."""
SYSTEM_LABEL: Final = "System"

_BAD_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")
_NAME_CHARS: Final = 64


@attrs.frozen
class UserText:
    """Something that a participant, or the platform, said."""

    label: str
    text: str

    @property
    def line(self) -> str:
        """The text behind its speaker's name: `[label]: text`."""
        return speaker_line(self.label, self.text)


@attrs.frozen
class AssistantText:
    """Something that the agent said, and that no tool call of it accounts for."""

    text: str


@attrs.frozen
class Call:
    """One call of a tool. The id is fresh: stored ids may repeat or be unusable."""

    id: str
    name: str
    args: dict[str, Any]


@attrs.frozen
class Result:
    """What one call came to."""

    output: str
    is_error: bool = False


@attrs.frozen
class Exchange:
    """Calls made together, and one result for each, in the same order."""

    calls: tuple[Call, ...]
    results: tuple[Result, ...]


Entry = UserText | AssistantText | Exchange


def build_exchanges(raw: Iterable[Any]) -> list[Entry]:
    """Return the entries of *raw*, oldest first. Never raises, and changes nothing.

    Only tool events of the agent itself count. Results go to their calls; what has no call is
    dropped, and a call without a result gets `INTERRUPTED_TOOL_TEXT` as an error. Texts between
    a call and its result come right after the exchange. The echo of a message that a call sent
    is dropped. The first entry is a `UserText`.
    """
    entries = _order(_pair(raw))
    if entries and not isinstance(entries[0], UserText):
        entries.insert(0, UserText(SYSTEM_LABEL, EARLIER_TEXT))
    return entries


# --------------------------------------------------------------------------- pairing


@attrs.define(eq=False)
class _Pending:
    """A call on its way through the two passes."""

    event: ToolCallEvent
    batch: int
    """Equal for calls that follow each other directly."""
    result: Result | None = None


@attrs.frozen
class _Answer:
    """The place in the history where the result of a call arrived."""

    call: _Pending


@attrs.frozen
class _Text:
    """A text, our own where *label* is None."""

    label: str | None
    text: str


_Step = _Pending | _Answer | _Text


def _pair(raw: Iterable[Any]) -> list[_Step]:
    steps: list[_Step] = []
    calls: list[_Pending] = []
    batch = 0
    for item in raw:
        if not isinstance(item, Mapping):
            continue
        own = item.get("role") == "assistant"
        kind = item.get("message_type") or MessageType.TEXT
        if kind == MessageType.TOOL_CALL and own:
            event = parse_tool_call(item.get("content"))
            if event is not None:
                batch += not (steps and isinstance(steps[-1], _Pending))
                calls.append(_Pending(event, batch))
                steps.append(calls[-1])
        elif kind == MessageType.TOOL_RESULT and own:
            answer = _answered(item.get("content"), calls)
            if answer is not None:
                steps.append(answer)
        elif kind == MessageType.TEXT:
            text = _text(item, own=own)
            if text is not None:
                steps.append(text)
    return steps


def _answered(content: object, calls: list[_Pending]) -> _Answer | None:
    """Give a result to its call; None for a second result, or where the call is not there."""
    event = parse_tool_result(content)
    if event is None:
        return None
    same_id = [call for call in calls if call.event.tool_call_id == event.tool_call_id]
    matches = [call for call in same_id if call.result is None]
    if matches:
        # Some providers count their ids anew in each turn. What was called last is meant; of
        # calls made together, the first that still waits.
        latest = matches[-1].batch
        call = next(each for each in matches if each.batch == latest)
    else:
        named = [c for c in calls if c.event.name == event.name and c.result is None]
        if same_id or len(named) != 1:
            return None
        call = named[0]
    call.result = Result(without_surrogates(event.output), event.is_error)
    return _Answer(call)


def _text(item: Mapping[Any, Any], *, own: bool) -> _Text | None:
    content = item.get("content")
    if not isinstance(content, str) or not has_visible(content):
        return None
    content = without_surrogates(content)
    if own:
        return _Text(None, content)
    names = (item.get("sender_name"), item.get("sender_type"))
    name = next((each for each in names if isinstance(each, str) and each.strip()), "Unknown")
    label = _label(name)
    if poses_as_platform(label) and item.get("sender_type") != SYSTEM_LABEL:
        label = f"{label} (participant)"
    return _Text(label, content)


@lru_cache(maxsize=1024)
def _label(name: str) -> str:
    """Return the label of a speaker; the same few names come again and again."""
    return speaker_label(without_surrogates(name))


# --------------------------------------------------------------------------- ordering


@attrs.define
class _Order:
    """The second pass: an exchange that is open, and what waits behind it."""

    entries: list[Entry] = attrs.field(factory=list)
    calls: list[_Pending] = attrs.field(factory=list)
    waiting: int = 0
    """Calls of the open exchange whose results are still to come."""
    answered: int = 0
    held: list[_Text] = attrs.field(factory=list)
    echoes: Echoes = attrs.field(factory=Echoes)
    numbered: int = 0

    def call(self, call: _Pending) -> None:
        """A call joins the exchange that is open, or opens one."""
        if self.calls and not self.waiting and self.answered:
            self.close()
        self.calls.append(call)
        self.waiting += call.result is not None
        if call.result is None or not call.result.is_error:
            self.echoes.expect(call.event)

    def answer(self) -> None:
        """The last result that is to come closes the exchange."""
        self.waiting -= 1
        self.answered += 1
        if not self.waiting:
            self.close()

    def text(self, text: _Text) -> None:
        """A text waits for an open exchange; an echo goes nowhere."""
        if text.label is None and self.echoes.absorbs(text.text):
            return
        if self.waiting:
            self.held.append(text)
            return
        self.close()
        self.add(text)

    def close(self) -> None:
        """End the open exchange, if there is one."""
        if self.calls:
            self.entries.append(
                Exchange(
                    tuple(self.fresh(call.event) for call in self.calls),
                    tuple(call.result or _INTERRUPTED for call in self.calls),
                )
            )
        self.calls, self.waiting, self.answered = [], 0, 0
        held, self.held = self.held, []
        for text in held:
            self.add(text)

    def add(self, text: _Text) -> None:
        if text.label is None:
            self.entries.append(AssistantText(text.text))
        else:
            self.entries.append(UserText(text.label, text.text))

    def fresh(self, event: ToolCallEvent) -> Call:
        self.numbered += 1
        return Call(f"call_{self.numbered}", tool_name(event.name), event.args)


_INTERRUPTED: Final = Result(INTERRUPTED_TOOL_TEXT, is_error=True)


def _order(steps: list[_Step]) -> list[Entry]:
    order = _Order()
    for step in steps:
        if isinstance(step, _Pending):
            order.call(step)
        elif isinstance(step, _Answer):
            order.answer()
        else:
            order.text(step)
    order.close()
    return order.entries


def tool_name(name: str) -> str:
    """Return *name* as every provider takes it: `[A-Za-z0-9_-]{1,64}`."""
    return _BAD_NAME.sub("_", name)[:_NAME_CHARS] or "tool"

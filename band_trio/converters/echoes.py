"""The echo of a sent message: the room shows as text what a tool call of ours already tells."""

from __future__ import annotations

import re
from typing import Any, Final

import attrs

from band_trio.converters.tool_events import SHORTENED, ToolCallEvent
from band_trio.tools.conversation import strip_leading_mentions
from band_trio.tools.definitions import BandTool

_PREFIXES: Final = ("mcp__band__", "band-")
_SENDS: Final = frozenset({BandTool.SEND_MESSAGE.value, "create_agent_chat_message"})
_MARK: Final = "@[["
_MENTION: Final = re.compile(r"@\S+")
_LONG: Final = 4096
"""Only longer texts are shortened in events; in a short one the sign is the author's own."""


@attrs.frozen
class _Said:
    """What a call makes the room show: these pieces, and anything between them."""

    pieces: tuple[str, ...]
    marked: bool = False
    """It holds a raw mention, which the room shows as a handle that is not known here."""

    @classmethod
    def of(cls, content: str) -> _Said | None:
        plain, marked = _normal(content), _MARK in content
        if marked:
            plain = _MENTION.sub("@", plain)
        pieces = plain.split(SHORTENED) if len(plain) > _LONG else [plain]
        return cls(tuple(pieces), marked) if plain else None

    def shows_as(self, plain: str) -> bool:
        """Tell whether the normal text *plain* is this, in time linear in its length."""
        if self.marked:
            plain = _MENTION.sub("@", plain)
        first, *others = (piece.strip() for piece in self.pieces)
        if not others:
            return first == plain
        *middle, last = others
        if not plain.startswith(first) or not plain.endswith(last):
            return False
        at, end = len(first), len(plain) - len(last)
        for piece in middle:
            at = plain.find(piece, at, end)
            if at < 0:
                return False
            at += len(piece)
        return at <= end


@attrs.define
class Echoes:
    """Messages that calls have sent and whose texts were not met yet, oldest first."""

    _expected: list[_Said] = attrs.field(factory=list)

    def expect(self, call: ToolCallEvent) -> None:
        """Note what *call* says, if it is one that sends a message."""
        said = _said(_plain_name(call.name), call.args)
        if said is not None:
            self._expected.append(said)

    def absorbs(self, text: str) -> bool:
        """Tell whether *text* is an echo; each call absorbs one."""
        if not self._expected:
            return False
        plain = _normal(text)
        for index, each in enumerate(self._expected):
            if each.shows_as(plain):
                del self._expected[index]
                return True
        return False


def _plain_name(name: str) -> str:
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name


def _said(name: str, args: dict[str, Any]) -> _Said | None:
    if name in _SENDS:
        content = args.get("content")
        return _Said.of(content) if isinstance(content, str) else None
    if name != BandTool.SEND_ROOM_FILE:
        return None
    caption, filename = args.get("caption"), args.get("filename")
    if isinstance(caption, str) and caption.strip():
        return _Said.of(caption)
    if isinstance(filename, str) and filename.strip():  # the default caption names the file
        return _Said(("", _normal(filename), ""))
    return None


def _normal(text: str) -> str:
    return " ".join(strip_leading_mentions(text).split())

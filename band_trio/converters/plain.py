"""Roles and texts only, for models and frameworks that take no tool calls in a history."""

from __future__ import annotations

from typing import Any

from band_trio.converters.exchanges import AssistantText, UserText, build_exchanges

PlainMessage = dict[str, str]
"""`role` (`user` or `assistant`) and `content`."""


class PlainHistoryConverter:
    """Texts as `{"role", "content"}`, roles alternating, the first a user's. Calls are left out."""

    def convert(self, raw: list[dict[str, Any]]) -> list[PlainMessage]:
        """Return the messages of *raw*, oldest first."""
        messages: list[PlainMessage] = []
        for entry in build_exchanges(raw):
            if isinstance(entry, UserText):
                add_text(messages, "user", entry.line)
            elif isinstance(entry, AssistantText):
                add_text(messages, "assistant", entry.text)
        return messages


def add_text(messages: list[dict[str, Any]], role: str, text: str) -> None:
    """Append *text* to *messages*, as part of the last one where that has the same role."""
    last = messages[-1] if messages else None
    if last is None or last["role"] != role:
        messages.append({"role": role, "content": text})
        return
    messages[-1] = {**last, "content": joined(role, last["content"], text)}


def joined(role: str, *texts: str | None) -> str:
    """Join texts of one role. Lines of users carry their names, so a newline keeps them apart."""
    return ("\n" if role == "user" else "\n\n").join(text for text in texts if text)

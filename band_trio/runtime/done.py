"""Messages whose work is done although the platform does not take it in.

A `processed` may be refused for good and the message stay on the list, as when the agent left the
room for a moment; an interrupt may come before the claim is answered. When such a message is
claimed the next time, it is marked at once and nothing runs.
"""

from __future__ import annotations

from typing import Final

import attrs

PER_ROOM: Final = 64
"""Messages per room; beyond it the oldest is forgotten, and would run again."""
ROOMS: Final = 1024
"""Rooms with such messages; beyond it the least recent one is forgotten."""


@attrs.define(eq=False)
class DoneMessages:
    """Their ids by room; they outlive the membership in it."""

    _rooms: dict[str, dict[str, None]] = attrs.field(factory=dict, init=False)

    def add(self, room_id: str, message_id: str) -> None:
        """Note a message; the platform was not told, or did not accept it."""
        messages = self._rooms.pop(room_id, {})
        self._rooms[room_id] = messages
        messages.pop(message_id, None)
        messages[message_id] = None
        if len(messages) > PER_ROOM:
            del messages[next(iter(messages))]
        if len(self._rooms) > ROOMS:
            del self._rooms[next(iter(self._rooms))]

    def remove(self, room_id: str, message_id: str) -> None:
        """Let go of a message: the platform is being told."""
        if (messages := self._rooms.get(room_id)) is not None:
            messages.pop(message_id, None)
            if not messages:
                del self._rooms[room_id]

    def has(self, room_id: str, message_id: str) -> bool:
        """Tell whether a message needs no run, only a mark."""
        return message_id in self._rooms.get(room_id, ())

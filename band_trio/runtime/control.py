"""Control signals as state: applied synchronously by the dispatcher, in the order they arrive."""

from __future__ import annotations

from typing import Final

import attrs

from band_trio.protocol.events import Mode

REMEMBERED_IDS: Final = 32
"""Correlation ids per room; an older copy would act again, and the platform's answers correct it."""
REMEMBERED_ROOMS: Final = 1024
"""Rooms that are not served yet whose last stop or play is kept; the least recent is forgotten."""


@attrs.define(eq=False)
class RoomControl:
    """What a room knows of control signals; outlives a restart of the room's child."""

    stopped: bool = False
    revision: int = 0
    """Rises with each control; answers to older questions are thrown away."""
    plays: int = 0
    """Rises with each play: an answer that says "stopped" from before one is out of date."""
    _seen: dict[str, None] = attrs.field(factory=dict, init=False)

    def first_time(self, correlation_id: str) -> bool:
        """Note a control's id and tell whether it is new to this room."""
        if correlation_id in self._seen:
            return False
        self._seen[correlation_id] = None
        if len(self._seen) > REMEMBERED_IDS:
            del self._seen[next(iter(self._seen))]
        return True

    def apply(self, mode: Mode) -> None:
        """Change the state; what that means for a turn is the room's matter."""
        self.revision += 1
        if mode == "stop":
            self.stopped = True
        elif mode == "play":
            self.stopped = False
            self.plays += 1


@attrs.define(eq=False)
class UnservedControls:
    """The last stop or play of rooms that have no child yet."""

    everywhere: Mode | None = None
    """An agent-wide stop or play from before the first listing."""
    _rooms: dict[str, Mode] = attrs.field(factory=dict, init=False)

    def note(self, room_id: str, mode: Mode) -> None:
        """Keep a stop or play for a room; an interrupt has nothing to end there."""
        if mode == "interrupt":
            return
        self._rooms.pop(room_id, None)
        self._rooms[room_id] = mode
        if len(self._rooms) > REMEMBERED_ROOMS:
            del self._rooms[next(iter(self._rooms))]

    def take(self, room_id: str) -> Mode | None:
        """Return what was kept for a room that is about to be served, and forget it."""
        return self._rooms.pop(room_id, self.everywhere)

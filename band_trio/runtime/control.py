"""Control signals as state: applied synchronously by the dispatcher, in the order they arrive."""

from __future__ import annotations

from typing import Final

import attrs

from band_trio.protocol.events import Mode

REMEMBERED_IDS: Final = 32
"""Correlation ids per room; an older copy would act again, and the platform's answers correct it."""
REMEMBERED_ROOMS: Final = 1024
"""Rooms without a child whose controls are kept; the least recent is forgotten."""


@attrs.define(eq=False)
class RoomControl:
    """What a room knows of control signals; outlives a restart of the room's child."""

    stopped: bool = False
    revision: int = 0
    """Rises with each control; answers to older questions are thrown away."""
    plays: int = 0
    """Rises with each play: an answer that says "stopped" from before one is out of date."""
    _seen: dict[str, None] = attrs.field(factory=dict)

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

    def copy(self) -> RoomControl:
        """Return the control of a room to which the same signals apply."""
        return RoomControl(self.stopped, self.revision, self.plays, dict(self._seen))


@attrs.define(eq=False)
class UnservedControls:
    """What rooms without a child know of control signals, copies included."""

    _everywhere: RoomControl = attrs.field(factory=RoomControl, init=False)
    """Agent-wide controls from before the first listing; where a room's control begins."""
    _rooms: dict[str, RoomControl] = attrs.field(factory=dict, init=False)

    def note(self, room_id: str, mode: Mode, correlation_id: str) -> None:
        """Apply a control to a room that may be served later."""
        control = self.take(room_id)
        if control.first_time(correlation_id):
            control.apply(mode)
        self._rooms[room_id] = control  # at the end: the most recent one
        if len(self._rooms) > REMEMBERED_ROOMS:
            del self._rooms[next(iter(self._rooms))]

    def note_everywhere(self, mode: Mode, correlation_id: str) -> None:
        """Apply a control to every room of the first listing."""
        for control in (self._everywhere, *self._rooms.values()):
            if control.first_time(correlation_id):
                control.apply(mode)

    def listed(self) -> None:
        """Forget what was for the rooms of the first listing: they are all served."""
        self._everywhere = RoomControl()

    def take(self, room_id: str) -> RoomControl:
        """Return what a room that is about to be served begins with, and let go of it."""
        return self._rooms.pop(room_id, None) or self._everywhere.copy()

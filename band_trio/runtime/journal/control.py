"""Control signals as state: applied synchronously by the dispatcher, in the order they arrive."""

from __future__ import annotations

from typing import Final

import attrs

from band_trio.protocol.events import Mode

REMEMBERED_IDS: Final = 32
"""Correlation ids per room; an older copy would act again, and the platform's answers correct it."""


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

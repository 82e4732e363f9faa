"""What the tools of a running turn tell its room."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import trio

from band_trio.runtime.turn.roster import Roster
from band_trio.trace import Posted, Tracer


@attrs.frozen(eq=False)
class RoomTurnListener:
    """Implements `TurnListener` for one turn of a room."""

    _room_id: str
    _scope: trio.CancelScope
    _roster: Roster
    _tracer: Tracer
    _on_stopped: Callable[[], None]

    def stop_observed(self) -> None:
        """Stop the room as if the signal had been pushed."""
        self._on_stopped()

    def participant_seen(self, participant: Mapping[str, Any]) -> None:
        """Somebody was added by a tool: part of the roster at once."""
        self._roster.added(participant)

    def participant_gone(self, participant_id: str) -> None:
        """Somebody was removed by a tool."""
        self._roster.removed(participant_id)

    def roster_read(self, participants: list[dict[str, Any]]) -> None:
        """A tool has read the whole roster."""
        self._roster.replace(participants)

    def detached(self) -> None:
        """Suspend `max_cycle_seconds`: the turn waits for a person."""
        self._scope.deadline = math.inf

    def posted(self, kind: str, outcome: str) -> None:
        """Trace a post."""
        self._tracer(Posted(self._room_id, kind, outcome))

"""The journals of all rooms, served or not.

A journal is there for as long as its room is served, or a verdict of it is not confirmed. Beyond
that some are kept: controls for rooms that are not served yet, work that is owed a mark.
"""

from __future__ import annotations

from typing import Final, Protocol

import attrs
import trio

from band_trio.config.agent import SessionConfig
from band_trio.kit.token_bucket import TokenBucket
from band_trio.protocol.events import Mode
from band_trio.runtime.journal.control import RoomControl
from band_trio.runtime.journal.entries import Phase
from band_trio.runtime.journal.journal import Journal
from band_trio.runtime.journal.reads import Paced, Reads

REMEMBERED: Final = 1024
"""Journals that are kept although nothing has to be told; the least recent one is forgotten. A
control that is forgotten is found by the platform's answers, work that was done would run again."""


class Served(Protocol):
    """A room that is served now."""

    def observe_stop(self, plays: int) -> None:
        """An answer of the platform says that the agent is stopped here; acts like a stop."""

    def ring(self) -> None:
        """Look at the journal again."""


@attrs.define(eq=False)
class Journals:
    """room id → journal."""

    _agent_id: str
    _session: SessionConfig
    _rate: float
    """Reads per second of all rooms together that nothing but the passing of time asks for."""
    served: dict[str, Served] = attrs.field(factory=dict, init=False)
    """The rooms that are served now; kept by them."""
    _polls: TokenBucket = attrs.field(init=False)
    _probes: TokenBucket = attrs.field(init=False)
    """Of stopped rooms: a play that was missed is not found behind the polls of all others."""
    _all: dict[str, Journal] = attrs.field(factory=dict, init=False)
    _everywhere: RoomControl = attrs.field(factory=RoomControl, init=False)
    """Agent-wide controls from before the first listing; where a room's controls begin."""

    def __attrs_post_init__(self) -> None:
        self._polls, self._probes = TokenBucket(self._rate), TokenBucket(self._rate)

    def of(self, room_id: str) -> Journal:
        """Return the journal of a room; a new one where there is none."""
        journal = self._all.pop(room_id, None)
        if journal is None:
            reads = Reads(self._session, Paced(self._polls), Paced(self._probes))
            controls = self._everywhere.copy()
            journal = Journal(room_id, self._agent_id, self._session, reads, controls)
        self._all[room_id] = journal  # at the end: the most recent one
        return journal

    def release(self, journal: Journal) -> None:
        """Let go of a journal, unless its room is served or something in it is still of use."""
        room_id = journal.room_id
        if room_id in self.served or self._all.get(room_id) is not journal:
            return
        if journal.of_no_use:
            del self._all[room_id]
        if len(self._all) > len(self.served) + REMEMBERED:
            spare = (
                id_ for id_, each in self._all.items()
                if id_ not in self.served and not each.unsettled
            )  # fmt: skip
            if (oldest := next(spare, None)) is not None:
                del self._all[oldest]

    # ------------------------------------------------------------------ controls

    def control(self, room_id: str, mode: Mode, correlation_id: str) -> None:
        """Apply a control to a room that is not served (yet)."""
        journal = self.of(room_id)
        journal.control(mode, trio.current_time(), correlation_id)
        self.release(journal)

    def control_everywhere(self, mode: Mode, correlation_id: str) -> None:
        """Apply a control to every room of the first listing."""
        if self._everywhere.first_time(correlation_id):
            self._everywhere.apply(mode)
        for room_id in [*self._all]:
            if room_id not in self.served:
                self.control(room_id, mode, correlation_id)

    def listed(self) -> None:
        """Forget what was for the rooms of the first listing: they are all served."""
        self._everywhere = RoomControl()

    def observe_stop(self, room_id: str, plays: int) -> None:
        """An answer said that the agent is stopped in a room; *plays*: those known when asked."""
        journal = self._all.get(room_id)
        if (room := self.served.get(room_id)) is not None:
            room.observe_stop(plays)
        elif journal is not None and plays == journal.controls.plays:
            journal.control("stop", trio.current_time())

    def ring(self, room_id: str) -> None:
        """Have a room look at its journal again."""
        if (room := self.served.get(room_id)) is not None:
            room.ring()

    # ------------------------------------------------------------------ verdicts

    def hurry(self) -> None:
        """Let every verdict be tried again as soon as told waits allow."""
        now = trio.current_time()
        for journal in self._all.values():
            journal.hurry(now)

    def unsettled(self) -> int:
        """Return how many verdicts the platform has not confirmed."""
        return sum(journal.unsettled for journal in self._all.values())

    def oldest(self) -> float:
        """Return the seconds since the oldest of them was made; 0 without one."""
        since = [
            entry.mark.since
            for journal in self._all.values()
            for entry in journal.entries.of(Phase.DECIDED)
            if entry.mark is not None
        ]
        return trio.current_time() - min(since) if since else 0.0

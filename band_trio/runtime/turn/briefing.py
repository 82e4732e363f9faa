"""What the turns of one room are told: its people, its history, its system lines.

All three are committed together, and only when a turn was judged complete; until then the next
turn is told the same again.
"""

from __future__ import annotations

import logging
from itertools import islice
from typing import Any, Final

import attrs
import trio

from band_trio.errors import BandError
from band_trio.kit.backoff import half_jitter
from band_trio.kit.limiter import work_of
from band_trio.kit.logs import RepeatedLog
from band_trio.protocol.rest import ChatMessage, Page
from band_trio.protocol.structure import MOST_ITEMS
from band_trio.runtime.turn.history import HistoryWalk, SaidSince
from band_trio.runtime.turn.room_context import TurnContext
from band_trio.runtime.turn.roster import Roster
from band_trio.runtime.turn.services import RoomServices
from band_trio.runtime.turn.system_lines import SystemLines
from band_trio.tools.conversation import (
    SINCE_TRIGGER,
    build_participants_message,
    format_history_for_llm,
)
from band_trio.tools.ledger import Ledger
from band_trio.trace import Read

_repeated: Final = RepeatedLog(logging.getLogger(__name__))

ROSTER_TRIES: Final = 2
HISTORY_TRIES: Final = 3
RETRY_SECONDS: Final = 0.5
"""Base of the wait between tries of one load."""


@attrs.define(eq=False)
class Briefing:
    """The context of one room child."""

    _room_id: str
    _services: RoomServices
    roster: Roster = attrs.field(factory=Roster, init=False)
    _lines: SystemLines | None = attrs.field(default=None, init=False)
    _bootstrapped: bool = attrs.field(default=False, init=False)
    _lost: bool = attrs.field(default=False, init=False)
    """Whether the last load of the history failed: never taken for "empty, bootstrap done"."""
    _walk: HistoryWalk | None = attrs.field(default=None, init=False)
    _place: str | None = attrs.field(default=None, init=False)
    """Cursor of the page on which a load met its message; None is the beginning."""
    _telling: trio.CancelScope | None = attrs.field(default=None, init=False)
    """Around the callbacks that are running."""

    # ------------------------------------------------------------------ before a turn

    async def refresh(self, message: ChatMessage) -> None:
        """Load the roster, and run the callbacks for who came and went.

        It is loaded where it is stale, or does not know who *message* is from or mentions: the
        event of their coming may be lost.
        """
        roster, named = self.roster, _named(message, self._services.me.id)
        unknown = [each for each in named if each not in roster.people]
        if roster.stale or (unknown and roster.misses(unknown)):
            await self._load_roster()
            roster.note_read_for(named)  # after one that failed the next turn reads anyway
        if roster.waiting:
            await self.run_callbacks()

    async def _load_roster(self) -> None:
        services = self._services
        with trio.move_on_after(services.session.roster_seconds):
            for attempt in range(ROSTER_TRIES):
                if attempt:
                    await trio.sleep(half_jitter(attempt - 1, RETRY_SECONDS, RETRY_SECONDS))
                if await self._read_roster():
                    return
        _repeated.warning(
            "room %s: the roster could not be read; the last one is used", self._room_id
        )

    async def _read_roster(self) -> bool:
        self.roster.begin_load()
        page = None
        try:
            page = await self._services.rest.list_participants(self._room_id)
        except BandError as exc:
            _repeated.log(
                logging.INFO, "room %s: reading the roster failed: %s", self._room_id, exc
            )
        finally:
            if page is None:
                self.roster.fail_load()
        self._services.tracer(Read(self._room_id, "participants"))
        if page is None:
            return False
        # The agent itself is a participant, so a true list is never empty.
        complete = bool(page.items) and not page.dropped
        people = [attrs.asdict(person) for person in page.items]
        self.roster.finish_load(people, complete=complete)
        return True

    async def run_callbacks(self) -> None:
        """Tell the application who came and who went, in order; failures are noted.

        After `hook_seconds` no further one begins: what is left then is told next time. So is one
        that was cut off because the turn or the room has to end.
        """
        services = self._services
        seconds = services.session.hook_seconds
        deadline = trio.current_time() + seconds
        with work_of(self._room_id), trio.CancelScope() as self._telling:
            for change in self.roster.changes():
                now = trio.current_time()
                if now >= deadline:
                    break
                name = "on_participant_added" if change.added else "on_participant_removed"
                hook = getattr(services.app.callbacks, name)
                if hook is not None:
                    what, args = (
                        f"{name} in room {self._room_id}",
                        (self._room_id, dict(change.person)),
                    )
                    bound = trio.move_on_at(now + seconds)
                    await services.app.hooks.guard(what, hook, args, bound=bound)
        self._telling = None

    def end_callbacks(self) -> None:
        """Cut off callbacks that are running: the room has to stop or to end."""
        if self._telling is not None:
            self._telling.cancel(reason="the room has to stop or to end")

    # ------------------------------------------------------------------ one turn

    def context(self, ledger: Ledger, attempt: int = 1) -> TurnContext:
        """Return the view of this room for one turn; *attempt* is which run of its message."""
        services, roster = self._services, self.roster
        lines, upto = self._lines.pending() if self._lines else (None, 0)
        ledger.attempt = attempt
        snapshot, people, news = roster.told()
        return TurnContext(
            room_id=self._room_id,
            agent_id=services.me.id,
            hub_room_id=services.hub.room_id,
            rest=services.rest,
            features=services.app.adapter.features,
            turn=ledger,
            is_session_bootstrap=not self._bootstrapped,
            participants_msg=self._roster_text(people) if news else None,
            contacts_msg=lines,
            participants=people,
            source=self,
            roster=snapshot,
            attempt=attempt,
            lines=upto,
        )

    def commit(self, told: TurnContext) -> None:
        """A turn that was told this has been completed."""
        if not self._lost:
            self._bootstrapped, self._walk = True, None
        self.roster.committed = told.roster
        if self._lines:
            self._lines.commit(told.lines)

    def _roster_text(self, people: list[dict[str, Any]]) -> str:
        return build_participants_message(people, agent_id=self._services.me.id)

    def inject_system_message(self, line: str) -> None:
        """Tell the next turn something that no participant said."""
        if self._lines is None:
            self._lines = SystemLines(self._services.session.system_lines)
        self._lines.add(line)

    # ------------------------------------------------------------------ history

    async def load_history(
        self, trigger: ChatMessage, attempt: int = 1
    ) -> list[dict[str, Any]] | None:
        """Return what was said before *trigger*, and from attempt 2 on what we have said since.

        The first part only until the bootstrap is done. None if it could not be read.
        """
        session = self._services.session
        if not session.enable_context_hydration or (self._bootstrapped and attempt == 1):
            return []
        rows = None
        with trio.move_on_after(session.history_seconds):
            rows = await self._try_load(trigger, again=attempt > 1)
        self._lost = rows is None
        if rows is None:
            _repeated.warning(
                "room %s: the history could not be read; the turn runs without", self._room_id
            )
            return None
        before, since = (self._items(each) for each in rows)
        return before + [{**item, SINCE_TRIGGER: True} for item in since]

    def _items(self, rows: list[ChatMessage]) -> list[dict[str, Any]]:
        people = list(self.roster.people.values())
        return format_history_for_llm(rows, agent_id=self._services.me.id, participants=people)

    async def _try_load(
        self, trigger: ChatMessage, *, again: bool
    ) -> tuple[list[ChatMessage], list[ChatMessage]] | None:
        since: SaidSince | None = None
        for attempt in range(HISTORY_TRIES):
            if attempt:
                await trio.sleep(half_jitter(attempt - 1, RETRY_SECONDS, 4 * RETRY_SECONDS))
            try:
                before = [] if self._bootstrapped else await self._before(trigger)
                if not again:
                    return before, []
                since = since or self._since(trigger)
                return before, await since.read(self._read_page)
            except BandError as exc:
                _repeated.log(
                    logging.INFO, "room %s: reading the history failed: %s", self._room_id, exc
                )
            finally:
                if since is not None:  # the next load goes on from there
                    self._place = since.place
        return None

    def _since(self, trigger: ChatMessage) -> SaidSince:
        services = self._services
        size = services.session.max_context_messages
        return SaidSince(trigger, services.me.id, size, self._place)

    async def _before(self, trigger: ChatMessage) -> list[ChatMessage]:
        if self._walk is None:
            self._walk = HistoryWalk(self._services.session.max_context_messages)
        rows = await self._walk.before(trigger, self._read_page)
        self._place = self._walk.place
        return rows

    async def _read_page(self, cursor: str | None) -> Page[ChatMessage]:
        page = await self._services.rest.get_context(self._room_id, cursor)
        self._services.tracer(Read(self._room_id, "context"))
        return page


def _named(message: ChatMessage, own_id: str) -> set[str]:
    """Return the ids of who wrote *message* and whom it mentions or refers to, without our own."""
    ids = {message.sender_id}
    entries = message.metadata.get("mentions")
    for entry in islice(entries, MOST_ITEMS) if isinstance(entries, list) else ():
        each = entry.get("id") if isinstance(entry, dict) else None
        if isinstance(each, str):
            ids.add(each)
    ids.discard(own_id)
    return ids

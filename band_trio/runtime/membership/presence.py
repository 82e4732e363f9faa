"""Which rooms are wanted, and one child for each: the platform's memberships made real.

Pushes and listings only change values; one task compares them with the children and starts what
is missing. A room that is wanted again while its old child still ends gets a fresh one after it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial
from typing import Final

import attrs
import trio

from band_trio.config.agent import RoomFilter
from band_trio.kit.backoff import half_jitter
from band_trio.kit.bell import Bell
from band_trio.kit.hygiene import traceback_text
from band_trio.kit.leaves import leaf_errors, program_end
from band_trio.kit.nurseries import hidden_nursery
from band_trio.link.channel.topics import TopicTable
from band_trio.protocol.events import Mode, chat_room, room_participants
from band_trio.runtime.hooks import contained
from band_trio.runtime.journal.journal import Journal
from band_trio.runtime.listing import RoomListing
from band_trio.runtime.problems import Problems
from band_trio.runtime.room.execution import ExecutionContext
from band_trio.runtime.room.journals import Journals
from band_trio.runtime.room.settler import Settler
from band_trio.runtime.turn.services import RoomServices
from band_trio.trace import RoomServed

_log: Final = logging.getLogger(__name__)

RESTART_BASE: Final = 1.0
RESTART_CAP: Final = 60.0
"""A room that breaks is started again after 1, 2, 4 … seconds, at most this."""


@attrs.define(eq=False)
class Membership:
    """One room the agent is, or was until its child has ended, a member of."""

    room_id: str
    generation: int = 0
    """Rises with each withdrawal; a child serves one generation."""
    wanted: bool = False
    child: ExecutionContext | None = None
    """The child of this generation; None while there is none, or it is being started again."""
    leaving: ExecutionContext | None = None
    """The child of an earlier generation that has not ended; nothing is routed to it."""
    served: bool = False
    """Whether a task serves it."""
    bell: Bell = attrs.field(factory=Bell)
    """Wakes that task while it waits to start a broken child again."""


@attrs.define(eq=False)
class RoomPresence:
    """All memberships of the agent."""

    _services: RoomServices
    _journals: Journals
    _settler: Settler
    _problems: Problems
    _topics: TopicTable
    """The wanted ones."""
    _nursery: trio.Nursery
    """The rooms': children live there and can be ended in order even if `serve` breaks."""
    _filter: RoomFilter | None
    listed: bool = attrs.field(default=False, init=False)
    """Whether a listing has succeeded in this run."""
    _memberships: dict[str, Membership] = attrs.field(factory=dict, init=False)
    _arrivals: dict[str, str | None] = attrs.field(factory=dict, init=False)
    """Rooms that were announced, with their title, and not looked at yet."""
    _bell: Bell = attrs.field(factory=Bell, init=False)
    """Rung when a room comes or goes."""
    _installed: trio.Event = attrs.field(factory=trio.Event, init=False)
    """Set, and replaced, when a room has a child."""
    _ended: Bell = attrs.field(factory=Bell, init=False)
    """Rung when a room is served no longer."""

    # ------------------------------------------------------------------ told by the dispatcher: sync

    def rooms(self) -> Iterator[ExecutionContext]:
        """Yield the children of all rooms that are wanted."""
        for membership in self._memberships.values():
            if membership.wanted and membership.child is not None:
                yield membership.child

    def stalled(self) -> list[str]:
        """Return the rooms whose turn was told to end and does not, left ones included."""
        return [
            membership.room_id
            for membership in self._memberships.values()
            for room in (membership.child, membership.leaving)
            if room is not None and room.stalled
        ]

    def starting(self) -> int:
        """Return how many rooms are wanted and have no child yet."""
        return sum(m.wanted and m.child is None for m in self._memberships.values())

    def room(self, room_id: str) -> ExecutionContext | None:
        """Return the child that serves a room now."""
        membership = self._memberships.get(room_id)
        return membership.child if membership is not None and membership.wanted else None

    async def wait_served(self, room_id: str) -> ExecutionContext:
        """Return the child that serves a room, once there is one."""
        while (room := self.room(room_id)) is None:
            await self._installed.wait()
        return room

    def added(self, room_id: str, title: str | None) -> None:
        """The agent is in a room."""
        self._services.lister.heard_of(room_id)
        self._arrivals[room_id] = title
        self._bell.ring()

    def removed(self, room_id: str) -> None:
        """The agent is no longer in a room: unrouted at once, its turn ends.

        Such a push may be late or a copy, hence the listing, which puts a mistake right.
        """
        self._services.lister.heard_of(room_id)
        self._arrivals.pop(room_id, None)
        membership = self._memberships.get(room_id)
        if membership is not None and membership.wanted:
            self._withdraw(membership)
        self.relist()

    def control(self, room_id: str, mode: Mode, correlation_id: str) -> None:
        """Apply a control to one room, served or not."""
        if (room := self.room(room_id)) is not None:
            room.control(mode, correlation_id)
        else:
            self._journals.control(room_id, mode, correlation_id)

    def control_all(self, mode: Mode, correlation_id: str) -> None:
        """Apply a control to every room, starting ones included."""
        if not self.listed:
            self._journals.control_everywhere(mode, correlation_id)
        for room_id in [*self._memberships, *self._arrivals]:
            self.control(room_id, mode, correlation_id)

    def relist(self) -> None:
        """Ask for a listing."""
        self._services.lister.ask()

    def new_epoch(self) -> None:
        """The socket was replaced: list again, and every room looks at the platform again."""
        for room in self.rooms():
            room.new_epoch()
        self._journals.hurry()
        self._settler.nudge()
        self._services.lister.new_epoch()

    # ------------------------------------------------------------------ start and end

    async def first_listing(self) -> None:
        """List the rooms and start their children; errors come out, after one try of each page.

        Rooms of all pages; children start dirty, their topics become desired.
        """
        self._converge(await self._services.lister.read(one_try=True))
        self._reconcile()

    def close(self) -> None:
        """Admission is closed, as `lifecycle.closing` says: tell the rooms, which start no new turn."""
        for membership in self._memberships.values():
            if membership.child is not None:
                membership.child.close()
            membership.bell.ring()
        self._bell.ring()

    def cut_off(self) -> None:
        """The grace is over: end all running turns."""
        for membership in self._memberships.values():
            if membership.child is not None:
                membership.child.cut_off()

    async def wait_empty(self) -> None:
        """Wait until no room is served any more."""
        while any(membership.served for membership in self._memberships.values()):
            await self._ended.wait()

    def unfinished(self) -> list[str]:
        """Return the ids of rooms whose child has not ended."""
        return [m.room_id for m in self._memberships.values() if m.served]

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep children and memberships together, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._follow_listings)
            task_status.started()
            while True:
                await self._bell.wait()
                self._reconcile()

    # ------------------------------------------------------------------ listing

    async def _follow_listings(self) -> None:
        """Read whenever the listing is due, until admission closes; no room waits for it."""
        while (listing := await self._services.lister.next()) is not None:
            self._converge(listing)
        await trio.sleep_forever()  # its end would be that of a part

    def _converge(self, listing: RoomListing) -> None:
        """Follow a listing: rooms that it has arrive, those that it disproves are left."""
        for room_id, title in listing.rooms.items():
            if room_id not in listing.newer and not self._is_served(room_id):
                self._arrivals[room_id] = title
        for membership in list(self._memberships.values()):
            if membership.wanted and listing.disproves(membership.room_id):
                self._withdraw(membership)
        self.listed = True
        self._bell.ring()

    def _is_served(self, room_id: str) -> bool:
        membership = self._memberships.get(room_id)
        return membership is not None and membership.wanted

    # ------------------------------------------------------------------ children

    def _withdraw(self, membership: Membership) -> None:
        membership.wanted = False
        membership.generation += 1
        self._topics.unwant(chat_room(membership.room_id))
        self._topics.unwant(room_participants(membership.room_id))
        if membership.child is not None:
            membership.child.leave()
            membership.leaving, membership.child = membership.child, None
        self._journals.of(membership.room_id).forget_controls()
        if not membership.served:
            del self._memberships[membership.room_id]
        membership.bell.ring()
        self._bell.ring()

    def _reconcile(self) -> None:
        """Take arrivals in and start a child where one is missing."""
        arrivals, self._arrivals = self._arrivals, {}
        if self._services.lifecycle.closing:
            return
        for room_id, title in arrivals.items():
            if self._is_wanted(room_id, title):
                self._admit(room_id)
        for membership in list(self._memberships.values()):
            if membership.wanted and not membership.served:
                self._start(membership)
        if self.listed:  # the journals of its rooms are made by now
            self._journals.listed()

    def _is_wanted(self, room_id: str, title: str | None) -> bool:
        wanted = self._filter
        if wanted is None or room_id == self._services.hub.room_id:
            return True
        what = f"room_filter for room {room_id}, which is not served,"
        return contained(what, lambda: bool(wanted(room_id, title)), otherwise=False)

    def _admit(self, room_id: str) -> None:
        self._memberships.setdefault(room_id, Membership(room_id)).wanted = True

    def _start(self, membership: Membership) -> None:
        membership.served = True
        self._journals.of(membership.room_id)  # with the controls that came before
        self._topics.want(chat_room(membership.room_id))
        self._topics.want(room_participants(membership.room_id))
        # That of now: the membership may be over before the task takes its first step.
        serve = partial(self._serve_room, membership, membership.generation)
        self._nursery.start_soon(serve, name=f"room {membership.room_id}")

    async def _serve_room(self, membership: Membership, generation: int) -> None:
        """Run the child of one generation, again after it broke, until it has ended for good."""
        failures = 0
        journal = self._journals.of(membership.room_id)
        try:
            if membership.generation != generation:
                return  # over before it began: there is nothing to clean up
            began = trio.current_time()
            journal.begin(began, joined=False)
            while not await self._run_child(membership, generation, journal):
                if trio.current_time() - began > RESTART_CAP:
                    failures = 0  # it has worked for a while: this is a new story
                due = trio.current_time() + half_jitter(failures, RESTART_BASE, RESTART_CAP)
                failures += 1
                while trio.current_time() < due and not self._is_over(membership, generation):
                    await membership.bell.wait_until(due)
                began = trio.current_time()
                journal.begin(began, joined=True)
        finally:
            membership.served, membership.child, membership.leaving = False, None, None
            self._journals.served.pop(membership.room_id, None)
            if membership.generation != generation:
                journal.left()
            self._settler.keep(journal)
            self._journals.release(journal)
            if not membership.wanted:
                del self._memberships[membership.room_id]
            self._ended.ring()
            self._bell.ring()

    async def _run_child(self, membership: Membership, generation: int, journal: Journal) -> bool:
        """Run one child.

        True: its membership needs no further child. False: it broke before its clean-up, and is
        started again.
        """
        only_cleans_up, cleaned_up = self._is_over(membership, generation), False
        try:
            async with hidden_nursery(f"room {membership.room_id}") as nursery:
                room = ExecutionContext(journal, self._services, self._settler, nursery)
                self._install(membership, generation, room)
                try:
                    await room.run()
                finally:
                    cleaned_up = room.cleaned_up
                nursery.cancel_scope.cancel(reason="the room has ended")
        except trio.Cancelled:
            raise
        except BaseException as exc:  # noqa: ASYNC103, BLE001 - logged and noted
            membership.child = None
            self._note_broken(membership.room_id, exc)
            return cleaned_up or only_cleans_up  # noqa: ASYNC104 - the same
        return True

    def _install(self, membership: Membership, generation: int, room: ExecutionContext) -> None:
        self._journals.served[membership.room_id] = room
        if membership.generation != generation:
            membership.leaving = room
            room.leave()
            return
        membership.child = room
        self._installed.set()
        self._installed = trio.Event()
        if self._services.lifecycle.closing:
            room.close()
        else:
            self._services.tracer(RoomServed(membership.room_id))

    def _note_broken(self, room_id: str, exc: BaseException) -> None:
        if (end := program_end(exc)) is not None:
            self._services.lifecycle.fail(end)
            return
        _log.error("room %s broke and is started again\n%s", room_id, traceback_text(exc))
        names = ", ".join(type(leaf).__name__ for leaf in leaf_errors(exc))
        self._problems.note(f"room {room_id} broke: {names}")

    def _is_over(self, membership: Membership, generation: int) -> bool:
        """Tell whether a child of this generation has nothing left to do but to clean up."""
        return membership.generation != generation or self._services.lifecycle.closing

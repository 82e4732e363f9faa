"""Who is in a room: loaded from the platform, kept up by events, told to turns when it changes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import attrs

from band_trio.tools.core import ROSTER_FIELDS

EVENTS: Final = 64
"""Events kept while the roster is being loaded, and changes kept for callbacks; when there are
more, the roster becomes stale and is read again."""
STRANGERS: Final = 64
"""Ids kept that a read did not show; when there are more, the oldest is asked for again."""

Person = dict[str, Any]
People = Mapping[str, Person]
"""People by id. What was handed out is never changed, neither the mapping nor a person."""

_NOBODY: Final[dict[str, Person]] = {}


@attrs.frozen
class Change:
    """Somebody came or went."""

    added: bool
    person: Person


@attrs.define(eq=False)
class Roster:
    """The people of one room by id.

    A room that is idle keeps one of these, so it makes nothing before it is needed.
    """

    stale: bool = attrs.field(default=True, init=False)
    """Whether it must be read before the next turn."""
    people: People = attrs.field(default=_NOBODY, init=False)
    known: bool = attrs.field(default=False, init=False)
    """Whether it was ever read: before that, nobody has "come in"."""
    _own: dict[str, Person] | None = attrs.field(default=None, init=False)
    """`people`, as long as nobody was given it: then it may be changed."""
    committed: People = attrs.field(default=_NOBODY, init=False)
    """What the last turn that has done its work was told."""
    _during_load: list[Change] | None = attrs.field(default=None, init=False)
    waiting: list[Change] | None = attrs.field(default=None, init=False)
    """Who came or went and was not told yet."""
    _strangers: dict[str, None] | None = attrs.field(default=None, init=False)
    """Ids that a read did not show, oldest first; until somebody comes or goes."""

    # ------------------------------------------------------------------ events

    def added(self, person: Mapping[str, Any]) -> None:
        """Somebody is in the room: from an event, or from a tool that added them."""
        self._take(Change(added=True, person=_fields(person)))

    def removed(self, person_id: str) -> None:
        """Somebody is no longer in the room."""
        self._take(Change(added=False, person={"id": person_id}))

    def _take(self, change: Change) -> None:
        self._strangers = None
        if self._during_load is None:
            self._apply(change)
        elif len(self._during_load) < EVENTS:
            self._during_load.append(change)
        else:
            self.stale = True  # too many to keep: what is being loaded is read once more

    def _apply(self, change: Change) -> None:
        person_id = change.person["id"]
        before = self.people.get(person_id)
        if change.added:
            # Fields merge, and what is missing or null erases nothing.
            person = {**(before or {}), **change.person}
            if person != before:
                self._changeable()[person_id] = person
            if before is None:
                self._note(Change(added=True, person=person))
        elif before is not None:
            del self._changeable()[person_id]
            self._note(Change(added=False, person=before))

    def _changeable(self) -> dict[str, Person]:
        if self._own is None:
            self.people = self._own = dict(self.people)
        return self._own

    def _note(self, change: Change) -> None:
        if not self.known:
            return
        if self.waiting is None:
            self.waiting = []
        elif len(self.waiting) == EVENTS:
            del self.waiting[0]
            self.stale = True
        self.waiting.append(change)

    def changes(self) -> Iterator[Change]:
        """Yield who came and went, for the callbacks; told is who is followed by another step."""
        while self.waiting:
            change = self.waiting[0]
            yield change
            if self.waiting[0] is change:  # else it was one too many, and is gone
                del self.waiting[0]

    # ------------------------------------------------------------------ loading

    def begin_load(self) -> None:
        """A read begins: events from now on are applied after it."""
        self.stale = False
        self._during_load = []

    def finish_load(self, people: list[Person], *, complete: bool = True) -> None:
        """The read has succeeded; *people* is the whole roster, or as much of it as was readable.

        One that is not complete takes nobody out, and stays stale.
        """
        fresh = {person["id"]: _fields(person) for person in people}
        self.stale |= not complete
        for person_id in self.people.keys() - fresh.keys() if complete else ():
            self._apply(Change(added=False, person={"id": person_id}))
        for person in fresh.values():
            self._apply(Change(added=True, person=person))
        self.known = True
        self._end_load()

    def replace(self, people: list[Person]) -> None:
        """Somebody else has read the whole roster just now."""
        self.begin_load()
        self.finish_load(people)

    def fail_load(self) -> None:
        """The read has failed: the last roster stays, and stays stale."""
        self.stale = True
        self._end_load()

    def _end_load(self) -> None:
        pending, self._during_load = self._during_load or [], None
        for change in pending:
            self._apply(change)

    # ------------------------------------------------------------------ who is not known

    def misses(self, ids: Collection[str]) -> bool:
        """Tell whether somebody of *ids* is not known, and may be after a read."""
        people, strangers = self.people, self._strangers or ()
        return any(each not in people and each not in strangers for each in ids)

    def note_read_for(self, ids: Collection[str]) -> None:
        """A read was made for *ids*: who is still not known is not looked for in each turn."""
        for each in ids:
            if each in self.people:
                continue
            if self._strangers is None:
                self._strangers = {}
            elif each not in self._strangers and len(self._strangers) == STRANGERS:
                del self._strangers[next(iter(self._strangers))]
            self._strangers[each] = None

    # ------------------------------------------------------------------ what turns are told

    def snapshot(self) -> People:
        """Return the roster as it is now; later changes do not show in it."""
        self._own = None
        return self.people

    def told(self) -> tuple[People, list[Person], bool]:
        """Return what a turn is told: a snapshot, a copy, and whether it is news to the room."""
        snapshot = self.snapshot()
        news = snapshot is not self.committed and snapshot != self.committed
        return snapshot, [dict(person) for person in snapshot.values()], news

    def copy(self) -> list[Person]:
        """Return the people as dicts of their own."""
        return [dict(person) for person in self.people.values()]


def _fields(person: Mapping[str, Any]) -> Person:
    return {field: person[field] for field in ROSTER_FIELDS if person.get(field) is not None}

"""Who is in a room: loaded from the platform, kept up by events, told to turns when it changes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from band_trio.tools.core import ROSTER_FIELDS

EVENTS: Final = 64
"""Events kept while the roster is being loaded, and changes kept for callbacks; when there are
more, the roster becomes stale and is read again."""

Person = dict[str, Any]


@attrs.frozen
class Change:
    """Somebody came or went."""

    added: bool
    person: Person


@attrs.define(eq=False)
class Roster:
    """The people of one room by id."""

    stale: bool = attrs.field(default=True, init=False)
    """Whether it must be read before the next turn."""
    people: dict[str, Person] = attrs.field(factory=dict, init=False)
    known: bool = attrs.field(default=False, init=False)
    """Whether it was ever read: before that, nobody has "come in"."""
    _committed: tuple[object, ...] = attrs.field(default=(), init=False)
    _during_load: list[Change] | None = attrs.field(default=None, init=False)
    _changes: deque[Change] = attrs.field(factory=deque, init=False)

    # ------------------------------------------------------------------ events

    def added(self, person: Mapping[str, Any]) -> None:
        """Somebody is in the room: from an event, or from a tool that added them."""
        self._take(Change(added=True, person=_fields(person)))

    def removed(self, person_id: str) -> None:
        """Somebody is no longer in the room."""
        self._take(Change(added=False, person={"id": person_id}))

    def _take(self, change: Change) -> None:
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
            self.people[person_id] = {**(before or {}), **change.person}
            if before is None:
                self._note(Change(added=True, person=self.people[person_id]))
        elif before is not None:
            del self.people[person_id]
            self._note(Change(added=False, person=before))

    def _note(self, change: Change) -> None:
        if not self.known:
            return
        if len(self._changes) == EVENTS:
            self._changes.popleft()
            self.stale = True
        self._changes.append(change)

    @property
    def has_changes(self) -> bool:
        """Whether somebody came or went who was not told yet."""
        return bool(self._changes)

    def changes(self) -> Iterator[Change]:
        """Yield who came and went, for the callbacks; told is who is followed by another step."""
        while self._changes:
            change = self._changes[0]
            yield change
            if self._changes and self._changes[0] is change:
                self._changes.popleft()

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

    # ------------------------------------------------------------------ what turns are told

    def snapshot(self) -> tuple[object, ...]:
        """Return the roster as a comparable value."""
        rows = [tuple(p.get(field) for field in ROSTER_FIELDS) for p in self.people.values()]
        return tuple(sorted(rows, key=repr))

    def differs(self) -> bool:
        """Tell whether it is not what the last committed turn was told."""
        return self.snapshot() != self._committed

    def commit(self, snapshot: tuple[object, ...]) -> None:
        """A turn that was told *snapshot* has been committed."""
        self._committed = snapshot

    def copy(self) -> list[Person]:
        """Return the people as dicts of their own."""
        return [dict(person) for person in self.people.values()]


def _fields(person: Mapping[str, Any]) -> Person:
    return {field: person[field] for field in ROSTER_FIELDS if person.get(field) is not None}

"""What is news of contacts: any pushes, in any order and number, and lists in between."""

from __future__ import annotations

import random
from collections import Counter
from typing import Final

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from band_trio.protocol.events import (
    ContactAdded,
    ContactEvent,
    ContactRemoved,
    ContactRequestReceived,
    ContactRequestUpdated,
)
from band_trio.protocol.holdings import Contact, ContactRequest
from band_trio.runtime.contacts.book import KNOWN, LISTED, ContactBook, Lists
from tests.marks import case, guarantee

PEOPLE: Final = ("ann", "bob", "cy")
ANYONE = st.sampled_from(PEOPLE)


def lists(contacts: dict[str, str], requests: tuple[str, ...] = ()) -> Lists:
    """Return lists with these contacts, id → when it was added, and pending requests."""
    return Lists(
        {id_: ContactRequest(id_, "pending") for id_ in requests},
        {id_: Contact(id_, handle=id_, inserted_at=at) for id_, at in contacts.items()},
    )


def read(book: ContactBook, contacts: dict[str, str], *requests: str) -> list[ContactEvent]:
    book.reading()
    return book.listed(lists(contacts, requests))


@attrs.define
class Truth:
    """The platform: contacts and requests, and what it has told of them."""

    contacts: dict[str, str] = attrs.field(factory=dict)
    pending: dict[str, str] = attrs.field(factory=dict)
    pushes: list[ContactEvent] = attrs.field(factory=list)
    clock: int = 0
    happened: Counter[tuple[str, str]] = attrs.field(factory=Counter)
    """(kind, id) → how often."""

    def tell(self, event: ContactEvent) -> None:
        self.pushes.append(event)
        self.happened[event.kind, event.id] += 1


class Pushes(RuleBasedStateMachine):
    """Pushes that get lost, come twice, late or in another order; lists are read now and then."""

    @initialize(capacity=st.integers(1, 4), told=st.lists(ANYONE, unique=True))
    def begin(self, capacity: int, told: list[str]) -> None:
        self.truth, self.book = Truth(), ContactBook(capacity)
        self.taken: Counter[tuple[str, str]] = Counter()
        self.reading: Lists | None = None
        self.first: set[str] | None = None
        """Contacts that the first list had: they are no news."""
        for who in told:
            self.truth.contacts[who] = "0"

    def note(self, *events: ContactEvent | None) -> None:
        for event in events:
            if event is not None:
                self.taken[event.kind, event.id] += 1

    # ------------------------------------------------------------------ the platform

    @rule(who=ANYONE)
    def add_or_remove(self, who: str) -> None:
        truth = self.truth
        truth.clock += 1
        if truth.contacts.pop(who, None) is not None:
            truth.tell(ContactRemoved(who))
            return
        truth.contacts[who] = str(truth.clock)
        truth.tell(ContactAdded(who, handle=who, inserted_at=str(truth.clock)))

    @rule()
    def ask(self) -> None:
        truth = self.truth
        truth.clock += 1
        truth.pending[f"r{truth.clock}"] = "pending"
        truth.tell(ContactRequestReceived(f"r{truth.clock}"))

    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        if self.truth.pending:
            request = data.draw(st.sampled_from(sorted(self.truth.pending)))
            del self.truth.pending[request]
            self.truth.tell(ContactRequestUpdated(request, "approved"))

    # ------------------------------------------------------------------ the wire

    @rule(data=st.data(), copies=st.sampled_from([0, 1, 1, 1, 2]))
    def deliver(self, data: st.DataObject, copies: int) -> None:
        """Any push, old ones included: none is ever too late."""
        if self.truth.pushes:
            place = data.draw(st.integers(0, len(self.truth.pushes) - 1))
            for _ in range(copies):
                self.note(self.book.pushed(self.truth.pushes[place]))

    @rule()
    def begin_to_read(self) -> None:
        self.book.reading()
        self.reading = lists(dict(self.truth.contacts), tuple(self.truth.pending))

    @rule(fails=st.booleans())
    def end_reading(self, fails: bool) -> None:
        if self.reading is None:
            return
        if fails:
            self.book.failed()
        else:
            self.note(*self.book.listed(self.reading))
            if self.first is None:
                self.first = set(self.reading.contacts or {})
        self.reading = None

    @rule()
    def handle(self) -> None:
        if self.book.waiting:
            self.book.waiting.popleft()

    # ------------------------------------------------------------------ what must hold

    @invariant()
    def nothing_is_taken_twice(self) -> None:
        if not hasattr(self, "truth"):
            return
        for key, times in self.taken.items():
            assert times <= self.truth.happened[key], f"73: {key} {times} times"
        assert len(self.book.waiting) <= self.book.capacity, "77: too many wait"

    def teardown(self) -> None:
        if not hasattr(self, "truth"):
            return
        self.end_reading(fails=False)
        for _ in range(50):
            self.book.waiting.clear()
            self.begin_to_read()
            self.end_reading(fails=False)
            if not self.book.stale:
                break
        assert not self.book.stale
        for request in self.truth.pending:
            assert self.taken["contact_request_received", request] == 1, "73: a request is missed"
        for who in PEOPLE:
            if who in self.truth.contacts and who not in (self.first or ()):
                assert self.taken["contact_added", who], f"F13: nobody was told of {who}"
        assert set(self.book._known) == set(self.truth.contacts), "the lists have the last word"


@guarantee(73)
def test_every_contact_event_is_told_once() -> None:
    run_state_machine_as_test(Pushes, settings=settings(stateful_step_count=40))


@guarantee(73)
def test_a_contact_that_comes_goes_and_comes_again_is_two_that_were_added() -> None:
    book = ContactBook(10)
    read(book, {})
    first, gone = ContactAdded("c", inserted_at="1"), ContactRemoved("c")
    again = ContactAdded("c", inserted_at="2")
    told = [book.pushed(each) for each in (first, first, gone, gone, first, again, again)]
    assert [event is not None for event in told] == [True, False, True, False, False, True, False]


@guarantee(73)
def test_an_outage_is_caught_up_once_and_the_first_list_is_no_news() -> None:
    book = ContactBook(10)
    assert book.stale
    assert read(book, {"old": "1"}) == []
    news = read(book, {"new": "2"}, "asked")
    assert [(event.kind, event.id) for event in news] == [
        ("contact_request_received", "asked"),
        ("contact_added", "new"),
        ("contact_removed", "old"),
    ]
    assert getattr(news[2], "handle", None) == "old", "who it was is remembered"
    assert read(book, {"new": "2"}, "asked") == []


@guarantee(77)
@case("C59")
def test_ten_thousand_events_are_bounded_and_what_found_no_place_is_counted() -> None:
    book, order = ContactBook(256), list(range(10_000))
    random.shuffle(order)
    for number in order:
        book.pushed(ContactRequestUpdated(f"r{number}", "approved"))
    assert len(book.waiting) == 256
    assert book.lost == 10_000 - 256
    assert book.stale
    unhandled = ContactBook(0)  # nobody handles events: only changes are told
    for number in order:
        unhandled.pushed(ContactRequestUpdated(f"r{number}", "approved"))
        unhandled.pushed(ContactAdded(f"c{number}"))
        unhandled.pushed(ContactRemoved(f"c{number}"))
        unhandled.pushed(ContactAdded(f"k{number}"))
    tables = (unhandled._answered, unhandled._gone, unhandled._known)
    assert [len(table) for table in tables] == [KNOWN, KNOWN, LISTED]
    assert not unhandled.waiting

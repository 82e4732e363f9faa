"""The roster: loads, events during a load, merging, what differs, what callbacks are told."""

from __future__ import annotations

import tracemalloc
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from band_trio.runtime.turn.briefing import Briefing
from band_trio.runtime.turn.roster import EVENTS, STRANGERS, Roster
from tests.marks import guarantee
from tests.support.for_each import for_each


def person(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "name": name.title(), "type": "User", **more}


def loaded(*names: str) -> Roster:
    roster = Roster()
    roster.replace([person(name) for name in names])
    list(roster.changes())
    return roster


def ids(roster: Roster) -> list[str]:
    return sorted(each["id"] for each in roster.copy())


def told(roster: Roster) -> list[tuple[bool, str]]:
    return [(change.added, change.person["id"]) for change in roster.changes()]


def test_a_fresh_roster_is_stale_and_a_load_ends_that() -> None:
    roster = Roster()
    before = roster.stale
    roster.begin_load()
    roster.finish_load([person("a")])
    assert (before, roster.stale) == (True, False)
    assert ids(roster) == ["a"]


def test_the_first_load_tells_nobody_that_somebody_came() -> None:
    roster = Roster()
    roster.replace([person("a")])
    assert not roster.waiting
    roster.replace([person("b")])
    assert told(roster) == [(False, "a"), (True, "b")]


def test_fields_merge_and_null_erases_nothing() -> None:
    roster = loaded("a")
    roster.added({"id": "a", "handle": "x/a", "name": None})
    assert roster.copy() == [person("a", handle="x/a")]
    roster.replace([{"id": "a", "name": "New", "type": "User", "handle": None}])
    assert roster.copy() == [{"id": "a", "name": "New", "type": "User", "handle": "x/a"}]
    assert not roster.waiting


@guarantee(7)
def test_events_during_a_load_come_after_it_in_order() -> None:
    roster = loaded("a", "b")
    roster.begin_load()
    roster.added(person("c"))
    roster.removed("a")
    roster.removed("c")
    assert ids(roster) == ["a", "b"]
    roster.finish_load([person("a"), person("b"), person("d")])
    assert ids(roster) == ["b", "d"]
    assert told(roster) == [(True, "d"), (True, "c"), (False, "a"), (False, "c")]


def test_a_failed_load_keeps_the_roster_stale_and_the_events() -> None:
    roster = loaded("a")
    roster.begin_load()
    roster.added(person("b"))
    roster.fail_load()
    assert roster.stale
    assert ids(roster) == ["a", "b"]


@guarantee(33)
def test_a_load_that_is_not_complete_takes_nobody_out_and_stays_stale() -> None:
    roster = loaded("a", "b")
    roster.begin_load()
    roster.removed("a")
    roster.finish_load([person("c")], complete=False)
    assert roster.stale
    assert ids(roster) == ["b", "c"]


def test_staleness_that_comes_up_during_a_load_outlives_it() -> None:
    roster = loaded("a")
    roster.begin_load()
    roster.stale = True  # a join, a new epoch
    roster.finish_load([person("a")])
    assert roster.stale


@guarantee(30)
def test_more_events_than_a_load_can_keep_make_it_stale_again() -> None:
    roster = loaded()
    roster.begin_load()
    for n in range(EVENTS + 1):
        roster.added(person(f"p{n}"))
    roster.finish_load([])
    assert roster.stale
    assert len(roster.people) == EVENTS


@guarantee(30)
def test_changes_that_nobody_takes_are_bounded() -> None:
    roster = loaded()
    for n in range(EVENTS + 3):
        roster.added(person(f"p{n}"))
    assert roster.stale
    assert [name for _, name in told(roster)] == [f"p{n}" for n in range(3, EVENTS + 3)]


@guarantee(66)
@for_each(
    ("change", "differs"),
    [
        (lambda roster: None, False),
        (lambda roster: roster.added(person("b")), True),
        (lambda roster: roster.removed("a"), True),
        (lambda roster: roster.removed("nobody"), False),
        (lambda roster: roster.added({"id": "a", "handle": "x/a"}), True),
        (lambda roster: roster.added({"id": "a", "handle": None, "role": "owner"}), False),
        (lambda roster: (roster.removed("a"), roster.added(person("a"))), False),
    ],
)
def test_it_differs_exactly_when_what_is_told_would(change: Any, differs: bool) -> None:
    roster = loaded("a")
    assert roster.told()[2]  # nobody was told yet
    roster.committed = roster.snapshot()
    assert not roster.told()[2]
    change(roster)
    assert roster.told()[2] is differs


@guarantee(66)
def test_a_change_after_the_snapshot_is_not_committed_with_it() -> None:
    roster = loaded("a")
    snapshot = roster.snapshot()
    roster.added(person("b"))
    roster.committed = snapshot
    assert roster.told()[2]


@guarantee(66)
def test_a_snapshot_does_not_change() -> None:
    roster = loaded("a", "b")
    first = roster.snapshot()
    roster.added(person("c"))
    roster.added(person("a", handle="x/a"))
    second = roster.snapshot()
    roster.removed("b")
    assert list(first.values()) == [person("a"), person("b")]
    assert list(second.values()) == [person("a", handle="x/a"), person("b"), person("c")]
    assert ids(roster) == ["a", "c"]


def test_what_is_read_again_and_is_the_same_is_the_same() -> None:
    roster = loaded("a", "b")
    told = roster.snapshot()
    roster.replace([person("b"), person("a")])
    assert roster.people is told


@guarantee(85)
def test_who_is_not_known_is_missed_until_a_read_was_made_for_them() -> None:
    roster = loaded("a")
    assert not roster.misses(["a"])
    assert roster.misses(["a", "x"])
    roster.note_read_for(["a", "x"])
    assert not roster.misses(["a", "x"])
    assert roster.misses(["y"])
    roster.replace([person("a")])
    assert not roster.misses(["x"])  # a read that shows nothing new changes nothing


@guarantee(85)
@for_each("event", ["added", "removed", "during a load"])
def test_whoever_comes_or_goes_ends_that(event: str) -> None:
    roster = loaded("a")
    roster.note_read_for(["x"])
    if event == "during a load":
        roster.begin_load()
    if event == "removed":
        roster.removed("a")
    else:
        roster.added(person("b"))
    assert roster.misses(["x"])


@guarantee(85)
def test_who_is_not_known_is_kept_within_a_bound() -> None:
    roster = loaded()
    names = [f"x{n}" for n in range(STRANGERS + 1)]
    for name in names:
        roster.note_read_for([name])
    assert [name for name in names if roster.misses([name])] == names[:1]
    roster.note_read_for(names[-1:])
    assert [name for name in names if roster.misses([name])] == names[:1]


@guarantee(77)
def test_an_idle_room_keeps_less_than_a_kilobyte() -> None:
    services = cast(Any, None)
    Briefing("warm", services)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        rooms = [Briefing("room", services) for _ in range(100)]
        size = (tracemalloc.get_traced_memory()[0] - before) / len(rooms)
    finally:
        tracemalloc.stop()
    assert size < 500


def test_a_copy_is_a_copy() -> None:
    roster = loaded("a")
    roster.copy()[0]["name"] = "Mallory"
    assert roster.people["a"]["name"] == "A"


@guarantee(7)
@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "remove", "begin", "finish", "fail"]), st.integers(0, 3)),
        max_size=40,
    )
)
def test_against_a_set(steps: list[tuple[str, int]]) -> None:
    """Whatever a load says holds as of its end, and what came meanwhile is applied behind it."""
    roster, members, later = loaded(), set[str](), list[tuple[str, str]]()
    loading = False

    def apply(step: str, name: str) -> None:
        members.add(name) if step == "add" else members.discard(name)

    for step, number in steps:
        name = f"p{number}"
        if step in ("add", "remove"):
            roster.added(person(name)) if step == "add" else roster.removed(name)
            later.append((step, name)) if loading else apply(step, name)
        elif step == "begin" and not loading:
            loading = True
            roster.begin_load()
        elif step != "begin" and loading:
            loading = False
            if step == "finish":
                members = {name}
                roster.finish_load([person(name)])
            else:
                roster.fail_load()
            for each in later:
                apply(*each)
            later.clear()
        assert set(roster.people) == members

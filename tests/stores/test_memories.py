"""Who sees which memory and who may change it, against a model that knows no store."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from band_trio.stores.memories import SCOPES, STATUSES, TYPES, MemoryStore, Reader
from band_trio.stores.refusal import Refusal
from tests.support.for_each import for_each

GOOD: dict[str, Any] = {
    "content": "Maria likes tea", "system": "long_term", "type": "semantic", "segment": "user",
    "thought": "asked twice",
}  # fmt: skip
ANN, BEN = Reader("ann", "ann"), Reader("ben", "ben", "acme")
MINE, TWIN = Reader("mine", "ann"), Reader("twin", "ann")
ACME, PEER = Reader("acme-1", "ben", "acme"), Reader("acme-2", "eve", "acme")
AGENTS = {each.id: each for each in (MINE, TWIN, ACME, PEER)}
PERSONS = {each.id: each for each in (ANN, BEN)}


def opened() -> MemoryStore:
    ids, times = count(1), count(1)
    return MemoryStore(lambda: f"m{next(ids)}", lambda: f"t{next(times)}", lambda i: i != "nobody")


def body(**changes: Any) -> dict[str, Any]:
    row = {**GOOD, **changes}
    return {"memory": {name: value for name, value in row.items() if value is not ...}}


def refusal(call: Any, *args: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        call(*args)
    return caught.value


# --------------------------------------------------------------------------- storing


@for_each(
    ("pointer", "changes"),
    [
        ("/memory/content", {"content": "\u200b"}),
        ("/memory/content", {"content": 5}),
        ("/memory/thought", {"thought": ...}),
        ("/memory/system", {"system": "short"}),
        ("/memory/type", {"type": ["semantic"]}),
        ("/memory/type", {"type": "iconic"}),
        ("/memory/type", {"system": "sensory"}),
        ("/memory/segment", {"segment": "room"}),
        ("/memory/scope", {"scope": "all"}),
        ("/memory/subject_id", {"scope": "subject"}),
        ("/memory/subject_id", {"subject_id": "nobody"}),
        ("/memory/subject_id", {"subject_id": 7}),
        ("/memory/metadata", {"metadata": "x"}),
    ],
)
def test_what_does_not_fit_is_refused(pointer: str, changes: dict[str, Any]) -> None:
    store = opened()
    no = refusal(store.store, MINE, body(**changes))

    assert (no.status, list(no.details or ())) == (422, [pointer])
    assert not store.rows


def test_a_body_without_a_memory_is_refused() -> None:
    assert refusal(opened().store, MINE, {"memory": []}).details == {
        "/memory": ["must be an object"]
    }


@for_each(
    ("given", "scope"),
    [
        ({}, "agent"),
        ({"scope": None, "subject_id": None}, "agent"),
        ({"subject_id": "ann"}, "subject"),
        ({"subject_id": "ann", "scope": "agent"}, "agent"),
    ],
)
def test_the_scope_has_a_default(given: dict[str, Any], scope: str) -> None:
    assert opened().store(MINE, body(**given)).scope == scope


def test_an_organization_must_be_there_to_share_with() -> None:
    no = refusal(opened().store, MINE, body(scope="organization"))

    assert (no.status, no.code) == (422, "org_scope_requires_organization")
    row = opened().store(ACME, body(scope="organization")).render()
    assert row["organization_id"] == "acme"


# --------------------------------------------------------------------------- seeing


def sees(reader: Reader, memory: dict[str, Any]) -> bool:
    """The rule, said once more in other words."""
    source = AGENTS[memory["source_agent_id"]]
    match memory["scope"]:
        case "agent":
            return reader.id == source.id
        case "subject":
            own = reader.id == source.id or reader.owner_id == source.owner_id
            return own or reader.id == memory["subject_id"]
    return reader.organization_id == source.organization_id


_FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "scope": st.sampled_from([*SCOPES, "all"]),
        "status": st.sampled_from([*STATUSES, "all"]),
        "type": st.sampled_from(TYPES[3:]),
        "subject_id": st.sampled_from(["ann", "ben", "twin"]),
        "content_query": st.sampled_from(["TEA", "tea", "coffee", ""]),
        "memory_scope": st.sampled_from(["me", "org"]),
    },
)
_STORED = st.tuples(
    st.sampled_from(list(AGENTS.values())),
    st.sampled_from(SCOPES),
    st.sampled_from(["ann", "ben", "twin", None]),
    st.sampled_from(TYPES[3:]),
    st.sampled_from(["tea", "Coffee and Tea"]),
    st.sampled_from(STATUSES),
)


def filled(rows: list[Any]) -> MemoryStore:
    store = opened()
    for source, scope, subject_id, kind, content, status in rows:
        if scope == "subject" and subject_id is None:
            continue
        if scope == "organization" and source.organization_id is None:
            continue
        fields = {**GOOD, "scope": scope, "subject_id": subject_id, "type": kind}
        memory = store.store(source, body(**{**fields, "content": content}))
        if status != "active":
            store.put_away(source, memory.id, status)
    return store


def fits(row: dict[str, Any], reader: Reader, filters: dict[str, Any]) -> bool:
    wanted = {"status": "active", **filters}
    for name, value in wanted.items():
        match name:
            case "content_query":
                good = value.lower() in row["content"].lower()
            case "memory_scope" if value == "me":
                good = row["source_agent_id"] == reader.id
            case "memory_scope":
                good = row["scope"] == "organization"
            case _:
                good = value in ("all", row[name])
        if not good:
            return False
    return True


@given(st.lists(_STORED, max_size=12), st.sampled_from(list(AGENTS.values())), _FILTERS)
def test_an_agent_finds_what_it_may_see_and_filters_fit(
    rows: list[Any], reader: Reader, filters: dict[str, Any]
) -> None:
    store = filled(rows)
    everything = [memory.render() for memory in store.rows.values()]
    visible = [row for row in everything if sees(reader, row)]

    found = [memory.render() for memory in store.search(reader, filters)]
    assert found == [row for row in visible if fits(row, reader, filters)]
    for row in everything:
        if row in visible:
            assert store.find(reader, row["id"]).render() == row
        else:
            assert refusal(store.find, reader, row["id"]).status == 404


@given(
    st.lists(_STORED, max_size=12),
    st.sampled_from(list(PERSONS.values())),
    st.sampled_from(["about_me", "organization", "room", "all", None]),
)
def test_a_person_finds_what_is_about_them(
    rows: list[Any], person: Reader, scope: str | None
) -> None:
    store = filled(rows)
    filters = {"status": "all"} | ({} if scope is None else {"scope": scope})
    found = {memory.id for memory in store.search_for_person(person, filters)}

    for memory in store.rows.values():
        about = memory.scope == "subject" and memory.subject_id == person.id
        shared = memory.scope == "organization" and person.organization_id == "acme"
        wanted = {"about_me": about, "organization": shared, "room": False}
        assert (memory.id in found) is wanted.get(scope or "all", about or shared)
        if not (about or shared):
            assert refusal(store.find_for_person, person, memory.id).status == 404
            assert refusal(store.delete, person, memory.id).status == 404
        elif not about:
            assert refusal(store.change_for_person, person, memory.id, "archived").status == 403
            assert refusal(store.delete, person, memory.id).status == 403


# --------------------------------------------------------------------------- changing


@given(
    st.lists(_STORED, min_size=1, max_size=6),
    st.sampled_from(list(AGENTS.values())),
    st.sampled_from(["superseded", "archived"]),
)
def test_only_its_source_puts_a_memory_away(rows: list[Any], agent: Reader, status: str) -> None:
    store = filled(rows)
    for memory in store.rows.values():
        before = memory.status
        if memory.source.id == agent.id:
            assert store.put_away(agent, memory.id, status).status == status
        else:
            wanted = 403 if memory.visible_to(agent) else 404
            assert refusal(store.put_away, agent, memory.id, status).status == wanted
            assert memory.status == before


def test_a_person_restores_what_is_archived_and_deletes_for_good() -> None:
    store = opened()
    memory = store.store(MINE, body(subject_id="ann"))
    assert refusal(store.change_for_person, ANN, memory.id, "active").status == 422

    store.change_for_person(ANN, memory.id, "archived")
    at = memory.updated_at
    store.change_for_person(ANN, memory.id, "archived")
    assert memory.updated_at == at  # again changes nothing
    assert store.change_for_person(ANN, memory.id, "active").status == "active"
    store.change_for_person(ANN, memory.id, "superseded")
    assert refusal(store.change_for_person, ANN, memory.id, "active").status == 422

    store.delete(ANN, memory.id)
    assert refusal(store.find, MINE, memory.id).status == 404
    assert store.store(MINE, body()).number > memory.number


def test_no_memory_belongs_to_a_room() -> None:
    store = opened()
    store.store(MINE, body(subject_id="ann"))

    assert len(store.search_for_person(ANN, {})) == 1
    assert store.search_for_person(ANN, {"chat_room_id": "r"}) == []

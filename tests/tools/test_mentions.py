"""Whom a text means (case C28, C29)."""

from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from band_trio.errors import BandToolError, MentionError
from band_trio.protocol.rest import Mention
from band_trio.tools.mentions import (
    append_mention_handles_hint,
    clean_mention,
    find_person,
    mention_entries,
    mentionable,
    resolve_entry,
    split_mentions,
    to_send,
)
from tests.marks import case
from tests.support.for_each import for_each

AL = {"id": "id-al", "name": "Al"}
SAM_X = {"id": "id-x", "name": "Sam", "handle": "x/sam"}
SAM_Y = {"id": "id-y", "name": "Sam", "handle": "@y/sam"}
ROSTER = [AL, SAM_X, SAM_Y]


@case("C28")
@for_each("empty", ["", "@", "  ", "@@ ", ",", "@[[ ]]", {}, {"handle": ""}, 7, None])
def test_a_mention_of_nobody_is_an_error(empty: Any) -> None:
    with pytest.raises(MentionError, match="names nobody"):
        resolve_entry(empty, ROSTER)


@case("C28")
@for_each("name", ["Sam", "sam", "@SAM", " Sam, "])
def test_an_ambiguous_name_lists_handles_and_ids(name: str) -> None:
    with pytest.raises(MentionError, match="ambiguous") as caught:
        resolve_entry(name, ROSTER)

    for part in ("@x/sam", "id-x", "@y/sam", "id-y"):
        assert part in str(caught.value)


@case("C28")
@for_each(
    ("entry", "wanted"),
    [
        ("@X/SAM", Mention("id-x", "x/sam")),
        ("x/sam", Mention("id-x", "x/sam")),
        ("@x/sam,", Mention("id-x", "x/sam")),
        ("y/sam!?", Mention("id-y", "y/sam")),
        ("id-y", Mention("id-y", "y/sam")),
        ("@[[id-y]]", Mention("id-y", "y/sam")),
        ("[[id-al]]", Mention("id-al")),
        ("al", Mention("id-al")),
        ({"id": "id-x"}, Mention("id-x", "x/sam")),
        ({"id": "stranger", "handle": "@who"}, Mention("stranger", "who")),
        ({"handle": "y/sam", "name": "Al"}, Mention("id-y", "y/sam")),
        ({"name": "Al"}, Mention("id-al")),
    ],
)
def test_ids_handles_names_and_marks_are_understood(entry: Any, wanted: Mention) -> None:
    assert resolve_entry(entry, ROSTER) == wanted


def test_an_unknown_mention_is_left_to_a_second_look() -> None:
    assert resolve_entry(" @nobody. ", ROSTER) == "nobody"


@case("C28")
def test_a_name_never_wins_over_a_handle_or_an_id() -> None:
    impostor = {"id": "id-i", "name": "x/sam", "handle": "impostor"}
    other = {"id": "id-o", "name": "id-y", "handle": "other"}

    assert resolve_entry("x/sam", [impostor, *ROSTER]) == Mention("id-x", "x/sam")
    assert resolve_entry("id-y", [other, *ROSTER]) == Mention("id-y", "y/sam")


def test_an_exact_handle_wins_over_one_in_another_case() -> None:
    lower, upper = {"id": "1", "handle": "sam"}, {"id": "2", "handle": "SAM"}

    assert resolve_entry("SAM", [lower, upper]) == Mention("2", "SAM")
    with pytest.raises(MentionError, match="ambiguous"):
        resolve_entry("Sam", [lower, upper])


def test_an_exact_name_wins_over_one_in_another_case() -> None:
    people = [{"id": "1", "name": "sam"}, {"id": "2", "name": "Sam"}]

    assert resolve_entry("Sam", people) == Mention("2")


def test_a_name_that_ends_with_punctuation_is_found() -> None:
    assert resolve_entry("J. R.", [{"id": "1", "name": "J. R."}]) == Mention("1")


def test_people_without_a_handle_are_not_found_by_an_empty_one() -> None:
    assert find_person("@", [AL], error=BandToolError) is None


def test_one_person_listed_twice_is_not_ambiguous() -> None:
    assert resolve_entry("Sam", [SAM_X, dict(SAM_X)]) == Mention("id-x", "x/sam")


@for_each(
    ("text", "entries"),
    [
        ("@a", ["@a"]),
        ('["@a", "@b"]', ["@a", "@b"]),
        ("[@a]", ["@a"]),
        ("['@a', '@b']", ["@a", "@b"]),
        ("@a, @b", ["@a", "@b"]),
        ("@[[id]]", ["@[[id]]"]),
        ("[[id]]", ["[[id]]"]),
    ],
)
def test_several_mentions_in_one_text(text: str, entries: list[str]) -> None:
    assert split_mentions(text) == entries
    assert mention_entries(text) == entries


def test_doubles_and_the_agent_itself_are_removed() -> None:
    people = [Mention("me"), Mention("a", "a"), Mention("b"), Mention("a", "a")]

    assert [each.id for each in to_send(people, "me")] == ["a", "b"]


@pytest.mark.parametrize("people", [[], [Mention("me")]])
def test_nobody_left_is_an_error(people: list[Mention]) -> None:
    with pytest.raises(MentionError, match="At least one other participant"):
        to_send(people, "me")


def test_the_hint_lists_others_once_and_is_bounded() -> None:
    crowd = [{"id": str(n), "handle": f"user{n}"} for n in range(40)]
    handles = mentionable([*crowd, {"id": "me", "handle": "self"}, AL], "me")

    once = append_mention_handles_hint(MentionError("No."), handles)

    assert str(once).count("@user") == 30
    assert "10 more" in str(once)
    assert "@self" not in str(once)
    assert append_mention_handles_hint(once, handles) is once


def test_the_hint_says_when_nobody_is_there() -> None:
    text = str(append_mention_handles_hint(MentionError("No."), []))

    assert "nobody else" in text


_text = st.text(string.ascii_letters + "@/[]., -", max_size=8)
_person = st.fixed_dictionaries(
    {"id": st.text(string.ascii_lowercase, min_size=1, max_size=3)},
    optional={"name": _text, "handle": st.none() | _text},
)


@given(st.lists(_person, max_size=5), _text)
def test_a_found_person_is_one_of_the_room_and_unique(people: list[Any], text: str) -> None:
    try:
        found = find_person(text, people, error=BandToolError)
    except BandToolError:
        return
    if found is None:
        return
    wanted = text.strip().lstrip("@").casefold()
    fits = [
        wanted == str(value).strip().lstrip("@").casefold()
        for value in (found.get("handle"), found.get("name"), found["id"])
        if value
    ]
    assert found in people
    assert any(fits)


@given(st.text(max_size=40))
def test_cleaning_is_stable_and_leaves_no_mark(text: str) -> None:
    clean = clean_mention(text)

    assert not clean.startswith("@")
    assert clean == clean.strip()


@given(st.lists(_person, max_size=4), st.one_of(_text, st.none(), st.integers(), st.lists(_text)))
def test_any_entry_resolves_or_is_a_mention_error(people: list[Any], entry: Any) -> None:
    try:
        found = resolve_entry(entry, people)
    except MentionError:
        return
    assert isinstance(found, Mention | str)

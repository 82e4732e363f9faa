# ruff: noqa: RUF009 - `argument` declares an attrs field
"""What models send as arguments: repaired where there is one reading (case C30)."""

from __future__ import annotations

import json
from typing import Any, Literal

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from band_trio.errors import InvalidToolArgumentsError
from band_trio.tools.arguments import method_arguments, validate_tool_arguments
from band_trio.tools.catalogue import TOOL_DEFINITIONS
from band_trio.tools.definitions import argument
from band_trio.tools.people import AddParticipantInput, GetParticipantsInput, LookupPeersInput
from band_trio.tools.sending import SendEventInput, SendMessageInput
from tests.marks import case
from tests.support.for_each import for_each


def _nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@attrs.frozen
class Everything:
    """One field of each type."""

    flag: bool = argument("a switch", default=False)
    ratio: float = argument("a number", default=0.5, low=0, high=1)
    numbers: list[int] = argument("numbers", default=())
    choice: Literal["a", "b"] | None = argument("a choice", default=None)
    ref: str = argument("a reference", default="x", pattern="[A-Za-z0-9_-]+")
    extra: dict[str, Any] | None = argument("more", default=None)


@attrs.frozen
class OneOfTwo:
    """Needs one of two."""

    left: str | None = argument("left", default=None)
    right: str | None = argument("right", default=None)

    def __attrs_post_init__(self) -> None:
        if self.left is None and self.right is None:
            raise ValueError("one of left and right is needed")


@case("C30")
@for_each(
    ("mentions", "wanted"),
    [
        ("@a", ["@a"]),
        ('["@a"]', ["@a"]),
        ("[@a]", ["@a"]),
        ("@a, @b", ["@a", "@b"]),
        ({"handle": "@a"}, ["@a"]),
        ([{"name": "A", "handle": "@a", "id": "1"}, "@b"], ["1", "@b"]),
        ([{"name": "A"}], ["A"]),
        (None, []),
        ("", []),
        ((), []),
    ],
)
def test_mentions_in_any_shape(mentions: Any, wanted: list[str]) -> None:
    args = {"content": "hi", "mentions": mentions}

    assert validate_tool_arguments("t", SendMessageInput, args).mentions == wanted


@case("C30")
@for_each(
    ("args", "wanted"),
    [
        ('{"content": "hi", "mentions": ["@a"]}', SendMessageInput("hi", ["@a"])),
        ({"content": "hi", "mentions": ["@a"], "extra": 1}, SendMessageInput("hi", ["@a"])),
        ({"content": "hi \ud800", "mentions": ["a"]}, SendMessageInput("hi �", ["a"])),
    ],
)
def test_the_whole_object(args: Any, wanted: SendMessageInput) -> None:
    assert validate_tool_arguments("t", SendMessageInput, args) == wanted


@case("C30")
@for_each(
    ("args", "wanted"),
    [
        ({}, (1, 50)),
        ("", (1, 50)),
        (None, (1, 50)),
        ("{}", (1, 50)),
        ({"page": "3", "page_size": 7.0}, (3, 7)),
        ({"page": None, "page_size": " 8 "}, (1, 8)),
    ],
)
def test_numbers_and_defaults(args: Any, wanted: tuple[int, int]) -> None:
    found = validate_tool_arguments("t", LookupPeersInput, args)

    assert (found.page, found.page_size) == wanted


@case("C30")
def test_other_types_are_repaired_too() -> None:
    args = {
        "flag": "true",
        "ratio": "0.25",
        "numbers": "[1, 2]",
        "choice": "b",
        "ref": "a-1",
        "extra": '{"a": 1}',
    }

    assert validate_tool_arguments("t", Everything, args) == Everything(
        True, 0.25, [1, 2], "b", "a-1", {"a": 1}
    )


@case("C30")
@for_each(
    ("args", "problem"),
    [
        ({"flag": "yes"}, 'flag: must be true or false, not "yes"'),
        ({"flag": 1}, "flag: must be true or false, not 1"),
        ({"ratio": True}, "ratio: must be a number, not true"),
        ({"ratio": 2}, "ratio: must be from 0 to 1, not 2"),
        ({"numbers": [1, "x"]}, 'numbers[1]: must be a whole number, not "x"'),
        ({"numbers": [None, 1, "x"]}, "numbers[0]: must be a whole number, not null; numbers[2]: "),
        ({"extra": '{"a":' * 3000 + "1" + "}" * 3000}, "extra: must be an object, not "),
        (
            {"extra": {"a": _nested(5000)}},
            "extra: is nested too deeply",
        ),
        ({"numbers": "x"}, 'numbers: must be a list, not "x"'),
        ({"choice": "c"}, "choice: must be one of a, b, not c"),
        ({"ref": "a b"}, 'ref: has characters that are not possible here: "a b"'),
        ({"ref": "a\n"}, "ref: has characters"),
        ({"extra": [1]}, "extra: must be an object, not a list"),
        ({"extra": "[1]"}, 'extra: must be an object, not "[1]"'),
        ([1], "must be one JSON object (arguments: flag, ratio, numbers, choice, ref, extra)"),
        ("no json", "must be one JSON object"),
        (7, "must be one JSON object"),
    ],
)
def test_what_has_no_one_reading_is_told(args: Any, problem: str) -> None:
    with pytest.raises(InvalidToolArgumentsError) as caught:
        validate_tool_arguments("t", Everything, args)

    text = str(caught.value).replace('not "c"', "not c")
    assert text.startswith("Invalid arguments for t: ")
    assert problem in text


@case("C30")
@for_each("mentions", ['{"id": "u1"}', ' {"handle": "x", "id": "u1"} ', {"id": "u1"}])
def test_one_mention_may_be_an_object(mentions: Any) -> None:
    args = {"content": "x", "mentions": mentions}

    assert validate_tool_arguments("t", SendMessageInput, args).mentions == ["u1"]


def test_a_text_of_deeply_nested_mentions_is_a_wrong_mention() -> None:
    args = {"content": "x", "mentions": "[" * 5000 + "]" * 5000}

    assert len(validate_tool_arguments("t", SendMessageInput, args).mentions) == 1


@case("C30")
def test_every_problem_is_listed() -> None:
    with pytest.raises(InvalidToolArgumentsError) as caught:
        validate_tool_arguments("band_send_event", SendEventInput, {"message_type": "loud"})

    assert str(caught.value) == (
        "Invalid arguments for band_send_event: content: is required; "
        'message_type: must be one of thought, error, task, not "loud"'
    )


@for_each("blank", ["", " \n", "\u200b\u200f", "\u2066"])
def test_content_needs_a_visible_character(blank: str) -> None:
    with pytest.raises(InvalidToolArgumentsError, match="content: can't be blank"):
        validate_tool_arguments("t", SendMessageInput, {"content": blank, "mentions": ["a"]})


def test_a_rule_over_several_arguments_has_no_path() -> None:
    with pytest.raises(InvalidToolArgumentsError) as caught:
        validate_tool_arguments("t", OneOfTwo, {"left": None})

    assert str(caught.value) == "Invalid arguments for t: one of left and right is needed"


def test_an_alias_counts_only_without_the_real_name() -> None:
    alias = validate_tool_arguments("t", AddParticipantInput, {"name": "bob"})
    both = validate_tool_arguments("t", AddParticipantInput, {"name": "x", "identifier": "bob"})

    assert alias == both == AddParticipantInput("bob")


def test_the_method_gets_defaults_and_no_null() -> None:
    assert method_arguments(SendEventInput("hi", "task")) == {
        "content": "hi",
        "message_type": "task",
    }
    assert method_arguments(GetParticipantsInput()) == {}


def test_a_huge_wrong_value_gives_a_short_text() -> None:
    with pytest.raises(InvalidToolArgumentsError) as caught:
        validate_tool_arguments("t", SendEventInput, {"content": "x", "message_type": "y" * 10**6})

    assert len(str(caught.value)) < 300


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
_rows = st.sampled_from(list(TOOL_DEFINITIONS.values()))


@given(_rows, st.data())
def test_anything_is_either_read_or_refused_in_words(row: Any, data: st.DataObject) -> None:
    names = [field.name for field in attrs.fields(row.input_model)]
    args = data.draw(_json | st.fixed_dictionaries({}, optional=dict.fromkeys(names, _json)))
    found: Any = None
    text = f"Invalid arguments for {row.name}: "
    try:
        found = validate_tool_arguments(row.name, row.input_model, args)
    except InvalidToolArgumentsError as exc:
        text = str(exc)

    assert isinstance(found, row.input_model | None)
    assert text.startswith(f"Invalid arguments for {row.name}: ")
    assert len(text) < 2_100


@given(st.text(min_size=1).filter(lambda t: t.strip().isalnum()), st.lists(st.text(), max_size=4))
def test_good_arguments_survive_unchanged_and_as_json_text(
    content: str, mentions: list[str]
) -> None:
    args = {"content": content, "mentions": mentions}
    as_object = validate_tool_arguments("t", SendMessageInput, args)

    assert as_object == SendMessageInput(content, mentions)
    assert validate_tool_arguments("t", SendMessageInput, json.dumps(args)) == as_object

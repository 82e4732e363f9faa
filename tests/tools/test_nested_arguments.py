"""One set of rules for the arguments of custom tools: at every level, for every kind of class."""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import Annotated, Any, Literal

import annotated_types as at
import attrs
import pydantic
import pytest

from band_trio.errors import BandConfigError
from band_trio.testing import FakeAgentTools
from tests.marks import case
from tests.support.for_each import for_each


@dataclasses.dataclass
class Line:
    text: str
    size: int = 3
    tags: list[str] = dataclasses.field(default_factory=list)


@attrs.frozen
class Mark:
    text: str
    size: int = 3
    tags: list[str] = attrs.field(factory=list)


class Note(pydantic.BaseModel):
    text: str
    size: int = 3
    tags: list[str] = []
    inner: dict[str, int] = {}


def lines(
    line: Line | None = None,
    mark: Mark | None = None,
    note: Note | None = None,
    rows: list[Line] | None = None,
) -> str:
    return f"{line or mark or note or rows}"


def counts(counted: dict[str, int]) -> str:
    return repr(counted)


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]
    names: list[str]


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]
    names: str


class Keep(pydantic.BaseModel):
    pet: Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]
    note: Note | None = None
    words: str | list[str] = ""


async def call(tool: Any, args: Any) -> Any:
    tools = FakeAgentTools(custom_tools=[tool])
    (schema,) = tools.get_anthropic_tool_schemas()[-1:]
    return await tools.execute_tool_call(schema["name"], args)


@case("C30")
@for_each("name", ["line", "mark", "note"])
@for_each(
    ("given", "fields"),
    [
        ({"text": "x"}, "size=3, tags=[]"),
        ('{"text": "x", "size": "5"}', "size=5, tags=[]"),
        ({"text": "x", "size": None, "tags": '["a", "b"]'}, "size=3, tags=['a', 'b']"),
        ({"text": "x", "tags": "a, b"}, "size=3, tags=['a', 'b']"),
    ],
)
async def test_what_is_nested_is_repaired(name: str, given: Any, fields: str) -> None:
    shown = await call(lines, {name: given})

    assert all(field in shown for field in fields.split(", ", 1)), shown


@case("C30")
@for_each("name", ["line", "mark"])
@for_each(
    ("given", "problem"),
    [
        (
            {"text": None, "size": 2.7},
            "{0}.text: must be text, not null; {0}.size: must be a whole",
        ),
        ({"text": {"a": 1}}, "{0}.text: must be text, not an object"),
        ({}, "{0}.text: is required"),
        ("text", "{0}: must be one JSON object (arguments: text, size, tags)"),
    ],
)
async def test_what_is_nested_is_checked(name: str, given: Any, problem: str) -> None:
    shown = await call(lines, {name: given})

    assert shown.startswith(f"Invalid arguments for lines: {problem.format(name)}")


@case("C30")
async def test_a_place_in_a_list_or_an_object_is_named() -> None:
    rows = await call(lines, {"rows": [{"text": "x"}, {"text": 1}]})
    counted = await call(counts, {"counted": {"a": 1, "b": "many"}})

    assert rows == "Invalid arguments for lines: rows[1].text: must be text, not 1"
    assert counted == (
        "Invalid arguments for counts: counted['b']: must be a whole number, not \"many\""
    )
    assert await call(counts, {"counted": '{"a": "7"}'}) == "{'a': 7}"


@case("C30")
async def test_problems_of_a_pydantic_class_have_a_path_and_no_address() -> None:
    shown = await call(lines, {"note": {"size": "x", "inner": {"a": "b"}}})

    assert "note.text: Field required; note.size: " in shown
    assert "; note.inner.a: " in shown
    assert "http" not in shown


KEEP: Any = (Keep, lambda keep: f"{keep.pet} {keep.note} {keep.words}")


@case("C30")
@for_each(
    ("args", "shown"),
    [
        ('{"pet": {"kind": "cat", "names": ["a"]}}', "kind='cat' names=['a'] None "),
        ({"pet": '{"kind": "cat", "names": ["a"]}'}, "kind='cat' names=['a'] None "),
        ({"pet": {"kind": "dog", "names": '["a"]'}, "words": '["a"]'},
         "kind='dog' names='[\"a\"]' None [\"a\"]"),
        ({"pet": {"kind": "dog", "names": "x"}, "note": '{"text": "x", "inner": "{\\"a\\": 1}"}'},
         "kind='dog' names='x' text='x' size=3 tags=[] inner={'a': 1} "),
        ({"pet": "cat"}, "Invalid arguments for keep: pet: "),
        ("nonsense", "Invalid arguments for keep: must be one JSON object (arguments: pet, note"),
    ],
)  # fmt: skip
async def test_a_pydantic_class_gets_the_same_repair(args: Any, shown: str) -> None:
    assert (await call(KEEP, args)).startswith(shown)


def test_a_schema_refers_to_nothing() -> None:
    (schema,) = FakeAgentTools(custom_tools=[KEEP]).get_anthropic_tool_schemas()[-1:]

    assert "$" not in str(schema)
    assert "discriminator" not in str(schema)


def test_what_is_nested_is_in_the_schema() -> None:
    (schema,) = FakeAgentTools(custom_tools=[counts]).get_anthropic_tool_schemas()[-1:]

    assert schema["input_schema"]["properties"]["counted"] == {
        "type": "object",
        "additionalProperties": {"type": "integer"},
    }


# --------------------------------------------------------------------------- limits at a type

Field = pydantic.Field


def limited(
    count: Annotated[int, Field(ge=1, le=9, description="How many.")] = 1,
    even: Annotated[int, at.Gt(0), at.Lt(10), at.MultipleOf(2)] = 2,
    code: Annotated[str, Field(pattern="^[A-Z]+$", min_length=2), "The code."] = "AB",
    several: list[Annotated[str, at.Len(1, 3)]] | None = None,
    ratio: Annotated[float | None, at.Interval(ge=0, le=1)] = None,
) -> str:
    return f"{count} {even} {code} {several} {ratio}"


@for_each(
    ("args", "shown"),
    [
        ({}, "1 2 AB None None"),
        ({"count": "9", "ratio": None, "several": ["abc"]}, "9 2 AB ['abc'] None"),
        ({"count": 0}, "count: must be at least 1"),
        ({"count": 10}, "count: must be at most 9"),
        ({"even": 0}, "even: must be more than 0"),
        ({"even": 10}, "even: must be less than 10"),
        ({"even": 3}, "even: must be a multiple of 2"),
        ({"code": "ab"}, "code: must match ^[A-Z]+$"),
        ({"code": "A"}, "code: must have a length of at least 2"),
        ({"several": ["a", "abcd"]}, "several[1]: must have a length of at most 3"),
        ({"ratio": 2}, "ratio: must be at most 1"),
    ],
)
async def test_limits_beside_a_type_hold(args: Any, shown: str) -> None:
    assert (await call(limited, args)).removeprefix("Invalid arguments for limited: ") == shown


def stepped(
    price: Annotated[float, at.MultipleOf(0.1)] = 0,
    count: Annotated[int, at.MultipleOf(3)] = 0,
) -> str:
    return f"{price} {count}"


@for_each(
    ("args", "ok"),
    [
        *(({"price": price}, True) for price in (0.3, 0.7, -1.1, 1, 123_456_789.1, 1e10 + 0.1)),
        *(({"price": price}, False) for price in (0.35, 0.3001, float("inf"), 10**400)),
        ({"count": 3 * 10**30}, True),
        ({"count": 3 * 10**30 + 1}, False),
    ],
)
async def test_a_multiple_is_one_in_decimals_too(args: Any, ok: bool) -> None:
    (name,) = args
    problem = f"Invalid arguments for stepped: {name}: must be a multiple of "

    assert (await call(stepped, args)).startswith(problem) is not ok


def test_limits_and_descriptions_beside_a_type_are_shown() -> None:
    (schema,) = FakeAgentTools(custom_tools=[limited]).get_anthropic_tool_schemas()[-1:]
    props = schema["input_schema"]["properties"]

    assert props["count"]["description"] == "How many."
    assert props["code"] == {
        "type": "string",
        "minLength": 2,
        "pattern": "^[A-Z]+$",
        "default": "AB",
        "description": "The code.",
    }
    assert props["several"]["anyOf"][0]["items"] == {
        "type": "string",
        "minLength": 1,
        "maxLength": 3,
    }


def _with(note: Any) -> Any:
    def tool(value: str = "") -> str:
        return value

    tool.__annotations__["value"] = Annotated[str, note]
    return tool


@for_each(
    "note",
    [
        pydantic.AfterValidator(str.upper),
        pydantic.StringConstraints(to_upper=True),
        at.Predicate(str.isupper),
        Field(alias="other"),
        Field(default="x"),
    ],
)
def test_a_note_that_would_be_lost_is_refused(note: Any) -> None:
    with pytest.raises(BandConfigError, match=r"custom tool 'tool': value: "):
        FakeAgentTools(custom_tools=[_with(note)])


def test_a_field_as_default_is_refused() -> None:
    def tool(value: int = Field(ge=1)) -> int:
        return value

    with pytest.raises(BandConfigError, match="Annotated"):
        FakeAgentTools(custom_tools=[tool])


async def test_a_note_of_strangers_is_passed_over() -> None:
    assert await call(_with(object()), {"value": "x"}) == "x"


async def test_a_name_with_a_hyphen_can_be_called() -> None:
    def search(query: str) -> str:
        return query

    search.__name__ = "web-search"

    assert await call(search, {"query": "x"}) == "x"


# --------------------------------------------------------------------------- null and unions


class Scores(pydantic.RootModel[dict[str, int]]):
    pass


def total(scores: Scores) -> int:
    return sum(scores.root.values())


@pytest.mark.parametrize("scores", [{"a": 1, "b": 2}, '{"a": 1, "b": "2"}'])
async def test_a_pydantic_class_may_be_any_object(scores: Any) -> None:
    assert await call(total, {"scores": scores}) == 3
    assert "scores: must be one JSON object" in await call(total, {"scores": [1]})


def nulls(
    limit: int | None = 10,
    ratio: Annotated[float | None, at.Ge(0)] = 0.5,
    deep: Annotated[int | None, at.Ge(0)] | str = 1,
    order: Literal["up", None] = "up",  # noqa: PYI061 - a form of its own
    anything: Any = "x",
    count: int = 3,
    name: Annotated[str, at.MinLen(1)] = "y",
) -> str:
    return f"{limit} {ratio} {deep} {order} {anything} {count} {name}"


async def test_a_null_is_a_value_where_it_may_be_one() -> None:
    names = ["limit", "ratio", "deep", "order", "anything", "count", "name"]

    assert await call(nulls, {}) == "10 0.5 1 up x 3 y"
    assert await call(nulls, dict.fromkeys(names)) == "None None None None None 3 y"


class Level(Enum):
    LOW = "low"
    ONE = 1


def either(
    who: list[str] | Literal["all"] = "all",
    ref: int | Annotated[str, at.MinLen(2)] = 0,
    level: list[str] | Level = Level.LOW,
    rank: Literal[1] | bool | str = "",
    size: list[str] | int = 0,
    deep: list[str] | Annotated[int | str, at.Len(0, 9)] | None = None,
) -> str:
    return f"{who!r} {ref!r} {level!s} {rank!r} {size!r} {deep!r}"


@for_each(
    ("args", "shown"),
    [
        ({"who": "all"}, "'all' 0 Level.LOW '' 0 None"),
        ({"who": "a, b"}, "['a', 'b'] 0 Level.LOW '' 0 None"),
        ({"who": ["all"]}, "['all'] 0 Level.LOW '' 0 None"),
        ({"ref": "12"}, "'all' '12' Level.LOW '' 0 None"),
        ({"ref": "7"}, "'all' 7 Level.LOW '' 0 None"),
        ({"level": "low"}, "'all' 0 Level.LOW '' 0 None"),
        ({"level": 1}, "'all' 0 Level.ONE '' 0 None"),
        ({"level": "high"}, "'all' 0 ['high'] '' 0 None"),
        ({"rank": True}, "'all' 0 Level.LOW True 0 None"),
        ({"rank": "1"}, "'all' 0 Level.LOW '1' 0 None"),
        ({"size": "12"}, "'all' 0 Level.LOW '' 12 None"),
        ({"deep": "12"}, "'all' 0 Level.LOW '' 0 '12'"),
    ],
)
async def test_of_several_kinds_the_nearest_is_taken(args: Any, shown: str) -> None:
    assert await call(either, args) == shown

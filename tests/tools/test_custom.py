"""Custom tools of every kind (case C32): offered, validated, run, and answered in words."""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable
from datetime import date, datetime
from enum import Enum
from typing import Annotated, Any, Literal

import attrs
import pydantic
import pytest
import trio
from mcp.types import CallToolResult, TextContent
from trio.testing import MockClock

from band_trio.errors import (
    BandApiError,
    BandConfigError,
    BandConnectionError,
    InvalidToolArgumentsError,
    RoomExecutionStoppedError,
)
from band_trio.protocol.rest import EVENT_CHARS
from band_trio.testing import FakeAgentTools
from band_trio.tools import custom
from band_trio.tools.definitions import argument
from band_trio.tools.ledger import Ledger
from band_trio.tools.narration import tool_result_content
from band_trio.tools.results import RESULT_CHARS, tool_result_text
from band_trio.types import TurnEffect
from tests.marks import case
from tests.support.for_each import for_each


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


async def search(
    query: Annotated[str, "What to look for."],
    limit: int = 5,
    deep: bool = False,
    colour: Colour | None = None,
) -> dict[str, Any]:
    """Search the web.

    Returns nothing
    useful."""
    await trio.lowlevel.checkpoint()
    return {"query": query, "limit": limit, "deep": deep, "colour": colour}


def sync_search(query: str) -> str:
    """Search."""
    return f"{query} in {threading.current_thread() is threading.main_thread()}"


def nothing_to_say() -> None:
    """Take no arguments and return nothing."""


@attrs.frozen
class Report:
    """How it went."""

    ok: bool


class Clock:
    """Tells the time."""

    async def __call__(self, zone: str = "utc") -> str:
        await trio.lowlevel.checkpoint()
        return f"noon {zone}"

    async def method(self, zone: str) -> str:
        """Tell it by method."""
        return await self(zone)

    def by_input(self, it: SearchWebInput) -> str:
        """Search by method."""
        return f"{it.query} by input"


@attrs.frozen
class SearchWebInput:
    """Search the web well."""

    query: str = argument("What to look for.", visible=True)
    pages: list[int] = attrs.field(factory=list)


@dataclasses.dataclass
class Place:
    """Somewhere."""

    name: str = dataclasses.field(metadata={"description": "Its name."})
    size: int = 1
    tags: list[str] = dataclasses.field(default_factory=list)
    seen: int = dataclasses.field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError("size must not be negative")


class Inner(pydantic.BaseModel):
    """Inside."""

    title: str = "x"
    depth: int = pydantic.Field(default=1, ge=1, title="Depth")


class Order(pydantic.BaseModel):
    """Order something."""

    item: str = pydantic.Field(description="What.", min_length=2)
    kind: Literal["big"] = "big"
    inner: Inner = pydantic.Field(default_factory=Inner)
    colour: Colour = Colour.RED

    @pydantic.model_validator(mode="after")
    def _whole(self) -> Order:
        if self.item == "no":
            raise ValueError("no is not possible")
        return self


@attrs.frozen
class EmptyInput:
    """Does not need anything."""


async def use(value: Any) -> Any:
    await trio.lowlevel.checkpoint()
    return {"got": attrs.asdict(value) if attrs.has(type(value)) else value}


async def call(tool: Any, args: Any, **options: Any) -> Any:
    """The outcome of one call by name through the tools of a turn."""
    tools = FakeAgentTools(custom_tools=[tool], **options)
    return await tools.execute_tool_call_structured(custom.get_custom_tool_name(tool), args)


# --------------------------------------------------------------------------- what works

bound = Clock()
CASES: list[tuple[Any, str, Any, Any]] = [
    (search, "search", {"query": "x", "limit": "7", "deep": "true", "colour": "blue"},
     {"query": "x", "limit": 7, "deep": True, "colour": "blue"}),
    (search, "search", '{"query": "x", "colour": null}',
     {"query": "x", "limit": 5, "deep": False, "colour": None}),
    (sync_search, "sync_search", {"query": "x"}, "x in False"),
    (Clock(), "clock", {}, "noon utc"),
    (bound.method, "method", {"zone": "cet"}, "noon cet"),
    ((SearchWebInput, use), "searchweb", {"query": "x", "pages": "[1, 2]"},
     {"got": {"query": "x", "pages": [1, 2]}}),
    ((SearchWebInput, lambda it: it.query.upper()), "searchweb", {"query": "x"}, "X"),
    ((SearchWebInput, lambda it: use(it.query)), "searchweb", {"query": "x"}, {"got": "x"}),
    ((SearchWebInput, functools.partial(use)), "searchweb", {"query": "x"},
     {"got": {"query": "x", "pages": []}}),
    ((Place, use), "place", {"name": "a", "size": "2"},
     {"got": {"name": "a", "size": 2, "tags": [], "seen": 0}}),
    ((Order, use), "order", {"item": "tea", "inner": {"depth": 3}},
     {"got": {"item": "tea", "kind": "big", "inner": {"title": "x", "depth": 3},
              "colour": "red"}}),
    ((Order, lambda order: order.inner.depth), "order", '{"item": "tea"}', 1),
    ((EmptyInput, lambda: "done"), "empty", None, "done"),
    ((EmptyInput, Clock()), "empty", {"unknown": 1}, "noon utc"),
    ((SearchWebInput, bound.by_input), "searchweb", {"query": "x"}, "x by input"),
    ((SearchWebInput, lambda *args: len(args)), "searchweb", {"query": "x"}, 1),
    ((SearchWebInput, lambda it, more="d": it.query + more), "searchweb", {"query": "x"}, "xd"),
    (nothing_to_say, "nothing_to_say", {}, None),
]  # fmt: skip


@case("C32")
@for_each(("tool", "name", "args", "value"), CASES)
async def test_every_kind_works(tool: Any, name: str, args: Any, value: Any) -> None:
    assert custom.get_custom_tool_name(tool) == name
    outcome = await call(tool, args)
    assert (outcome.ok, outcome.value) == (True, value)


def test_the_schema_of_a_function() -> None:
    tools = FakeAgentTools(custom_tools=[search])
    schema = tools.get_tool_schemas("anthropic")[-1]

    assert schema == {
        "name": "search",
        "description": "Search the web.\n\nReturns nothing useful.",
        "input_schema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to look for."},
                "limit": {"type": "integer", "default": 5},
                "deep": {"type": "boolean", "default": False},
                "colour": {
                    "anyOf": [{"type": "string", "enum": ["red", "blue"]}, {"type": "null"}],
                    "default": None,
                },
            },
            "required": ["query"],
        },
    }
    schema["input_schema"].clear()
    assert tools.get_openai_tool_schemas()[-1]["function"]["parameters"]["required"] == ["query"]


def test_the_schema_of_a_pydantic_model_has_no_references_and_titles() -> None:
    [schema] = custom.custom_tools_to_schemas([(Order, use)], "openai")

    assert schema["function"]["description"] == "Order something."
    assert schema["function"]["parameters"] == {
        "type": "object",
        "properties": {
            "item": {"type": "string", "description": "What.", "minLength": 2},
            "kind": {"type": "string", "enum": ["big"], "default": "big"},
            "inner": {
                "type": "object",
                "description": "Inside.",
                "properties": {
                    "title": {"type": "string", "default": "x"},
                    "depth": {"type": "integer", "default": 1},
                },
            },
            "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
        },
        "required": ["item"],
    }


def test_the_schemas_of_other_classes() -> None:
    place, empty = custom.custom_tools_to_schemas(
        [(Place, use), (EmptyInput, Clock())], "anthropic"
    )

    assert place["description"] == "Somewhere."
    assert place["input_schema"]["properties"] == {
        "name": {"type": "string", "description": "Its name."},
        "size": {"type": "integer", "default": 1},
        "tags": {"type": "array", "items": {"type": "string"}},
    }
    assert empty["input_schema"] == {"type": "object", "properties": {}}


async def test_annotations_of_many_kinds_are_read_and_repaired() -> None:
    @dataclasses.dataclass
    class Point:
        x: int
        y: int = 0

    async def many(
        *,
        _day: date,
        at: datetime,
        either: int | str,
        point: Point,
        order: Inner,
        level: Literal[1, 2] = 1,
        words: list = [],  # type: ignore[type-arg]  # noqa: B006
        names: list[str] | None = None,
    ) -> str:
        await trio.lowlevel.checkpoint()
        return repr((_day, at, either, point, order.depth, level, words, names))

    many.__annotations__.update(
        point=Point, order=Inner, _day=date, at=datetime, either=int | str,
        level=Literal[1, 2], words=list, names=list[str] | None,
    )  # fmt: skip
    args = {
        "_day": "2025-01-31", "at": "2025-01-31T10:00:00", "either": "3", "point": {"x": 1},
        "order": {"depth": 2}, "level": 2, "names": "a, b",
    }  # fmt: skip
    outcome = await call(many, args)

    assert outcome.ok, outcome.value
    assert outcome.value == repr(
        (date(2025, 1, 31), datetime(2025, 1, 31, 10), "3", Point(1, 0), 2, 2, [], ["a", "b"])
    )
    bad = await call(many, {**args, "_day": "soon", "at": 3, "either": [], "level": 3})
    for problem in (
        "_day: must be a date", "at: must be text", "either: is of no possible kind",
        "level: must be one of 1, 2",
    ):  # fmt: skip
        assert problem in bad.value


# --------------------------------------------------------------------------- what is refused


def no_annotation(query) -> None:  # type: ignore[no-untyped-def] # noqa: ANN001
    """Refused."""


def with_args(*args: str) -> None:
    """Refused."""


def with_set(names: set[int]) -> None:
    """Refused."""


def generator(name: str) -> Any:
    yield name


class Tree(pydantic.BaseModel):
    children: list[Tree] = []


def named(name: str, function: Callable[..., Any] = sync_search) -> Callable[..., Any]:
    copy = functools.wraps(function)(lambda *a, **k: function(*a, **k))
    copy.__name__ = name
    return copy


REFUSED: list[tuple[Any, str]] = [
    (lambda x: x, "no name of its own"),
    (functools.partial(sync_search, "x"), "no name of its own"),
    (no_annotation, "'query' needs an annotation"),
    (with_args, "'args' cannot be given by name"),
    (with_set, "names: set[int] has no counterpart in JSON"),
    (generator, "a generator cannot be a tool"),
    (SearchWebInput, "must be a function"),
    ("search", "must be a function"),
    ((SearchWebInput,), "a pair of an arguments class"),
    ((use, SearchWebInput), "a pair of an arguments class"),
    ((int, use), "must be an attrs class, a dataclass or a pydantic model"),
    ((SearchWebInput, "use"), "cannot be called"),
    ((SearchWebInput, lambda: 1), "must take one argument, the SearchWebInput"),
    ((EmptyInput, use), "must take no argument"),
    ((Tree, use), "contains itself"),
    (named("Band_Send_Message"), "that of a platform tool"),
    (named("band_list_my_agents"), "that of a platform tool"),
    (named("mcp__band__band_get_task"), "that of a platform tool"),
    (named("band-band_get_task"), "that of a platform tool"),
    (named("create_agent_chat_message"), "that of a platform tool"),
    (named("with space"), "cannot be the name of a tool"),
    (named("x" * 65), "cannot be the name of a tool"),
]


@case("C32")
@for_each(("tool", "problem"), REFUSED)
def test_other_shapes_and_names_are_refused_at_construction(tool: Any, problem: str) -> None:
    with pytest.raises(BandConfigError) as caught:
        custom.reject_conflicting_tool_names([tool])
    assert problem in str(caught.value)


@case("C32")
def test_one_name_twice_is_refused() -> None:
    with pytest.raises(BandConfigError, match="two custom tools have the name 'search'"):
        FakeAgentTools(custom_tools=[search, named("search")])


@pytest.mark.parametrize("options", [{"timeout": 0}, {"timeout": float("nan")}])
def test_a_bad_time_limit_is_refused(options: Any) -> None:
    with pytest.raises(BandConfigError, match="above 0"):
        custom.CustomTools.of([search], **options)


def test_one_tool_alone_is_no_sequence() -> None:
    with pytest.raises(BandConfigError, match="a sequence of tools"):
        custom.CustomTools.of(search)  # type: ignore[arg-type]


# --------------------------------------------------------------------------- arguments


BAD_ARGUMENTS: list[tuple[Any, Any, str]] = [
    (search, {}, "Invalid arguments for search: query: is required"),
    (search, {"query": "x", "limit": "many"},
     "Invalid arguments for search: limit: must be a whole number, not \"many\""),
    (search, "[]", "must be one JSON object (arguments: query, limit, deep, colour)"),
    (search, {"query": "x", "colour": "green"}, "colour: must be one of red, blue"),
    ((Place, use), {"name": "x", "size": -1},
     "Invalid arguments for place: size must not be negative"),
    ((SearchWebInput, use), {"query": " "}, "query: can't be blank"),
    ((Order, use), {"item": "x", "inner": {"depth": 0}},
     "Invalid arguments for order: item: String should have at least 2 characters; "
     "inner.depth: Input should be greater than or equal to 1"),
    ((Order, use), {"item": "no"}, "Invalid arguments for order: Value error, no is not possible"),
    ((Order, use), 3, "must be one JSON object (arguments: item, kind, inner, colour)"),
]  # fmt: skip


@for_each(("tool", "args", "text"), BAD_ARGUMENTS)
async def test_bad_arguments_are_an_answer_for_the_model(tool: Any, args: Any, text: str) -> None:
    outcome = await call(tool, args)

    assert not outcome.ok
    assert text in outcome.value
    with pytest.raises(InvalidToolArgumentsError):
        await custom.execute_custom_tool(tool, args, turn=Ledger())


# --------------------------------------------------------------------------- results


cyclic: list[Any] = []
cyclic.append(cyclic)

RESULTS: list[tuple[Any, Any]] = [
    (None, None),
    (b"\xff\xfe", "__4="),
    ({"when": date(2025, 1, 1), "who": Place("x")},
     {"when": "2025-01-01", "who": {"name": "x", "size": 1, "tags": [], "seen": 0}}),
    (Inner(), {"title": "x", "depth": 1}),
    ({("a", 1): 2}, "{('a', 1): 2}"),
    (object, '"<class \'object\'>"'),
]  # fmt: skip


@case("C32")
@for_each(("result", "value"), RESULTS)
async def test_results_are_plain_json(result: Any, value: Any) -> None:
    outcome = await call((EmptyInput, lambda: result), {})

    assert (outcome.ok, outcome.value) == (True, value)


@case("C32")
async def test_a_huge_result_is_capped_where_it_is_told() -> None:
    outcome = await call((EmptyInput, lambda: "x" * 3_000_000), {})

    assert outcome.ok
    assert len(tool_result_text(outcome.value)) == RESULT_CHARS
    assert len(tool_result_content("empty", outcome.value, "c", is_error=False)) <= EVENT_CHARS


deep: list[Any] = []
for _ in range(100_000):
    deep = [deep]


@case("C32")
@for_each(
    ("result", "why"),
    [
        (cyclic, "contains itself"),
        (deep, "nested too deeply"),
        ({"n": 10**6000}, "too many digits"),
    ],
    ids=["cyclic", "deep", "huge number"],
)
async def test_a_result_that_cannot_be_shown_is_an_error_of_a_call_that_worked(
    result: Any, why: str
) -> None:
    tools = FakeAgentTools(custom_tools=[(EmptyInput, acting(result))])
    outcome = await tools.execute_tool_call_structured("empty", {})

    assert not outcome.ok
    assert "The call has taken effect" in outcome.value
    assert why in outcome.value
    assert tools.turn.complete


async def test_a_failure_as_data_is_a_failure() -> None:
    tools = FakeAgentTools(custom_tools=[(EmptyInput, acting({"ok": False, "why": "closed"}))])
    outcome = await tools.execute_tool_call_structured("empty", {})

    assert (outcome.ok, outcome.value) == (False, {"ok": False, "why": "closed"})
    assert outcome.error_message == '{"ok": false, "why": "closed"}'
    assert not tools.turn.effects


def acting(result: Any = "done") -> Any:
    @custom.declares_turn_effect(TurnEffect.ACT)
    async def act() -> Any:
        await trio.lowlevel.checkpoint()
        if isinstance(result, BaseException):
            raise result
        return result

    return act


# --------------------------------------------------------------------------- errors


@case("C32")
@for_each(
    ("error", "text"),
    [
        (ValueError("boom"), "Error executing act: ValueError: boom"),
        (ExceptionGroup("many", [KeyError("a")]), "Error executing act: KeyError: 'a'"),
        (trio.TooSlowError(), "Error executing act: TooSlowError"),
        (RuntimeError("password=topsecretvalue KEY-1"), "password=[REDACTED] [REDACTED]"),
        (BandApiError(422, "bad", "no"), "BandApiError: 422 bad: no"),
        (BandConnectionError("https://host/x?key=1"), "The platform could not be reached"),
    ],
)
async def test_an_exception_is_an_answer_for_the_model(error: Exception, text: str) -> None:
    tools = FakeAgentTools(custom_tools=[acting(error)])
    tools.room.secrets = ("KEY-1",)
    outcome = await tools.execute_tool_call_structured("act", {})

    assert not outcome.ok
    assert text in outcome.value
    assert not tools.turn.effects
    assert "https" not in outcome.value


async def test_a_long_error_is_capped() -> None:
    outcome = await call(acting(ValueError("x" * 10_000)), {})

    assert len(outcome.value) < 600


class Foreign(BaseException):
    """A framework's own way to unwind, which is for the turn to judge."""


@case("C32")
@for_each("error", [KeyboardInterrupt(), RoomExecutionStoppedError("r"), Foreign("away")])
async def test_what_ends_a_turn_comes_out(error: BaseException) -> None:
    with pytest.raises(type(error)):
        await call(acting(error), {})


# --------------------------------------------------------------------------- the turn


async def test_effects_are_recorded() -> None:
    @custom.declares_turn_effect(TurnEffect.REPLY)
    def reply() -> str:
        return "sent"

    def legacy() -> None:
        pass

    legacy.band_terminal = True  # type: ignore[attr-defined]
    tools = [
        acting(),
        reply,
        legacy,
        search,
        (EmptyInput, functools.partial(acting())),
    ]
    assert custom.custom_tool_effects(tools) == {
        "act": TurnEffect.ACT,
        "reply": TurnEffect.REPLY,
        "legacy": TurnEffect.ACT,
        "search": TurnEffect.OBSERVE,
        "empty": TurnEffect.ACT,
    }
    fake = FakeAgentTools(custom_tools=tools)
    await fake.execute_tool_call("search", {"query": "x"})
    assert not fake.turn.complete
    await fake.execute_tool_call("reply", {})
    assert fake.turn.replied
    turn = Ledger()
    assert await custom.execute_custom_tool(acting(), {}, turn=turn) == "done"
    assert turn.effects == {TurnEffect.ACT}


async def test_a_pair_can_be_called_with_an_instance() -> None:
    result = await custom.invoke_validated_custom_tool(
        (SearchWebInput, use), SearchWebInput("x"), turn=Ledger()
    )

    assert result == {"got": {"query": "x", "pages": []}}


def test_finding_by_name() -> None:
    tools: list[custom.CustomToolDef] = [search, (SearchWebInput, use)]

    assert custom.find_custom_tool(tools, "searchweb") is tools[1]
    assert custom.find_custom_tool(tools, "SearchWeb") is None


async def test_platform_tools_come_first_and_filters_leave_custom_ones() -> None:
    tools = FakeAgentTools(custom_tools=[search])
    names = [schema["name"] for schema in tools.get_anthropic_tool_schemas(capabilities=[])]
    assert names[0] == "band_send_message"
    assert names[-1] == "search"
    assert (await tools.execute_tool_call("Search", {})) == "Unknown tool: Search"


async def test_a_closed_turn_runs_nothing() -> None:
    tools = FakeAgentTools(custom_tools=[acting()])
    tools.turn.close()
    outcome = await tools.execute_tool_call_structured("act", {})

    assert not outcome.ok
    assert "turn is over" in outcome.value


@case("C27")
async def test_a_repeated_call_id_runs_once() -> None:
    ran: list[int] = []

    async def count() -> int:
        ran.append(1)
        await trio.lowlevel.checkpoint()
        return len(ran)

    tools = FakeAgentTools(custom_tools=[count])
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(
                functools.partial(tools.execute_tool_call, "count", {}, call_id="c1")
            )
    assert ran == [1]
    assert await tools.execute_tool_call("count", {}, call_id="c2") == 2


# --------------------------------------------------------------------------- time


@case("C20")
async def test_a_time_limit_is_an_answer_for_the_model(autojump_clock: MockClock) -> None:
    async def slow() -> None:
        await trio.sleep(100)

    tools = FakeAgentTools()
    tools.use_custom_tools(custom.CustomTools.of([slow], timeout=2))
    began = trio.current_time()
    outcome = await tools.execute_tool_call_structured("slow", {})

    assert outcome.value == "Error executing slow: timed out after 2 seconds"
    assert trio.current_time() - began == pytest.approx(2)


@case("C24")
async def test_an_outer_cancellation_is_never_an_answer(autojump_clock: MockClock) -> None:
    async def slow() -> None:
        await trio.sleep(100)

    tools = FakeAgentTools()
    tools.use_custom_tools(custom.CustomTools.of([slow], timeout=5))
    with trio.move_on_after(1) as scope:
        await tools.execute_tool_call_structured("slow", {})
        raise AssertionError("cancelled calls have no outcome")
    assert scope.cancelled_caught


@case("C21")
async def test_a_sync_tool_is_abandoned_when_cancelled() -> None:
    go, started = threading.Event(), threading.Event()

    @custom.declares_turn_effect(TurnEffect.ACT)
    def blocking() -> str:
        started.set()
        go.wait(5)
        return "late"

    tools = FakeAgentTools(custom_tools=[blocking])
    try:
        with trio.fail_after(2):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(tools.execute_tool_call, "blocking", {})
                await trio.to_thread.run_sync(started.wait)
                nursery.cancel_scope.cancel()
    finally:
        go.set()

    assert not tools.turn.effects


@for_each(
    "result",
    [
        CallToolResult(content=[TextContent(text="boom")], is_error=True),
        CallToolResult(content=[], is_error=True),
        Report(ok=False),
        {"ok": False, "what": object()},
    ],
)
async def test_a_failure_as_an_object_is_a_failure(result: Any) -> None:
    tool = acting(result)
    turn = Ledger()
    tools = FakeAgentTools(custom_tools=[tool])

    outcome = await tools.execute_tool_call_structured("act", {})
    returned = await custom.execute_custom_tool(tool, {}, turn=turn)

    assert not outcome.ok
    assert outcome.error_message == tool_result_text(outcome.value)
    assert returned is result
    assert not tools.turn.effects
    assert not turn.effects


async def test_a_result_of_mcp_that_is_no_failure_counts() -> None:
    tools = FakeAgentTools(custom_tools=[acting(CallToolResult(content=[TextContent(text="x")]))])

    assert (await tools.execute_tool_call_structured("act", {})).ok
    assert tools.turn.effects == {TurnEffect.ACT}

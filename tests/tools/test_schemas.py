"""The schemas that models see."""

from __future__ import annotations

import copy
import inspect
import json
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from band_trio.errors import BandConfigError
from band_trio.testing import FakeAgentTools
from band_trio.tools.agent_tools import AgentTools
from band_trio.tools.catalogue import (
    TOOL_DEFINITIONS,
    TOOL_MODELS,
    get_band_tool_category,
    get_tool_description,
    get_tool_docstring_with_args,
    iter_tool_definitions,
    platform_args_schema,
    turn_effect,
    withheld_tool_names,
)
from band_trio.tools.definitions import (
    HUMAN_TOOL_NAMES,
    BandTool,
    argument_of,
    canonicalize_mcp_tool_name,
    mcp_tool_names,
)
from band_trio.tools.schemas import (
    model_schema,
    render_schemas,
    sanitize_tool_schema,
    type_schema,
)
from band_trio.types import Capability, ToolCategory, TurnEffect
from tests.support.for_each import for_each

ROWS = list(TOOL_DEFINITIONS.values())


def test_every_tool_is_in_the_catalogue_in_order_and_chat_is_always_open() -> None:
    chat = [row.name for row in ROWS if row.category is ToolCategory.CHAT]

    assert [row.name for row in ROWS] == list(BandTool) == list(TOOL_MODELS)
    assert [row.name for row in iter_tool_definitions()] == chat
    assert chat[0] == "band_send_message"
    assert {row.category for row in ROWS} == set(ToolCategory)


def test_what_a_tool_means_and_whether_it_acts_in_a_room() -> None:
    assert {r.name for r in ROWS if r.effect is TurnEffect.REPLY} == {
        "band_send_message",
        "band_send_room_file",
    }
    assert {r.name for r in ROWS if r.effect is TurnEffect.DECLINE} == {"band_no_reply"}
    for row in ROWS:
        reads = row.name.startswith(("band_list_", "band_get_", "band_read_", "band_lookup_"))
        looks = reads or row.name == "band_send_event"
        assert (row.effect is TurnEffect.OBSERVE) is looks, row.name
        anywhere = row.category in (ToolCategory.CONTACTS, ToolCategory.MEMORY)
        roomless = anywhere or row.name in ("band_no_reply", "band_create_chatroom")
        assert row.room_bound is not roomless, row.name
    assert not HUMAN_TOOL_NAMES & set(BandTool)


@for_each("capability", Capability)
def test_each_capability_opens_its_category(capability: Capability) -> None:
    offered = {row.category for row in iter_tool_definitions(capabilities=[capability])}

    assert offered == {ToolCategory.CHAT, ToolCategory(capability.value)}
    assert {get_band_tool_category(n) for n in withheld_tool_names([capability])} == set(
        ToolCategory
    ) - offered


@for_each(
    "given",
    [
        Capability.MEMORY,
        "memory",
        ["memory"],
        Capability.MEMORY | Capability.FILES,
        ("memory", Capability.FILES),
    ],
)
def test_capabilities_are_members_or_texts_one_or_several(given: Any) -> None:
    tools = FakeAgentTools()
    names = {schema["name"] for schema in tools.get_tool_schemas("anthropic", capabilities=given)}

    assert "band_get_memory" in names
    assert ("band_read_room_file" in names) is (Capability.FILES in given)
    assert not names & withheld_tool_names(given)


def test_an_unknown_capability_is_refused() -> None:
    with pytest.raises(BandConfigError, match="Did you mean 'memory'"):
        FakeAgentTools().get_tool_schemas("openai", capabilities="memori")


def test_every_argument_is_a_keyword_of_its_method() -> None:
    for row in ROWS:
        parameters = inspect.signature(getattr(AgentTools, row.method_name)).parameters
        for field in attrs.fields(row.input_model):
            assert field.name in parameters, f"{row.name}.{field.name}"
            default = parameters[field.name].default
            if field.default is not attrs.NOTHING:
                assert default == field.default, f"{row.name}.{field.name}"


def test_member_names_follow_from_the_tool_names() -> None:
    for tool in BandTool:
        assert tool.name == tool.value.removeprefix("band_").upper()


@for_each("row", ROWS, ids=lambda row: row.name)
def test_every_tool_and_argument_is_described(row: Any) -> None:
    assert len(get_tool_description(row.name)) > 30
    for field in attrs.fields(row.input_model):
        spec = argument_of(field)
        assert spec.description.endswith("."), field.name
        # Bounds are not in the schema, so the words have to state them.
        for bound in (spec.low, spec.high):
            assert bound is None or str(bound) in spec.description
    assert row.method_name == row.name.removeprefix("band_")
    assert platform_args_schema(row.name) is row.input_model is TOOL_MODELS[row.name]


def test_an_example_in_both_formats() -> None:
    row = TOOL_DEFINITIONS["band_send_event"]
    schema = {
        "type": "object",
        "properties": {
            "content": {"type": "string", "description": "The text of the note."},
            "message_type": {
                "type": "string",
                "enum": ["thought", "error", "task"],
                "description": "The kind of note.",
            },
            "metadata": {
                "anyOf": [{"type": "object", "additionalProperties": True}, {"type": "null"}],
                "default": None,
                "description": "Structured data to keep with the note; rarely needed.",
            },
        },
        "required": ["content", "message_type"],
    }
    description = get_tool_description(row.name)

    assert render_schemas("anthropic", [row]) == [
        {"name": row.name, "description": description, "input_schema": schema}
    ]
    assert render_schemas("openai", [row]) == [
        {
            "type": "function",
            "function": {"name": row.name, "description": description, "parameters": schema},
        }
    ]


def test_a_tool_without_arguments_has_empty_properties() -> None:
    [schema] = render_schemas("anthropic", [TOOL_DEFINITIONS["band_get_participants"]])

    assert schema["input_schema"] == {"type": "object", "properties": {}}


def test_schemas_are_plain_json_and_belong_to_the_caller() -> None:
    first = render_schemas("openai", ROWS)
    untouched = copy.deepcopy(first)
    first[0]["function"]["parameters"]["properties"].clear()

    assert json.loads(json.dumps(untouched)) == untouched
    assert render_schemas("openai", ROWS) == untouched
    assert not {"title", "$ref", "$defs", "minimum", "maximum"} & _keywords(untouched)


def _keywords(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value) | {key for item in value.values() for key in _keywords(item)}
    if isinstance(value, list):
        return {key for item in value for key in _keywords(item)}
    return set()


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match="'openai' or 'anthropic'"):
        render_schemas("gemini", ROWS)


def test_sanitizing_drops_keywords_but_not_properties_of_that_name() -> None:
    schema = {
        "type": "object",
        "properties": {"minimum": {"type": "integer", "minimum": 1, "multipleOf": 2}},
        "$defs": {"maximum": {"const": 3, "maximum": 3}},
        "additionalProperties": False,
        "default": {"minimum": 1, "const": 2},
        "anyOf": [{"const": "x"}, {"exclusiveMinimum": 0}],
    }
    before = copy.deepcopy(schema)

    assert sanitize_tool_schema(schema, drop_numeric_bounds=True) == {
        "type": "object",
        "properties": {"minimum": {"type": "integer"}},
        "$defs": {"maximum": {"enum": [3]}},
        "additionalProperties": False,
        "default": {"minimum": 1, "const": 2},
        "anyOf": [{"enum": ["x"]}, {}],
    }
    assert "additionalProperties" not in sanitize_tool_schema(
        schema, drop_additional_properties=True
    )
    assert schema == before


_schemas = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["properties", "const", "minimum", "x", "enum", "anyOf"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(["properties", "const", "minimum", "x"]), _schemas))
def test_sanitizing_twice_changes_nothing_more(schema: dict[str, Any]) -> None:
    once = sanitize_tool_schema(schema, drop_numeric_bounds=True)

    assert sanitize_tool_schema(once, drop_numeric_bounds=True) == once


def test_what_json_cannot_express_is_refused() -> None:
    with pytest.raises(TypeError, match="no counterpart"):
        type_schema(set[int])


def test_a_nested_class_is_rendered_in_place() -> None:
    @attrs.frozen
    class Inner:
        size: int = attrs.field(metadata={"description": "How big."})

    @attrs.frozen
    class Outer:
        inner: Inner
        many: list[float]

    # Local classes cannot be found by name when annotations are text.
    Inner.__annotations__["size"] = int
    Outer.__annotations__.update(inner=Inner, many=list[float])
    attrs.resolve_types(Inner, localns={"Inner": Inner})
    attrs.resolve_types(Outer, localns={"Inner": Inner})

    assert model_schema(Outer)["properties"] == {
        "inner": {
            "type": "object",
            "properties": {"size": {"type": "integer", "description": "How big."}},
            "required": ["size"],
        },
        "many": {"type": "array", "items": {"type": "number"}},
    }


def test_helpers_for_frameworks() -> None:
    text = get_tool_docstring_with_args("band_no_reply")

    assert text.startswith("Finish the turn without posting anything.")
    assert "\nArgs:\n    reason: Why no answer is needed" in text
    assert "Args" not in get_tool_docstring_with_args("band_get_participants")


def test_categories_and_effects_by_name() -> None:
    assert get_band_tool_category("band_send_message") is ToolCategory.CHAT
    assert get_band_tool_category("mine") is None
    assert turn_effect(
        "band_send_message", custom_effects={"band_send_message": TurnEffect.ACT}
    ) is (TurnEffect.REPLY)
    assert turn_effect("mine", custom_effects={"mine": TurnEffect.ACT}) is TurnEffect.ACT
    assert turn_effect("mine") is TurnEffect.OBSERVE
    assert not withheld_tool_names(frozenset(Capability)) & {
        row.name for row in iter_tool_definitions()
    }


def test_other_spellings_of_names() -> None:
    own = {"band_get_task", "band_no_reply"}

    assert mcp_tool_names(own) == ["mcp__band__band_get_task", "mcp__band__band_no_reply"]
    assert canonicalize_mcp_tool_name("band-band_get_task", own) == "band_get_task"
    assert canonicalize_mcp_tool_name("band-other", own) == "band-other"
    assert canonicalize_mcp_tool_name("jira-band_get_task", own) == "jira-band_get_task"
    assert turn_effect("create_agent_chat_message") is TurnEffect.REPLY


def test_lists_unions_and_choices_have_schemas() -> None:
    class Level(Enum):
        LOW = 1
        HIGH = 2

    assert type_schema(list) == {"type": "array", "items": {}}
    assert type_schema(Level) == {"type": "integer", "enum": [1, 2]}
    assert type_schema(Literal["a", 1]) == {"enum": ["a", 1]}
    assert type_schema(int | None) == {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert type_schema(date) == {"type": "string", "format": "date"}
    assert type_schema(Annotated[str, "words"]) == {"type": "string", "description": "words"}

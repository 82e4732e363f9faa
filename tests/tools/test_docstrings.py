"""What the docstrings of custom tools tell a model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any

import attrs
import pydantic
import pytest

from band_trio.testing import FakeAgentTools
from band_trio.tools.docstrings import argument_descriptions, tool_description
from tests.support.for_each import for_each


def find(query: str, limit: int = 5, where: Annotated[str, "A place."] = "") -> str:
    """Find something.

    In the
    archive.

    Args:
        query (str): What to look for,
            in plain words.
        limit: Most results: a number.
        where: Not used, the annotation says it.

    Returns:
        What was found.
    """
    return f"{query} {limit} {where}"


@attrs.frozen
class Find:
    """Find something.

    Attributes:
        query: What to look for.
        limit: Most results.
    """

    query: str
    limit: int = attrs.field(default=5, metadata={"description": "From the field."})


@dataclasses.dataclass
class Place:
    query: str
    limit: int = 5


class Order(pydantic.BaseModel):
    """Order something.

    Args:
        query: What to look for.
    """

    query: str
    limit: int = pydantic.Field(5, description="From the field.")


def offered(tool: Any) -> tuple[str, dict[str, str | None]]:
    """The description of a tool, and those of its arguments."""
    (schema,) = FakeAgentTools(custom_tools=[tool]).get_anthropic_tool_schemas()[-1:]
    props = schema["input_schema"]["properties"]
    return schema["description"], {name: each.get("description") for name, each in props.items()}


def test_arguments_are_described_each_at_its_place() -> None:
    description, arguments = offered(find)

    assert description == "Find something.\n\nIn the archive.\n\nReturns: What was found."
    assert arguments == {
        "query": "What to look for, in plain words.",
        "limit": "Most results: a number.",
        "where": "A place.",
    }


@pytest.mark.parametrize(
    ("cls", "limit"),
    [(Find, "From the field."), (Order, "From the field.")],
)
def test_classes_are_read_like_functions(cls: type, limit: str) -> None:
    description, arguments = offered((cls, lambda it: it))

    assert description in ("Find something.", "Order something.")
    assert arguments == {"query": "What to look for.", "limit": limit}


def test_a_dataclass_without_a_docstring_has_no_description() -> None:
    assert offered((Place, lambda it: it)) == ("", {"query": None, "limit": None})


def documented(text: str) -> Callable[[], None]:
    def tool() -> None: ...

    tool.__doc__ = text
    return tool


@for_each(
    "text",
    [
        "Do it.\n\nArgs:\n    free words without a colon",
        "Do it.\n\nArgs:\n\nThe end.",
        "Do it.\n\nArgs: none",
    ],
)
def test_a_section_in_another_style_stays_in_the_description(text: str) -> None:
    assert argument_descriptions(documented(text)) == {}
    assert "Args:" in tool_description(documented(text))

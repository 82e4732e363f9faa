"""Each format: what it looks like, and that any history obeys the rules of its API."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from band_trio.converters import (
    AnthropicHistoryConverter,
    OpenAIHistoryConverter,
    PlainHistoryConverter,
    PydanticAIHistoryConverter,
    TranscriptConverter,
)
from tests.converters.kit import (
    called,
    check_anthropic,
    check_name,
    check_openai,
    histories,
    own,
    returned,
    said,
)
from tests.support.for_each import for_each

ROOM = [
    said("look it up"),
    said("please", by="Bob"),
    own("one moment"),
    called("search", "x", q="é"),
    called("fetch", "y"),
    said("hurry", by="Bob"),
    returned("fetch", "y", {"n": 1}),
    returned("search", "x", "not found", is_error=True),
    own("sorry"),
    own("really"),
]
LINES = "[Maria]: look it up\n[Bob]: please"


def test_anthropic() -> None:
    assert AnthropicHistoryConverter().convert(ROOM) == [
        {"role": "user", "content": [{"type": "text", "text": LINES}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "one moment"},
                {"type": "tool_use", "id": "call_1", "name": "search", "input": {"q": "é"}},
                {"type": "tool_use", "id": "call_2", "name": "fetch", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "call_1", "content": "not found",
                 "is_error": True},
                {"type": "tool_result", "tool_use_id": "call_2", "content": '{"n": 1}'},
                {"type": "text", "text": "[Bob]: hurry"},
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "sorry\n\nreally"}]},
    ]  # fmt: skip


def test_openai() -> None:
    def call(number: int, name: str, arguments: str) -> dict[str, Any]:
        function = {"name": name, "arguments": arguments}
        return {"id": f"call_{number}", "type": "function", "function": function}

    assert OpenAIHistoryConverter().convert(ROOM) == [
        {"role": "user", "content": LINES},
        {
            "role": "assistant",
            "content": "one moment",
            "tool_calls": [call(1, "search", '{"q": "é"}'), call(2, "fetch", "{}")],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "Error: not found"},
        {"role": "tool", "tool_call_id": "call_2", "content": '{"n": 1}'},
        {"role": "user", "content": "[Bob]: hurry"},
        {"role": "assistant", "content": "sorry\n\nreally"},
    ]


def test_a_failure_that_says_so_is_not_marked_twice() -> None:
    raw = [said("x"), called("a", "1"), returned("a", "1", "Error: no", is_error=True)]

    assert OpenAIHistoryConverter().convert(raw)[-1]["content"] == "Error: no"


def test_pydantic_ai() -> None:
    first, calls, results, last = PydanticAIHistoryConverter().convert(ROOM)

    assert isinstance(first, ModelRequest)
    assert isinstance(calls, ModelResponse)
    assert isinstance(results, ModelRequest)
    assert isinstance(last, ModelResponse)
    assert [part.content for part in first.parts if isinstance(part, UserPromptPart)] == [LINES]
    assert [type(part) for part in calls.parts] == [TextPart, ToolCallPart, ToolCallPart]
    answers = [
        (part.tool_name, part.content, part.outcome)
        for part in results.parts
        if isinstance(part, ToolReturnPart)
    ]
    assert answers == [("search", "not found", "failed"), ("fetch", '{"n": 1}', "success")]
    assert isinstance(results.parts[-1], UserPromptPart)
    assert [p.content for p in last.parts if isinstance(p, TextPart)] == ["sorry\n\nreally"]


def test_plain_texts_alternate() -> None:
    assert PlainHistoryConverter().convert(ROOM) == [
        {"role": "user", "content": LINES},
        {"role": "assistant", "content": "one moment"},
        {"role": "user", "content": "[Bob]: hurry"},
        {"role": "assistant", "content": "sorry\n\nreally"},
    ]


@pytest.mark.parametrize("show_calls", [False, True])
def test_transcript(show_calls: bool) -> None:
    converter = TranscriptConverter(show_calls=show_calls)
    converter.set_agent_name("Scribe")

    lines = converter.convert(ROOM).split("\n")

    calls = ["(Scribe called search: failed)", "(Scribe called fetch: done)"]
    assert lines == [
        *LINES.split("\n"),
        "[Scribe]: one moment",
        *(calls if show_calls else []),
        "[Bob]: hurry",
        "[Scribe]: sorry",
        "[Scribe]: really",
    ]


@for_each(
    "converter",
    [AnthropicHistoryConverter(), OpenAIHistoryConverter(), PlainHistoryConverter(),
     PydanticAIHistoryConverter()],
)  # fmt: skip
def test_nothing_gives_nothing(converter: Any) -> None:
    assert converter.convert([]) == []


# --------------------------------------------------------------------------- any history


@given(histories)
def test_any_history_obeys_the_rules(raw: list[Any]) -> None:
    before = copy.deepcopy(raw)

    anthropic = AnthropicHistoryConverter().convert(raw)
    openai = OpenAIHistoryConverter().convert(raw)
    plain = PlainHistoryConverter().convert(raw)

    check_anthropic(anthropic)
    check_openai(openai)
    check_openai(list(plain))
    TranscriptConverter(show_calls=True).convert(raw)
    assert raw == before
    assert anthropic == AnthropicHistoryConverter().convert(raw)
    assert openai == OpenAIHistoryConverter().convert(raw)


@given(histories)
def test_any_history_is_a_conversation_of_pydantic_ai(raw: list[Any]) -> None:
    messages = PydanticAIHistoryConverter().convert(raw)

    waiting: list[str] = []
    for number, message in enumerate(messages):
        if number % 2:
            assert isinstance(message, ModelResponse)
            waiting = [p.tool_call_id for p in message.parts if isinstance(p, ToolCallPart)]
            for part in message.parts:
                if isinstance(part, ToolCallPart):
                    check_name(part.tool_name)
                    json.dumps(part.args, allow_nan=False)
        else:
            assert isinstance(message, ModelRequest)
            returns = [p.tool_call_id for p in message.parts if isinstance(p, ToolReturnPart)]
            assert returns == waiting
            assert all(isinstance(p, UserPromptPart) for p in message.parts[len(returns) :])
            waiting = []
    assert not waiting

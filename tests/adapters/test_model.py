"""What is pydantic-ai's own: models by name or ready made, settings, pictures."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from band_trio.adapters.model import ModelAdapter, ModelAdapterConfig
from band_trio.adapters.replies import ToolRequest
from band_trio.errors import BandConfigError
from band_trio.testing import ErrorTurn, make_message, run_turn, serving
from band_trio.types import ToolCallOutcome
from tests.adapters.kit import KINDS, NO_REPLY, bench, make_tools
from tests.support.for_each import for_each


async def test_a_ready_model() -> None:
    seen: list[AgentInfo] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(info)
        return ModelResponse([TextPart("hello")])

    adapter = ModelAdapter(model=FunctionModel(answer), emit=())
    async with serving(adapter):
        await run_turn(adapter, make_message("hi", sender_id="u1"), make_tools(adapter))

    assert "band_send_message" in [tool.name for tool in seen[0].function_tools]
    assert (seen[0].instructions or "").startswith("You are Agent")


@for_each("name", ["nonsense", "nobody:knows", "openai:"])
async def test_unknown_models_are_told_before_anything_starts(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(BandConfigError, match="ModelAdapter"):
        await ModelAdapter(ModelAdapterConfig(model=name)).serve()


class StatusError(Exception):
    def __init__(self, status_code: int) -> None:
        self.status_code = status_code


class TransportError(Exception):
    """As in httpx."""


def _caused(cause: Exception) -> Exception:
    error = RuntimeError("wrapped")
    error.__cause__ = cause
    return error


@for_each(
    ("errors", "asked", "seconds"),
    [([StatusError(429), StatusError(503)], 3, 3.0),
     ([TransportError("x")], 2, 1.0),
     ([_caused(ConnectionResetError())], 2, 1.0),
     ([StatusError(500)] * 3, 3, 3.0),
     ([StatusError(401)], 1, 0.0),
     ([ValueError("x")], 1, 0.0)],
)  # fmt: skip
async def test_a_client_that_does_not_repeat_is_asked_again(
    errors: list[Exception], asked: int, seconds: float, autojump_clock: trio.testing.MockClock
) -> None:
    times: list[float] = []

    async def answer(  # noqa: ASYNC124 - a sync one runs in a thread
        messages: list[ModelMessage], info: AgentInfo
    ) -> ModelResponse:
        times.append(trio.current_time())
        if len(times) <= len(errors):
            raise errors[len(times) - 1]
        return ModelResponse([ToolCallPart("band_no_reply", {})])

    async with serving(ModelAdapter(model=FunctionModel(answer), emit=())) as adapter:
        start = trio.current_time()
        result = await run_turn(adapter, make_message("hi", sender_id="u1"), make_tools(adapter))

    assert result.record == ("processed" if len(times) > len(errors) else "failed")
    assert len(times) == asked
    assert times[-1] - start == pytest.approx(seconds)


@for_each("kind", KINDS[2:], ids=lambda kind: kind.name)
async def test_a_client_that_repeats_is_left_to_it(kind: Any) -> None:
    async with bench(kind, [ErrorTurn(status=500), NO_REPLY]) as b:
        with trio.fail_after(0.9):
            assert (await b.turn()).record == "failed"
        assert len(b.model.requests) == 1


@for_each("kind", KINDS[2:], ids=lambda kind: kind.name)
async def test_settings_reach_the_model(kind: Any) -> None:
    async with bench(kind, [NO_REPLY], max_tokens=9, settings={"temperature": 0.5}) as b:
        await b.turn()

        request = b.model.requests[0]
        assert request["temperature"] == 0.5
        assert 9 in (request.get("max_tokens"), request.get("max_completion_tokens"))


def test_pictures_are_pictures() -> None:
    adapter = ModelAdapter(ModelAdapterConfig(model="openai:m"))
    picture = {"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]}
    messages: list[ModelMessage] = []

    adapter.add_results(
        messages,
        [ToolRequest("1", "band_read_room_file", {})],
        [ToolCallOutcome(picture, ok=True)],
    )

    [request] = messages
    assert isinstance(request, ModelRequest)
    [part] = request.parts
    assert isinstance(part, ToolReturnPart)
    assert isinstance(part.content, list)
    text, shown = part.content
    assert text == "<1 image content block(s)>"
    assert isinstance(shown, BinaryContent)
    assert (shown.media_type, shown.data) == ("image/png", b"\0\0\0")

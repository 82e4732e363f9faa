"""What is pydantic-ai's own: models by name or ready made, settings, pictures."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from band_trio.adapters.model import ModelAdapter, ModelAdapterConfig
from band_trio.adapters.replies import ToolRequest
from band_trio.errors import BandConfigError
from band_trio.testing import make_message, run_turn
from band_trio.types import ToolCallOutcome
from tests.adapters.kit import KINDS, NO_REPLY, bench, make_tools, serving


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


@pytest.mark.parametrize("name", ["nonsense", "nobody:knows", "openai:"])
async def test_unknown_models_are_told_before_anything_starts(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(BandConfigError, match="ModelAdapter"):
        await ModelAdapter(ModelAdapterConfig(model=name)).serve()


def test_a_model_is_needed() -> None:
    with pytest.raises(BandConfigError, match="names a model"):
        ModelAdapter()


@pytest.mark.parametrize("kind", KINDS[2:], ids=lambda kind: kind.name)
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

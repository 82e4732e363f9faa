"""The messages of pydantic-ai, for every provider that it knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from band_trio.converters.exchanges import AssistantText, UserText, build_exchanges
from band_trio.converters.plain import joined
from band_trio.kit.extras import load_extra

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelRequestPart, ModelResponsePart


class PydanticAIHistoryConverter:
    """History as requests and responses in turn, the first a request.

    The results of one exchange are in one request, before the texts that follow them.

    Raises:
        ImportError: the extra `pydantic-ai` is not installed.
    """

    def __init__(self) -> None:
        load_extra("pydantic_ai.messages", "pydantic-ai", type(self).__name__)

    def convert(self, raw: list[dict[str, Any]]) -> list[ModelMessage]:
        """Return the messages of *raw*, oldest first."""
        from pydantic_ai.messages import TextPart, ToolCallPart, UserPromptPart

        messages: list[ModelMessage] = []
        for entry in build_exchanges(raw):
            if isinstance(entry, UserText):
                add_request(messages, UserPromptPart(entry.line))
            elif isinstance(entry, AssistantText):
                _add_response(messages, TextPart(entry.text))
            else:
                for call in entry.calls:
                    _add_response(messages, ToolCallPart(call.name, call.args, call.id))
                for call, result in zip(entry.calls, entry.results, strict=True):
                    part = result_part(call.id, call.name, result.output, is_error=result.is_error)
                    add_request(messages, part)
        return messages


def result_part(call_id: str, name: str, content: Any, *, is_error: bool) -> ModelRequestPart:
    """Return the part that answers one call."""
    from pydantic_ai.messages import ToolReturnPart

    return ToolReturnPart(name, content, call_id, outcome="failed" if is_error else "success")


def add_request(messages: list[ModelMessage], part: ModelRequestPart) -> None:
    """Append *part* to *messages*, to the last request where nothing answers that yet.

    Never changes a message that is in the list already. A text after a text joins it.
    """
    from pydantic_ai.messages import ModelRequest, UserPromptPart

    last = messages[-1] if messages else None
    if not isinstance(last, ModelRequest):
        messages.append(ModelRequest([part]))
        return
    parts = list(last.parts)
    before = parts[-1] if parts else None
    if (
        isinstance(part, UserPromptPart)
        and isinstance(before, UserPromptPart)
        and isinstance(part.content, str)
        and isinstance(before.content, str)
    ):
        parts[-1] = UserPromptPart(joined("user", before.content, part.content))
    else:
        parts.append(part)
    messages[-1] = ModelRequest(parts)


def _add_response(messages: list[ModelMessage], part: ModelResponsePart) -> None:
    from pydantic_ai.messages import ModelResponse, TextPart

    last = messages[-1] if messages else None
    if not isinstance(last, ModelResponse):
        messages.append(ModelResponse([part]))
        return
    parts = list(last.parts)
    before = parts[-1] if parts else None
    if isinstance(part, TextPart) and isinstance(before, TextPart):
        parts[-1] = TextPart(joined("assistant", before.content, part.content))
    else:
        parts.append(part)
    messages[-1] = ModelResponse(parts)

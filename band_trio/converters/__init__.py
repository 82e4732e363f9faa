"""History converters: what was said in a room, in the format of a model's API.

All of them stand on `build_exchanges` and never raise. None needs the SDK of its provider except
`PydanticAIHistoryConverter`, which loads it when one is made.
"""

from band_trio.converters.anthropic import AnthropicHistoryConverter
from band_trio.converters.exchanges import (
    INTERRUPTED_TOOL_TEXT,
    AssistantText,
    Call,
    Entry,
    Exchange,
    Result,
    UserText,
    build_exchanges,
)
from band_trio.converters.openai import OpenAIHistoryConverter
from band_trio.converters.plain import PlainHistoryConverter
from band_trio.converters.pydantic_ai import PydanticAIHistoryConverter
from band_trio.converters.transcript import TranscriptConverter

__all__ = [
    "INTERRUPTED_TOOL_TEXT",
    "AnthropicHistoryConverter",
    "AssistantText",
    "Call",
    "Entry",
    "Exchange",
    "OpenAIHistoryConverter",
    "PlainHistoryConverter",
    "PydanticAIHistoryConverter",
    "Result",
    "TranscriptConverter",
    "UserText",
    "build_exchanges",
]

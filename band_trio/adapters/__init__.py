"""Adapters: what turns a message into work. Subclass `SimpleAdapter`, or take one that ships.

The adapters for models are loaded on first use; each needs the extra of its SDK.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from band_trio.adapters.base import SimpleAdapter
from band_trio.adapters.calls import call_tool
from band_trio.adapters.echo import EchoAdapter
from band_trio.adapters.later import LATER
from band_trio.adapters.rules import RuleAdapter

if TYPE_CHECKING:
    from band_trio.adapters.anthropic import AnthropicAdapter, AnthropicConfig
    from band_trio.adapters.asyncio_host import AsyncioHost, HostCall, open_asyncio_host
    from band_trio.adapters.bridge import AsyncioAdapter, AsyncioAdapterConfig
    from band_trio.adapters.bridged import BridgedTool, BridgedTurn, current_turn
    from band_trio.adapters.loop import ModelLoopAdapter
    from band_trio.adapters.model import ModelAdapter, ModelAdapterConfig
    from band_trio.adapters.openai import OpenAIAdapter, OpenAIConfig
    from band_trio.adapters.options import (
        BaseAdapterConfig,
        EnvAdapterConfig,
        ModelConfig,
    )
    from band_trio.adapters.replies import ModelReply, ToolRequest

__all__ = [
    "AnthropicAdapter",
    "AnthropicConfig",
    "AsyncioAdapter",
    "AsyncioAdapterConfig",
    "AsyncioHost",
    "BaseAdapterConfig",
    "BridgedTool",
    "BridgedTurn",
    "EchoAdapter",
    "EnvAdapterConfig",
    "HostCall",
    "ModelAdapter",
    "ModelAdapterConfig",
    "ModelConfig",
    "ModelLoopAdapter",
    "ModelReply",
    "OpenAIAdapter",
    "OpenAIConfig",
    "RuleAdapter",
    "SimpleAdapter",
    "ToolRequest",
    "call_tool",
    "current_turn",
    "open_asyncio_host",
]


def __getattr__(name: str) -> Any:
    if name not in LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{LATER[name]}"), name)

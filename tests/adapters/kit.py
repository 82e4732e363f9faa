"""The four adapters for models as tests run them: real SDKs, scripted models on loopback."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

import anthropic as _anthropic  # noqa: F401 - loaded here, not in the first test's time
import attrs
import openai as _openai  # noqa: F401
import pydantic_ai.direct as _direct  # noqa: F401

from band_trio.adapters.anthropic import AnthropicAdapter, AnthropicConfig
from band_trio.adapters.loop import ModelLoopAdapter
from band_trio.adapters.model import ModelAdapter, ModelAdapterConfig
from band_trio.adapters.openai import OpenAIAdapter, OpenAIConfig
from band_trio.testing import FakeAgentTools, TurnResult, make_message, run_turn, serving
from band_trio.testing.scripted_anthropic import open_scripted_anthropic
from band_trio.testing.scripted_http import ScriptedServer
from band_trio.testing.scripted_model import Script, ScriptedModel, ToolTurn
from band_trio.testing.scripted_openai import open_scripted_openai

Adapter = ModelLoopAdapter[Any, Any]
Opener = Callable[[ScriptedModel], AbstractAsyncContextManager[ScriptedServer]]

FEATURES: Final = (
    "emit", "capabilities", "include_tools", "exclude_tools", "include_categories",
    "additional_tools", "tool_timeout",
)  # fmt: skip


def _made(
    adapter: Callable[..., Adapter], config: Callable[..., Any], name: str
) -> Callable[..., Adapter]:
    def make(server: ScriptedServer, **options: Any) -> Adapter:
        features = {key: options.pop(key) for key in FEATURES if key in options}
        defaults = {"model": name, "base_url": server.base_url, "provider_key": server.api_key}
        return adapter(config(**{**defaults, "max_retries": 0, **options}), **features)

    return make


@attrs.frozen
class Kind:
    """One adapter with one API behind it."""

    name: str
    api: str
    open: Opener
    make: Callable[..., Adapter]


KINDS: Final = [
    Kind("openai", "openai", open_scripted_openai, _made(OpenAIAdapter, OpenAIConfig, "m")),
    Kind(
        "anthropic", "anthropic", open_scripted_anthropic,
        _made(AnthropicAdapter, AnthropicConfig, "m"),
    ),
    Kind(
        "model-openai", "openai", open_scripted_openai,
        _made(ModelAdapter, ModelAdapterConfig, "openai-chat:m"),
    ),
    Kind(
        "model-anthropic", "anthropic", open_scripted_anthropic,
        _made(ModelAdapter, ModelAdapterConfig, "anthropic:m"),
    ),
]  # fmt: skip


@attrs.frozen
class Bench:
    """An adapter that is open, its model, and a room."""

    adapter: Adapter
    model: ScriptedModel
    tools: FakeAgentTools

    async def turn(self, content: str = "hello", **options: Any) -> TurnResult:
        """Run one turn with a message of Maria's; `id` and `room_id` go into the message."""
        fields = {
            key: options.pop(key) for key in ("id", "room_id", "sender_type") if key in options
        }
        message = make_message(content, sender_id="u1", **fields)
        options.setdefault("is_session_bootstrap", False)
        return await run_turn(self.adapter, message, self.tools, **options)

    @property
    def last(self) -> list[dict[str, Any]]:
        """The messages of the newest request, without the prompt."""
        return without_prompt(self.model.requests[-1])


def without_prompt(request: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in request["messages"] if each["role"] not in ("system", "developer")]


@asynccontextmanager
async def bench(kind: Kind, script: Script = (), **options: Any) -> AsyncGenerator[Bench]:
    """Open an adapter of *kind* on a scripted model; at the end no rule may have been broken."""
    model = ScriptedModel(script)
    async with kind.open(model) as server:
        adapter = kind.make(server, **options)
        async with serving(adapter, agent_name="Scribe", agent_description="notes"):
            yield Bench(adapter, model, make_tools(adapter))
    assert model.violations == []


def make_tools(adapter: Adapter) -> FakeAgentTools:
    people = [
        {"id": "u1", "handle": "maria", "name": "Maria"},
        {"id": "me", "handle": "maria/scribe", "name": "Scribe", "type": "Agent"},
    ]
    return FakeAgentTools(participants=people, agent_id="me", features=adapter.features)


def send(content: str = "hi") -> ToolTurn:
    return ToolTurn("band_send_message", {"content": content, "mentions": ["u1"]})


NO_REPLY: Final = ToolTurn("band_no_reply", {"reason": "thanks only"})
LOOK: Final = ToolTurn("band_get_participants")


def texts(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return role and text of each text in a request, in either API's form."""
    found: list[tuple[str, str]] = []
    for message in messages:
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        found += [(message["role"], b["text"]) for b in blocks if b["type"] == "text"]
    return [(role, text) for role, text in found if role != "tool"]


def results(messages: list[dict[str, Any]]) -> list[tuple[str, bool]]:
    """Return text and failure of each tool result in a request, in either API's form."""
    found: list[tuple[str, bool]] = []
    for message in messages:
        if message["role"] == "tool":
            found.append((message["content"], message["content"].startswith("Error")))
        for block in message["content"] if isinstance(message.get("content"), list) else ():
            if block["type"] == "tool_result":
                content = block["content"]
                text = content if isinstance(content, str) else content[0]["text"]
                found.append((text, bool(block.get("is_error"))))
    return found

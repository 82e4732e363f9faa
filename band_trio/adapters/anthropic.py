"""`AnthropicAdapter`: Claude, through Anthropic's messages API."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Unpack, cast

import attrs

from band_trio.adapters.clients import ClientAdapter
from band_trio.adapters.options import (
    ModelConfig,
    config_or_environment,
)
from band_trio.adapters.pictures import pictures_of
from band_trio.adapters.replies import UNREADABLE, ModelReply, ToolRequest
from band_trio.config.options import MAPPING, switch
from band_trio.converters.anthropic import (
    AnthropicHistoryConverter,
    AnthropicMessage,
    Block,
    add_blocks,
    result_block,
    text_block,
)
from band_trio.errors import BandConfigError, ProviderRunError
from band_trio.features import CustomToolDef
from band_trio.kit.extras import load_extra
from band_trio.types import (
    FeatureKwargs,
    HistoryConverter,
    ToolCallOutcome,
    ToolFormat,
    TurnUsage,
)

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from anthropic.types import ContentBlock, Message

KEY_VARIABLE: Final = "ANTHROPIC_API_KEY"
_THINKING: Final = frozenset({"thinking", "redacted_thinking"})


@attrs.frozen(kw_only=True)
class AnthropicConfig(ModelConfig):
    """Options of the `AnthropicAdapter`; see `ModelConfig` for the common ones."""

    ENV_PREFIX: ClassVar[str] = "BAND_ANTHROPIC_"

    cache_prompt: bool = switch(default=True)
    """Whether the provider may cache prompt and tools, which are the same in every request."""
    extra_body: dict[str, Any] = attrs.field(factory=dict, metadata=MAPPING)
    """More fields of each request, such as `thinking`."""


class AnthropicAdapter(ClientAdapter[AnthropicMessage, AnthropicConfig, "AsyncAnthropic"]):
    """An agent on Claude.

    ```python
    adapter = AnthropicAdapter(AnthropicConfig(model="claude-sonnet-5-5"))
    ```

    The client is opened once, in `serve`, and closed there; a *client* that is handed in stays
    open. Without *config* the options are those of the environment, `BAND_ANTHROPIC_MODEL` and so
    on.

    Raises:
        ImportError: the extra `anthropic` is not installed.
        BandConfigError: *config* is none for this adapter, or the environment names no model.
    """

    PROVIDER: ClassVar[str] = "anthropic"
    TOOL_FORMAT: ClassVar[ToolFormat] = "anthropic"

    def __init__(
        self,
        config: AnthropicConfig | None = None,
        *,
        client: AsyncAnthropic | None = None,
        history_converter: HistoryConverter[list[AnthropicMessage]] | None = None,
        additional_tools: Sequence[CustomToolDef] = (),
        tool_timeout: float | None = None,
        **features: Unpack[FeatureKwargs],
    ) -> None:
        load_extra("anthropic", "anthropic", "AnthropicAdapter")
        super().__init__(
            config_or_environment(config, AnthropicConfig, "AnthropicAdapter"),
            history_converter or AnthropicHistoryConverter(),
            client=client,
            additional_tools=additional_tools,
            tool_timeout=tool_timeout,
            **features,
        )

    def new_client(self) -> AsyncAnthropic:
        """Make a client of the SDK from the options."""
        from anthropic import AsyncAnthropic

        client = AsyncAnthropic(
            api_key=self.config.provider_key,
            base_url=self.config.base_url,
            max_retries=self.config.max_retries,
            timeout=self.config.request_seconds,
        )
        sources = ("api_key", "auth_token", "credentials")
        if not any(getattr(client, source, None) for source in sources):
            raise BandConfigError(f"AnthropicAdapter needs a key: provider_key, or {KEY_VARIABLE}.")
        return client

    # ----------------------------------------------------------------- the dialect

    async def ask(
        self, system: str, messages: Sequence[AnthropicMessage], tools: list[dict[str, Any]]
    ) -> ModelReply[AnthropicMessage]:
        """Send one request to the messages API."""
        prompt = text_block(system)
        if self.config.cache_prompt:  # what stands before this block, the tools, is covered too
            prompt["cache_control"] = {"type": "ephemeral"}
        optional: dict[str, Any] = {"tools": tools} if tools else {}
        if system.strip():
            optional["system"] = [prompt]
        if self.config.extra_body:
            optional["extra_body"] = self.config.extra_body
        # The SDK's types name each kind of block; ours are the same dicts.
        create = cast(Any, self.client.messages.create)
        answer: Message = await create(
            model=self.config.model,
            max_tokens=self.config.max_tokens,
            messages=messages,
            **optional,
        )
        # Some servers answer an error, or a page, with a 200: then there is no content.
        if not hasattr(answer, "content"):
            raise ProviderRunError(UNREADABLE, None)
        return _read(answer)

    def add_user_text(self, messages: list[AnthropicMessage], text: str) -> None:
        """Append *text*, to the last message where that is the user's."""
        add_blocks(messages, "user", [text_block(text)])

    def add_results(
        self,
        messages: list[AnthropicMessage],
        calls: Sequence[ToolRequest],
        outcomes: Sequence[ToolCallOutcome],
    ) -> None:
        """Append one user message with a result for each call."""
        results = [
            result_block(call.id, _content(outcome.value), is_error=not outcome.ok)
            for call, outcome in zip(calls, outcomes, strict=True)
        ]
        add_blocks(messages, "user", results)

    def call_ids(self, message: AnthropicMessage) -> Iterable[str]:
        """Return the ids of the blocks that ask for tools."""
        content = message["content"]
        blocks = content if isinstance(content, list) else ()
        return [block["id"] for block in blocks if block["type"] == "tool_use"]

    def with_calls(
        self, message: AnthropicMessage, calls: Sequence[ToolRequest]
    ) -> AnthropicMessage:
        """Return *message* with a block for each of *calls*, where its own were."""
        uses = iter(
            {"type": "tool_use", "id": call.id, "name": call.name, "input": call.args}
            for call in calls
        )
        blocks = [next(uses) if b["type"] == "tool_use" else b for b in message["content"]]
        return {**message, "content": blocks}

    def as_first(self, message: AnthropicMessage) -> AnthropicMessage | None:
        """Return a user's message without the results of calls before it."""
        if message["role"] != "user":
            return None
        blocks = message["content"]
        if isinstance(blocks, str):
            return message
        texts = [block for block in blocks if block["type"] != "tool_result"]
        return {"role": "user", "content": texts} if texts else None


def _read(answer: Message) -> ModelReply[AnthropicMessage]:
    usage = TurnUsage.from_object(
        answer.usage,
        input="input_tokens",
        output="output_tokens",
        cache_read="cache_read_input_tokens",
        cache_write="cache_creation_input_tokens",
    )
    blocks = [_block(block) for block in answer.content or ()]
    text = "\n\n".join(block["text"] for block in blocks if block["type"] == "text")
    if answer.stop_reason == "refusal":
        return ModelReply(None, text, usage=usage, refused=True)
    kept = [block for block in blocks if block["type"] != "text" or block["text"].strip()]
    while kept and kept[-1]["type"] in _THINKING:
        kept.pop()  # the API refuses a message that ends with them
    uses = [block for block in answer.content or () if block.type == "tool_use"]
    calls = tuple(ToolRequest(use.id, use.name, use.input) for use in uses)
    message: AnthropicMessage | None = {"role": "assistant", "content": kept} if kept else None
    cut = answer.stop_reason in ("max_tokens", "model_context_window_exceeded")
    return ModelReply(message, text, calls, usage, cut=cut)


def _block(block: ContentBlock) -> Block:
    """Return a block as it goes back: as it came, those of a thinking model carry a signature.

    Raises:
        ProviderRunError: it is nested too deeply.
    """
    if block.type == "tool_use":  # its input may be of any depth; `with_calls` adds what is sent
        return {"type": "tool_use"}
    try:
        return block.model_dump(mode="json", exclude_none=True)
    except ValueError as exc:
        raise ProviderRunError(UNREADABLE, None) from exc


def _content(value: Any) -> str | list[Block]:
    """Return a result as the API takes it; pictures as what they are."""
    text, pictures = pictures_of(value)
    if not pictures:
        return text
    images = [
        {
            "type": "image",
            "source": {"type": "base64", "media_type": each.media_type, "data": each.data},
        }
        for each in pictures
    ]
    return [text_block(text), *images]

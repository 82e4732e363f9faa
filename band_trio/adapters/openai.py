"""`OpenAIAdapter`: OpenAI's chat completions, and every server that speaks the same."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Unpack, cast

import attrs

from band_trio.adapters.clients import ClientAdapter
from band_trio.adapters.options import ModelConfig, config_or_environment
from band_trio.adapters.pictures import Picture, pictures_of
from band_trio.adapters.replies import ModelReply, ToolRequest
from band_trio.config.options import MAPPING, text
from band_trio.converters.exchanges import Result, tool_name
from band_trio.converters.openai import OpenAIHistoryConverter, OpenAIMessage, tool_message
from band_trio.converters.plain import joined
from band_trio.errors import BandConfigError, ProviderRunError
from band_trio.features import CustomToolDef
from band_trio.kit.extras import load_extra
from band_trio.texts import SYSTEM_UPDATE_PREFIX
from band_trio.types import (
    FeatureKwargs,
    HistoryConverter,
    ToolCallOutcome,
    ToolFormat,
    TurnUsage,
)

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types.chat import ChatCompletion, ChatCompletionMessage

KEY_VARIABLE: Final = "OPENAI_API_KEY"
NO_CHOICES: Final = "no_choices"
_PICTURES: Final = f"{SYSTEM_UPDATE_PREFIX}Pictures from "


@attrs.frozen(kw_only=True)
class OpenAIConfig(ModelConfig):
    """Options of the `OpenAIAdapter`; see `ModelConfig` for the common ones."""

    ENV_PREFIX: ClassVar[str] = "BAND_OPENAI_"

    token_option: str = text("max_completion_tokens")
    """The name of the limit of tokens in a request; older servers know only `max_tokens`."""
    extra_body: dict[str, Any] = attrs.field(factory=dict, metadata=MAPPING)
    """More fields of each request, such as `temperature`."""


class OpenAIAdapter(ClientAdapter[OpenAIMessage, OpenAIConfig, "AsyncOpenAI"]):
    """An agent on chat completions.

    ```python
    adapter = OpenAIAdapter(OpenAIConfig(model="gpt-5.2"))
    local = OpenAIAdapter(OpenAIConfig(model="qwen3", base_url="http://127.0.0.1:11434/v1"))
    ```

    The client is opened once, in `serve`, and closed there; a *client* that is handed in stays
    open. Without *config* the options are those of the environment, `BAND_OPENAI_MODEL` and so on.

    Raises:
        ImportError: the extra `openai` is not installed.
        BandConfigError: *config* is none for this adapter, or the environment names no model.
    """

    PROVIDER: ClassVar[str] = "openai"
    TOOL_FORMAT: ClassVar[ToolFormat] = "openai"

    def __init__(
        self,
        config: OpenAIConfig | None = None,
        *,
        client: AsyncOpenAI | None = None,
        history_converter: HistoryConverter[list[OpenAIMessage]] | None = None,
        additional_tools: Sequence[CustomToolDef] = (),
        tool_timeout: float | None = None,
        **features: Unpack[FeatureKwargs],
    ) -> None:
        load_extra("openai", "openai", "OpenAIAdapter")
        super().__init__(
            config_or_environment(config, OpenAIConfig, "OpenAIAdapter"),
            history_converter or OpenAIHistoryConverter(),
            client=client,
            additional_tools=additional_tools,
            tool_timeout=tool_timeout,
            **features,
        )

    def new_client(self) -> AsyncOpenAI:
        """Make a client of the SDK from the options."""
        from openai import AsyncOpenAI

        key = self.config.provider_key or os.environ.get(KEY_VARIABLE)
        if not key and self.config.base_url is None:
            raise BandConfigError(f"OpenAIAdapter needs a key: provider_key, or {KEY_VARIABLE}.")
        return AsyncOpenAI(
            api_key=key or "none",  # servers of one's own often want none, the SDK wants one
            base_url=self.config.base_url,
            max_retries=self.config.max_retries,
            timeout=self.config.request_seconds,
        )

    # ----------------------------------------------------------------- the dialect

    async def ask(
        self, system: str, messages: Sequence[OpenAIMessage], tools: list[dict[str, Any]]
    ) -> ModelReply[OpenAIMessage]:
        """Send one chat completion."""
        # The SDK's types name each kind of message; ours are the same dicts.
        create = cast(Any, self.client.chat.completions.create)
        optional: dict[str, Any] = {"tools": tools} if tools else {}
        if self.config.extra_body:
            optional["extra_body"] = self.config.extra_body
        completion: ChatCompletion = await create(
            model=self.config.model,
            messages=[{"role": "system", "content": system}, *messages],
            **{self.config.token_option: self.config.max_tokens},
            **optional,
        )
        # Some servers answer an error with a 200: then there are no choices.
        choices = getattr(completion, "choices", None)
        if not choices or choices[0].message is None:
            raise ProviderRunError(NO_CHOICES, None)
        return _read(completion, choices[0].message, choices[0].finish_reason)

    def add_user_text(self, messages: list[OpenAIMessage], text: str) -> None:
        """Append *text*, to the last message where that is the user's."""
        last = messages[-1] if messages else None
        if last is None or last["role"] != "user":
            messages.append({"role": "user", "content": text})
        elif isinstance(last["content"], str):
            messages[-1] = {**last, "content": joined("user", last["content"], text)}
        else:
            parts = [*last["content"], {"type": "text", "text": text}]
            messages[-1] = {**last, "content": parts}

    def add_results(
        self,
        messages: list[OpenAIMessage],
        calls: Sequence[ToolRequest],
        outcomes: Sequence[ToolCallOutcome],
    ) -> None:
        """Append a `tool` message for each call, and pictures after them: there they may stand."""
        shown: list[dict[str, Any]] = []
        for call, outcome in zip(calls, outcomes, strict=True):
            shown_as, pictures = pictures_of(outcome.value)
            messages.append(tool_message(call.id, Result(shown_as, is_error=not outcome.ok)))
            if pictures:
                title = f"{_PICTURES}{tool_name(call.name)}:"
                shown.append({"type": "text", "text": title})
                shown += [_picture(each) for each in pictures]
        if shown:
            messages.append({"role": "user", "content": shown})

    def call_ids(self, message: OpenAIMessage) -> Iterable[str]:
        """Return the ids in `tool_calls`."""
        return [call["id"] for call in message.get("tool_calls") or ()]

    def with_calls(self, message: OpenAIMessage, calls: Sequence[ToolRequest]) -> OpenAIMessage:
        """Return *message* with *calls* as its `tool_calls`."""
        if not calls:
            return message
        return {**message, "tool_calls": [_kept(call) for call in calls]}

    def as_first(self, message: OpenAIMessage) -> OpenAIMessage | None:
        """Return a user's message without the pictures of results before it."""
        content = message["content"]
        if message["role"] != "user" or isinstance(content, str):
            return message if message["role"] == "user" else None
        texts = [p for p in content if p["type"] == "text" and not p["text"].startswith(_PICTURES)]
        return {"role": "user", "content": texts} if texts else None


def _read(
    completion: ChatCompletion, message: ChatCompletionMessage, reason: str | None
) -> ModelReply[OpenAIMessage]:
    usage = _usage(completion)
    if reason == "content_filter" or message.refusal:
        return ModelReply(None, message.refusal or "", usage=usage, refused=True)
    said = _joined(message.content)
    functions = [(each.id, getattr(each, "function", None)) for each in message.tool_calls or ()]
    calls = tuple(ToolRequest(i, f.name or "", f.arguments) for i, f in functions if f is not None)
    kept: OpenAIMessage = {"role": "assistant", "content": said or None}
    return ModelReply(
        kept if calls or said.strip() else None, said, calls, usage, cut=reason == "length"
    )


def _joined(content: Any) -> str:
    """Return the text of an answer, which some servers give in parts."""
    if not isinstance(content, list):
        return content or ""
    texts = [part["text"] for part in content if part.get("type") == "text"]
    return "".join(texts)


def _kept(call: ToolRequest) -> dict[str, Any]:
    """Return a call as it is sent back."""
    arguments = json.dumps(call.args, ensure_ascii=False)
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


def _usage(completion: ChatCompletion) -> TurnUsage:
    usage = completion.usage
    details = getattr(usage, "prompt_tokens_details", None)
    cached = TurnUsage.from_object(details, input="", output="", cache_read="cached_tokens")
    return cached + TurnUsage.from_object(usage, input="prompt_tokens", output="completion_tokens")


def _picture(picture: Picture) -> dict[str, Any]:
    url = f"data:{picture.media_type};base64,{picture.data}"
    return {"type": "image_url", "image_url": {"url": url}}

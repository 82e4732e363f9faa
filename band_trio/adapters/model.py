"""`ModelAdapter`: any model that pydantic-ai knows, called directly and natively on trio."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Unpack, cast

import attrs
import trio

from band_trio.adapters.loop import ModelLoopAdapter
from band_trio.adapters.options import (
    CLOSE_SECONDS,
    ModelConfig,
    config_or_environment,
)
from band_trio.adapters.pictures import pictures_of
from band_trio.adapters.repeats import repeated
from band_trio.adapters.replies import ModelReply, ToolRequest
from band_trio.config.options import MAPPING
from band_trio.converters.pydantic_ai import (
    PydanticAIHistoryConverter,
    add_request,
    result_part,
)
from band_trio.errors import BandConfigError
from band_trio.features import CustomToolDef
from band_trio.kit.extras import load_extra
from band_trio.kit.hygiene import without_surrogates_deep
from band_trio.types import (
    FeatureKwargs,
    HistoryConverter,
    ToolCallOutcome,
    ToolFormat,
    TurnUsage,
)

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse, ModelResponsePart
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings


@attrs.frozen(kw_only=True)
class ModelAdapterConfig(ModelConfig):
    """Options of the `ModelAdapter`; see `ModelConfig` for the common ones.

    `model` is `provider:name`, for example `anthropic:claude-sonnet-5-5`.
    """

    ENV_PREFIX: ClassVar[str] = "BAND_MODEL_"

    settings: dict[str, Any] = attrs.field(factory=dict, metadata=MAPPING)
    """More model settings of pydantic-ai, such as `temperature`."""


class ModelAdapter(ModelLoopAdapter["ModelMessage", ModelAdapterConfig]):
    """An agent on any provider of pydantic-ai.

    ```python
    adapter = ModelAdapter(ModelAdapterConfig(model="openai-chat:gpt-5.2"))
    ```

    The name is one of pydantic-ai's: `openai-chat:` is the API of chat completions, which many
    servers speak, `openai:` OpenAI's newer one of responses.

    *model* takes a ready model object instead of the name in *config*. Its client is opened and
    closed in `serve`. Without both, the options are those of the environment, `BAND_MODEL_MODEL`
    and so on.

    Raises:
        ImportError: the extra `pydantic-ai` is not installed.
        BandConfigError: *config* is none for this adapter, or the environment names no model.
    """

    PROVIDER: ClassVar[str] = "pydantic-ai"
    TOOL_FORMAT: ClassVar[ToolFormat] = "anthropic"

    def __init__(
        self,
        config: ModelAdapterConfig | None = None,
        *,
        model: Model | None = None,
        history_converter: HistoryConverter[list[ModelMessage]] | None = None,
        additional_tools: Sequence[CustomToolDef] = (),
        tool_timeout: float | None = None,
        **features: Unpack[FeatureKwargs],
    ) -> None:
        load_extra("pydantic_ai.direct", "pydantic-ai", "ModelAdapter")
        if config is None and model is not None:
            config = ModelAdapterConfig(model=model.model_name)
        super().__init__(
            config_or_environment(config, ModelAdapterConfig, "ModelAdapter"),
            history_converter or PydanticAIHistoryConverter(),
            additional_tools=additional_tools,
            tool_timeout=tool_timeout,
            **features,
        )
        self._given = model
        self._model: Model | None = None

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold the model's client open.

        Raises:
            BandConfigError: the model is unknown, or there is no key.
            ImportError: the SDK of its provider is not installed.
        """
        model = self._given or self._inferred()
        await model.__aenter__()
        self._model = model
        try:
            task_status.started()
            await trio.sleep_forever()
        finally:
            self._model = None
            with trio.move_on_after(CLOSE_SECONDS, shield=True):
                await model.__aexit__(None, None, None)

    def _inferred(self) -> Model:
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import infer_model
        from pydantic_ai.providers import Provider, infer_provider, infer_provider_class

        given = {"api_key": self.config.provider_key, "base_url": self.config.base_url}
        options = {name: value for name, value in given.items() if value is not None}

        def provider(name: str) -> Provider[Any]:
            if not options:
                return infer_provider(name)
            make: Callable[..., Provider[Any]] = infer_provider_class(name)
            return make(**options)

        try:
            model = infer_model(self.config.model, provider)
        except (UserError, ValueError) as exc:
            raise BandConfigError(f"ModelAdapter: {exc}") from exc
        client: Any = getattr(model, "client", None)
        if hasattr(client, "max_retries"):
            client.max_retries = self.config.max_retries
        return model

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be quoted: the key, where the SDK of the provider tells it."""
        key = getattr(getattr(self._model, "client", None), "api_key", None)
        return (*super().secrets, *([key] if isinstance(key, str) and key else []))

    # ----------------------------------------------------------------- the dialect

    async def ask(
        self, system: str, messages: Sequence[ModelMessage], tools: list[dict[str, Any]]
    ) -> ModelReply[ModelMessage]:
        """Send one request to the model."""
        from pydantic_ai.direct import model_request
        from pydantic_ai.messages import ModelRequest

        if self._model is None:
            raise RuntimeError("ModelAdapter is not open: run its `serve`, as an agent does.")
        sent = list(messages)
        if system.strip() and isinstance(sent[-1], ModelRequest):
            sent[-1] = ModelRequest(sent[-1].parts, instructions=system)
        settings: ModelSettings = {
            "max_tokens": self.config.max_tokens,
            "timeout": self.config.request_seconds,
            **cast("ModelSettings", self.config.settings),
        }
        request = partial(
            model_request,
            self._model,
            sent,
            model_settings=settings,
            model_request_parameters=_parameters(tools),
            instrument=False,
        )
        # SDKs with such an option repeat by themselves; a given model has what its maker gave it.
        own = hasattr(getattr(self._model, "client", None), "max_retries")
        return _read(await repeated(request, 0 if own else self.config.max_retries))

    def add_user_text(self, messages: list[ModelMessage], text: str) -> None:
        """Append *text*, to the last request where that is the newest message."""
        from pydantic_ai.messages import UserPromptPart

        add_request(messages, UserPromptPart(text))

    def add_results(
        self,
        messages: list[ModelMessage],
        calls: Sequence[ToolRequest],
        outcomes: Sequence[ToolCallOutcome],
    ) -> None:
        """Append one request with a result for each call."""
        for call, outcome in zip(calls, outcomes, strict=True):
            content = _content(outcome.value)
            part = result_part(call.id, call.name, content, is_error=not outcome.ok)
            add_request(messages, part)

    def call_ids(self, message: ModelMessage) -> Iterable[str]:
        """Return the ids of the parts that ask for tools."""
        from pydantic_ai.messages import ToolCallPart

        return [part.tool_call_id for part in message.parts if isinstance(part, ToolCallPart)]

    def with_calls(self, message: ModelMessage, calls: Sequence[ToolRequest]) -> ModelMessage:
        """Return a response with a part for each of *calls*, where its own were."""
        from pydantic_ai.messages import ModelResponse, ToolCallPart

        if not isinstance(message, ModelResponse):
            return message
        own = iter(calls)
        parts: list[ModelResponsePart] = []
        for part in message.parts:
            instead: dict[str, Any] = {}
            if isinstance(part, ToolCallPart):
                call = next(own)
                instead = {"tool_name": call.name, "args": call.args, "tool_call_id": call.id}
            parts.append(replace(part, **_values(part, instead)))
        return replace(message, parts=parts)

    def as_first(self, message: ModelMessage) -> ModelMessage | None:
        """Return a request without the results of calls before it."""
        from pydantic_ai.messages import ModelRequest, UserPromptPart

        if not isinstance(message, ModelRequest):
            return None
        texts = [part for part in message.parts if isinstance(part, UserPromptPart)]
        return ModelRequest(texts) if texts else None


def _parameters(tools: list[dict[str, Any]]) -> ModelRequestParameters:
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.tools import ToolDefinition

    definitions = [
        # `strict` off: the schemas are ours, and providers rewrite them otherwise.
        ToolDefinition(
            name=tool["name"],
            parameters_json_schema=tool["input_schema"],
            description=tool["description"],
            strict=False,
        )
        for tool in tools
    ]
    return ModelRequestParameters(function_tools=definitions, allow_text_output=True)


def _read(answer: ModelResponse) -> ModelReply[ModelMessage]:
    from pydantic_ai.messages import TextPart, ThinkingPart, ToolCallPart

    usage = TurnUsage.from_object(
        answer.usage,
        input="input_tokens",
        output="output_tokens",
        cache_read="cache_read_tokens",
        cache_write="cache_write_tokens",
    )
    text = "\n\n".join(part.content for part in answer.parts if isinstance(part, TextPart))
    if answer.finish_reason == "content_filter":
        return ModelReply(None, text, usage=usage, refused=True)
    parts = [p for p in answer.parts if not isinstance(p, TextPart) or p.content.strip()]
    while parts and isinstance(parts[-1], ThinkingPart):
        parts.pop()  # some APIs refuse a message that ends with them
    calls = tuple(
        ToolRequest(part.tool_call_id, part.tool_name, part.args)
        for part in parts
        if isinstance(part, ToolCallPart)
    )
    kept = replace(answer, parts=parts) if calls or text.strip() else None
    return ModelReply(kept, text, calls, usage, cut=answer.finish_reason == "length")


def _values(part: ModelResponsePart, instead: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of *part* by name, some of them replaced, without lone surrogates."""
    values = {each.name: getattr(part, each.name) for each in fields(part) if each.init}
    clean: dict[str, Any] = without_surrogates_deep(values | instead)
    return clean


def _content(value: Any) -> Any:
    """Return a result as pydantic-ai takes it; pictures as what they are."""
    text, pictures = pictures_of(value)
    if not pictures:
        return text
    from pydantic_ai.messages import BinaryContent

    images = [BinaryContent(base64.b64decode(p.data), media_type=p.media_type) for p in pictures]
    return [text, *images]

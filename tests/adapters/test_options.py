"""Options of the adapters for models, and what happens where an SDK is missing."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from band_trio.adapters.anthropic import AnthropicAdapter, AnthropicConfig
from band_trio.adapters.bridge import AsyncioAdapter, AsyncioAdapterConfig
from band_trio.adapters.model import ModelAdapter, ModelAdapterConfig
from band_trio.adapters.openai import OpenAIAdapter, OpenAIConfig
from band_trio.errors import BandConfigError
from tests.support.for_each import for_each


@for_each("config", [OpenAIConfig, AnthropicConfig, ModelAdapterConfig])
def test_options_from_a_file(config: Any) -> None:
    made = config.from_mapping({"model": "m", "max_tokens": 9, "relay_final_text": True})

    assert (made.model, made.max_tokens, made.relay_final_text) == ("m", 9, True)
    with pytest.raises(BandConfigError, match=r"no option 'max_token'.*Did you mean 'max_tokens'"):
        config.from_mapping({"model": "m", "max_token": 9})
    with pytest.raises(BandConfigError, match="needs the option 'model'"):
        config.from_mapping({})


def test_options_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {
        "MODEL": "4.1",
        "MAX_TOKENS": "9",
        "RELAY_FINAL_TEXT": "true",
        "CUSTOM_SECTION": "true",
        "EXTRA_BODY": "{thinking: {type: enabled}}",
        "MAX_HISTORY": "",
    }
    for name, value in variables.items():
        monkeypatch.setenv(f"BAND_ANTHROPIC_{name}", value)
    monkeypatch.setenv("BAND_OPENAI_MODEL", "another")

    made = AnthropicConfig.from_environment(max_tokens=10)

    extra = {"thinking": {"type": "enabled"}}
    assert made == AnthropicConfig(
        model="4.1", max_tokens=10, relay_final_text=True, custom_section="true", extra_body=extra
    )
    with pytest.raises(BandConfigError, match="ModelAdapterConfig needs the option 'model'"):
        ModelAdapterConfig.from_environment()


@for_each(
    ("name", "value", "told"),
    [("MAX_TOKENS", "many", "max_tokens must be a whole number ≥ 1, not 'many'"),
     ("MAX_TOKENS", "{[", "BAND_OPENAI_MAX_TOKENS cannot be read"),
     ("REQUEST_SECONDS", "2025-13-01", "BAND_OPENAI_REQUEST_SECONDS cannot be read"),
     ("RELAY_FINAL_TEXT", "1", "relay_final_text must be True or False"),
     ("EXTRA_BODY", "x", "extra_body must be a mapping")],
)  # fmt: skip
def test_wrong_variables_are_named(
    name: str, value: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as environ, pytest.raises(BandConfigError, match=told):
        environ.setenv(f"BAND_OPENAI_{name}", value)
        OpenAIConfig.from_environment(model="m")


@for_each(
    ("name", "value"),
    [("model", ""), ("max_tokens", 0), ("max_tokens", 1.5), ("max_tool_rounds", -1), ("max_history", "9"),
     ("request_seconds", float("nan")), ("request_seconds", float("inf")), ("max_retries", -1)],
)  # fmt: skip
def test_wrong_values_are_named(name: str, value: Any) -> None:
    with pytest.raises(BandConfigError, match=name):
        OpenAIConfig(**{"model": "m", name: value})


ADAPTERS: Any = [
    (OpenAIAdapter, OpenAIConfig),
    (AnthropicAdapter, AnthropicConfig),
    (ModelAdapter, ModelAdapterConfig),
]


@for_each(("adapter", "config"), ADAPTERS)
def test_without_a_config_the_environment_is_asked(
    adapter: Any, config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = f"{config.ENV_PREFIX}MODEL"
    monkeypatch.delenv(variable, raising=False)
    with pytest.raises(
        BandConfigError, match=f"needs the option 'model', or the variable {variable}"
    ):
        adapter()

    monkeypatch.setenv(variable, "test:m")
    assert adapter().config == config(model="test:m")


@for_each(("adapter", "config"), ADAPTERS)
def test_a_config_of_another_class_is_refused(adapter: Any, config: Any) -> None:
    other = AnthropicConfig if config is OpenAIConfig else OpenAIConfig
    for wrong in (other(model="m"), "gpt-5.2", {"model": "m"}):
        with pytest.raises(
            BandConfigError, match=f"config must be of class {config.__name__}, not"
        ):
            adapter(wrong)


def test_the_bridge_has_a_config_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    async def handler(turn: Any) -> None: ...

    with pytest.raises(BandConfigError, match="of class AsyncioAdapterConfig, not OpenAIConfig"):
        AsyncioAdapter(OpenAIConfig(model="m"), handler=handler)  # type: ignore[arg-type]
    monkeypatch.setenv("BAND_ASYNCIO_PROVIDER", "langgraph")
    assert AsyncioAdapter(handler=handler).config == AsyncioAdapterConfig(provider="langgraph")


@for_each(
    ("name", "value"),
    [("model", 5), ("base_url", 5), ("custom_section", None), ("system_prompt", ["x"]),
     ("token_option", 1), ("provider_key", 1234), ("relay_final_text", "no"),
     ("include_base_instructions", 1), ("request_seconds", "9")],
)  # fmt: skip
def test_values_of_a_wrong_kind_are_named(name: str, value: Any) -> None:
    for make in (OpenAIConfig.from_mapping, lambda data: OpenAIConfig(**data)):
        with pytest.raises(BandConfigError, match=f"{name} must be") as caught:
            make({"model": "m", name: value})
        assert name != "provider_key" or "1234" not in str(caught.value)


def test_the_key_is_not_shown() -> None:
    assert "topsecret" not in repr(OpenAIConfig(model="m", provider_key="topsecret"))


@for_each(
    ("module", "extra", "make"),
    [
        ("openai", "openai", lambda: OpenAIAdapter(OpenAIConfig(model="m"))),
        ("anthropic", "anthropic", lambda: AnthropicAdapter(AnthropicConfig(model="m"))),
        ("pydantic_ai.direct", "pydantic-ai",
         lambda: ModelAdapter(ModelAdapterConfig(model="openai:m"))),
    ],
)  # fmt: skip
def test_a_missing_sdk_names_the_extra(
    module: str, extra: str, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        monkeypatch.context() as without,
        pytest.raises(ImportError, match=rf"needs the extra `{extra}`.*band-trio\[{extra}\]"),
    ):
        without.setitem(sys.modules, module, None)
        make()

"""Options of the adapters for models, and what happens where an SDK is missing."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from band_trio.adapters.anthropic import AnthropicAdapter, AnthropicConfig
from band_trio.adapters.model import ModelAdapter, ModelAdapterConfig
from band_trio.adapters.openai import OpenAIAdapter, OpenAIConfig
from band_trio.errors import BandConfigError


@pytest.mark.parametrize("config", [OpenAIConfig, AnthropicConfig, ModelAdapterConfig])
def test_options_from_a_file(config: Any) -> None:
    made = config.from_mapping({"model": "m", "max_tokens": 9, "relay_final_text": True})

    assert (made.model, made.max_tokens, made.relay_final_text) == ("m", 9, True)
    with pytest.raises(BandConfigError, match=r"no option 'max_token'.*Did you mean 'max_tokens'"):
        config.from_mapping({"model": "m", "max_token": 9})
    with pytest.raises(BandConfigError, match="needs the option 'model'"):
        config.from_mapping({})


@pytest.mark.parametrize(
    ("name", "value"),
    [("model", ""), ("max_tokens", 0), ("max_tokens", 1.5), ("max_tool_rounds", -1), ("max_history", "9"),
     ("request_seconds", float("nan")), ("max_retries", -1)],
)  # fmt: skip
def test_wrong_values_are_named(name: str, value: Any) -> None:
    with pytest.raises(BandConfigError, match=name):
        OpenAIConfig(**{"model": "m", name: value})


def test_the_key_is_not_shown() -> None:
    assert "topsecret" not in repr(OpenAIConfig(model="m", provider_key="topsecret"))


@pytest.mark.parametrize(
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
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"needs the extra `{extra}`.*band-trio\[{extra}\]"):
        make()

"""What the adapters for models have in common: their options, and the loading of their SDKs."""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Self, TypeVar, get_type_hints

import attrs
import yaml

from band_trio.adapters.later import LATER
from band_trio.adapters.prompts import render_system_prompt
from band_trio.config.environment import PREFIX
from band_trio.config.keywords import answer_keyword, with_answers
from band_trio.config.options import count, optional_text, raise_problems, seconds, switch, text
from band_trio.errors import BandConfigError, did_you_mean
from band_trio.kit.hygiene import one_line
from band_trio.types import AdapterFeatures, Capability

_log: Final = logging.getLogger(__name__)

CLOSE_SECONDS: Final = 2.0
"""Longest closing of a client at the end of an adapter."""


@attrs.frozen(kw_only=True)
class BaseAdapterConfig:
    """Options of an adapter, as they may stand in a file; what is alive stays out of them.

    Raises:
        BandConfigError: names every option that is wrong.
    """

    @classmethod
    def __attrs_init_subclass__(cls) -> None:
        with_answers(cls)

    def __attrs_post_init__(self) -> None:
        raise_problems(self)

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any]) -> Self:
        """Build the options from what a YAML or JSON file holds.

        Raises:
            BandConfigError: a name is unknown, one is missing, or a value is wrong.
        """
        fields = attrs.fields(cls)
        names = [field.name for field in fields]
        for name in data:
            if name not in names:
                told = answer_keyword(str(name), names)
                raise BandConfigError(f"{cls.__name__} has no option {name!r}.{told}")
        for field in fields:
            if field.default is attrs.NOTHING and field.name not in data:
                raise BandConfigError(f"{cls.__name__} needs the option {field.name!r}.")
        return cls(**data)


@attrs.frozen(kw_only=True)
class EnvAdapterConfig(BaseAdapterConfig):
    """Options that may also come from the environment, as in `BAND_OPENAI_MODEL=gpt-5.2`."""

    ENV_PREFIX: ClassVar[str] = PREFIX

    @classmethod
    def from_environment(cls, **overrides: Any) -> Self:
        """Read `ENV_PREFIX` plus an option's name in capitals; *overrides* win.

        An empty variable counts as absent, one that begins with the prefix and names no option is
        logged. What is no text is written as in YAML: `8192`, `true`,
        `{thinking: {type: enabled}}`.

        Raises:
            BandConfigError: a variable cannot be read, a value is wrong, or one is missing.
        """
        types = get_type_hints(cls)
        values: dict[str, Any] = {}
        for field in attrs.fields(cls):
            name = cls.ENV_PREFIX + field.name.upper()
            if text := os.environ.get(name):
                is_text = types[field.name] in (str, str | None)
                values[field.name] = text if is_text else _from_yaml(name, text)
        cls._tell_unread()
        values |= overrides
        for field in attrs.fields(cls):
            if field.default is attrs.NOTHING and field.name not in values:
                raise BandConfigError(
                    f"{cls.__name__} needs the option {field.name!r}, "
                    f"or the variable {cls.ENV_PREFIX}{field.name.upper()}."
                )
        return cls.from_mapping(values)

    @classmethod
    def _tell_unread(cls) -> None:
        if cls.ENV_PREFIX == PREFIX:
            return  # those are told with the others, when the agent is made
        known = {cls.ENV_PREFIX + name.upper() for name in attrs.fields_dict(cls)}
        for name in sorted(os.environ.keys() - known):
            if name.startswith(cls.ENV_PREFIX) and os.environ[name]:
                told = did_you_mean(name, known, max_distance=4)
                _log.warning("the variable %s is not read.%s", one_line(name), told)


def variables_of_adapters() -> tuple[str, ...]:
    """Return the variables of all option classes, by their beginning where it is own.

    Those that ship are loaded for that, without the SDKs.
    """
    for home in set(LATER.values()):
        importlib.import_module(f"{__package__}.{home}")
    found: set[str] = set()
    waiting = EnvAdapterConfig.__subclasses__()
    while waiting:
        cls = waiting.pop()
        waiting += cls.__subclasses__()
        names = [cls.ENV_PREFIX + name.upper() for name in attrs.fields_dict(cls)]
        found.update(names if cls.ENV_PREFIX == PREFIX else [cls.ENV_PREFIX])
    return tuple(found)


B = TypeVar("B", bound=EnvAdapterConfig)


def config_or_environment(config: B | None, kind: type[B], adapter: str) -> B:
    """Return *config*, or where it is None the options of the environment.

    Raises:
        BandConfigError: *config* is not of the class *kind*, or the environment lacks an option.
    """
    if config is None:
        return kind.from_environment()
    if not isinstance(config, kind):
        given = type(config).__name__
        raise BandConfigError(f"{adapter}: config must be of class {kind.__name__}, not {given}.")
    return config


def _from_yaml(name: str, text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):  # ValueError: a date that is none
        raise BandConfigError(f"The variable {name} cannot be read as YAML.") from None


@attrs.frozen(kw_only=True)
class PromptConfig(EnvAdapterConfig):
    """Options of an adapter that gives a model its instructions."""

    system_prompt: str | None = optional_text()
    """Replaces the whole prompt that is rendered otherwise."""
    custom_section: str = text("")
    """The developer's own instructions, at the end of the rendered prompt."""
    include_base_instructions: bool = switch(default=True)
    """Whether the prompt explains how a room works."""
    relay_final_text: bool = switch(default=False)
    """Whether plain text at the end of a turn that said nothing is posted to who wrote."""

    def prompt_for(
        self, name: str, description: str, features: AdapterFeatures, *, is_hub_room: bool
    ) -> str:
        """Return the system prompt of a turn; in the hub room it explains contacts, too."""
        if self.system_prompt is not None:
            return self.system_prompt
        if is_hub_room:
            capabilities = features.capabilities | {Capability.CONTACTS}
            features = attrs.evolve(features, capabilities=capabilities)
        return render_system_prompt(
            name or "Agent",
            description,
            self.custom_section,
            include_base_instructions=self.include_base_instructions,
            features=features,
        )


@attrs.frozen(kw_only=True)
class ModelConfig(PromptConfig):
    """Options that every adapter for a model knows."""

    model: str = text()
    """The provider's name of the model."""
    max_tokens: int = count(4096)
    """Most tokens of one answer."""
    max_tool_rounds: int = count(20)
    """Most batches of tool calls in one turn."""
    max_history: int = count(200)
    """Most messages that are kept of a room and sent to the model; a long turn may exceed it."""
    provider_key: str | None = optional_text(shown=False)
    """The provider's key; None takes it from the provider's usual environment variable."""
    base_url: str | None = optional_text()
    """Where the provider is; None for its own service."""
    max_retries: int = count(2, low=0)
    """How often a request that failed in transport or in the server is repeated."""
    request_seconds: float = seconds(600.0)
    """Longest request to the model, in seconds, where the SDK takes such a limit."""

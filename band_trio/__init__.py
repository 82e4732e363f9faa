"""A trio-native runtime for agents on Band.

An agent is an adapter and an identity: `band_trio.run(adapter)` is a whole program,
`Agent.create(adapter=…, agent_id=…, api_key=…)` and `await agent.run()` a part of one. Fakes and the embedded platform for tests are in `band_trio.testing`.
"""

from __future__ import annotations

import logging

import band_trio.kit.early  # noqa: F401 - first of all, for the command
from band_trio.adapters.base import SimpleAdapter
from band_trio.adapters.prompts import render_system_prompt
from band_trio.agent import Agent
from band_trio.config.agent import (
    AgentConfig,
    ConflictPolicy,
    ContactEventConfig,
    ContactStrategy,
    SessionConfig,
)
from band_trio.config.credentials import get_config_path, load_agent_config
from band_trio.contract import AgentInput, FrameworkAdapter, Preprocessor
from band_trio.entry.script import run
from band_trio.errors import (
    AgentAlreadyRunningError,
    BandApiError,
    BandAuthError,
    BandConfigError,
    BandConnectionError,
    BandError,
    BandPolicyError,
    BandSupersededError,
    BandToolError,
    DeliveryFailedError,
    InputNotAccepted,
    InvalidToolArgumentsError,
    MentionError,
    MessagePostError,
    OutcomeUnknownError,
    ProviderRunError,
    RoomClosingError,
    RoomExecutionStoppedError,
    TurnClosedError,
)
from band_trio.features import CustomToolDef
from band_trio.protocol.events import (
    ContactAdded,
    ContactEvent,
    ContactRemoved,
    ContactRequestReceived,
    ContactRequestUpdated,
)
from band_trio.runtime.lifecycle import ShutdownReport
from band_trio.runtime.run.health import Health
from band_trio.runtime.turn.preprocessing import DefaultPreprocessor
from band_trio.tools.agent_tools import AgentTools
from band_trio.tools.contact_tools import ContactTools
from band_trio.tools.context import RoomContext
from band_trio.tools.custom import declares_turn_effect
from band_trio.tools.failures import AgentFailure, generic_provider_failure
from band_trio.tools.protocol import AgentToolsProtocol
from band_trio.types import (
    AdapterFeatures,
    Capability,
    Emit,
    FeatureKwargs,
    HistoryConverter,
    HistoryProvider,
    PlatformConnection,
    PlatformMessage,
    ToolCallOutcome,
    ToolCategory,
    TurnEffect,
    TurnUsage,
)

__all__ = [
    "AdapterFeatures",
    "Agent",
    "AgentAlreadyRunningError",
    "AgentConfig",
    "AgentFailure",
    "AgentInput",
    "AgentTools",
    "AgentToolsProtocol",
    "BandApiError",
    "BandAuthError",
    "BandConfigError",
    "BandConnectionError",
    "BandError",
    "BandPolicyError",
    "BandSupersededError",
    "BandToolError",
    "Capability",
    "ConflictPolicy",
    "ContactAdded",
    "ContactEvent",
    "ContactEventConfig",
    "ContactRemoved",
    "ContactRequestReceived",
    "ContactRequestUpdated",
    "ContactStrategy",
    "ContactTools",
    "CustomToolDef",
    "DefaultPreprocessor",
    "DeliveryFailedError",
    "Emit",
    "FeatureKwargs",
    "FrameworkAdapter",
    "Health",
    "HistoryConverter",
    "HistoryProvider",
    "InputNotAccepted",
    "InvalidToolArgumentsError",
    "MentionError",
    "MessagePostError",
    "OutcomeUnknownError",
    "PlatformConnection",
    "PlatformMessage",
    "Preprocessor",
    "ProviderRunError",
    "RoomClosingError",
    "RoomContext",
    "RoomExecutionStoppedError",
    "SessionConfig",
    "ShutdownReport",
    "SimpleAdapter",
    "ToolCallOutcome",
    "ToolCategory",
    "TurnClosedError",
    "TurnEffect",
    "TurnUsage",
    "declares_turn_effect",
    "generic_provider_failure",
    "get_config_path",
    "load_agent_config",
    "render_system_prompt",
    "run",
]

logging.getLogger(__name__).addHandler(logging.NullHandler())


def __dir__() -> list[str]:
    """Show the public names only; submodules are there when they are imported."""
    return sorted(__all__)

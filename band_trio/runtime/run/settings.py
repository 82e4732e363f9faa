"""Everything a run is made of; checked before there is one."""

from __future__ import annotations

import attrs

from band_trio.config.agent import AgentConfig, ContactEventConfig, SessionConfig
from band_trio.config.credentials import Credentials
from band_trio.config.endpoints import Endpoints
from band_trio.contract import FrameworkAdapter, Preprocessor
from band_trio.runtime.turn.services import Callbacks


@attrs.frozen
class RunSettings:
    """What the application hands to `Agent.create`, complete and valid."""

    adapter: FrameworkAdapter
    credentials: Credentials
    endpoints: Endpoints
    config: AgentConfig
    session: SessionConfig
    preprocessor: Preprocessor
    callbacks: Callbacks
    contacts: ContactEventConfig = attrs.field(factory=ContactEventConfig)

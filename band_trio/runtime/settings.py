"""Everything a run is made of; checked before there is one."""

from __future__ import annotations

import attrs

from band_trio.config import AgentConfig, SessionConfig
from band_trio.credentials import Credentials
from band_trio.endpoints import Endpoints
from band_trio.runtime.services import Callbacks
from band_trio.types import FrameworkAdapter, Preprocessor


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

"""Options, endpoints and credentials: everything that an application states before a run."""

from band_trio.config.agent import (
    AgentConfig,
    ConflictPolicy,
    ContactEventConfig,
    ContactStrategy,
    SessionConfig,
)

__all__ = [
    "AgentConfig",
    "ConflictPolicy",
    "ContactEventConfig",
    "ContactStrategy",
    "SessionConfig",
]

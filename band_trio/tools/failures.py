"""How an agent tells the room that it failed: fixed texts, never the text of an exception."""

from __future__ import annotations

from typing import Final

import attrs

from band_trio import texts
from band_trio.errors import ProviderRunError
from band_trio.kit.hygiene import has_visible

RUNTIME_PROVIDER: Final = "band-runtime"
"""The provider name of the runtime itself; other readers rely on it."""
FAILURE_CODE_TIMEOUT: Final = "timeout"
FAILURE_KEY: Final = "failure"
"""Key of an error event's metadata that holds the failure; other readers rely on it."""


@attrs.frozen
class AgentFailure:
    """A failure as people in the room see it, as an `error` event."""

    provider: str
    message: str
    code: str | None = None
    detail: str | None = None

    def to_dict(self) -> dict[str, str | None]:
        """Return all four keys, null where absent."""
        return attrs.asdict(self)

    @property
    def text(self) -> str:
        """The message, or a stand-in where it is blank."""
        if has_visible(self.message):
            return self.message.strip()
        return texts.failed_without_message(self.provider)


MISSING_REPLY_FAILURE: Final = AgentFailure(RUNTIME_PROVIDER, texts.MISSING_REPLY)
"""The turn ended and nobody was answered; posted by the runtime only."""

TURN_FAILURE: Final = AgentFailure(RUNTIME_PROVIDER, texts.TURN_FAILED)
"""The handler raised; posted by the runtime only."""

TIMEOUT_FAILURE: Final = AgentFailure(
    RUNTIME_PROVIDER, texts.TURN_TIMED_OUT, code=FAILURE_CODE_TIMEOUT
)
"""The turn took longer than its limit; posted by the runtime only."""


CRASH_FAILURE: Final = AgentFailure(RUNTIME_PROVIDER, texts.TURN_CRASHED, code="crash")
"""The runs of the message ended the agent's process; posted by the runtime only."""


def generic_provider_failure(provider: str, exc: BaseException) -> AgentFailure:
    """Describe an error of a model provider by a fixed text and the class of *exc*.

    The text of *exc* may quote prompts and headers, so it never reaches the room; the code of a
    `ProviderRunError` does.
    """
    code = exc.code if isinstance(exc, ProviderRunError) else None
    return AgentFailure(provider, texts.PROVIDER_FAILED, code=code, detail=type(exc).__name__)

"""A model that says what a test wrote down: the script, without any provider's words.

`open_scripted_openai` and `open_scripted_anthropic` let a script speak over HTTP, so that adapters
are tested through the real SDKs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

import attrs

from band_trio.types import TurnUsage

MODEL_USAGE: Final = TurnUsage(10, 5)
"""Tokens that each answer counts, where the script says nothing else."""


@attrs.frozen
class ScriptTurn:
    """One answer of a scripted model."""


@attrs.frozen
class TextTurn(ScriptTurn):
    """The model answers with text; an empty one is an empty answer."""

    text: str


@attrs.frozen
class ToolTurn(ScriptTurn):
    """The model asks for one tool."""

    name: str
    args: Any = attrs.field(factory=dict)
    """An object; or text, which is sent as it is, for calls that are no JSON."""
    id: str | None = None
    """Made up where it is None."""
    text: str = ""
    """What the model says beside the call."""


def _as_tuple(calls: Iterable[ToolTurn]) -> tuple[ToolTurn, ...]:
    return tuple(calls)


@attrs.frozen
class ToolsTurn(ScriptTurn):
    """The model asks for several tools at once."""

    calls: tuple[ToolTurn, ...] = attrs.field(converter=_as_tuple)
    text: str = ""


@attrs.frozen
class RefusalTurn(ScriptTurn):
    """The model, or a filter in front of it, declines to answer."""

    text: str = "I cannot help with that."


@attrs.frozen
class ErrorTurn(ScriptTurn):
    """The provider answers no."""

    error: Exception | None = None
    """What `ScriptedModel.answer` raises, where no HTTP is involved."""
    status: int = 500
    retry_after: float | None = None
    """Seconds for the header `Retry-After`."""
    message: str = "scripted failure"


@attrs.frozen
class SlowTurn(ScriptTurn):
    """The model takes its time before it answers."""

    seconds: float
    then: ScriptTurn


@attrs.frozen
class RawTurn(ScriptTurn):
    """A body of the test's own, for malformed answers."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"


@attrs.frozen
class CutTurn(ScriptTurn):
    """The connection ends in the middle of the answer."""


Script = Iterable[ScriptTurn] | Callable[[dict[str, Any]], ScriptTurn]


class ScriptOverError(Exception):
    """The model was asked more often than the script knows answers."""


class ScriptedModel:
    """Answers in the order of a script, or by a function of the request.

    ```python
    model = ScriptedModel([ToolTurn("band_no_reply"), TextTurn("done")])
    ```
    """

    def __init__(self, script: Script = (), *, usage: TurnUsage = MODEL_USAGE) -> None:
        self._function = script if callable(script) else None
        self._turns: deque[ScriptTurn] = deque(() if callable(script) else script)
        self.usage = usage
        """Tokens of each answer."""
        self.requests: list[dict[str, Any]] = []
        """The bodies of all requests, in order, refused ones included."""
        self.violations: list[str] = []
        """Rules of the API that requests broke; each was answered with a 400."""
        self._ids = 0

    def push(self, *turns: ScriptTurn) -> None:
        """Add to the end of the script."""
        self._turns.extend(turns)

    @property
    def remaining(self) -> int:
        """How many answers of the script were not asked for yet."""
        return len(self._turns)

    def next_turn(self, request: dict[str, Any]) -> ScriptTurn:
        """Record *request* and return the answer to it.

        Raises:
            ScriptOverError: there is none left.
        """
        self.requests.append(request)
        if self._function is not None:
            return self._function(request)
        if not self._turns:
            raise ScriptOverError("the script has no answer left")
        return self._turns.popleft()

    def answer(self, request: dict[str, Any]) -> ScriptTurn:
        """Return the answer to *request*, for adapters that call no HTTP API.

        Raises:
            ScriptOverError: there is none left.
            Exception: whatever an `ErrorTurn` holds.
        """
        turn = self.next_turn(request)
        if isinstance(turn, ErrorTurn):
            raise turn.error or RuntimeError(turn.message)
        return turn

    def fresh_id(self, prefix: str) -> str:
        """Return an id that this model has not used."""
        self._ids += 1
        return f"{prefix}{self._ids:06}"

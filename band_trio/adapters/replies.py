"""What a model answered, made safe: to run, to keep and to send back to any provider."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, Final, Generic, TypeVar

import attrs

from band_trio.converters.exchanges import tool_name
from band_trio.errors import ProviderRunError
from band_trio.kit.hygiene import has_visible, without_surrogates, without_surrogates_deep
from band_trio.tools.definitions import BandTool
from band_trio.tools.results import tool_result_text
from band_trio.types import ToolCallOutcome, TurnUsage

M = TypeVar("M")

NO_USAGE: Final = TurnUsage()
EMPTY_ANSWER: Final = "empty_answer"
REFUSED: Final = "refused"
TOKEN_LIMIT: Final = "max_tokens"
"""Code of the failure where the limit of tokens has left nothing of an answer."""
UNREADABLE: Final = "unreadable_answer"
"""Code of the failure where an answer is none of the API's, or is nested too deeply."""
MAX_DEPTH: Final = 100
"""Levels of a call's arguments; SDKs cannot build requests from values twice as deep."""
CUT_MARK: Final = " …"
"""Stands behind a text that the limit of tokens has cut."""


@attrs.frozen
class ToolRequest:
    """A call that a model asks for."""

    id: str
    name: str
    args: Any
    """An object, or the model's own text where that is none."""


@attrs.frozen
class ModelReply(Generic[M]):
    """What a model answered, read."""

    message: M | None
    """The answer as it is sent back in the next request; None where nothing is to be kept."""
    text: str
    calls: tuple[ToolRequest, ...] = ()
    usage: TurnUsage = NO_USAGE
    refused: bool = False
    """The model, or a filter in front of it, declined to answer."""
    cut: bool = False
    """The answer reached the limit of tokens: its last text or call may be incomplete."""

    @property
    def final_text(self) -> str:
        """The text as a room may read it: nothing of a refusal, and a mark where it is cut."""
        if self.refused or not has_visible(self.text):
            return ""
        return self.text + CUT_MARK if self.cut else self.text

    def check(self) -> None:
        """Refuse an answer that is none.

        Raises:
            ProviderRunError: the model refused, or said nothing.
        """
        if self.refused:
            raise ProviderRunError(REFUSED, None)
        if not self.calls and not has_visible(self.text):
            raise ProviderRunError(TOKEN_LIMIT if self.cut else EMPTY_ANSWER, None)


def clean_calls(calls: Iterable[ToolRequest], used: Iterable[str]) -> tuple[ToolRequest, ...]:
    """Return *calls* as they are run: with ids of their own, *used* is taken, and plain values."""
    taken = set(used)
    return tuple(
        ToolRequest(
            _unique(call.id, taken), without_surrogates(str(call.name)), _arguments(call.args)
        )
        for call in calls
    )


def sendable(call: ToolRequest) -> ToolRequest:
    """Return *call* as every provider takes it back: with a plain name, its arguments an object."""
    args = call.args
    if not isinstance(args, dict):
        args = {"arguments": tool_result_text(args)}
    return ToolRequest(call.id, tool_name(call.name), args)


def declined(calls: Sequence[ToolRequest], outcomes: Sequence[ToolCallOutcome]) -> bool:
    """Tell whether a batch has declined to reply, and nothing in it went wrong."""
    return all(outcome.ok for outcome in outcomes) and any(
        call.name == BandTool.NO_REPLY for call in calls
    )


def _unique(call_id: object, taken: set[str]) -> str:
    """Return a provider's id, or a new one where it is missing or was used before."""
    own = without_surrogates(call_id).strip() if isinstance(call_id, str) else ""
    unique, number = own or "call", 1
    while unique in taken:
        number += 1
        unique = f"{own or 'call'}_{number}"
    taken.add(unique)
    return unique


def _arguments(given: Any) -> Any:
    """Return arguments as an object where they are one, as JSON text or as it is."""
    if given is None or (isinstance(given, str) and not given.strip()):
        return {}
    read = given
    if isinstance(given, str):
        try:
            read = json.loads(given)
        except (ValueError, RecursionError):
            return without_surrogates(given)
        if not isinstance(read, dict):
            return without_surrogates(given)
    try:
        return without_surrogates_deep(_finite(read, MAX_DEPTH))
    except RecursionError:
        return "(nested too deeply)"


def _finite(value: Any, levels: int) -> Any:
    """Return a JSON value without the numbers that JSON has not: they become their names.

    Raises:
        RecursionError: the value has more than *levels* levels.
    """
    if levels < 0:
        raise RecursionError
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(item, levels - 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item, levels - 1) for item in value]
    return value

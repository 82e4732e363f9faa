"""Token usage as an event: one per turn, for whoever adds up costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from band_trio.types import MessageType, TurnUsage

USAGE_EVENT_TYPE: Final = MessageType.TASK.value
USAGE_METADATA_KEY: Final = "band_usage"
"""Other readers rely on this key."""


def usage_event(usage: TurnUsage) -> tuple[str, dict[str, Any]]:
    """Return content and metadata of the event for *usage*."""
    content = f"Tokens used: {usage.input_tokens:,} in, {usage.output_tokens:,} out"
    return content, {USAGE_METADATA_KEY: usage.to_dict()}


def is_usage_event(metadata: Mapping[str, Any] | None) -> bool:
    """Tell whether an event's metadata marks it as a usage event."""
    return isinstance((metadata or {}).get(USAGE_METADATA_KEY), Mapping)

"""For tests of agents: tools in memory, single turns, and an embedded platform.

`open_local_band` needs the extra `local`; it is loaded on first use, everything else works
without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from band_trio.testing.fake_records import MessageHold
from band_trio.testing.fake_tools import FakeAgentTools
from band_trio.testing.turns import (
    TurnResult,
    events_of_type,
    failure_reports,
    feature_kwargs,
    make_message,
    platform_connection_stub,
    reported_failures,
    run_turn,
)
from band_trio.tools.failures import MISSING_REPLY_FAILURE

if TYPE_CHECKING:
    from band_trio.localband import open_local_band

__all__ = [
    "MISSING_REPLY_FAILURE",
    "FakeAgentTools",
    "MessageHold",
    "TurnResult",
    "events_of_type",
    "failure_reports",
    "feature_kwargs",
    "make_message",
    "open_local_band",
    "platform_connection_stub",
    "reported_failures",
    "run_turn",
]


def __getattr__(name: str) -> Any:
    if name != "open_local_band":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from band_trio.localband import open_local_band as found
    except ModuleNotFoundError as exc:
        raise ImportError(
            f"open_local_band needs the extra `local` ({exc.name} is missing): "
            "pip install 'band-trio[local]'"
        ) from exc
    return found

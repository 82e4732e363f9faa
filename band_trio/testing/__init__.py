"""For tests of agents: tools in memory, single turns, scripted models, an embedded platform.

`open_local_band` needs the extra `local`; it is loaded on first use, everything else works
without.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

from band_trio.kit.extras import load_extra
from band_trio.testing.fake_records import MessageHold
from band_trio.testing.fake_tools import FakeAgentTools
from band_trio.testing.scripted_anthropic import open_scripted_anthropic
from band_trio.testing.scripted_http import ScriptedServer
from band_trio.testing.scripted_model import (
    CutTurn,
    ErrorTurn,
    RawTurn,
    RefusalTurn,
    ScriptedModel,
    ScriptOverError,
    ScriptTurn,
    SlowTurn,
    TextTurn,
    ToolsTurn,
    ToolTurn,
)
from band_trio.testing.scripted_openai import open_scripted_openai
from band_trio.testing.serving import serving
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
    "CutTurn",
    "ErrorTurn",
    "FakeAgentTools",
    "MessageHold",
    "RawTurn",
    "RefusalTurn",
    "ScriptOverError",
    "ScriptTurn",
    "ScriptedModel",
    "ScriptedServer",
    "SlowTurn",
    "TextTurn",
    "ToolTurn",
    "ToolsTurn",
    "TurnResult",
    "events_of_type",
    "failure_reports",
    "feature_kwargs",
    "make_message",
    "open_local_band",
    "open_scripted_anthropic",
    "open_scripted_openai",
    "platform_connection_stub",
    "reported_failures",
    "run_turn",
    "serving",
]


def __getattr__(name: str) -> Any:
    if name != "open_local_band":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return _local_band().open_local_band
    except ModuleNotFoundError:
        raise
    except ImportError:
        return _without_extra  # so that `import *` works; who calls it learns what to install


def _local_band() -> ModuleType:
    return load_extra("band_trio.localband", "local", "open_local_band")


def _without_extra(*args: Any, **options: Any) -> Any:
    return _local_band().open_local_band(*args, **options)

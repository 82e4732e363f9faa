"""One agent until a signal, and what the log says of it."""

from __future__ import annotations

import logging
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from band_trio.agent import Agent
from band_trio.entry import texts
from band_trio.entry.exits import Exit
from band_trio.entry.signals import StopSignals
from band_trio.kit.nurseries import hidden_nursery
from band_trio.runtime.lifecycle import ShutdownReport
from band_trio.tools.catalogue import selected_tool_definitions
from band_trio.types import AdapterFeatures

_log: Final = logging.getLogger(__name__)


async def run_agent(agent: Agent, signals: StopSignals, grace: float) -> ShutdownReport:
    """Run *agent*; the first signal stops it, with *grace* seconds for running turns.

    Raises:
        BaseException: what `Agent.run` raises.
    """
    _log.info("band-trio %s, at %s", _version(), agent.settings.endpoints.rest_url)
    async with hidden_nursery("band_trio.run") as nursery:
        # Its first step comes when the agent has begun: a stop before that would be lost.
        nursery.start_soon(_stop_on_signal, agent, signals, grace)
        report = await agent.run(task_status=_Ready())
        nursery.cancel_scope.cancel(reason="the agent has ended")
    _log.info("%s", texts.stopped(report))
    for problem in report.cleanup_errors:
        _log.error("while cleaning up: %s", problem)
    return report


def code_of(report: ShutdownReport) -> Exit:
    """Return the exit code for an end without an error."""
    return Exit.OK if report.graceful and not report.cleanup_errors else Exit.FAILED


def start_lines(agent: Agent) -> list[str]:
    """Return what the log says of an agent that has just started."""
    settings = agent.settings
    features = getattr(settings.adapter, "features", None)
    rows = selected_tool_definitions(features) if isinstance(features, AdapterFeatures) else ()
    tools = ", ".join(row.name for row in rows) or "chosen by the adapter"
    return [
        f"agent {agent.name} ({settings.credentials.agent_id})",
        f"rooms {sum(agent.health().rooms.values())}",
        f"tools {tools}",
        texts.READY,
    ]


class _Ready:
    """Told once the agent is up."""

    def started(self, value: Agent | None = None) -> None:
        assert value is not None  # it is called by the agent, with itself
        for line in start_lines(value):
            _log.info("%s", line)


async def _stop_on_signal(agent: Agent, signals: StopSignals, grace: float) -> None:
    name = await signals.wait()
    turns = agent.health().rooms.get("turn", 0)
    _log.info("%s", texts.stopping(name, turns, grace))
    agent.stop(grace=grace)


def _version() -> str:
    try:
        return version("band-trio")
    except PackageNotFoundError:  # copied or frozen without its metadata
        return "of an unknown version"

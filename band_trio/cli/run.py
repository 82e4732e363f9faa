"""`band-trio run module:attribute`: one agent until a signal."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from band_trio.agent import Agent
from band_trio.cli import texts
from band_trio.cli.errors import CliError, Exit
from band_trio.cli.loading import load_target
from band_trio.cli.signals import StopSignals, stop_signals
from band_trio.config import AgentConfig
from band_trio.credentials import get_config_path, load_agent_config
from band_trio.endpoints import variables
from band_trio.errors import BandConfigError
from band_trio.runtime.lifecycle import ShutdownReport
from band_trio.tools.catalogue import selected_tool_definitions
from band_trio.types import AdapterFeatures, FrameworkAdapter

_log: Final = logging.getLogger(__name__)

_CONNECTIONS: Final = logging.getLogger("band_trio.link.supervisor")
"""Says that a connection is up: one line, without which its loss would read as if it lasted."""


def run(options: argparse.Namespace) -> int:
    """Run `band-trio run`."""
    _CONNECTIONS.setLevel(min(logging.INFO, _CONNECTIONS.getEffectiveLevel()))
    with stop_signals() as signals:
        found = load_target(options.target)
        agent = make_agent(found, options, os.environ)
        return trio.run(partial(_run, agent, signals, options.grace))


# --------------------------------------------------------------------------- making the agent


def make_agent(
    found: FrameworkAdapter | Agent, options: argparse.Namespace, environ: Mapping[str, str]
) -> Agent:
    """Make an agent of what the target is, the options, the environment and the file.

    Raises:
        CliError: credentials are missing, or options do not fit.
        BandConfigError: something given is unusable.
    """
    changes: dict[str, Any] = {}
    if options.patience is not None:
        changes["start_patience_seconds"] = options.patience
    if isinstance(found, Agent):
        _refuse_options(options)
        settings = found.settings
        return Agent(attrs.evolve(settings, config=attrs.evolve(settings.config, **changes)))
    agent_id, api_key = find_credentials(options, environ)
    return Agent.create(
        adapter=found,
        agent_id=agent_id,
        api_key=api_key,
        rest_url=options.rest_url,
        ws_url=options.ws_url,
        config=AgentConfig(allow_insecure=options.allow_insecure, **changes),
    )


_FOR_ADAPTERS: Final = (
    "agent_id",
    "api_key",
    "config",
    "name",
    "rest_url",
    "ws_url",
    "allow_insecure",
)


def _refuse_options(options: argparse.Namespace) -> None:
    given = [f"--{name.replace('_', '-')}" for name in _FOR_ADAPTERS if getattr(options, name)]
    if given:
        raise CliError(texts.options_of_an_agent(options.target, given))


def find_credentials(options: argparse.Namespace, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return id and key: from the options, else the file if one is named, else the environment,
    else the file in the working directory.

    Raises:
        CliError: naming everything that is missing.
        BandConfigError: the file is unusable.
    """
    env = variables(environ)
    named = options.config or options.name
    from_env = (None, None) if named else (env.get("BAND_AGENT_ID"), env.get("BAND_API_KEY"))
    agent_id, api_key = options.agent_id or from_env[0], options.api_key or from_env[1]
    path = Path(options.config) if options.config else get_config_path()
    if (not agent_id or not api_key) and (named or path.exists()):
        name = options.name or options.target.rpartition(":")[2].rpartition(".")[2]
        in_file = _in_file(name, path, [] if named else _missing(agent_id, api_key))
        agent_id, api_key = agent_id or in_file[0], api_key or in_file[1]
    if missing := _missing(agent_id, api_key):
        raise CliError(texts.missing_credentials(missing, str(path)))
    assert agent_id  # narrowed above
    assert api_key
    return agent_id, api_key


def _missing(agent_id: str | None, api_key: str | None) -> list[str]:
    return [n for n, value in (("agent id", agent_id), ("API key", api_key)) if not value]


def _in_file(name: str, path: Path, missing: list[str]) -> tuple[str, str]:
    """Read the file; if the other half was given elsewhere, the missing one is what to tell."""
    try:
        return load_agent_config(name, config_path=path)
    except BandConfigError as exc:
        if len(missing) != 1:
            raise
        raise CliError(texts.missing_in_file(missing, str(exc))) from exc


# --------------------------------------------------------------------------- running it


class _Ready:
    """Told once the agent is up."""

    def started(self, value: Agent | None = None) -> None:
        assert value is not None  # it is called by the agent, with itself
        for line in start_lines(value):
            _log.info("%s", line)


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


async def _run(agent: Agent, signals: StopSignals, grace: float) -> Exit:
    endpoints = agent.settings.endpoints
    _log.info("band-trio %s, at %s", version("band-trio"), endpoints.rest_url)
    async with trio.open_nursery() as nursery:
        await nursery.start(_stop_on_signal, agent, signals, grace)
        report = await agent.run(task_status=_Ready())
        nursery.cancel_scope.cancel(reason="the agent has ended")
    _log.info("%s", texts.stopped(report))
    return _exit_code(report)


async def _stop_on_signal(
    agent: Agent, signals: StopSignals, grace: float, *, task_status: trio.TaskStatus[None]
) -> None:
    task_status.started()
    name = await signals.wait()
    turns = agent.health().rooms.get("turn", 0)
    _log.info("%s", texts.stopping(name, turns, grace))
    agent.stop(grace=grace)


def _exit_code(report: ShutdownReport) -> Exit:
    for problem in report.cleanup_errors:
        _log.error("while cleaning up: %s", problem)
    return Exit.OK if report.graceful and not report.cleanup_errors else Exit.FAILED

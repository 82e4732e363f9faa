"""`band-trio run module:attribute`: one agent until a signal."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import attrs

from band_trio.agent import Agent
from band_trio.cli import texts
from band_trio.cli.errors import CliError
from band_trio.cli.loading import load_target
from band_trio.config.agent import AgentConfig
from band_trio.contract import FrameworkAdapter
from band_trio.entry.exits import Exit
from band_trio.entry.identity import Given, find_credentials
from band_trio.entry.running import code_of, run_agent
from band_trio.entry.signals import stop_signals
from band_trio.entry.texts import options_of_an_agent

_log: Final = logging.getLogger(__name__)


def run(options: argparse.Namespace) -> Exit:
    """Run `band-trio run`."""
    with stop_signals() as signals:
        if options.api_key:
            _log.warning("%s", texts.KEY_IS_SEEN)
        agent = make_agent(load_target(options.target), options, os.environ)
        return code_of(signals.run(partial(run_agent, agent, signals, options.grace)))


def make_agent(
    found: FrameworkAdapter | Agent, options: argparse.Namespace, environ: Mapping[str, str]
) -> Agent:
    """Make an agent of what the target is, the options, the environment and the file.

    Raises:
        CliError: options do not fit.
        BandConfigError: credentials are missing, or something given is unusable.
    """
    changes: dict[str, Any] = {}
    if options.patience is not None:
        changes["start_patience_seconds"] = options.patience
    if isinstance(found, Agent):
        _refuse_options(options)
        settings = found.settings
        return Agent(attrs.evolve(settings, config=attrs.evolve(settings.config, **changes)))
    agent_id, api_key = find_credentials(given_by(options), environ)
    return Agent.create(
        adapter=found,
        agent_id=agent_id,
        api_key=api_key,
        rest_url=options.rest_url,
        ws_url=options.ws_url,
        config=AgentConfig(allow_insecure=options.allow_insecure, **changes),
    )


def given_by(options: argparse.Namespace) -> Given:
    """Return what the command line says about who the agent is."""
    return Given(
        agent_id=options.agent_id,
        api_key=options.api_key,
        name=options.name,
        config_path=options.config,
        default_name=options.target.rpartition(":")[2].rpartition(".")[2],
        spelled=_spelled,
    )


def _spelled(option: str) -> str:
    return f"--{option.replace('_', '-')}"


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
    given = [_spelled(name) for name in _FOR_ADAPTERS if getattr(options, name)]
    if given:
        raise CliError(options_of_an_agent(options.target, given))

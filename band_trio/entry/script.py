"""`band_trio.run`: the whole of an agent's program in one call."""

from __future__ import annotations

import logging
import os
import threading
from functools import partial
from pathlib import Path
from typing import Any, Final

import trio

from band_trio.agent import STOP_GRACE, Agent, check_grace
from band_trio.config.importing import refuse_while_loading
from band_trio.config.keywords import check_keywords
from band_trio.contract import FrameworkAdapter
from band_trio.entry import texts
from band_trio.entry.boundary import told_errors
from band_trio.entry.exits import Exit
from band_trio.entry.identity import Given, find_credentials
from band_trio.entry.log import level_of, set_up_log
from band_trio.entry.running import code_of, run_agent
from band_trio.entry.signals import stop_signals
from band_trio.errors import BandConfigError
from band_trio.kit.secret import silent
from band_trio.runtime.lifecycle import ShutdownReport


def run(
    agent: Agent | FrameworkAdapter,
    *,
    agent_id: str | None = None,
    api_key: str | None = None,
    name: str | None = None,
    config_path: str | Path | None = None,
    grace: float = STOP_GRACE,
    level: int | str = logging.WARNING,
    **options: Any,
) -> ShutdownReport:
    """Run an agent until Ctrl-C or SIGTERM, as `band-trio run` does; return how it ended.

    Of an adapter an agent is made, with *options* as in `Agent.create`. Id and key are the
    arguments, else those of the entry *name* in the file *config_path*, if one of these is given,
    else `BAND_AGENT_ID` and `BAND_API_KEY`, else those of `agent_config.yaml`, at its top level or
    in the entry named as the adapter's class. An `Agent` has all that; then only *grace* and
    *level* may be given.

    The first signal lets running turns finish for *grace* seconds, the second one ends the process
    with exit code 130; the other of the two signals within a second of the first is the same
    request. Log lines from *level* on go to stderr, in colours on a terminal where rich is
    installed, unless the application has set up logging: then nothing is changed.

    Call it in the main thread, below `if __name__ == "__main__":`.

    Raises:
        TypeError: a keyword is neither one of these nor one of `Agent.create`.
        SystemExit: with exit code 1 after an error, or an end that was not graceful or had
            clean-up errors; 2 if an option or setting is unusable; 130 for a signal before the
            start. Errors are told on stderr, those of band_trio in one line. A handler's own
            `SystemExit` passes.
        BandConfigError: called in another thread, within a trio run, or while `band-trio run`
            loads its target.
    """
    api_key = silent(api_key)  # a traceback with locals shows this frame
    check_keywords("band_trio.run", options, Agent.create, *_OWN)
    refuse_while_loading()
    _check_place()
    with stop_signals() as signals:  # first of all: process 1 of a container has no other end
        secrets = [api_key, os.environ.get("BAND_API_KEY")]
        with told_errors(secrets):
            set_up_log(level_of(level))
            check_grace(grace)
            given = {
                "agent_id": agent_id,
                "api_key": api_key,
                "name": name,
                "config_path": config_path,
            }
            agent = _agent_of(agent, given, options)
            secrets.append(agent.settings.credentials.api_key)
            report = signals.run(partial(run_agent, agent, signals, grace))
    code = code_of(report)
    if code is not Exit.OK:
        raise SystemExit(code)
    return report


_OWN: Final = ("name", "config_path", "grace", "level")


def _check_place() -> None:
    if threading.current_thread() is not threading.main_thread():
        raise BandConfigError(texts.IN_A_THREAD)
    if trio.lowlevel.in_trio_run():
        raise BandConfigError(texts.IN_A_RUN)


def _agent_of(
    agent: Agent | FrameworkAdapter, given: dict[str, Any], options: dict[str, Any]
) -> Agent:
    if isinstance(agent, Agent):
        refused = [key for key, value in (given | options).items() if value is not None]
        if refused:
            raise BandConfigError(texts.options_of_an_agent("the first argument", refused))
        return agent
    who = Given(**given, default_name=type(agent).__name__)
    agent_id, api_key = find_credentials(who, os.environ)
    return Agent.create(adapter=agent, agent_id=agent_id, api_key=api_key, **options)

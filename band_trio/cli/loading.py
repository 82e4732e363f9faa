"""From `module:attribute` to an adapter or an Agent."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast

from band_trio.agent import Agent
from band_trio.checks import missing_hooks
from band_trio.cli import texts
from band_trio.cli.errors import CliError
from band_trio.config.importing import StartedWhileLoadingError, refusing_agents
from band_trio.contract import FrameworkAdapter
from band_trio.entry.boundary import describe
from band_trio.entry.exits import Exit
from band_trio.errors import BandError
from band_trio.kit.leaves import leaf_errors

_SHOWN: Final = 8


def load_target(target: str) -> FrameworkAdapter | Agent:
    """Import what *target* names, and call it if it is a class or a factory.

    The working directory comes first on `sys.path`.

    Raises:
        CliError: with one line that says what is wrong.
    """
    module_name, _, path = target.partition(":")
    parts = path.split(".")
    if not module_name or not all(part.isidentifier() for part in parts) or _is_a_path(module_name):
        raise CliError(texts.not_a_target(target))
    with refusing_agents(texts.runs_while_imported(module_name)):
        found: Any = _import(module_name)
    for name in parts:
        found = _attribute(found, module_name, name)
    return _made(found, target)


def _is_a_path(name: str) -> bool:
    return "/" in name or name.endswith(".py")


def _import(name: str) -> ModuleType:
    directory = str(Path.cwd())
    if directory not in sys.path:
        sys.path.insert(0, directory)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as exc:
        missing = exc.name or ""
        if name == missing or name.startswith(f"{missing}."):
            raise CliError(texts.no_module(name, directory)) from None
        raise CliError(texts.import_failed(name, str(exc)), Exit.FAILED) from exc
    except BandError:  # of an Agent that is made there: it says itself what to do
        raise
    except Exception as exc:
        _raise_refusal(exc)
        raise CliError(texts.import_failed(name, describe(exc)), Exit.FAILED) from exc


def _raise_refusal(error: Exception) -> None:
    """Say what an agent that was started too early has been told, whatever it was wrapped in."""
    for leaf in leaf_errors(error):
        if isinstance(leaf, StartedWhileLoadingError):
            raise CliError(str(leaf)) from None


def _attribute(holder: object, module: str, name: str) -> Any:
    try:
        return getattr(holder, name)
    except AttributeError:
        useful = sorted(key for key, value in vars(holder).items() if _is_useful(value, module))
        raise CliError(texts.no_attribute(module, name, useful[:_SHOWN])) from None


def _is_useful(value: object, module: str) -> bool:
    if isinstance(value, type):
        return value.__module__ == module and not missing_hooks(value)
    return isinstance(value, Agent) or _is_adapter(value)


def _made(found: Any, target: str) -> FrameworkAdapter | Agent:
    """Return *found*, or what it makes."""
    if not _is_done(found) and callable(found):
        if inspect.iscoroutinefunction(found):
            raise CliError(texts.not_an_adapter(target, "an async function"))
        try:
            with refusing_agents(texts.runs_while_called(target)):
                found = found()
        except BandError:
            raise
        except Exception as exc:
            _raise_refusal(exc)
            text = texts.making_failed(target, describe(exc))
            raise CliError(text, Exit.FAILED) from exc
    if not _is_done(found):
        raise CliError(texts.not_an_adapter(target, f"of type {type(found).__name__}"))
    return cast("FrameworkAdapter | Agent", found)


def _is_done(value: object) -> bool:
    return isinstance(value, Agent) or _is_adapter(value)


def _is_adapter(value: object) -> bool:
    return not isinstance(value, type) and not missing_hooks(value)

"""Who the agent is, for a program that is told little: options, environment, file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import attrs

from band_trio.config.credentials import get_config_path, load_agent_config
from band_trio.config.endpoints import variables
from band_trio.entry import texts
from band_trio.errors import BandConfigError


@attrs.frozen(kw_only=True)
class Given:
    """What the caller says about who the agent is."""

    agent_id: str | None = None
    api_key: str | None = attrs.field(default=None, repr=False)
    name: str | None = None
    """Entry of the file."""
    config_path: str | Path | None = None
    default_name: str
    """Entry of the file where none is named."""
    spelled: Callable[[str], str] = "{}=".format
    """How the caller writes an option, for texts."""


def find_credentials(given: Given, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return id and key: as given, else from the file if file or entry is named, else from the
    environment, else from the file in the working directory.

    Raises:
        BandConfigError: naming everything that is missing, or the file is unusable.
    """
    env = variables(environ)
    named = given.config_path or given.name
    from_env = (None, None) if named else (env.get("BAND_AGENT_ID"), env.get("BAND_API_KEY"))
    agent_id, api_key = given.agent_id or from_env[0], given.api_key or from_env[1]
    path = Path(given.config_path) if given.config_path else get_config_path()
    if (not agent_id or not api_key) and (named or path.exists()):
        in_file = _in_file(given, path, [] if named else _missing(agent_id, api_key))
        agent_id, api_key = agent_id or in_file[0], api_key or in_file[1]
    if missing := _missing(agent_id, api_key):
        raise BandConfigError(texts.missing_credentials(missing, str(path), given.spelled))
    assert agent_id  # narrowed above
    assert api_key
    return agent_id, api_key


def _missing(agent_id: str | None, api_key: str | None) -> list[str]:
    return [name for name, value in (("agent_id", agent_id), ("api_key", api_key)) if not value]


def _in_file(given: Given, path: Path, missing: list[str]) -> tuple[str, str]:
    """Read the file; if the other half was given elsewhere, the missing one is what to tell."""
    try:
        return load_agent_config(given.name or given.default_name, config_path=path)
    except BandConfigError as exc:
        text = str(exc)
        if given.name is None:
            text = texts.entry_not_named(text, given.spelled("name"))
        if len(missing) == 1:
            text = texts.missing_in_file(missing, text, given.spelled)
        raise BandConfigError(text) from exc

"""Who the agent is: its id and key, given directly or in `agent_config.yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import attrs
import yaml

from band_trio.errors import BandConfigError
from band_trio.kit.hygiene import clean_text
from band_trio.kit.ids import ID
from band_trio.kit.secret import Secret, silent

CONFIG_FILE: Final = "agent_config.yaml"

PROXY_MANAGED_API_KEY: Final = "proxy-managed"
"""A key that is sent as it stands; a trusted proxy replaces it (platform docs, Credentials)."""

_FIELDS: Final = ("agent_id", "api_key")
_NAMES_SHOWN: Final = 20
_NAME_CHARS: Final = 80
"""Longest name of a file that an error quotes."""


@attrs.frozen
class Credentials:
    """Who the agent is; the key is in no repr, nor is a copy of it."""

    agent_id: str
    api_key: str = attrs.field(repr=False, converter=silent)

    def __attrs_post_init__(self) -> None:
        problems = [
            f"{name} must be a non-empty string"
            for name in _FIELDS
            if not _is_filled(getattr(self, name))
        ]
        if problems:
            # No colon behind "credentials": what follows one would be masked as a value.
            raise BandConfigError("Unusable credentials, " + "; ".join(problems) + ".")
        if not ID.accepts(self.agent_id):
            raise BandConfigError(
                f"Unusable credentials, agent_id must be {ID}: the id of the agent on the platform."
            )
        if not all(32 < ord(char) < 127 for char in self.api_key):
            raise BandConfigError(
                "Unusable credentials, api_key must be printable ASCII without spaces."
            )


def _is_filled(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def get_config_path() -> Path:
    """Return where `load_agent_config` looks by default: `agent_config.yaml` in the working
    directory."""
    return Path(CONFIG_FILE)


def load_agent_config(key: str, *, config_path: str | Path | None = None) -> tuple[str, str]:
    """Read agent id and API key of *key* from a YAML file.

    The file holds `key: {agent_id: …, api_key: …}`, or both at the top level, which is used when
    the key is absent. Values never appear in errors, which are one line each.

    Raises:
        BandConfigError: the file is missing or not YAML, the key is unknown, a field is missing.
    """
    path = Path(config_path) if config_path is not None else get_config_path()
    try:
        return _load(key, path)
    except BandConfigError as exc:
        # The frames below hold the keys of the file, which tools that print locals would show.
        raise exc.with_traceback(None) from None


def _load(key: str, path: Path) -> tuple[str, str]:
    data = _read_yaml(path)
    if key in data:
        entry = data[key]
    elif any(name in data for name in _FIELDS):
        entry = data
    else:
        raise _unknown_agent(path, key, data)
    if not isinstance(entry, dict):
        raise BandConfigError(f"{path}: {key!r} must hold agent_id and api_key.")
    missing = [name for name in _FIELDS if not _is_filled(entry.get(name))]
    if missing:
        raise BandConfigError(f"{path}: {key!r} lacks {' and '.join(missing)} (non-empty text).")
    return entry["agent_id"], Secret(entry["api_key"])


def _unknown_agent(path: Path, key: str, data: dict[Any, Any]) -> BandConfigError:
    texts = (" ".join(name.split()) for name in data if isinstance(name, str))
    names = sorted(clean_text(text, _NAME_CHARS) for text in texts)
    shown = ", ".join(names[:_NAMES_SHOWN]) + (", …" if len(names) > _NAMES_SHOWN else "")
    known = f" It has: {shown}." if names else " It is empty."
    return BandConfigError.with_suggestion(f"{path} has no agent {key!r}.{known}", key, names)


def _read_yaml(path: Path) -> dict[Any, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BandConfigError(
            f"{path} does not exist. Create it with agent_id and api_key, or pass them directly."
        ) from None
    except (OSError, ValueError) as exc:
        raise BandConfigError(f"{path} cannot be read: {type(exc).__name__}.") from None
    data = _parse_yaml(path, text)
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise BandConfigError(f"{path} must hold a mapping of agent names.")
    return data


def _parse_yaml(path: Path, text: str) -> Any:
    # The causes are left out on purpose: they quote the line, which may hold the key.
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as exc:
        mark = getattr(exc, "problem_mark", None)
        line = f" near line {mark.line + 1}" if mark is not None else ""
        raise BandConfigError(f"{path} is not valid YAML{line}.") from None
    except Exception as exc:  # noqa: BLE001 - PyYAML leaks what int(), date() and its own bugs raise
        raise BandConfigError(f"{path} is not valid YAML: {type(exc).__name__}.") from None

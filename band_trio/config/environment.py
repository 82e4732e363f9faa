"""Options from the environment: read by name, and names that nobody reads are told."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import attrs

from band_trio.config.endpoints import variables
from band_trio.config.options import problem
from band_trio.errors import BandConfigError, did_you_mean
from band_trio.kit.hygiene import clip, one_line

_log: Final = logging.getLogger(__name__)

PREFIX: Final = "BAND_"
_NAME_CHARS: Final = 80

_OURS: Final = ("BAND_AGENT_ID", "BAND_API_KEY", "BAND_ATTACHMENT_CACHE_MAXSIZE", "BAND_REST_URL", "BAND_WS_URL")  # fmt: skip
_OF_BAND_SDK: Final = frozenset(
    PREFIX + name
    for name in (
        "API_KEY_USER", "AUTH_MODE", "BASE_URL", "MESSAGE", "TARGET_HANDLE", "TRIGGER_TIMEOUT",
    )
)  # fmt: skip
"""Read by the command-line programs of band-sdk (platform docs, Endpoints): no mistakes."""
_OLD_SPELLINGS: Final = frozenset(
    (
        "ENABLE_CONTEXT_HYDRATION", "ENABLE_WORKING_STATE", "IDLE_RESYNC_MAX_SECONDS",
        "IDLE_RESYNC_SECONDS", "MAX_CONTEXT_MESSAGES", "MAX_CYCLE_SECONDS", "MAX_MESSAGE_RETRIES",
        "MAX_WORKING_STATE_SECONDS", "REPORT_TURN_FAILURES_TO_ROOM", "STOPPED_RESYNC_SECONDS",
        "WORKING_KEEP_ALIVE_SECONDS", "WORKING_REQUEST_TIMEOUT_SECONDS",
    )
)  # fmt: skip
"""As band-sdk reads the options of a session: without a prefix."""

_told: Final = set[str]()
"""Names that were told; a program with many agents says it once. Bounded by the environment."""


def tell_unread(
    session: Iterable[str], agent: Iterable[str], adapters: Callable[[], Iterable[str]]
) -> None:
    """Log one warning for each variable that is meant for us and that nobody reads.

    *session* are the options that come from the environment, *agent* those that do not. *adapters*
    gives the variables of adapters, or their beginnings; it is asked only where a name is not known
    otherwise. Values are never shown.
    """
    env = variables(os.environ)
    options = {PREFIX + name.upper() for name in session}
    known = options | _OF_BAND_SDK | set(_OURS)
    old = {name for name in env.keys() & _OLD_SPELLINGS if PREFIX + name not in env}
    unread = {name for name in env.keys() - known - _told if name.startswith(PREFIX)}
    if unread:
        own = tuple(adapters())
        unread = {name for name in unread if not name.startswith(own)}
    for name in sorted(old - _told):
        _log.warning("the variable %s is not read: its name is %s%s", name, PREFIX, name)
    in_code = {PREFIX + name.upper(): name for name in agent}
    for name in sorted(unread):
        _log.warning(
            "the variable %s is not read.%s",
            clip(one_line(name), _NAME_CHARS),
            f" Pass AgentConfig({in_code[name]}=…) in code."
            if name in in_code
            else did_you_mean(name, [*sorted(options), *_OURS], max_distance=4),
        )
    _told.update(old, unread)


_WORDS: Final = {"true": True, "1": True, "yes": True, "on": True} | dict.fromkeys(
    ("false", "0", "no", "off"), False
)


def read_options(
    cls: type[attrs.AttrsInstance], environ: Mapping[str, str], skipped: Iterable[str]
) -> tuple[dict[str, Any], list[str]]:
    """Read the options of *cls* that the environment names; return good values and problems."""
    values: dict[str, Any] = {}
    problems: list[str] = []
    for field in attrs.fields(cls):
        name = f"BAND_{field.name.upper()}"
        text = environ.get(name)
        if text is None or "kind" not in field.metadata or field.name in skipped:
            continue
        try:
            value = _parse(text, field.metadata)
        except (KeyError, ValueError):
            problems.append(f"{name} is not a valid {field.metadata['kind']}: {text[:40]!r}")
            continue
        if told := problem(field, value):
            problems.append(f"{name} {told}, not {text[:40]!r}")
        else:
            values[field.name] = value
    return values, problems


def _parse(text: str, meta: Mapping[Any, Any]) -> object:
    if meta.get("none") and text.lower() == "none":
        return None
    if meta["kind"] == "switch":
        return _WORDS[text.lower()]
    return int(text) if meta["kind"] == "count" else float(text)


def joined(
    cls: type, problems: Iterable[str], error: BandConfigError | None = None
) -> BandConfigError:
    """Return one error for what is wrong in the environment and in the rest of the options."""
    more = [str(error).removeprefix(f"{cls.__name__}: ")] if error is not None else []
    return BandConfigError(f"{cls.__name__}: " + "; ".join([*problems, *more]))

"""Options, URLs and credentials. Frozen, checked at construction, without any I/O of its own.

Defaults and units stand beside each field: seconds where nothing else is said.
"""

from __future__ import annotations

import math
import os
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import attrs
import httpx  # noqa: ASYNC127, TID251 - for the type of rest_transport only
import trio
import yaml

from band_trio.errors import BandConfigError
from band_trio.trace import Observer
from band_trio.types import Hook

DEFAULT_REST_URL: Final = "https://app.band.ai"
DEFAULT_WS_URL: Final = "wss://app.band.ai/api/v1/socket/websocket"
SOCKET_PATH: Final = "/api/v1/socket/websocket"
CONFIG_FILE: Final = "agent_config.yaml"

PROXY_MANAGED_API_KEY: Final = "proxy-managed"
"""A key that is sent as it stands; a trusted proxy replaces it (platform docs, Credentials)."""

OpenStream = Callable[[str], Awaitable[trio.abc.Stream]]
"""Given the socket URL, return a connected byte stream, TLS included."""

RoomFilter = Callable[[str, str | None], bool]
"""Given a room's id and title, tell whether to serve it. Plain and quick: it must not block."""


class ConflictPolicy(StrEnum):
    """What to do when the agent is connected elsewhere already."""

    SUPERSEDE = "supersede"
    """Take over; the other connection is told and ends."""
    REJECT = "reject"
    """Wait for the other to go, then give up with `AgentAlreadyRunningError`."""


class ContactStrategy(StrEnum):
    """Who handles contact events."""

    DISABLED = "disabled"
    CALLBACK = "callback"
    HUB_ROOM = "hub_room"


# --------------------------------------------------------------------------- checking


def seconds(default: float, *, below: float = math.inf) -> Any:
    """A positive, finite number, strictly below *below*."""
    return attrs.field(default=default, metadata={"low": 0.0, "below": below, "kind": "number"})


def optional_seconds() -> Any:
    """A positive, finite number, or None for unbounded."""
    return attrs.field(default=None, metadata={"low": 0.0, "kind": "number", "none": True})


def count(default: int) -> Any:
    """A whole number, at least 1."""
    return attrs.field(default=default, metadata={"low": 1, "kind": "count"})


def switch(default: bool) -> Any:
    """True or False."""
    return attrs.field(default=default, metadata={"kind": "switch"})


def _problem(field: attrs.Attribute[Any], value: object) -> str | None:
    meta = field.metadata
    if "kind" not in meta or (value is None and meta.get("none")):
        return None
    if meta["kind"] == "switch":
        return None if isinstance(value, bool) else "must be True or False"
    if meta["kind"] == "count":
        whole = isinstance(value, int) and not isinstance(value, bool)
        return None if whole and value >= meta["low"] else f"must be a whole number ≥ {meta['low']}"
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return "must be a finite number of seconds"
    if value <= meta["low"]:
        return f"must be greater than {meta['low']:g}"
    if value >= meta.get("below", math.inf):
        return f"must be less than {meta['below']:g}"
    return None


def _raise_problems(instance: attrs.AttrsInstance, *more: str | None) -> None:
    """Raise one error that names every option that is wrong."""
    problems = [
        f"{field.name} {problem}, not {getattr(instance, field.name)!r}"
        for field in attrs.fields(type(instance))
        if (problem := _problem(field, getattr(instance, field.name)))
    ]
    problems += [each for each in more if each]
    if problems:
        raise BandConfigError(f"{type(instance).__name__}: " + "; ".join(problems))


# --------------------------------------------------------------------------- options


@attrs.frozen(kw_only=True)
class SessionConfig:
    """Options of rooms and turns."""

    max_message_retries: int = count(1)
    """Runs of one message in total, across restarts."""
    retry_base_seconds: float = seconds(1)
    retry_cap_seconds: float = seconds(60)
    hold_seconds: float = seconds(60)
    """How long a message may keep later ones of its room waiting between its runs."""
    refused_recheck_seconds: float = seconds(600)
    max_cycle_seconds: float | None = optional_seconds()
    """Longest handler, None for no limit."""
    stall_seconds: float = seconds(10)
    """When a cancelled handler that does not end is named in log and health."""
    claim_seconds: float = seconds(10)
    """One try of a claim."""
    settle_seconds: float = seconds(5)
    """The first, shielded try of a mark."""
    settle_base_seconds: float = seconds(0.5)
    settle_cap_seconds: float = seconds(10)
    idle_resync_seconds: float = seconds(60)
    idle_resync_max_seconds: float = seconds(120)
    stopped_resync_seconds: float | None = optional_seconds()
    """How often a stopped room asks whether it may go on; None: as an idle one."""
    activity_delay_seconds: float = seconds(0.25)
    """A turn shorter than this shows no working indicator."""
    working_keep_alive_seconds: float = seconds(3.0, below=5)
    working_request_timeout_seconds: float = seconds(2.0)
    max_working_state_seconds: float | None = optional_seconds()
    enable_working_state: bool = switch(default=True)
    enable_context_hydration: bool = switch(default=True)
    report_turn_failures_to_room: bool = switch(default=True)
    max_context_messages: int = count(100)
    """Newest items handed over at bootstrap."""
    history_seconds: float = seconds(30)
    roster_seconds: float = seconds(5)
    hook_seconds: float = seconds(10)
    control_hook_seconds: float = seconds(5)
    error_text_chars: int = count(1000)
    room_hints: int = count(64)
    room_unsettled: int = count(64)
    system_lines: int = count(100)

    def __attrs_post_init__(self) -> None:
        # Pairs are compared only when both are numbers: what is no number is named already.
        pairs = [
            ("working_request_timeout_seconds", "working_keep_alive_seconds", "be less than"),
            ("retry_base_seconds", "retry_cap_seconds", "not exceed"),
            ("settle_base_seconds", "settle_cap_seconds", "not exceed"),
            ("idle_resync_seconds", "idle_resync_max_seconds", "not exceed"),
        ]
        _raise_problems(self, *(_pair_problem(self, *pair) for pair in pairs))

    @classmethod
    def from_environment(cls, **overrides: Any) -> SessionConfig:
        """Read `BAND_` plus an option's name in capitals; *overrides* win.

        Raises:
            BandConfigError: a variable does not parse, or a value is out of range.
            TypeError: an override names no option.
        """
        values, problems = _from_environment(cls, os.environ)
        if problems:
            raise BandConfigError(f"{cls.__name__}: " + "; ".join(problems))
        return cls(**{**values, **overrides})


@attrs.frozen(kw_only=True)
class AgentConfig:
    """Options of the agent: its transports, its connection, its requests."""

    rest_transport: httpx.AsyncBaseTransport | None = attrs.field(default=None, repr=False)
    open_stream: OpenStream | None = attrs.field(default=None, repr=False)
    room_filter: RoomFilter | None = attrs.field(default=None, repr=False)
    single_instance: bool = switch(default=True)
    """Refuse to start while this host runs the same agent."""
    conflict_policy: ConflictPolicy = attrs.field(default=ConflictPolicy.SUPERSEDE)
    allow_insecure: bool = switch(default=False)
    """Permit `http://` and `ws://` beyond loopback."""
    observer: Observer | None = attrs.field(default=None, repr=False)
    start_patience_seconds: float = seconds(120)
    connect_seconds: float = seconds(10)
    join_seconds: float = seconds(10)
    leave_seconds: float = seconds(1)
    close_seconds: float = seconds(1)
    reconnect_base_seconds: float = seconds(0.5)
    reconnect_cap_seconds: float = seconds(30)
    stable_seconds: float = seconds(60)
    """A connection of this age forgets earlier failures."""
    conflict_wait_seconds: float = seconds(30)
    heartbeat_seconds: float = seconds(30)
    dead_seconds: float = seconds(60)
    """Without a heartbeat reply for this long, the socket is dropped."""
    join_parallel: int = count(16)
    rest_bulk: int = count(24)
    """Requests at once for reads, tools and posts."""
    rest_priority: int = count(8)
    """Requests at once reserved for claims and marks."""
    rest_pool: int = count(40)
    rest_try_seconds: float = seconds(15)
    rest_call_seconds: float = seconds(60)
    """A whole repeatable call, its repetitions included."""
    retry_after_cap_seconds: float = seconds(60)
    resync_rate: float = seconds(50)
    """Speculative reads per second of the whole agent."""
    resync_burst: int = count(100)
    contact_hook_seconds: float = seconds(30)
    contact_queue: int = count(256)
    stop_overhead_seconds: float = seconds(2)

    def __attrs_post_init__(self) -> None:
        more = [
            _pair_problem(self, "reconnect_base_seconds", "reconnect_cap_seconds", "not exceed"),
            _pair_problem(self, "heartbeat_seconds", "dead_seconds", "be less than"),
        ]
        policy: object = self.conflict_policy
        if not isinstance(policy, ConflictPolicy):
            more.append(f"conflict_policy must be a ConflictPolicy, not {self.conflict_policy!r}")
        lanes = (self.rest_bulk, self.rest_priority, self.rest_pool)
        if all(isinstance(n, int) for n in lanes) and lanes[0] + lanes[1] >= lanes[2]:
            more.append("rest_bulk + rest_priority must stay below rest_pool")
        for name in ("rest_transport", "open_stream", "room_filter", "observer"):
            value = getattr(self, name)
            usable = (
                isinstance(value, httpx.AsyncBaseTransport)
                if name == "rest_transport"
                else callable(value)
            )
            if value is not None and not usable:
                kind = "an httpx.AsyncBaseTransport" if name == "rest_transport" else "callable"
                more.append(f"{name} must be {kind}, not {type(value).__name__}")
        _raise_problems(self, *more)


@attrs.frozen(kw_only=True)
class ContactEventConfig:
    """Who handles contact events, and whether rooms hear of them."""

    strategy: ContactStrategy = ContactStrategy.DISABLED
    hub_task_id: str | None = None
    on_event: Hook | None = attrs.field(default=None, repr=False)
    broadcast_changes: bool = switch(default=False)

    def __attrs_post_init__(self) -> None:
        more: list[str | None] = []
        strategy: object = self.strategy
        if not isinstance(strategy, ContactStrategy):
            more.append(f"strategy must be a ContactStrategy, not {self.strategy!r}")
        if self.strategy is ContactStrategy.CALLBACK and self.on_event is None:
            more.append("strategy callback needs on_event")
        _raise_problems(self, *more)


def _pair_problem(config: attrs.AttrsInstance, lower: str, upper: str, relation: str) -> str | None:
    low, high = getattr(config, lower), getattr(config, upper)
    if not all(isinstance(each, int | float) for each in (low, high)):
        return None
    broken = low >= high if relation == "be less than" else low > high
    return f"{lower} must {relation} {upper}, not {low!r} with {high!r}" if broken else None


C = TypeVar("C", bound=attrs.AttrsInstance)
_WORDS: Final = {"true": True, "1": True, "yes": True, "on": True} | dict.fromkeys(
    ("false", "0", "no", "off"), False
)


def _from_environment(cls: type[C], environ: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Read the options of *cls* that the environment names; return values and problems."""
    values: dict[str, Any] = {}
    problems: list[str] = []
    for field in attrs.fields(cls):
        name = f"BAND_{field.name.upper()}"
        text = environ.get(name, "").strip()
        if not text or "kind" not in field.metadata:
            continue
        try:
            values[field.name] = _parse(text, field.metadata)
        except (KeyError, ValueError):
            problems.append(f"{name} is not a valid {field.metadata['kind']}: {text!r}")
    return values, problems


def _parse(text: str, meta: Mapping[Any, Any]) -> object:
    if meta.get("none") and text.lower() == "none":
        return None
    if meta["kind"] == "switch":
        return _WORDS[text.lower()]
    return int(text) if meta["kind"] == "count" else float(text)


# --------------------------------------------------------------------------- URLs


@attrs.frozen
class Endpoints:
    """Where the platform is; both URLs checked."""

    rest_url: str
    """Origin, without a trailing slash; every path begins with `/api/v1`."""
    ws_url: str


def resolve_endpoints(
    rest_url: str | None = None,
    ws_url: str | None = None,
    *,
    allow_insecure: bool = False,
    environ: Mapping[str, str] | None = None,
) -> Endpoints:
    """Find both URLs: arguments, else `BAND_REST_URL` and `BAND_WS_URL`, else the public platform.

    A missing socket URL is derived from a REST URL that is given (platform docs, Endpoints).

    Raises:
        BandConfigError: a URL has the wrong scheme, no host, a key in it, or is unencrypted
            beyond loopback.
    """
    env = {
        name.upper(): text for name, text in (os.environ if environ is None else environ).items()
    }
    rest = rest_url or env.get("BAND_REST_URL") or DEFAULT_REST_URL
    rest = _checked_url(rest, "rest_url", ("http", "https"), allow_insecure).rstrip("/")
    if ws_url:
        ws = ws_url
    elif rest_url:
        ws = _socket_url(rest)
    else:
        ws = env.get("BAND_WS_URL") or _socket_url(rest)
    return Endpoints(rest, _checked_url(ws, "ws_url", ("ws", "wss"), allow_insecure))


def _socket_url(rest_url: str) -> str:
    parts = urlsplit(rest_url)
    scheme = "wss" if parts.scheme == "https" else "ws"
    return urlunsplit((scheme, parts.netloc, SOCKET_PATH, "", ""))


def _checked_url(url: str, name: str, schemes: tuple[str, str], allow_insecure: bool) -> str:
    try:
        parts = urlsplit(url.strip())
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise BandConfigError(f"{name} is not a valid URL.") from None
    where = f"{parts.scheme}://{host}"
    if parts.scheme not in schemes or not host:
        raise BandConfigError(f"{name} must begin with {schemes[1]}:// and name a host.")
    if parts.username or parts.password:
        raise BandConfigError(f"{name} ({where}) must not hold credentials.")
    query = dict(parse_qsl(parts.query))
    if query.get("token"):
        raise BandConfigError(f"{name} ({where}) must not hold a token; pass the key as api_key.")
    if parts.scheme == schemes[0] and not allow_insecure and not is_loopback(host):
        raise BandConfigError(
            f"{name} ({where}) is not encrypted, and the API key would travel in the clear. "
            f"Use {schemes[1]}://, or AgentConfig(allow_insecure=True) in a network you trust."
        )
    kept = urlencode([(k, v) for k, v in parse_qsl(parts.query) if k not in ("api_key", "token")])
    return urlunsplit((parts.scheme, parts.netloc, parts.path, kept, ""))


def is_loopback(host: str) -> bool:
    """Tell whether *host* names this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


# --------------------------------------------------------------------------- credentials


@attrs.frozen
class Credentials:
    """Who the agent is; the key is in no repr."""

    agent_id: str
    api_key: str = attrs.field(repr=False)

    def __attrs_post_init__(self) -> None:
        problems = [
            f"{name} must be a non-empty string"
            for name in ("agent_id", "api_key")
            if not (isinstance(value := getattr(self, name), str) and value.strip())
        ]
        if problems:
            raise BandConfigError("Credentials: " + "; ".join(problems) + ".")
        if not all(32 < ord(char) < 127 for char in self.api_key):
            raise BandConfigError("Credentials: api_key must be printable ASCII without spaces.")


def get_config_path() -> Path:
    """Return where `load_agent_config` looks by default: `agent_config.yaml` in the working
    directory."""
    return Path(CONFIG_FILE)


def load_agent_config(key: str, *, config_path: str | Path | None = None) -> tuple[str, str]:
    """Read agent id and API key of *key* from a YAML file.

    The file holds `key: {agent_id: …, api_key: …}`, or both at the top level, which is used when
    the key is absent. Values never appear in errors.

    Raises:
        BandConfigError: the file is missing or not YAML, the key is unknown, a field is missing.
    """
    path = Path(config_path) if config_path is not None else get_config_path()
    data = _read_yaml(path)
    if key in data:
        entry = data[key]
    elif "agent_id" in data:
        entry = data
    else:
        names = sorted(str(name) for name in data)
        known = f" It has: {', '.join(names)}." if names else " It is empty."
        raise BandConfigError.with_suggestion(f"{path} has no agent {key!r}.{known}", key, names)
    if not isinstance(entry, dict):
        raise BandConfigError(f"{path}: {key!r} must hold agent_id and api_key.")
    missing = [
        name
        for name in ("agent_id", "api_key")
        if not (isinstance(entry.get(name), str) and entry[name].strip())
    ]
    if missing:
        raise BandConfigError(f"{path}: {key!r} lacks {' and '.join(missing)} (non-empty text).")
    return entry["agent_id"], entry["api_key"]


def _read_yaml(path: Path) -> dict[Any, Any]:
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BandConfigError(
            f"{path} does not exist. Create it with agent_id and api_key, or pass them directly."
        ) from None
    except (OSError, UnicodeDecodeError) as exc:
        raise BandConfigError(f"{path} cannot be read: {type(exc).__name__}.") from None
    except yaml.YAMLError as exc:
        mark = getattr(exc, "problem_mark", None)
        line = f" near line {mark.line + 1}" if mark is not None else ""
        # The cause is left out on purpose: it quotes the line, which may hold the key.
        raise BandConfigError(f"{path} is not valid YAML{line}.") from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise BandConfigError(f"{path} must hold a mapping of agent names.")
    return data

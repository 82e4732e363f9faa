"""Options. Frozen, checked at construction, without any I/O of its own.

Defaults and units stand beside each field: seconds where nothing else is said. URLs and
credentials are configuration too: they live in `endpoints` and `credentials`.
"""

from __future__ import annotations

import math
import os
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, TypeGuard
from uuid import UUID

import attrs
import httpx  # noqa: ASYNC127, TID251 - for the type of rest_transport only
import trio

from band_trio.callables import is_async
from band_trio.endpoints import variables
from band_trio.errors import BandConfigError
from band_trio.proxies import read_proxy
from band_trio.trace import Observer
from band_trio.types import Hook

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
    """A positive, finite number of seconds, strictly below *below*."""
    return attrs.field(default=default, metadata={"low": 0.0, "below": below, "kind": "number"})


def rate(default: float) -> Any:
    """A positive, finite number per second."""
    return seconds(default)


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
    if not _is_finite(value):
        return f"must be a finite number{' of seconds' if field.name.endswith('_seconds') else ''}"
    if value <= meta["low"]:
        return f"must be greater than {meta['low']:g}"
    if value >= meta.get("below", math.inf):
        return f"must be less than {meta['below']:g}"
    return None


def _is_finite(value: object) -> TypeGuard[int | float]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond the range of floats
        return False


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
    """Runs of one message in total, across restarts; 1 is one run and no retry."""
    retry_base_seconds: float = seconds(1)
    """Wait before the second run of a message; doubled with each run after that."""
    retry_cap_seconds: float = seconds(60)
    """Longest such wait."""
    hold_seconds: float = seconds(60)
    """How long a message may keep later ones of its room waiting between its runs."""
    refused_recheck_seconds: float = seconds(600)
    """When a message whose claim was refused is claimed again, if it is still listed."""
    max_cycle_seconds: float | None = optional_seconds()
    """Longest handler; then its message has failed. None for no limit."""
    stall_seconds: float = seconds(10)
    """When a cancelled handler that does not end is named in log and health, and how long one may
    block the thread before the log says so."""
    claim_seconds: float = seconds(10)
    """Longest try of a claim."""
    settle_seconds: float = seconds(5)
    """Longest first try of a mark, which nothing cuts off; later ones are made in the
    background."""
    settle_base_seconds: float = seconds(0.5)
    """Wait before the second try of a mark; doubled with each try after that."""
    settle_cap_seconds: float = seconds(10)
    """Longest such wait."""
    idle_resync_seconds: float = seconds(60)
    """How often an idle room asks for messages whose push never came; doubled while there are
    none."""
    idle_resync_max_seconds: float = seconds(120)
    """Longest such interval."""
    stopped_resync_seconds: float | None = optional_seconds()
    """How often a stopped room asks whether it may go on; None: as an idle one."""
    activity_delay_seconds: float = seconds(0.25)
    """A turn shorter than this shows no working indicator."""
    working_keep_alive_seconds: float = seconds(3.0, below=5)
    """How often the working indicator is renewed; the platform forgets it after 5."""
    working_request_timeout_seconds: float = seconds(2.0)
    """Longest report of the indicator."""
    max_working_state_seconds: float | None = optional_seconds()
    """When the indicator goes out although the turn goes on; None for never."""
    enable_working_state: bool = switch(default=True)
    """Whether the room sees that the agent is working."""
    enable_context_hydration: bool = switch(default=True)
    """Whether the first turn of a room is given what was said before."""
    report_turn_failures_to_room: bool = switch(default=True)
    """Whether the room is told, by one error event, that a message was given up."""
    max_context_messages: int = count(100)
    """Newest messages that the first turn of a room is given."""
    history_seconds: float = seconds(30)
    """Longest load of them; then the turn runs without."""
    roster_seconds: float = seconds(5)
    """Longest load of who is in a room; then the turn runs with what was known."""
    hook_seconds: float = seconds(10)
    """Longest callback, clean-up or `try_handle_control`; then it is cancelled and noted in
    health."""
    control_hook_seconds: float = seconds(5)
    """Longest `on_interrupt`; the next turn of the room waits for it."""
    error_text_chars: int = count(1000)
    """Characters of an error text that is sent to the platform."""
    room_hints: int = count(64)
    """Pushed messages that wait in a room; beyond that its list is read instead."""
    room_unsettled: int = count(64)
    """Unconfirmed marks of a room; beyond that it claims nothing new."""
    system_lines: int = count(100)
    """System lines kept for the next turn of a room; beyond that the oldest become a count."""

    def __attrs_post_init__(self) -> None:
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

        An empty variable counts as absent; `none` means None where that is allowed.

        Raises:
            BandConfigError: names every variable and override that is wrong.
            TypeError: an override names no option.
        """
        values, problems = _from_environment(cls, variables(os.environ), overrides)
        try:
            config = cls(**{**values, **overrides})
        except BandConfigError as exc:
            raise (_joined(cls, problems, exc) if problems else exc) from None
        if problems:
            raise _joined(cls, problems)
        return config


@attrs.frozen(kw_only=True)
class AgentConfig:
    """Options of the agent: its transports, its connection, its requests."""

    rest_transport: httpx.AsyncBaseTransport | None = attrs.field(default=None, repr=False)
    """Carries the requests instead of our own connections; never closed by us. Limits in bytes
    hold for what it delivers."""
    open_stream: OpenStream | None = attrs.field(default=None, repr=False)
    """Opens the byte stream of the socket instead of TCP and TLS, for proxies and tests."""
    proxy: str | None = attrs.field(default=None, repr=False)
    """URL of the HTTP proxy for REST and socket, credentials included if it wants some; None: what
    `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` say."""
    verify: bool | ssl.SSLContext = attrs.field(default=True, repr=False)
    """Whose certificates are believed: those of `SSL_CERT_FILE` and `SSL_CERT_DIR`, else the
    system's; or a context of your own."""
    room_filter: RoomFilter | None = attrs.field(default=None, repr=False)
    """Given id and title, tells whether a room is served; False leaves it alone."""
    single_instance: bool = switch(default=True)
    """Refuse to start while this host runs the same agent."""
    conflict_policy: ConflictPolicy = attrs.field(default=ConflictPolicy.SUPERSEDE)
    """What to do when the agent is connected elsewhere."""
    allow_insecure: bool = switch(default=False)
    """Permit `http://` and `ws://` beyond loopback."""
    observer: Observer | None = attrs.field(default=None, repr=False)
    """Called with each event of `band_trio.trace`; plain and quick."""
    start_patience_seconds: float = seconds(120)
    """How long a start goes on trying to reach the platform."""
    connect_seconds: float = seconds(10)
    """Longest opening of a socket, its handshake included."""
    join_seconds: float = seconds(10)
    """Longest wait for the answer to a join of a topic."""
    leave_seconds: float = seconds(1)
    """Longest wait for the answer to a leave."""
    close_seconds: float = seconds(1)
    """Longest goodbye of a socket."""
    reconnect_base_seconds: float = seconds(0.5)
    """Longest wait before the first reconnect; doubled with each failure."""
    reconnect_cap_seconds: float = seconds(30)
    """Longest wait before any reconnect."""
    stable_seconds: float = seconds(60)
    """A connection of this age forgets earlier failures."""
    conflict_wait_seconds: float = seconds(30)
    """How long `ConflictPolicy.REJECT` waits for the other to go."""
    heartbeat_seconds: float = seconds(30)
    """How often the platform is asked for a sign of life."""
    dead_seconds: float = seconds(60)
    """Without a heartbeat reply for this long, the socket is dropped."""
    join_parallel: int = count(16)
    """Topics that are being joined at once."""
    rest_bulk: int = count(24)
    """Requests at once for reads, tools and posts."""
    rest_priority: int = count(8)
    """Requests at once reserved for claims and marks."""
    rest_pool: int = count(40)
    """What both lanes together must stay below. Nothing else follows from it: each request of a
    lane has a connection of its own."""
    rest_try_seconds: float = seconds(15)
    """Longest single request, its wait for a free token included."""
    rest_call_seconds: float = seconds(60)
    """A whole repeatable call, its repetitions included."""
    retry_after_cap_seconds: float = seconds(60)
    """A tool call that is told to wait longer fails instead; the runtime itself waits."""
    resync_rate: float = rate(50)
    """Speculative reads per second of the whole agent."""
    resync_burst: int = count(100)
    """Such reads at once after a quiet time."""
    contact_hook_seconds: float = seconds(30)
    """Without effect: contact events are not supported yet."""
    contact_queue: int = count(256)
    """Without effect: contact events are not supported yet."""
    stop_overhead_seconds: float = seconds(2)
    """What a stop may take beyond its grace: last marks, clean-up, goodbye."""

    def __attrs_post_init__(self) -> None:
        more = [
            _pair_problem(self, "reconnect_base_seconds", "reconnect_cap_seconds", "not exceed"),
            _pair_problem(self, "heartbeat_seconds", "dead_seconds", "be less than"),
        ]
        policy: object = self.conflict_policy
        if not isinstance(policy, ConflictPolicy):
            more.append(f"conflict_policy must be a ConflictPolicy, not {self.conflict_policy!r}")
        fields = attrs.fields_dict(AgentConfig)
        lanes = [fields[name] for name in ("rest_bulk", "rest_priority", "rest_pool")]
        sound = not any(_problem(lane, getattr(self, lane.name)) for lane in lanes)
        if sound and self.rest_bulk + self.rest_priority >= self.rest_pool:
            more.append("rest_bulk + rest_priority must stay below rest_pool")
        transport: object = self.rest_transport
        if transport is not None and not isinstance(transport, httpx.AsyncBaseTransport):
            kind = type(transport).__name__
            more.append(f"rest_transport must be an httpx.AsyncBaseTransport, not {kind}")
        if self.proxy is not None:
            more.append(_proxy_problem(self.proxy))
        if self.verify is not True and not isinstance(self.verify, ssl.SSLContext):
            more.append("verify must be True or an ssl.SSLContext; a CA goes into SSL_CERT_FILE")
        for name in ("open_stream", "room_filter", "observer"):
            value = getattr(self, name)
            if value is not None and not callable(value):
                more.append(f"{name} must be callable, not {type(value).__name__}")
            elif value is not None and name != "open_stream" and is_async(value):
                more.append(f"{name} must be a plain function, not an async one")
        _raise_problems(self, *more)


def _proxy_problem(proxy: str) -> str | None:
    try:
        read_proxy(proxy, "proxy")
    except BandConfigError as exc:
        return str(exc).removesuffix(".")
    return None


@attrs.frozen(kw_only=True)
class ContactEventConfig:
    """Who handles contact events, and whether rooms hear of them."""

    strategy: ContactStrategy = ContactStrategy.DISABLED
    """Who handles contact events."""
    hub_task_id: str | None = None
    """Task (a UUID) that marks the hub room; None: found by its title."""
    on_event: Hook | None = attrs.field(default=None, repr=False)
    """Called with each event, by the strategy `CALLBACK`."""
    broadcast_changes: bool = switch(default=False)
    """Whether each room is told of a contact that was added or removed."""

    def __attrs_post_init__(self) -> None:
        more: list[str | None] = []
        strategy: object = self.strategy
        if not isinstance(strategy, ContactStrategy):
            more.append(f"strategy must be a ContactStrategy, not {self.strategy!r}")
        if self.strategy is ContactStrategy.CALLBACK and self.on_event is None:
            more.append("strategy callback needs on_event")
        on_event: object = self.on_event
        if on_event is not None and not callable(on_event):
            more.append(f"on_event must be callable, not {type(on_event).__name__}")
        if self.hub_task_id is not None and not _is_uuid(self.hub_task_id):
            more.append(f"hub_task_id must be the text of a UUID, not {self.hub_task_id!r}")
        _raise_problems(self, *more)


def _is_uuid(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(UUID(value))
    except ValueError:
        return False


def _pair_problem(config: attrs.AttrsInstance, lower: str, upper: str, relation: str) -> str | None:
    """Compare two options that are each in range; one that is not is named already."""
    fields = attrs.fields_dict(type(config))
    low, high = getattr(config, lower), getattr(config, upper)
    if _problem(fields[lower], low) or _problem(fields[upper], high):
        return None
    broken = low >= high if relation == "be less than" else low > high
    return f"{lower} must {relation} {upper}, not {low!r} with {high!r}" if broken else None


_WORDS: Final = {"true": True, "1": True, "yes": True, "on": True} | dict.fromkeys(
    ("false", "0", "no", "off"), False
)


def _from_environment(
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
        if problem := _problem(field, value):
            problems.append(f"{name} {problem}, not {text[:40]!r}")
        else:
            values[field.name] = value
    return values, problems


def _parse(text: str, meta: Mapping[Any, Any]) -> object:
    if meta.get("none") and text.lower() == "none":
        return None
    if meta["kind"] == "switch":
        return _WORDS[text.lower()]
    return int(text) if meta["kind"] == "count" else float(text)


def _joined(
    cls: type, problems: Iterable[str], error: BandConfigError | None = None
) -> BandConfigError:
    more = [str(error).removeprefix(f"{cls.__name__}: ")] if error is not None else []
    return BandConfigError(f"{cls.__name__}: " + "; ".join([*problems, *more]))

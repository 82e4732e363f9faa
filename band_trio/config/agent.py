"""Options. Frozen, checked at construction, without any I/O of its own.

Defaults and units stand beside each field: seconds where nothing else is said. URLs and
credentials are configuration too: they live in `endpoints` and `credentials`.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Awaitable, Callable
from enum import StrEnum
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import attrs
import httpx  # noqa: ASYNC127, TID251 - for the type of rest_transport only
import trio

from band_trio.config.endpoints import variables
from band_trio.config.environment import joined, read_options
from band_trio.config.keywords import with_answers
from band_trio.config.options import (
    count,
    optional_seconds,
    pair_problem,
    raise_problems,
    rate,
    seconds,
    switch,
)
from band_trio.config.proxies import read_proxy
from band_trio.errors import BandConfigError
from band_trio.kit.callables import Hook, is_async, misfit
from band_trio.trace import Observer

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


@with_answers
@attrs.frozen(kw_only=True)
class SessionConfig:
    """Options of rooms and turns."""

    # How often does a message run?
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
    max_crashes: int = count(3)
    """Runs of one message that may end the process; then it is given up unrun."""
    # How long may a turn and its callbacks take?
    max_cycle_seconds: float | None = optional_seconds()
    """Longest handler; then its message has failed. None for no limit."""
    stall_seconds: float = seconds(10)
    """When a cancelled handler that does not end is named in log and health, and how long one may
    block the thread before the log says so."""
    hook_seconds: float = seconds(10)
    """Longest callback, clean-up or `try_handle_control`; then it is cancelled and noted in
    health."""
    control_hook_seconds: float = seconds(5)
    """Longest `on_interrupt`; the next turn of the room waits for it."""
    # What is a turn given, and told to the room?
    enable_context_hydration: bool = switch(default=True)
    """Whether the first turn of a room is given what was said before."""
    max_context_messages: int = count(100)
    """Newest messages that the first turn of a room is given."""
    history_seconds: float = seconds(30)
    """Longest load of them; then the turn runs without."""
    roster_seconds: float = seconds(5)
    """Longest load of who is in a room; then the turn runs with what was known."""
    system_lines: int = count(100)
    """System lines kept for the next turn of a room; beyond that the oldest become a count."""
    report_turn_failures_to_room: bool = switch(default=True)
    """Whether the room is told, by one error event, that a message was given up."""
    # Does the room see that the agent works?
    enable_working_state: bool = switch(default=True)
    """Whether the room sees that the agent is working."""
    activity_delay_seconds: float = seconds(0.25)
    """A turn shorter than this shows no working indicator."""
    working_keep_alive_seconds: float = seconds(3.0, below=5)
    """How often the working indicator is renewed; the platform forgets it after 5."""
    working_request_timeout_seconds: float = seconds(2.0)
    """Longest report of the indicator."""
    max_working_state_seconds: float | None = optional_seconds()
    """When the indicator goes out although the turn goes on; None for never."""
    # How are messages claimed and settled?
    claim_seconds: float = seconds(10)
    """Longest try of a claim."""
    settle_seconds: float = seconds(5)
    """Longest first try of a mark, which nothing cuts off; later ones are made in the
    background."""
    settle_base_seconds: float = seconds(0.5)
    """Wait before the second try of a mark; doubled with each try after that."""
    settle_cap_seconds: float = seconds(10)
    """Longest such wait."""
    room_unsettled: int = count(64)
    """Unconfirmed marks of a room; beyond that it claims nothing new."""
    # How is found what was not pushed?
    idle_resync_seconds: float = seconds(60)
    """How often an idle room asks for messages whose push never came; doubled while there are
    none."""
    idle_resync_max_seconds: float = seconds(120)
    """Longest such interval."""
    stopped_resync_seconds: float | None = optional_seconds()
    """How often a stopped room asks whether it may go on; None: as an idle one."""
    room_hints: int = count(64)
    """Pushed messages that wait in a room; beyond that its list is read instead."""

    def __attrs_post_init__(self) -> None:
        pairs = [
            ("working_request_timeout_seconds", "working_keep_alive_seconds", "be less than"),
            ("retry_base_seconds", "retry_cap_seconds", "not exceed"),
            ("settle_base_seconds", "settle_cap_seconds", "not exceed"),
            ("idle_resync_seconds", "idle_resync_max_seconds", "not exceed"),
        ]
        raise_problems(self, *(pair_problem(self, *pair) for pair in pairs))

    @classmethod
    def from_environment(cls, **overrides: Any) -> SessionConfig:
        """Read `BAND_` plus an option's name in capitals; *overrides* win.

        An empty variable counts as absent; `none` means None where that is allowed.

        Raises:
            BandConfigError: names every variable and override that is wrong.
            TypeError: an override names no option.
        """
        values, problems = read_options(cls, variables(os.environ), overrides)
        try:
            config = cls(**{**values, **overrides})
        except BandConfigError as exc:
            raise (joined(cls, problems, exc) if problems else exc) from None
        if problems:
            raise joined(cls, problems)
        return config


@with_answers
@attrs.frozen(kw_only=True)
class AgentConfig:
    """Options of the agent: its transports, its connection, its requests."""

    # Which rooms, and which instance?
    room_filter: RoomFilter | None = attrs.field(default=None, repr=False)
    """Given id and title, tells whether a room is served; False leaves it alone."""
    single_instance: bool = switch(default=True)
    """Refuse to start while this host runs the same agent."""
    conflict_policy: ConflictPolicy = attrs.field(default=ConflictPolicy.SUPERSEDE)
    """What to do when the agent is connected elsewhere."""
    conflict_wait_seconds: float = seconds(30)
    """How long `ConflictPolicy.REJECT` waits for the other to go."""
    state_dir: str | Path | None = ""
    """Directory of the small file that tells, after a crash, which messages were being run. Empty:
    that of the lock, the system's temporary one; None: no such file, and no `max_crashes`."""
    # What happened?
    observer: Observer | None = attrs.field(default=None, repr=False)
    """Called with each event of `band_trio.trace`; plain and quick."""
    # Through which network?
    proxy: str | None = attrs.field(default=None, repr=False)
    """URL of the HTTP proxy for REST and socket, credentials included if it wants some; None: what
    `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` say."""
    verify: bool | ssl.SSLContext = attrs.field(default=True, repr=False)
    """Whose certificates are believed: those of `SSL_CERT_FILE` and `SSL_CERT_DIR`, else the
    system's; or a context of your own."""
    allow_insecure: bool = switch(default=False)
    """Permit `http://` and `ws://` beyond loopback."""
    rest_transport: httpx.AsyncBaseTransport | None = attrs.field(default=None, repr=False)
    """Carries the requests instead of our own connections; never closed by us. Limits in bytes
    hold for what it delivers."""
    open_stream: OpenStream | None = attrs.field(default=None, repr=False)
    """Opens the byte stream of the socket instead of TCP and TLS, for proxies and tests."""
    # How long are start and stop?
    start_patience_seconds: float = seconds(120)
    """How long a start goes on trying to reach the platform."""
    stop_overhead_seconds: float = seconds(2)
    """What a stop may take beyond its grace: last marks, clean-up, goodbye."""
    # How long may a contact callback take?
    contact_hook_seconds: float = seconds(30)
    """Longest `ContactEventConfig.on_event`; then it is cancelled, and called again later."""
    # How is the socket kept?
    connect_seconds: float = seconds(10)
    """Longest opening of a socket, its handshake included."""
    join_seconds: float = seconds(10)
    """Longest wait for the answer to a join of a topic."""
    join_parallel: int = count(16)
    """Topics that are being joined at once."""
    heartbeat_seconds: float = seconds(30)
    """How often the platform is asked for a sign of life."""
    dead_seconds: float = seconds(60)
    """Without a heartbeat reply for this long, the socket is dropped."""
    reconnect_base_seconds: float = seconds(0.5)
    """Longest wait before the first reconnect; doubled with each failure."""
    reconnect_cap_seconds: float = seconds(30)
    """Longest wait before any reconnect."""
    # How much is asked of the platform at once, and for how long?
    rest_priority: int = count(8)
    """Requests at once reserved for claims and marks."""
    rest_bulk: int = count(24)
    """Requests at once for reads, tools and posts: one half for what handlers and tools ask for, a
    third of it for one room at most; the other for what the runtime reads and reports by itself."""
    rest_try_seconds: float = seconds(15)
    """Longest single request, its wait for a free token included."""
    rest_call_seconds: float = seconds(60)
    """A whole repeatable call, its repetitions included."""
    retry_after_cap_seconds: float = seconds(60)
    """A tool call that is told to wait longer fails instead; the runtime itself waits."""
    resync_rate: float = rate(8)
    """Speculative reads per second of the whole agent, in the long run."""

    def __attrs_post_init__(self) -> None:
        more = [
            pair_problem(self, "reconnect_base_seconds", "reconnect_cap_seconds", "not exceed"),
            pair_problem(self, "heartbeat_seconds", "dead_seconds", "be less than"),
        ]
        policy: object = self.conflict_policy
        if not isinstance(policy, ConflictPolicy):
            more.append(f"conflict_policy must be a ConflictPolicy, not {self.conflict_policy!r}")
        transport: object = self.rest_transport
        if transport is not None and not isinstance(transport, httpx.AsyncBaseTransport):
            kind = type(transport).__name__
            more.append(f"rest_transport must be an httpx.AsyncBaseTransport, not {kind}")
        if self.proxy is not None:
            more.append(_proxy_problem(self.proxy))
        more.append(_directory_problem(self.state_dir))
        if self.verify is not True and not isinstance(self.verify, ssl.SSLContext):
            more.append("verify must be True or an ssl.SSLContext; a CA goes into SSL_CERT_FILE")
        for name, shape in _CALLED.items():
            value = getattr(self, name)
            more.append(_unusable(name, value, shape))
            if name != "open_stream" and callable(value) and is_async(value):
                more.append(f"{name} must be a plain function, not an async one")
        raise_problems(self, *more)


def _directory_problem(folder: object) -> str | None:
    if folder is None or (isinstance(folder, str | Path) and "\0" not in str(folder)):
        return None
    return f"state_dir must be the path of a directory, or None, not {folder!r}"


def _proxy_problem(proxy: str) -> str | None:
    try:
        read_proxy(proxy, "proxy")
    except BandConfigError as exc:
        return str(exc).removesuffix(".")
    return None


_CALLED: Final = {"open_stream": "url", "room_filter": "room_id, title", "observer": "event"}


def _unusable(name: str, value: object, shape: str) -> str | None:
    """Say why an optional callable cannot be called with *shape* (see `misfit`)."""
    if value is None:
        return None
    if not callable(value):
        return f"{name} must be callable, not {type(value).__name__}"
    told = misfit(value, shape)
    return f"{name} {told}" if told else None


@with_answers
@attrs.frozen(kw_only=True)
class ContactEventConfig:
    """Who handles contact events, and whether rooms hear of them."""

    strategy: ContactStrategy = ContactStrategy.DISABLED
    """Who handles contact events: nobody, `on_event`, or turns of the agent in its hub room, which
    is called "Contacts"."""
    hub_task_id: str | None = None
    """Task (a UUID) that marks the hub room; None: found by its title."""
    on_event: Hook | None = attrs.field(default=None, repr=False)
    """Called with `(event, tools)`, a `ContactEvent` and `ContactTools`, by the strategy `CALLBACK`;
    sync or async, one event at a time. What raises is called again after 1, 5 and 30 seconds."""
    broadcast_changes: bool = switch(default=False)
    """Whether the next turn of each room is told of a contact that was added or removed."""

    def __attrs_post_init__(self) -> None:
        more: list[str | None] = []
        strategy: object = self.strategy
        if not isinstance(strategy, ContactStrategy):
            more.append(f"strategy must be a ContactStrategy, not {self.strategy!r}")
        if self.strategy is ContactStrategy.CALLBACK and self.on_event is None:
            more.append("strategy callback needs on_event")
        more.append(_unusable("on_event", self.on_event, "event, tools"))
        if self.hub_task_id is not None and not _is_uuid(self.hub_task_id):
            more.append(f"hub_task_id must be the text of a UUID, not {self.hub_task_id!r}")
        raise_problems(self, *more)

    @property
    def wants_events(self) -> bool:
        """Whether anybody is told of contact events."""
        return self.strategy is not ContactStrategy.DISABLED or self.broadcast_changes


def _is_uuid(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(UUID(value))
    except ValueError:
        return False

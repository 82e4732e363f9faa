"""What all rooms of a run share; handed down, never reached for."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from band_trio.config import SessionConfig
from band_trio.link.rest import RestClient
from band_trio.protocol.rest import AgentMe
from band_trio.runtime.adapter_port import AdapterPort
from band_trio.runtime.deadlines import Deadlines
from band_trio.runtime.hooks import Hooks
from band_trio.runtime.judgement import Judgement
from band_trio.runtime.lifecycle import Lifecycle
from band_trio.runtime.outbox import Outbox
from band_trio.runtime.problems import Problems
from band_trio.runtime.resync import ResyncBucket
from band_trio.trace import Tracer
from band_trio.types import Hook, Preprocessor


@attrs.frozen
class Callbacks:
    """The application's callbacks on the roster of any room."""

    on_participant_added: Hook | None = None
    on_participant_removed: Hook | None = None


@attrs.frozen(eq=False)
class RoomServices:
    """The parts of one run that its rooms use."""

    me: AgentMe
    rest: RestClient
    session: SessionConfig
    adapter: AdapterPort
    preprocessor: Preprocessor
    callbacks: Callbacks
    outbox: Outbox
    lifecycle: Lifecycle
    bucket: ResyncBucket
    hooks: Hooks
    deadlines: Deadlines
    judgement: Judgement
    problems: Problems
    tracer: Tracer
    current_epoch: Callable[[], int]
    """Number of the socket connection; rises with each."""
    doubt: Callable[[str, bool], None]
    """Ask whether the agent is still in a room, which it may not read; True: the platform says that
    there is none."""
    check_key: Callable[[], None]
    """Ask whether the key is still good: something answered 401."""
    hub_room_id: str | None = None

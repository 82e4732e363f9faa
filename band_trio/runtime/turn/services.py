"""What all rooms of a run share; handed down, never reached for."""

from __future__ import annotations

import attrs

from band_trio.config.agent import SessionConfig
from band_trio.contract import Preprocessor
from band_trio.kit.callables import Hook
from band_trio.link.rest.rest import RestClient
from band_trio.protocol.rest import AgentMe
from band_trio.runtime.adapter_port import AdapterPort
from band_trio.runtime.crashes import CrashRecord
from band_trio.runtime.deadlines import Deadlines
from band_trio.runtime.hooks import Hooks
from band_trio.runtime.journal.judgement import Judgement
from band_trio.runtime.lifecycle import Lifecycle
from band_trio.runtime.listing import RoomLister
from band_trio.runtime.resync import FirstReads
from band_trio.trace import Tracer


@attrs.frozen
class Callbacks:
    """The application's callbacks on the roster of any room."""

    on_participant_added: Hook | None = None
    on_participant_removed: Hook | None = None


@attrs.frozen(eq=False)
class Application:
    """The code of the application, and how it is called."""

    adapter: AdapterPort
    preprocessor: Preprocessor
    callbacks: Callbacks
    hooks: Hooks


@attrs.define(eq=False)
class Hub:
    """The room in which contact events arrive; always the same one, as far as can be known."""

    room_id: str | None = None


@attrs.frozen(eq=False)
class RoomServices:
    """The parts of one run that its rooms use."""

    me: AgentMe
    rest: RestClient
    session: SessionConfig
    app: Application
    lifecycle: Lifecycle
    judgement: Judgement
    lister: RoomLister
    first_reads: FirstReads
    crashes: CrashRecord
    deadlines: Deadlines
    tracer: Tracer
    hub: Hub = attrs.field(factory=Hub)

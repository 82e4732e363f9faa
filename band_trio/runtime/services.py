"""What all rooms of a run share; handed down, never reached for."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from band_trio.config import SessionConfig
from band_trio.link.rest import RestClient
from band_trio.protocol.rest import AgentMe
from band_trio.runtime.adapter_port import AdapterPort
from band_trio.runtime.hooks import Hooks
from band_trio.runtime.judgement import Judgement
from band_trio.runtime.lifecycle import Lifecycle
from band_trio.runtime.outbox import Outbox
from band_trio.runtime.resync import ResyncBucket
from band_trio.trace import Tracer
from band_trio.types import Hook, Preprocessor


@attrs.frozen
class Callbacks:
    """The application's callbacks on the roster of any room."""

    on_participant_added: Hook | None = None
    on_participant_removed: Hook | None = None


@attrs.define(eq=False)
class Problems:
    """Failures of hooks in the order they happened, for health and report; bounded."""

    _texts: list[str] = attrs.field(factory=list, init=False)
    capacity: int = 100
    """Beyond it, only the count of what was left out grows."""
    _left_out: int = attrs.field(default=0, init=False)

    def note(self, text: str | None) -> None:
        """Keep a failure; None is none."""
        if text is None:
            return
        if len(self._texts) < self.capacity:
            self._texts.append(text)
        else:
            self._left_out += 1

    def texts(self) -> tuple[str, ...]:
        """Return what was kept."""
        more = (f"and {self._left_out} more",) if self._left_out else ()
        return (*self._texts, *more)


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
    judgement: Judgement
    problems: Problems
    tracer: Tracer
    current_epoch: Callable[[], int]
    """Number of the socket connection; rises with each."""
    relist: Callable[[], None]
    """Ask for a listing: a room seems to be gone."""
    check_key: Callable[[], None]
    """Ask whether the key is still good: something answered 401."""
    hub_room_id: str | None = None

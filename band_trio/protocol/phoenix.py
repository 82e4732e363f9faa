"""Phoenix Channels V2: frames, and the life of one topic as a client sees it.

A frame is `[join_ref, ref, topic, event, payload]` in a text message (platform docs, Frames).
`Channel` decides what a frame means for a topic; who waits, retries and sends is the link's part.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

import attrs

from band_trio.protocol import codec
from band_trio.protocol.errors import LocalStateError, RemoteProtocolError

SOCKET_TOPIC: Final = "phoenix"
JOIN: Final = "phx_join"
LEAVE: Final = "phx_leave"
REPLY: Final = "phx_reply"
ERROR: Final = "phx_error"
CLOSE: Final = "phx_close"
HEARTBEAT: Final = "heartbeat"


@attrs.frozen
class Frame:
    """One message of the socket, either direction."""

    join_ref: str | None
    ref: str | None
    topic: str
    event: str
    payload: dict[str, Any] = attrs.field(factory=dict)

    def dump(self) -> str:
        """Return the text to put on the wire."""
        parts = [self.join_ref, self.ref, self.topic, self.event, self.payload]
        return codec.dumps(parts).decode()


def parse_frame(data: bytes | str) -> Frame:
    """Read a frame. References that are numbers become text; a payload that is no object is `{}`.

    Raises:
        RemoteProtocolError: not JSON, not five elements, or a part has the wrong type.
    """
    parts = codec.loads(data)
    if not isinstance(parts, list) or len(parts) != 5:
        raise RemoteProtocolError("a frame has five elements")
    join_ref, ref, topic, event, payload = parts
    if not (isinstance(topic, str) and topic and isinstance(event, str) and event):
        raise RemoteProtocolError("topic and event must be non-empty strings")
    return Frame(
        _reference(join_ref),
        _reference(ref),
        topic,
        event,
        payload if isinstance(payload, dict) else {},
    )


def _reference(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise RemoteProtocolError("a reference must be text, a number or null")


def heartbeat(ref: str) -> Frame:
    """Return the frame that asks for a sign of life."""
    return Frame(None, ref, SOCKET_TOPIC, HEARTBEAT)


# --------------------------------------------------------------------------- the life of a topic


class Phase(StrEnum):
    """Where a topic is on the current socket."""

    IDLE = "idle"
    """Not joined; nothing is under way."""
    JOINING = "joining"
    JOINED = "joined"
    LEAVING = "leaving"


class Signal(StrEnum):
    """What a frame meant for its topic."""

    PUSH = "push"
    """An event for whoever listens."""
    JOINED = "joined"
    REJECTED = "rejected"
    CRASHED = "crashed"
    """The channel died on the platform (`phx_error`); join again with a new reference."""
    CLOSED = "closed"
    """The platform ended the channel (`phx_close`)."""
    LEFT = "left"
    STALE = "stale"
    """Of an earlier join, or of no interest: ignore it."""


@attrs.define(eq=False)
class Channel:
    """One topic on one socket. Frames in, signals out; refs come from outside."""

    topic: str
    phase: Phase = Phase.IDLE
    join_ref: str | None = None
    """Of the latest join; frames with another one are stale, frames with null are accepted."""
    reason: str = ""
    """Why the last join was rejected, in the platform's words."""
    _leave_ref: str | None = None

    def join(self, ref: str) -> Frame:
        """Begin a join; joining a joined topic replaces the old join (platform docs, Join)."""
        if self.phase is Phase.LEAVING:
            raise LocalStateError(f"{self.topic}: join while leaving")
        self.phase, self.join_ref = Phase.JOINING, ref
        return Frame(ref, ref, self.topic, JOIN)

    def leave(self, ref: str) -> Frame:
        """Begin to leave a topic that is joined, or whose join is under way."""
        if self.phase not in (Phase.JOINED, Phase.JOINING):
            raise LocalStateError(f"{self.topic}: leave while {self.phase}")
        self.phase, self._leave_ref = Phase.LEAVING, ref
        return Frame(self.join_ref, ref, self.topic, LEAVE)

    def abandon(self) -> None:
        """Forget the join or leave that is under way: its answer did not come in time."""
        self.phase, self._leave_ref = Phase.IDLE, None

    def receive(self, frame: Frame) -> Signal:
        """Take a frame of this topic and say what it means."""
        if frame.join_ref is not None and frame.join_ref != self.join_ref:
            return Signal.STALE
        if frame.event == REPLY:
            return self._reply(frame)
        if frame.event in (ERROR, CLOSE):
            return self._ended(frame.event)
        return Signal.PUSH if self.phase is Phase.JOINED else Signal.STALE

    def _reply(self, frame: Frame) -> Signal:
        if self.phase is Phase.JOINING and frame.ref == self.join_ref:
            if frame.payload.get("status") == "ok":
                self.phase = Phase.JOINED
                return Signal.JOINED
            response = frame.payload.get("response")
            reason = response.get("reason") if isinstance(response, dict) else None
            self.reason = reason if isinstance(reason, str) else "no reason given"
            self.phase = Phase.IDLE
            return Signal.REJECTED
        if self.phase is Phase.LEAVING and frame.ref == self._leave_ref:
            self.abandon()
            return Signal.LEFT
        return Signal.STALE

    def _ended(self, event: str) -> Signal:
        if self.phase is Phase.IDLE:
            return Signal.STALE
        leaving = self.phase is Phase.LEAVING
        self.abandon()
        if leaving:
            return Signal.LEFT
        return Signal.CRASHED if event == ERROR else Signal.CLOSED

"""One connection from its upgrade to its end.

Five tasks in one nursery, ended as one by whoever notices the end first:

* the reader routes each frame at once, without waiting for anything;
* the writer is the only one that sends; it is shielded, so that the frame it is writing and the
  goodbye still get out, within `CLOSE_SECONDS`;
* the heartbeat asks for a sign of life every `heartbeat_seconds`, whatever else flows;
* the watchdog ends the connection after `dead_seconds` without a reply to that;
* the keeper joins and leaves topics as the table says.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Never

import attrs
import trio

from band_trio.config.agent import AgentConfig
from band_trio.kit.bell import Bell
from band_trio.kit.logs import RepeatedLog
from band_trio.kit.nurseries import hide_nursery
from band_trio.link.channel.socket import Socket, SocketClosed
from band_trio.link.channel.state import LinkListener, LinkState
from band_trio.link.channel.topics import TopicTable
from band_trio.link.channel.verdict import ConnectionEnd
from band_trio.link.net.retry_after import believed
from band_trio.protocol.errors import RemoteProtocolError
from band_trio.protocol.events import Supersede, parse_event
from band_trio.protocol.phoenix import (
    REPLY,
    SOCKET_TOPIC,
    Frame,
    Signal,
    heartbeat,
    parse_frame,
)

_repeated: Final = RepeatedLog(logging.getLogger(__name__))

OUTBOX_FRAMES: Final = 256
CLOSE_SECONDS: Final = 1.0
"""Longest goodbye: a peer that still listens answers at once."""
QUIET_SECONDS: Final = 0.1
"""A peer that sent nothing for this long has nothing on the way to us either."""
SETTLING_STEPS: Final = 5
"""Steps in which the reader gets going again after the process was busy for a long time."""
UNREAD_SECONDS: Final = 5.0
"""Longest time for working off frames that came before a reply that is late."""


class Epoch:
    """One connection; `serve` runs it."""

    def __init__(
        self,
        socket: Socket,
        config: AgentConfig,
        state: LinkState,
        topics: TopicTable,
        listener: LinkListener,
    ) -> None:
        self._socket = socket
        self._config = config
        self._state = state
        self._topics = topics
        self._listener = listener
        # Full: the join, the leave or the heartbeat waits; the watchdog ends that.
        self._outbox, self._inbox = trio.open_memory_channel[Frame](OUTBOX_FRAMES)
        self._beats: set[str] = set()
        self._last_reply = trio.current_time()
        self._end: ConnectionEnd | None = None
        self._retryable: Supersede | None = None
        self._stop: Callable[[], None] = lambda: None
        self._writer = trio.CancelScope(shield=True)  # `_finish` gives it its deadline
        self._topics_changed = Bell()

    async def serve(self) -> ConnectionEnd:
        """Run until the connection ends; return how.

        Cancelling it sends one close frame and waits for the answer, `CLOSE_SECONDS` at most.

        Raises:
            Whatever the listener raises, as itself.
        """
        with hide_nursery("the connection"):
            async with trio.open_nursery() as nursery:
                self._stop = lambda: nursery.cancel_scope.cancel(reason="the connection ended")
                self._topics.changed = self._topics_changed.ring
                self._topics.begin()
                nursery.start_soon(self._write)
                for task in (self._read, self._beat, self._watch):
                    nursery.start_soon(task)
                try:
                    await self._keep_topics()
                finally:
                    self._finish(nursery)
        assert self._end is not None  # nothing else ends the nursery without an error
        return self._end

    def end(self, end: ConnectionEnd) -> None:
        """End the connection. The first one to notice says why; the others change nothing."""
        if self._end is None:
            retry = self._retryable
            if retry is not None and end.retry_after is None:
                end = attrs.evolve(end, retry_after=believed(retry.retry_after))
            self._end = end
            self._stop()

    def _finish(self, nursery: trio.Nursery) -> None:
        """End all tasks: the writer last and politely if the connection still works."""
        self._state.connected = False
        self._topics.changed = lambda: None
        self._topics.end()
        nursery.cancel_scope.cancel(reason="the connection is over")
        if self._end is None:
            close_by = trio.current_time() + CLOSE_SECONDS
            self._writer.deadline = min(close_by, self._state.close_by())
        else:
            self._writer.cancel(reason="the socket is dead")
        self._outbox.close()

    # ----------------------------------------------------------------- tasks

    async def _read(self) -> None:
        while True:
            try:
                data = await self._socket.receive()
            except SocketClosed as exc:
                self.end(ConnectionEnd(exc.reason, code=exc.code))
                return
            self._take(data)

    async def _write(self) -> None:
        with self._writer, self._inbox:
            try:
                async for frame in self._inbox:
                    if not self._state.connected:
                        break  # what is still queued is of no use to anybody
                    await self._socket.send(frame.dump())
                await self._socket.close()
            except SocketClosed as exc:
                self.end(ConnectionEnd(exc.reason, code=exc.code))

    async def _beat(self) -> Never:
        while True:
            await trio.sleep(self._config.heartbeat_seconds)
            ref = self._state.next_ref()
            self._beats.add(ref)
            await self._outbox.send(heartbeat(ref))

    async def _watch(self) -> None:
        while True:
            deadline = self._last_reply + self._config.dead_seconds
            await trio.sleep_until(deadline)
            seen = self._last_reply
            if seen + self._config.dead_seconds <= deadline and await self._stays_silent(seen):
                self.end(ConnectionEnd(f"no heartbeat reply for {self._config.dead_seconds:g} s"))
                return

    async def _stays_silent(self, seen: float) -> bool:
        """Make sure that no reply lies behind frames that were not read: the process may have
        been busy for longer than the peer."""
        give_up = trio.current_time() + UNREAD_SECONDS
        for _ in range(SETTLING_STEPS):
            await trio.lowlevel.checkpoint()
        while self._last_reply == seen:
            quiet_since, now = self._socket.quiet_since, trio.current_time()
            if now - quiet_since >= QUIET_SECONDS or now >= give_up:
                return True
            await trio.sleep(QUIET_SECONDS)
        return False

    async def _keep_topics(self) -> None:
        while True:
            for frame in self._topics.advance(trio.current_time()):
                await self._outbox.send(frame)
            await self._topics_changed.wait_until(self._topics.wake_at())

    # ----------------------------------------------------------------- frames

    def _take(self, data: str | bytes) -> None:
        """Route one message; synchronous, so that the reader is always ready for the next."""
        try:
            frame = parse_frame(data)
        except RemoteProtocolError as exc:
            self._state.dropped += 1
            _repeated.warning("dropped a frame: %s", exc)
            return
        if frame.topic == SOCKET_TOPIC:
            self._take_reply(frame)
        elif self._topics.receive(frame, trio.current_time()) is Signal.PUSH:
            self._push(frame)

    def _take_reply(self, frame: Frame) -> None:
        if frame.event == REPLY and frame.ref in self._beats:
            self._beats.clear()  # a reply to a later heartbeat makes up for earlier ones
            self._last_reply = trio.current_time()
            self._state.last_heartbeat_reply = self._last_reply

    def _push(self, frame: Frame) -> None:
        try:
            if frame.topic != self._topics.first or frame.event != "supersede":
                self._listener.pushed(frame.topic, frame.event, frame.payload)
                return
            event = parse_event(frame.topic, frame.event, frame.payload)
        except RemoteProtocolError as exc:
            self._state.dropped += 1
            _repeated.warning("dropped an event on %s: %s", frame.topic, exc)
            return
        if isinstance(event, Supersede) and event.retryable:
            self._retryable = event  # the platform closes the connection next
        elif isinstance(event, Supersede):
            self.end(ConnectionEnd(f"superseded: {event.message}", supersede=event))

"""The only door for a room's messages: bounded hints and the dirty flag.

Nothing in here awaits. Hints come from the dispatcher; the truth is the platform's list, and
whenever a bound is hit the answer is to read that list again.
"""

from __future__ import annotations

import math
from datetime import datetime
from enum import IntEnum

import attrs
import trio

from band_trio.bell import Bell
from band_trio.protocol.rest import ChatMessage
from band_trio.runtime.known import IdTable, Known, KnownMessage


class Dirty(IntEnum):
    """Whether the list must be read again, and whether that read is speculative."""

    CLEAN = 0
    SPECULATIVE = 1
    """Nothing says that there is work: takes a token of the agent's bucket."""
    CAUSED = 2
    """A hint, a control or found work asks for it: read at once."""


@attrs.define(eq=False)
class Intake:
    """Hints and the dirty flag of one room."""

    bell: Bell
    """Rung whenever there is something to look at."""
    _capacity: int
    ids: IdTable = attrs.field(factory=IdTable, init=False)
    dirty: Dirty = attrs.field(default=Dirty.SPECULATIVE, init=False)
    watermark: datetime | None = attrs.field(default=None, init=False)
    """`inserted_at` of the newest message handled here among those that arrived after the room
    began. A hint at or after it may run without a read; an older message is never assumed to be
    done."""
    caught_up: bool = attrs.field(default=False, init=False)
    """Whether the list was read to its end: what turns up from then on, and is not known, is new."""
    read_at: float = attrs.field(default=-math.inf, init=False)
    """When the last pass over the list began, in trio's time."""
    _send: trio.MemorySendChannel[ChatMessage] = attrs.field(init=False)
    _receive: trio.MemoryReceiveChannel[ChatMessage] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        # Full: the hint is dropped and the room becomes dirty, so the list is read instead.
        self._send, self._receive = trio.open_memory_channel[ChatMessage](self._capacity)

    def offer(self, hint: ChatMessage) -> None:
        """Take a pushed message; never blocks, never loses work."""
        try:
            self._send.send_nowait(hint)
        except trio.WouldBlock:
            self.mark(Dirty.CAUSED)
        self.bell.ring()

    def take(self) -> ChatMessage | None:
        """Return the next hint, or None."""
        try:
            return self._receive.receive_nowait()
        except trio.WouldBlock:
            return None

    @property
    def waiting(self) -> bool:
        """Whether a hint is there to be taken."""
        return self._receive.statistics().current_buffer_used > 0

    def drop_hints(self) -> bool:
        """Throw away all hints and tell whether there was one; the list has to be read then."""
        dropped = False
        while self.take() is not None:
            dropped = True
        return dropped

    def drop_stale(self) -> None:
        """Throw away hints that could do no more than ask for the read that is due now."""
        waiting = []
        while (hint := self.take()) is not None:
            waiting.append(hint)
        for hint in waiting:
            if self.watermark is None or self.follows(hint):
                self._send.send_nowait(hint)  # it was in there a moment ago, so there is room

    def mark(self, cause: Dirty) -> None:
        """Ask for a read of the list; asking often causes one more pass."""
        self.dirty = max(self.dirty, cause)
        self.bell.ring()

    def clear(self) -> Dirty:
        """Begin a pass: return the cause and clear the flag."""
        cause, self.dirty = self.dirty, Dirty.CLEAN
        self.read_at = trio.current_time()
        return cause

    def done(self, message: ChatMessage, state: Known) -> None:
        """Note a message that was processed or given up, and raise the watermark."""
        when = message.inserted_at
        if when is not None and (self.watermark is None or when > self.watermark):
            self.watermark = when
        self.note(message.id, KnownMessage(state, inserted_at=when))

    def done_if_new(self, message: ChatMessage, state: Known) -> None:
        """Note such a message, which raises the watermark only if it is new."""
        if self.caught_up and self.ids.get(message.id) is None:
            self.done(message, state)
        else:
            self.note(message.id, KnownMessage(state, inserted_at=message.inserted_at))

    def note(self, message_id: str, entry: KnownMessage) -> None:
        """Note what is known of a message; those at the watermark's instant are not forgotten."""
        self.ids.put(message_id, entry, keep=self.watermark)

    def follows(self, hint: ChatMessage) -> bool:
        """Tell whether a hint may be run without a read as far as time stamps tell.

        They never say that a message is old, only that the platform has to be asked.
        """
        if self.watermark is None or hint.inserted_at is None:
            return False
        return hint.inserted_at >= self.watermark

    def close(self) -> None:
        """Let go of both ends; hints that come later are dropped by `offer`'s caller."""
        self._send.close()
        self._receive.close()

"""The way into a room for a message that the platform knows nothing of, such as a contact event.

There is nothing to claim and to settle: whoever brings it waits for the verdict of its turn.
"""

from __future__ import annotations

import attrs
import trio

from band_trio.kit.bell import Bell
from band_trio.protocol.rest import ChatMessage
from band_trio.runtime.journal.verdict import Verdict


@attrs.define(eq=False)
class Unclaimed:
    """A place for one message."""

    _room: Bell
    message: ChatMessage | None = attrs.field(default=None, init=False)
    """What is to run as soon as the room is free."""
    _verdict: Verdict | None = attrs.field(default=None, init=False)
    _over: trio.Event = attrs.field(factory=trio.Event, init=False)
    _closed: bool = attrs.field(default=False, init=False)

    async def run(self, message: ChatMessage) -> Verdict | None:
        """Have a message run; one at a time, from a task that is not the room's.

        Returns the verdict of its turn; None if the room ended before there was one.
        """
        if self._closed:
            return None
        self.message, self._verdict, self._over = message, None, trio.Event()
        self._room.ring()
        try:
            await self._over.wait()
        finally:
            self.message = None
        return self._verdict

    def end(self, verdict: Verdict | None) -> None:
        """The turn of the message has ended, or there will be none."""
        self.message, self._verdict = None, verdict
        self._over.set()

    def close(self) -> None:
        """The room has ended."""
        self._closed = True
        self._over.set()

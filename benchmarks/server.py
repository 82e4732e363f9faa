"""The other process: an embedded platform on loopback that takes commands as lines of JSON.

`python -m benchmarks.server` reads `{"do": …, …}` from stdin and answers each line with one on
stdout; the first line that it writes has its URL. It ends with its stdin.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

import attrs
import trio

from band_trio.localband.band import LocalBand, open_local_band
from band_trio.localband.push import Push
from band_trio.localband.records import RequestRecord
from band_trio.protocol import codec
from benchmarks.pipes import Lines

TEXT: Final = "Please look at this. " * 10
"""About as long as a message in a chat is."""
READS: Final = ("next", "messages")
"""Routes that tell what there is to do in a room."""


@attrs.define
class Commands:
    """What the measuring process can ask for: one method per command."""

    band: LocalBand
    _states: dict[tuple[str, str], float] = attrs.field(factory=dict)
    """(message id, state) → when it got there."""
    _agent: str = ""
    _noted: RequestRecord | None = None
    _requests: dict[str, Counter[str]] = attrs.field(factory=lambda: defaultdict(Counter))
    """Agent → route → requests. The log would do, but reading it takes longer with each row."""
    _read: dict[str, set[str]] = attrs.field(factory=lambda: defaultdict(set))
    """Agent → rooms whose messages it has asked for."""
    _last_request: float = -math.inf
    """When it came, in trio's time."""

    async def agent(self, rooms: int) -> dict[str, Any]:
        """Register an agent that is in so many rooms."""
        agent = self.band.register_agent("Agent")
        made = [await self.band.user.create_room("Room", members=[agent]) for _ in range(rooms)]
        return {
            "id": agent.id,
            "key": agent.api_key,
            "rooms": [room.id for room in made],
            "owner": self.band.user.id,
        }

    async def send(self, agent: str, rooms: list[str], count: int) -> list[tuple[str, str]]:
        """Send so many messages, to one room after the other; return (room, message)."""
        ids = []
        for number in range(count):
            room = rooms[number % len(rooms)]
            ids.append((room, await self.band.user.send(room, TEXT, mentions=[agent])))
        return ids

    async def burst(self, agent: str, rooms: list[str], count: int) -> None:
        """Send so many messages and wait until all are processed."""
        await self.send(agent, rooms, count)
        await self.settled(agent)

    async def settled(self, agent: str) -> None:
        """Wait until all messages for that agent are processed."""
        waiting = deque(self.band.unprocessed(agent))

        def empty() -> bool:
            while waiting and self.band.state(waiting[0], agent) == "processed":
                waiting.popleft()
            return not waiting

        await self.band.until(empty)

    async def ping(self, agent: str, room: str) -> dict[str, float]:
        """Send one message; return the seconds until it was claimed, and until it was settled."""
        self._states, self._agent = {}, agent
        self.band.world.watchers.append(self._note)
        begun = time.perf_counter()
        message = await self.band.user.send(room, TEXT, mentions=[agent])
        await self.band.until(lambda: self.band.state(message, agent) == "processed")
        self.band.world.watchers.remove(self._note)
        claimed, settled = (self._states[message, s] for s in ("processing", "processed"))
        return {"claimed": claimed - begun, "settled": settled - begun}

    def _note(self, push: Push) -> None:
        if push.event == "message_updated":
            message = push.payload["id"]
            self._states.setdefault(
                (message, self.band.state(message, self._agent)), time.perf_counter()
            )

    async def joined(self, agent: str, topics: int) -> None:
        """Wait until that agent has joined so many topics."""

        def complete() -> bool:
            session = self.band.session(agent)
            return session is not None and len(session.joined) >= topics

        await self.band.until(complete)

    async def read(self, agent: str, rooms: int) -> None:
        """Wait until that agent has asked for the messages of so many rooms."""
        await self.band.until(lambda: len(self._read[agent]) >= rooms)

    async def requested(self, agent: str) -> dict[str, int]:
        """Return how many requests of each route that agent has made since it was asked last."""
        await trio.lowlevel.checkpoint()
        return self._requests.pop(agent, Counter())

    async def quiet(self, seconds: float) -> None:
        """Wait until no request has come for so long."""
        wait = seconds
        while wait > 0:
            await trio.sleep(wait)
            wait = self._last_request + seconds - trio.current_time()

    def note(self) -> None:
        """Count the newest row of the log; called after each change of the platform."""
        row = self.band.log.rows[-1] if self.band.log.rows else None
        if row is self._noted or not isinstance(row, RequestRecord) or row.party_id is None:
            return
        self._noted, self._last_request = row, trio.current_time()
        self._requests[row.party_id][row.route] += 1
        if row.route in READS and row.room_id is not None:
            self._read[row.party_id].add(row.room_id)


async def main() -> None:
    """Serve until stdin ends."""
    async with open_local_band() as band:
        commands, changed = Commands(band), band.log.changed

        def noted() -> None:
            commands.note()
            changed()

        band.log.changed = noted
        _answer({"rest_url": band.rest_url, "ws_url": band.ws_url})
        requests = Lines(trio.lowlevel.FdStream(os.dup(sys.stdin.fileno())))
        while (line := await requests.next()) is not None:
            request = codec.loads(line)
            command: Callable[..., Awaitable[Any]] = getattr(commands, request.pop("do"))
            _answer(await command(**request))


def _answer(value: Any) -> None:
    sys.stdout.buffer.write(codec.dumps(value) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    trio.run(main)

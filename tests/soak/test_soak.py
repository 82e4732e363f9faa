"""Twenty thousand messages over real sockets, with a fault every 50 ms, cuts and kills.

Not part of the default run:

    python -m pytest tests/soak -m soak -s

The platform lives in the process of the test, the agent in one of its own, which is killed twice.
"""

from __future__ import annotations

import faulthandler
import json
import random
import signal
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import attrs
import pytest
import trio

from band_trio.localband.band import LocalAgent, LocalBand, open_local_band
from band_trio.localband.delivery import Shelf
from band_trio.localband.fault_rules import Cut, RequestRule
from band_trio.localband.faults import Faults
from tests.marks import guarantee

ROOMS: Final = 200
BUSY: Final = 40
"""Rooms that get four messages of five, so that all that is kept per room is full by half-time."""
MESSAGES: Final = 20_000
WAITING: Final = 800
"""Messages that may wait at the platform before more are sent."""
FAULT_SECONDS: Final = 0.05
SPREAD: Final = 10
"""A fault strikes one of so many requests."""
CUTS: Final = 20
KILLS: Final = (MESSAGES // 10, MESSAGES // 5)
HANG_SECONDS: Final = 2.0
FAULTS: Final[list[Callable[..., RequestRule]]] = [
    lambda f, **m: f.refuse(500, **m),
    lambda f, **m: f.refuse(429, retry_after=1, **m),
    lambda f, **m: f.refuse(503, **m),
    lambda f, **m: f.delay(0.3, **m),
    lambda f, **m: f.delay(0.3, answer=True, **m),
    lambda f, **m: f.drop_after_commit(500, **m),
    lambda f, **m: f.cut_request(**m),
    lambda f, **m: f.cut_request(commit=False, **m),
    lambda f, **m: f.hang(**m),
]


@attrs.define(eq=False)
class Soak:
    """The platform's side, and what was done to the agent."""

    band: LocalBand
    account: LocalAgent
    folder: Path
    rooms: list[str] = attrs.field(factory=list)
    sent: dict[str, list[str]] = attrs.field(factory=dict)
    """Room → ids in the order in which they were sent."""
    total: int = 0
    faults: int = 0
    cuts: int = 0
    at_kills: set[str] = attrs.field(factory=set)
    """Messages that were open when the agent was killed: they may be run once more."""
    process: trio.Process | None = None

    @property
    def done(self) -> Path:
        """What the agent wrote about handlers that succeeded."""
        return self.folder / "done"

    @property
    def memory(self) -> Path:
        """What the last process of the agent wrote about its memory."""
        return self.folder / "memory"

    def waiting(self) -> int:
        """Return how many messages are not processed."""
        inboxes = (room.inboxes.get(self.account.id) for room in self.band.world.rooms.values())
        return sum(len(inbox.rows(Shelf.OPEN)) for inbox in inboxes if inbox is not None)

    async def start(self) -> None:
        """Start the agent's process."""
        self.memory.unlink(missing_ok=True)
        connection = {
            "agent_id": self.account.id,
            "api_key": self.account.api_key,
            "rest_url": self.band.rest_url,
            "ws_url": self.band.ws_url,
            "done": str(self.done),
            "memory": str(self.memory),
        }
        self.process = await trio.lowlevel.open_process(
            [sys.executable, "-m", "tests.soak.agent_program", json.dumps(connection)],
            stdin=subprocess.PIPE,  # when the test ends, in whatever way, so does the agent
            stderr=subprocess.DEVNULL,  # a line for each of thousands of faults
        )

    async def kill(self) -> None:
        """Kill the agent, without a word, and start it again."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()
        self.at_kills |= {
            message.id
            for room in self.band.world.rooms.values()
            for message in room.messages
            if self.band.state(message.id, self.account) == "processing"
        }
        await self.start()

    async def send_all(self) -> None:
        """Send every message, killing the agent on the way."""
        kills = list(KILLS)
        while self.total < MESSAGES:
            await self.band.until(lambda: self.waiting() <= WAITING)
            for _ in range(50):
                busy = random.random() < 0.8
                room = random.choice(self.rooms[:BUSY] if busy else self.rooms[BUSY:])
                message = await self.band.user.send(room, "work", mentions=[self.account])
                self.sent.setdefault(room, []).append(message)
                self.total += 1
            await trio.sleep(0.01)
            if kills and self.total >= kills[0]:
                kills.pop(0)
                await self.kill()

    async def break_things(self) -> None:
        """Put in a random fault every 50 ms, and cut the socket now and then.

        Each strikes one of the next requests, whatever that is, and is over after 50 ms: where
        everything waits for its next try and few requests are made, few of them fail.
        """
        hanging: list[tuple[float, RequestRule]] = []
        faults: Faults = self.band.faults
        while True:
            await trio.sleep(FAULT_SECONDS)
            now = trio.current_time()
            self.faults += sum(rule.hits for rule in faults.requests)
            faults.requests.clear()
            make, skip = random.choice(FAULTS), random.randrange(SPREAD)
            rule = make(faults, agent=self.account, skip=skip)
            hanging.append((now + HANG_SECONDS, rule))
            while hanging and hanging[0][0] <= now:
                hanging.pop(0)[1].lift()
            if self.total * (CUTS + 1) > MESSAGES * (self.cuts + 1) and self.cuts < CUTS:
                self.cuts += self.band.cut(self.account, random.choice(list(Cut)))

    # ------------------------------------------------------------------ afterwards

    def runs(self) -> Iterator[tuple[str, str]]:
        """Yield room and message of every handler that succeeded, in order."""
        for line in self.done.read_text(encoding="ascii").splitlines():
            room, message = line.split()
            yield room, message

    def check(self) -> None:
        """Nothing is lost, nothing is done twice, nothing is out of order."""
        times = Counter(message for _, message in self.runs())
        everything = {message for messages in self.sent.values() for message in messages}
        assert times.keys() == everything, "a message was not handled"
        twice = {message for message, n in times.items() if n > 1}
        assert twice <= self.at_kills, "g14, g21: a message was handled twice without a kill"
        assert max(times.values()) <= 1 + len(KILLS)
        for message in everything:
            assert self.band.state(message, self.account) == "processed"
            attempts = self.band.attempts(message, self.account)
            assert attempts.count("success") == 1, f"{message}: {attempts}"
        for room, messages in self.sent.items():
            first = list(dict.fromkeys(m for r, m in self.runs() if r == room))
            assert first == messages, f"g04: room {room} is out of order"

    def check_memory(self) -> str:
        """The second half takes no more memory than the first; return the figures."""
        rows = [json.loads(line) for line in self.memory.read_text(encoding="ascii").splitlines()]
        handled = rows[-1]["handled"]
        half = [row for row in rows if row["handled"] >= handled - MESSAGES / 2]
        quarter = max(1, len(half) // 4)

        def median(part: list[dict[str, int]], key: str) -> float:
            return statistics.median([row[key] for row in part])

        figures = []
        for key, slack in (("rss", 0.08), ("objects", 0.08)):
            early, late = median(half[:quarter], key), median(half[-quarter:], key)
            figures.append(f"{key} {early:,.0f} -> {late:,.0f}")
            assert late <= early * (1 + slack), f"g77: {figures[-1]} over the second half"
        return ", ".join(figures)


@guarantee(4, 11, 14, 21, 26, 77)
@pytest.mark.slow
@pytest.mark.soak
async def test_soak(tmp_path: Path) -> None:
    faulthandler.cancel_dump_traceback_later()  # the net for tests that hang; this one has its own
    async with open_local_band() as band, trio.open_nursery() as nursery:
        here = Soak(band, band.register_agent("Scribe"), tmp_path)
        for _ in range(ROOMS):
            room = await band.user.create_room(members=[here.account])
            here.rooms.append(room.id)
        await here.start()
        nursery.start_soon(here.break_things)
        began = trio.current_time()
        with trio.fail_after(600):
            await here.send_all()
            await band.until(lambda: not here.waiting())
        seconds = trio.current_time() - began
        nursery.cancel_scope.cancel(reason="all messages are processed")

        with trio.CancelScope(shield=True, deadline=trio.current_time() + 20):
            assert here.process is not None
            band.faults.clear()
            await trio.sleep(2)  # the last marks that were answered with a fault are told again
            here.process.send_signal(signal.SIGTERM)
            status = await here.process.wait()
    here.check()
    figures = here.check_memory()
    print(  # noqa: T201 - the figures are what one runs it for
        f"\n{here.total} messages in {ROOMS} rooms, {seconds:.0f} s, {here.faults} faults, "
        f"{here.cuts} cuts, {len(KILLS)} kills, {figures}"
    )
    assert here.cuts == CUTS
    assert status == 0, "the last process did not end gracefully"

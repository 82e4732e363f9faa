"""Messages that end the process, and those that only stood by (C64): real processes, real kills."""

from __future__ import annotations

import multiprocessing
import signal
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from band_trio.localband import LocalAgent, LocalBand, open_local_band
from tests.marks import case, guarantee
from tests.runtime.crashing_agent import run

pytestmark = pytest.mark.slow

PATIENCE = 60.0

PROCESSES = multiprocessing.get_context("forkserver")
"""They are forked from one that has imported everything: a start would take a second."""
PROCESSES.set_forkserver_preload(["pytest", run.__module__])


@attrs.define(eq=False)
class Supervisor:
    """Starts the agent again and again, as init systems do."""

    band: LocalBand
    account: LocalAgent
    folder: Path
    process: BaseProcess | None = None
    exits: list[int] = attrs.field(factory=list)

    async def serve(self) -> None:
        connection = self.band.connection(self.account)
        del connection["config"]
        connection |= {"state_dir": str(self.folder), "runs": str(self.folder / "runs")}
        while True:
            self.process = process = PROCESSES.Process(target=run, args=(connection,), daemon=True)
            process.start()
            try:
                await trio.lowlevel.wait_readable(process.sentinel)
            finally:
                process.kill()  # one that has ended hears nothing of it
                process.join(5)
            assert process.exitcode is not None
            self.exits.append(process.exitcode)

    @property
    def runs(self) -> Counter[str]:
        """Text of a message → how often its handler was called."""
        path = self.folder / "runs"
        return Counter(path.read_text(encoding="utf-8").splitlines() if path.exists() else ())

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():  # noqa: ASYNC110 - another process, which cannot ring
            await trio.sleep(0.02)

    def state(self, message_id: str) -> str:
        return self.band.state(message_id, self.account)

    async def say(self, room: Any, text: str) -> str:
        return await self.band.user.send(room, text, mentions=[self.account])

    async def errors(self, room: Any) -> int:
        """Return how many errors were posted to a room, once one was posted to any."""
        await self.until(lambda: bool(self.band.log.requests("post_event")))
        rows = await self.band.user.messages(room)
        return sum(row["message_type"] == "error" for row in rows)


@asynccontextmanager
async def supervised(folder: Path) -> AsyncGenerator[tuple[Supervisor, trio.Nursery]]:
    """A platform on a port; the agent is started with `nursery.start_soon(supervisor.serve)`."""
    with trio.fail_after(PATIENCE):
        async with open_local_band() as band:
            supervisor = Supervisor(band, band.register_agent("Mortal"), folder)
            async with trio.open_nursery() as nursery:
                yield supervisor, nursery
                nursery.cancel_scope.cancel()


@guarantee(82)
@case("C64")
async def test_a_message_that_kills_the_process_is_given_up_and_the_one_behind_it_runs(
    tmp_path: Path,
) -> None:
    async with supervised(tmp_path) as (agent, nursery):
        room = await agent.band.user.create_room(members=[agent.account])
        killer, behind = await agent.say(room, "die"), await agent.say(room, "hello")
        nursery.start_soon(agent.serve)
        await agent.until(lambda: len(agent.exits) > 3 or agent.state(behind) == "processed")
        assert agent.state(behind) == "processed"
        assert agent.state(killer) == "failed"
        assert agent.exits == [9, 9, 9]
        assert agent.runs == {"die": 3, "hello": 1}
        assert await agent.errors(room) == 1


@case("C64")
async def test_a_process_that_is_killed_from_outside_costs_its_message_nothing(
    tmp_path: Path,
) -> None:
    async with supervised(tmp_path) as (agent, nursery):
        room = await agent.band.user.create_room(members=[agent.account])
        message = await agent.say(room, "slow")
        nursery.start_soon(agent.serve)
        await agent.until(lambda: agent.runs["slow"] == 1)
        assert agent.process is not None
        agent.process.kill()
        await agent.until(lambda: agent.state(message) == "processed")
        assert agent.exits == [-signal.SIGKILL]
        assert agent.runs == {"slow": 2}
        assert agent.band.attempts(message, agent.account) == ["success"]
        assert agent.band.log.requests("post_event") == []


@guarantee(82)
@case("C64")
async def test_its_neighbours_of_that_moment_finish_and_are_not_given_up(
    tmp_path: Path,
) -> None:
    async with supervised(tmp_path) as (agent, nursery):
        rooms = [await agent.band.user.create_room(members=[agent.account]) for _ in range(5)]
        harmless = [await agent.say(each, f"busy {n}") for n, each in enumerate(rooms[1:])]
        killer = await agent.say(rooms[0], "die soon")
        nursery.start_soon(agent.serve)
        await agent.until(
            lambda: (
                len(agent.exits) > 3
                or all(agent.state(each) in ("processed", "failed") for each in [killer, *harmless])
            )
        )
        assert agent.exits == [9, 9, 9]
        assert agent.state(killer) == "failed"
        assert [agent.state(each) for each in harmless] == ["processed"] * 4
        assert [await agent.errors(each) for each in rooms] == [1, 0, 0, 0, 0]
        assert agent.runs["die soon"] == 3
        assert all(agent.runs[f"busy {n}"] <= 2 for n in range(4))

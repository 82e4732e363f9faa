"""`band-trio demo`: a platform, three agents and a person, in one `trio.run`."""

from __future__ import annotations

from typing import Final

import attrs
import trio

from band_trio.agent import Agent
from band_trio.cli import texts
from band_trio.cli.demo_agents import DESCRIPTIONS, MAKERS
from band_trio.cli.demo_scenes import Actor, Stage, last_question, play
from band_trio.cli.demo_summary import Summary, summarise
from band_trio.cli.transcript import Transcript
from band_trio.entry.console import Console, Style
from band_trio.entry.exits import Exit
from band_trio.entry.signals import StopSignals
from band_trio.localband import LocalBand, open_local_band
from band_trio.runtime.lifecycle import ShutdownReport

WHOLE_SECONDS: Final = 16.0
"""For all scenes together."""
GRACE_SECONDS: Final = 5.0


@attrs.define(eq=False)
class Demo:
    """One performance."""

    console: Console
    keep: bool = False
    """Stay up after the scenes, until a signal."""
    memory: bool = False
    """Without sockets, for tests under a virtual clock."""
    signals: StopSignals | None = None
    _script: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    """Around everything that the person does; the first signal ends it."""
    _reports: dict[str, ShutdownReport] = attrs.field(factory=dict, init=False)
    _summary: Summary | None = attrs.field(default=None, init=False)

    async def run(self) -> Exit:
        """Perform; return the exit code that the records justify."""
        async with open_local_band(memory=self.memory) as band:
            transcript = Transcript(band, self.console)
            stage = Stage(band, transcript, self._cast(band, transcript))
            self.console.line(texts.demo_opening(band.rest_url), Style.TITLE)
            transcript.follow()
            async with trio.open_nursery() as nursery:
                if self.signals is not None:
                    await nursery.start(self._watch_signals, self.signals)
                await self._perform(stage)
                nursery.cancel_scope.cancel(reason="the demo is over")
            if self._summary is None and not self._script.cancelled_caught:
                self._summarise(stage)
        return self._exit_code()

    def _cast(self, band: LocalBand, transcript: Transcript) -> dict[str, Actor]:
        actors: dict[str, Actor] = {}
        for name, make in MAKERS.items():
            actor = Actor(band.register_agent(name, DESCRIPTIONS[name]), transcript)
            # The lock would leave one file per demo behind; nobody else knows these agents.
            access = band.connection(actor.account, observer=actor.observe, single_instance=False)
            actor.agent = Agent.create(adapter=make(transcript), **access)
            actors[name] = actor
        return actors

    async def _perform(self, stage: Stage) -> None:
        """Run the agents around the script, and stop them in the end."""
        async with trio.open_nursery() as agents:
            for name, actor in stage.actors.items():
                await agents.start(self._serve, name, actor.agent)
            with self._script:
                await self._play(stage)
            self.console.line()
            stage.transcript.line("", texts.demo_stopping(GRACE_SECONDS), Style.NEWS)
            for actor in stage.actors.values():
                actor.agent.stop(grace=GRACE_SECONDS)
        for name, report in self._reports.items():
            style = Style.NEWS if report.graceful else Style.BAD
            stage.transcript.line("", texts.demo_stopped(name, report), style)

    async def _serve(  # noqa: ASYNC128 - the agent calls started()
        self, name: str, agent: Agent, *, task_status: trio.TaskStatus[Agent]
    ) -> None:
        self._reports[name] = await agent.run(task_status=task_status)

    async def _play(self, stage: Stage) -> None:
        with trio.move_on_after(WHOLE_SECONDS) as limit:
            await play(stage)
            if not self.keep:
                await last_question(stage)
        if limit.cancelled_caught:
            stage.unfinished.append(f"the scenes were not over after {WHOLE_SECONDS:g} s")
        if self.keep:
            self._summarise(stage)
            for line in texts.demo_access(stage.band, stage.account("Clerk")):
                self.console.line(line)
            await trio.sleep_forever()  # until a signal cancels the script

    async def _watch_signals(
        self, signals: StopSignals, *, task_status: trio.TaskStatus[None]
    ) -> None:
        task_status.started()
        name = await signals.wait()
        self._script.cancel(reason=name)

    def _summarise(self, stage: Stage) -> None:
        self._summary = summarise(stage)
        self.console.line()
        for line, style in self._summary.lines():
            self.console.line(line, style)

    def _exit_code(self) -> Exit:
        stopped = all(each.graceful and not each.cleanup_errors for each in self._reports.values())
        if self._summary is None:
            self.console.line(texts.DEMO_INTERRUPTED, Style.NEWS)
        elif self._summary.problems:
            return Exit.FAILED
        return Exit.OK if stopped else Exit.FAILED

"""The end of the demo: figures, and whether they are as they must be."""

from __future__ import annotations

import attrs

from band_trio.cli import texts
from band_trio.cli.demo_scenes import Stage
from band_trio.cli.verdict import Verdict, judge, rooms_at_once
from band_trio.entry.console import Style


@attrs.frozen
class Summary:
    """What the records say."""

    verdict: Verdict
    rooms: int
    at_once: int
    """Rooms in which handlers ran at the same time, at most."""
    reconnects: int
    unfinished: tuple[str, ...] = ()
    """Scenes that took too long."""

    @property
    def problems(self) -> list[str]:
        """Everything that is not as it must be."""
        problems = [*self.verdict.problems, *self.unfinished]
        if self.at_once < 2:
            problems.append(texts.NO_OVERLAP)
        if not self.reconnects:
            problems.append(texts.NO_RECONNECT)
        return problems

    def lines(self) -> list[tuple[str, Style]]:
        """Return the summary for people."""
        verdict = self.verdict
        fates = f"{verdict.settled - verdict.failed} processed, {verdict.failed} failed"
        rows = [
            ("messages", f"{verdict.messages} for agents, in {self.rooms} rooms"),
            ("settled", f"{verdict.settled}: {fates} ({verdict.meant_to_fail} meant to)"),
            ("rooms", f"up to {self.at_once} at work at the same time"),
            ("reconnects", str(self.reconnects)),
            ("lost", str(len(verdict.lost))),
            ("repeated", str(len(verdict.repeated))),
            ("out of order", str(len(verdict.out_of_order))),
        ]
        problems = self.problems
        lines = [(f"== {texts.SCENE_SUMMARY}", Style.TITLE)]
        lines += [(f"{name:<13} {value}", Style.PLAIN) for name, value in rows]
        lines += [(f"problem       {problem}", Style.BAD) for problem in problems]
        closing = (texts.DEMO_BAD, Style.BAD) if problems else (texts.DEMO_GOOD, Style.GOOD)
        return [*lines, closing]


def summarise(stage: Stage) -> Summary:
    """Judge a performance by the platform's records and the observers' traces."""
    talks = stage.conversations()
    return Summary(
        judge(talks),
        rooms=len(stage.band.world.rooms),
        at_once=rooms_at_once(talks),
        reconnects=sum(max(0, actor.connections - 1) for actor in stage.actors.values()),
        unfinished=tuple(stage.unfinished),
    )

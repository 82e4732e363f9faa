"""The way of one message through the source: how often it changes file, and how many files it sees.

The third message of a room, roster and history read long ago, is profiled under a virtual clock, on
a platform in memory: from the push that tells the agent of it to the answer to its mark. Ours are
the frames of `band_trio` without `localband` and `testing`, and without what these call: it is the
platform's work. A frame counts each time it is entered:
a coroutine that goes on after a wait counts again, with all those that wait for it.

* Changes of file: entered frames of ours, in the room's task, whose nearest caller of ours lies in
  another file.
* Files in all: those of the entered frames of ours, in all tasks of the process.
* Calls: of functions in Python and C, whosever they are, in all tasks: the platform's too.

Nothing here depends on the machine. `--show` prints what was entered in the room's task.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Final

import attrs
import trio
import trio.testing

import band_trio
from band_trio import Agent
from band_trio.localband import LocalAgent, LocalBand, open_local_band
from benchmarks.harness import Settle, table

PACKAGE: Final = f"{Path(band_trio.__file__).parent}/"
NOT_OURS: Final = ("localband/", "testing/")
ROOM_TASK: Final = "room "
"""How the name of a room's task begins."""
LAST: Final = "Journal.mark_answered"
"""The function that takes in the answer to the mark: the way ends with it."""
IDLE_SECONDS: Final = 7.0
"""Virtual ones: longer than anything that goes on after a message. No heartbeat falls into the last."""


@attrs.frozen
class Step:
    """A frame of ours that was entered in the room's task."""

    file: str
    function: str
    depth: int
    """How many callers of ours it has."""
    change: bool
    """Whether the nearest of them lies in another file."""


@attrs.define
class Journey:
    """What a message goes through, noted while `recording`."""

    steps: list[Step] = attrs.field(factory=list)
    files: Counter[str] = attrs.field(factory=Counter)
    """File of ours → entered frames, in all tasks."""
    calls: int = 0
    recording: bool = False

    @property
    def changes(self) -> int:
        """How often the room's task changes file."""
        return sum(step.change for step in self.steps)

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        """Take one event of the interpreter, as `sys.setprofile` gives it."""
        if not self.recording:
            return
        if event == "return" and frame.f_code.co_qualname == LAST:
            self.recording = False
        if event not in ("call", "c_call"):
            return
        self.calls += 1
        if event == "c_call" or (file := _file(frame)) is None:
            return
        callers = _callers(frame)
        if any(caller.startswith(NOT_OURS) for caller in callers):
            return
        self.files[file] += 1
        if _task().startswith(ROOM_TASK):
            change = bool(callers) and callers[0] != file
            self.steps.append(Step(file, frame.f_code.co_qualname, len(callers), change))


def _file(frame: FrameType) -> str | None:
    """Return the file of a frame of ours, as a path in the package; None for one that is not."""
    name = _path(frame)
    return None if name is None or name.startswith(NOT_OURS) else name


def _path(frame: FrameType) -> str | None:
    name = frame.f_code.co_filename
    return name.removeprefix(PACKAGE) if name.startswith(PACKAGE) else None


def _callers(frame: FrameType) -> list[str]:
    """Return the files of its callers in the package, the nearest first."""
    found: list[str] = []
    caller = frame.f_back
    while caller is not None:
        if (file := _path(caller)) is not None:
            found.append(file)
        caller = caller.f_back
    return found


def _task() -> str:
    try:
        return trio.lowlevel.current_task().name
    except RuntimeError:  # between two tasks
        return ""


async def travel() -> Journey:
    """Send three messages to a room of an agent; return the way of the last."""
    journey = Journey()
    async with open_local_band(memory=True) as band:
        agent = band.register_agent("Agent")
        room = await band.user.create_room("Room", members=[agent])
        options = band.connection(agent, single_instance=False)
        async with Agent.create(adapter=Settle(), **options):
            await trio.sleep(IDLE_SECONDS)
            for _ in range(2):
                await _send(band, agent, room.id)
            before = sys.getprofile()
            sys.setprofile(journey.profile)
            journey.recording = True
            try:
                await _send(band, agent, room.id)
            finally:
                sys.setprofile(before)
    if journey.recording or not journey.steps:
        raise RuntimeError(f"no mark, or no task whose name begins with {ROOM_TASK!r}")
    return journey


async def _send(band: LocalBand, agent: LocalAgent, room_id: str) -> None:
    """Send a message and wait until everybody is idle again."""
    message = await band.user.send(room_id, "Hello.", mentions=[agent])
    await trio.sleep(IDLE_SECONDS)
    assert band.state(message, agent) == "processed"


def profiled() -> Journey:
    """Return the way of one message, under a clock of its own."""
    return trio.run(travel, clock=trio.testing.MockClock(autojump_threshold=0))


def show(journey: Journey) -> None:
    """Print what was entered in the room's task, `>` where the file changes; then all files."""
    print("\nin the room's task")
    for step in journey.steps:
        mark = ">" if step.change else " "
        print(f"{mark} {'  ' * step.depth}{step.file}: {step.function}")
    entered = Counter(step.file for step in journey.steps if step.change)
    rows = [(file, entered[file], count) for file, count in journey.files.most_common()]
    table("files in all", ("", "changes to it", "entered, all tasks"), rows)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--show", action="store_true", help="print each step, and the files")
    asked = parser.parse_args()
    journey = profiled()
    if asked.show:
        show(journey)
    rows = [
        ("changes of file in the room's task", journey.changes),
        ("files in all", len(journey.files)),
        ("calls", journey.calls),
    ]
    table("one message, from its push to the answer to its mark", ("", "count"), rows)


if __name__ == "__main__":
    main()

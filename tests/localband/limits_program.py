"""A platform in a process of its own, which says how much a client has cost it.

Prints one line of JSON: where it is. For each line that it is sent it prints another: the peak of
its memory and its longest step since the line before.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import trio

from band_trio.localband import open_local_band

BEAT = 0.002


def say(**values: Any) -> None:
    print(json.dumps(values), flush=True)  # noqa: T201 - the test reads it


def take_peak() -> int:
    """Return the peak of resident memory in bytes, and begin a new one at what is used now."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    rows = dict(line.split(":", 1) for line in status.splitlines())
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return int(rows["VmHWM"].split()[0]) * 1024


async def main() -> None:
    longest = 0.0

    async def beat() -> None:
        nonlocal longest
        while True:
            began = time.thread_time()  # of this thread alone: the machine may be busy
            await trio.sleep(BEAT)
            longest = max(longest, time.thread_time() - began)

    async with open_local_band() as band:
        agent = band.register_agent("Scribe")
        say(rest=band.rest_url, ws=band.ws_url, key=agent.api_key, id=agent.id)
        async with (
            trio.lowlevel.FdStream(sys.stdin.fileno()) as asked,
            trio.open_nursery() as tasks,
        ):
            tasks.start_soon(beat)
            while await asked.receive_some():
                say(peak=take_peak(), longest=longest)
                longest = 0.0
            tasks.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)

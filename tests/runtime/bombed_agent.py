"""The agent of the test of the bombs, a process of its own: what it costs is measured there.

`python -m tests.runtime.bombed_agent CONNECTION`, a JSON object with URLs, credentials and the room
of the file. A message "file" downloads one; each line on stdin asks for a line of figures: the
highest memory so far in bytes, the longest step since the last line in seconds of processor time.
"""

from __future__ import annotations

import json
import re
import sys
from functools import partial
from typing import Any

import trio

from band_trio import Agent, AgentConfig, BandError, SimpleAdapter
from tests.support.gaps import Gaps

STATUS = trio.Path("/proc/self/status")


class Quiet(SimpleAdapter[Any]):
    async def on_message(self, msg: Any, tools: Any, *news: Any, **more: Any) -> None:
        if "file" in msg.content:
            with trio.fail_after(5):
                try:
                    await tools.rest.get_file(more["room_id"], "bomb", 10)
                except BandError as exc:
                    await tools.send_event(str(exc), "thought")
        tools.turn.settle()


async def figures(gaps: Gaps) -> None:
    """Answer each line on stdin with a line of figures."""
    while await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
        peak = int(re.findall(r"VmHWM:\s*(\d+) kB", await STATUS.read_text())[0]) * 1024
        sys.stdout.write(json.dumps({"peak": peak, "longest": gaps.longest}) + "\n")
        sys.stdout.flush()
        gaps.longest = 0.0


async def main(connection: dict[str, Any]) -> None:
    agent = Agent.create(adapter=Quiet(), config=AgentConfig(single_instance=False), **connection)
    gaps = Gaps()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gaps.watch)
        await nursery.start(agent.run)
        await figures(gaps)
        agent.stop(grace=0)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(partial(main, json.loads(sys.argv[1])))

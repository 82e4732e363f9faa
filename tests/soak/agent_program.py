"""The agent of the soak test, a process that may be killed at any moment.

`python -m tests.soak.agent_program CONNECTION`: *CONNECTION* is a JSON object with the platform's
URLs, the credentials, and two files to append to: `done` gets `room message` for each handler that
succeeded, `memory` a sample every second.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from typing import Any, Final

import trio

from band_trio import Agent, AgentConfig, PlatformMessage, SessionConfig, SimpleAdapter
from band_trio.tools.protocol import AgentToolsProtocol
from band_trio.types import HistoryProvider

PAGE: Final = os.sysconf("SC_PAGE_SIZE")
STATM: Final = trio.Path("/proc/self/statm")
SAMPLE_SECONDS: Final = 1.0


class Worker(SimpleAdapter[HistoryProvider]):
    """Finishes each message, and says so in a file; every tenth one is answered."""

    def __init__(self, done: int) -> None:
        super().__init__()
        self.done = done
        self.handled = 0

    async def on_message(
        self,
        msg: PlatformMessage,
        tools: AgentToolsProtocol,
        history: HistoryProvider,
        participants_msg: str | None,
        contacts_msg: str | None,
        *,
        is_session_bootstrap: bool,
        room_id: str,
    ) -> None:
        self.handled += 1
        if self.handled % 200 == 0:
            await trio.sleep(0.5)
        if self.handled % 10 == 0:
            await tools.no_reply("nothing to say")
        await trio.lowlevel.checkpoint()
        tools.turn.settle()
        os.write(self.done, f"{room_id} {msg.id}\n".encode())  # noqa: ASYNC124 - one short line


async def sample(worker: Worker, memory: int) -> None:
    """Write down the memory in use, again and again."""
    while True:
        await trio.sleep(SAMPLE_SECONDS)
        gc.collect()
        rss = int((await STATM.read_text()).split()[1]) * PAGE
        row = {"handled": worker.handled, "rss": rss, "objects": len(gc.get_objects())}
        os.write(memory, json.dumps(row).encode() + b"\n")


async def main(connection: dict[str, Any]) -> int:
    """Run until SIGTERM; return the exit status."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    worker = Worker(os.open(connection["done"], flags))
    agent = Agent.create(
        adapter=worker,
        agent_id=connection["agent_id"],
        api_key=connection["api_key"],
        rest_url=connection["rest_url"],
        ws_url=connection["ws_url"],
        config=AgentConfig(rest_try_seconds=3, reconnect_cap_seconds=1),
        session_config=SessionConfig(
            claim_seconds=1, settle_seconds=1, settle_base_seconds=0.1, settle_cap_seconds=1
        ),
    )
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:

            async def stop() -> None:
                async for _ in signals:
                    agent.stop(grace=5)

            async def end_with_the_test() -> None:
                async with trio.lowlevel.FdStream(os.dup(sys.stdin.fileno())) as stdin:
                    await stdin.receive_some()  # nothing is ever sent: this is its end
                nursery.cancel_scope.cancel(reason="the test has gone")

            nursery.start_soon(stop)
            nursery.start_soon(end_with_the_test)
            nursery.start_soon(sample, worker, os.open(connection["memory"], flags))
            report = await agent.run()
            nursery.cancel_scope.cancel(reason="the agent has ended")
    return 0 if report.graceful else 1


if __name__ == "__main__":
    sys.exit(trio.run(main, json.loads(sys.argv[1])))

"""The agent of the tests of crashes, a process of its own that some messages end.

It is given a connection: the platform's URLs, the credentials, a directory for its state, and a
file to which each run of a handler appends the text of its message.
"""

from __future__ import annotations

import os
from typing import Any

import trio

from band_trio import Agent, AgentConfig, SimpleAdapter


class Mortal(SimpleAdapter[Any]):
    """Does what a message says: `die`, `die soon`, `busy`, `slow`, or else just an answer."""

    def __init__(self, runs: int) -> None:
        super().__init__()
        self.runs = runs

    async def on_message(self, msg: Any, tools: Any, *news: Any, **more: Any) -> None:
        text = msg.content.split(" ", 1)[-1]
        os.write(self.runs, f"{text}\n".encode())  # noqa: ASYNC124 - one short line
        if text == "die":
            os._exit(9)
        if text == "die soon":
            await trio.sleep(0.25)
            os._exit(9)
        if text.startswith("busy"):
            await trio.sleep(0.6)
        if text == "slow":
            await trio.sleep(1)
        await tools.send_message(f"re: {text}", [msg.sender_id])


async def main(connection: dict[str, Any]) -> None:
    runs = os.open(connection.pop("runs"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    config = AgentConfig(state_dir=connection.pop("state_dir"), reconnect_cap_seconds=1)
    await Agent.create(adapter=Mortal(runs), config=config, **connection).run()


def run(connection: dict[str, Any]) -> None:
    """Be the process."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    trio.run(main, connection)

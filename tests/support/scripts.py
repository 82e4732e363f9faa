"""Programs of the README as somebody would run them: files, started by Python, on localband."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import attrs
import trio

from band_trio.localband import LocalAgent, LocalBand, LocalRoom, open_local_band

ROOT: Final = Path(__file__).parents[2]
README: Final = (ROOT / "README.md").read_text(encoding="utf-8")
PROGRAMS: Final = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
FIRST: Final[str] = PROGRAMS[0]
"""The first program of the README, as it is printed."""

_BODY: Final = "        await tools.send_message("


def with_handler(*lines: str) -> str:
    """Return the first program with another body of its handler; the rest as printed."""
    [printed] = [line for line in FIRST.splitlines(keepends=True) if line.startswith(_BODY)]
    body = textwrap.indent("\n".join(lines) + "\n", " " * 8)
    return FIRST.replace(printed, f"        import sys, time, trio\n{body}")


def with_call(call: str) -> str:
    """Return the first program with another call of `band_trio.run`."""
    assert FIRST.count("band_trio.run(Echo())") == 1
    return FIRST.replace("band_trio.run(Echo())", call)


@attrs.define(eq=False)
class Script:
    """A program that runs beside the test; what it writes is in `log` and `out`."""

    process: trio.Process
    place: Path

    @property
    def log(self) -> str:
        """What it has written to stderr."""
        return (self.place / "stderr").read_text(encoding="utf-8")

    @property
    def out(self) -> str:
        """What it has written to stdout."""
        return (self.place / "stdout").read_text(encoding="utf-8")

    @property
    def last_line(self) -> str:
        """The only line that tells of an error, the last one; no traceback anywhere."""
        assert "Traceback" not in self.log, self.log
        [told] = [line for line in self.log.splitlines() if line.startswith("band-trio: ")]
        assert self.log.endswith(f"{told}\n")
        return told

    async def until(self, text: str) -> None:
        """Wait until the log has *text*."""
        while text not in self.log:
            assert self.process.poll() is None, self.log
            await trio.sleep(0.01)

    async def end(self) -> int:
        """Wait for the end, and return the exit code."""
        return await self.process.wait()


@attrs.define(eq=False)
class Scene:
    """A platform with an agent in a room, and a directory for its program."""

    band: LocalBand
    account: LocalAgent
    room: LocalRoom
    place: Path

    @property
    def environ(self) -> dict[str, str]:
        """What a program needs; nothing of Band from outside, and its lock in its own directory."""
        mine = {k: v for k, v in os.environ.items() if not k.upper().startswith("BAND_")}
        return mine | {
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(self.place),
            "BAND_REST_URL": self.band.rest_url,
        }

    @property
    def credentials(self) -> dict[str, str]:
        """Who the agent is, for the environment."""
        return {"BAND_AGENT_ID": self.account.id, "BAND_API_KEY": self.account.api_key}

    async def say(self, text: str = "hello") -> str:
        """Write to the agent."""
        return await self.band.user.send(self.room, text, mentions=[self.account])

    async def is_now(self, message: str, *states: str) -> None:
        """Wait for one of the states of a message."""
        await self.band.until(lambda: self.band.state(message, self.account) in states)

    async def said(self, kind: str = "text") -> list[str]:
        """Return what the agent has written to the room."""
        return [
            row["content"]
            for row in await self.band.user.messages(self.room)
            if row["sender_id"] == self.account.id and row["message_type"] == kind
        ]

    @asynccontextmanager
    async def running(
        self,
        source: str = FIRST,
        *,
        command: Sequence[str] = (sys.executable, "echo.py"),
        **environ: str,
    ) -> AsyncGenerator[Script]:
        """Run *source* as `echo.py`, with id and key in its environment unless others are given.

        Killed if it still runs at the end of the block.
        """
        (self.place / "echo.py").write_text(source, encoding="utf-8")
        variables = self.environ | (environ or self.credentials)
        stdout, stderr = ((self.place / name).open("wb") for name in ("stdout", "stderr"))
        with stdout as out, stderr as err:
            run = partial(
                trio.run_process, list(command), env=variables, cwd=self.place, check=False,
                stdout=out, stderr=err, stdin=subprocess.DEVNULL,
            )  # fmt: skip
            with trio.fail_after(50):
                async with trio.open_nursery() as nursery:
                    yield Script(await nursery.start(run), self.place)
                    nursery.cancel_scope.cancel(reason="the test is over")


@asynccontextmanager
async def open_scene(place: Path) -> AsyncGenerator[Scene]:
    """Open a platform on loopback, with an agent in a room."""
    async with open_local_band(user_name="Your Name") as band:
        account = band.register_agent("Echo")
        room = await band.user.create_room(members=[account])
        yield Scene(band, account, room, place)

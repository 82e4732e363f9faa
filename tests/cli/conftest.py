"""The command line under test: inside this process, or as a program of its own."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path

import attrs
import pytest

from band_trio.cli.app import main

MODULE = """
import os
import sys
import trio
from band_trio import Agent, SimpleAdapter
from band_trio.adapters import EchoAdapter

class Slow(SimpleAdapter):
    async def on_message(self, msg, tools, *rest, **more):
        print("handling", file=sys.stderr, flush=True)
        await trio.sleep(1)
        await tools.send_message("done", mentions=[msg.sender_id])

class Quits(SimpleAdapter):
    async def on_message(self, msg, tools, *rest, **more):
        sys.exit(7)

class Interrupts(SimpleAdapter):
    async def on_message(self, msg, tools, *rest, **more):
        raise KeyboardInterrupt

class Untidy(Slow):
    async def cleanup_all(self):
        raise OSError("the disk is full")

class NeedsMore(EchoAdapter):
    def __init__(self, colour):
        super().__init__()

echo = EchoAdapter()
agent = Agent.create(adapter=EchoAdapter(), agent_id="a1", api_key="thnv_a_secret_one")
number = 5

def make():
    return EchoAdapter()

def make_nothing():
    return None

def explode():
    raise RuntimeError("no fuel")

def leak():
    raise RuntimeError(f"{os.environ['BAND_API_KEY']} does not work")

async def late():
    return EchoAdapter()
"""


@attrs.frozen
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """The one line of a command that was refused; nothing else was written."""
        assert self.out == ""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("band-trio: ")
        return lines[0]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a module, and nothing of Band in the environment."""
    for name in [name for name in os.environ if name.upper().startswith("BAND_")]:
        monkeypatch.delenv(name)
    # Locks of agents go there too: two test runs must not meet in them.
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    # One of an earlier test may be there still, imported without the command.
    monkeypatch.delitem(sys.modules, "made_up", raising=False)
    (tmp_path / "made_up.py").write_text(MODULE)
    (tmp_path / "needy.py").write_text("import not_there_at_all")
    (tmp_path / "torn.py").write_text("def (")
    return tmp_path


@pytest.fixture
def cli(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Generator[Callable[..., Outcome]]:
    """Run a command inside this process."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    modules, level = set(sys.modules), logging.getLogger("band_trio").level
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def run(*arguments: str) -> Outcome:
        try:
            code = main(arguments)
        except SystemExit as exc:
            code = int(exc.code or 0)
        said = capsys.readouterr()
        return Outcome(code, said.out, said.err)

    yield run
    assert {number: signal.getsignal(number) for number in handlers} == handlers
    logging.getLogger("band_trio").setLevel(level)
    for name in ("band_trio.cli", "band_trio.entry", "band_trio.link.channel.supervisor"):
        logging.getLogger(name).setLevel(logging.NOTSET)
    for name in ("made_up", "needy", "torn"):
        if name not in modules:
            sys.modules.pop(name, None)


@attrs.define(eq=False)
class Program:
    """`python -m band_trio …` that runs beside the test."""

    process: subprocess.Popen[str]

    def line(self) -> str:
        """Return the next line of stdout."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def log_until(self, text: str) -> list[str]:
        """Read the log on stderr up to a line with *text*, and return it."""
        assert self.process.stderr is not None
        lines: list[str] = []
        while not lines or text not in lines[-1]:
            lines.append(self.process.stderr.readline())
            assert lines[-1], f"{text!r} never came: {lines}"
        return lines

    def signal(self, number: int) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def end(self, within: float = 20) -> Outcome:
        """Wait for the end."""
        out, err = self.process.communicate(timeout=within)
        return Outcome(self.process.returncode, out, err)


@pytest.fixture
def program(place: Path) -> Generator[Callable[..., Program]]:
    """Start commands as programs; those still running at the end are killed."""
    started: list[subprocess.Popen[str]] = []
    root = Path(__file__).parents[2]

    def start(*arguments: str, **environ: str) -> Program:
        process = subprocess.Popen(
            [sys.executable, "-m", "band_trio", *arguments],
            env={**os.environ, "PYTHONPATH": str(root), **environ},
            cwd=place,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return Program(process)

    yield start
    for process in started:
        with process:
            if process.poll() is None:
                process.kill()

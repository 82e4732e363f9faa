"""`band_trio.run` beside its signals: the log, what it refuses, how errors of others end it."""

from __future__ import annotations

import logging
import os
import pty
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import band_trio
from band_trio import BandConfigError
from band_trio.adapters import EchoAdapter
from band_trio.cli.errors import CliError
from band_trio.cli.loading import load_target
from band_trio.entry import log
from band_trio.entry.exits import Exit
from tests.cli.conftest import Outcome, Program
from tests.marks import case
from tests.support.for_each import for_each
from tests.support.scripts import FIRST, ROOT

Cli = Callable[..., Outcome]

NOWHERE = "rest_url='http://127.0.0.1:1', config=band_trio.AgentConfig(start_patience_seconds=0.2)"
RUN = f"""
import band_trio
from band_trio.adapters import EchoAdapter
from tests.support.for_each import for_each
class Echo(EchoAdapter): pass
def run(**options):
    band_trio.run(Echo(), agent_id='a1', api_key='a-secret-key', {NOWHERE}, **options)
"""


def script(
    place: Path, source: str, stderr: int = subprocess.PIPE
) -> subprocess.CompletedProcess[str]:
    """Run a program that reaches nobody."""
    return subprocess.run(
        [sys.executable, "-c", RUN + textwrap.dedent(source)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "NO_COLOR": ""},
        cwd=place,
        timeout=30,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=stderr,
    )


# --------------------------------------------------------------------------- the log


@case("C91")
@pytest.mark.slow
def test_in_a_pipe_the_log_is_plain(place: Path) -> None:
    ended = script(place, "run()")

    assert ended.returncode == Exit.FAILED
    first, *_, last = ended.stderr.splitlines()
    assert "INFO    band-trio " in first
    assert " WARNING " in ended.stderr
    assert last.startswith("band-trio: ")
    assert "http://127.0.0.1:1 cannot be reached" in last
    assert "\x1b" not in ended.stderr


@case("C91")
@pytest.mark.slow
def test_on_a_terminal_the_log_has_colours(place: Path) -> None:
    ours, theirs = pty.openpty()
    try:
        script(place, "import os; del os.environ['NO_COLOR']; run()", stderr=theirs)
    finally:
        os.close(theirs)
    written = b""
    try:
        while part := os.read(ours, 65536):
            written += part
    except OSError:  # what Linux says at the end of a terminal
        os.close(ours)

    [warning] = [line for line in written.splitlines() if b"WARNING" in line]
    assert warning.startswith(b"\x1b[33m")


@case("C91")
@pytest.mark.slow
@for_each("where", ["", "'band_trio'"])
def test_an_application_that_has_set_up_logging_is_left_alone(place: Path, where: str) -> None:
    ended = script(
        place,
        f"""
        import logging, sys
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(logging.Formatter("mine %(name)s"))
        logging.getLogger({where}).addHandler(handler)
        run(level="DEBUG")
        """,
    )

    assert ended.stdout.splitlines() == ["mine band_trio.runtime.run.start"]  # the warning
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.slow
def test_a_level_above_warnings_silences_the_news_too(place: Path) -> None:
    assert len(script(place, "run(level='critical')").stderr.splitlines()) == 1  # what has ended it


@for_each(
    ("level", "ours", "news"),
    [("DEBUG", 10, 10), ("info", 20, 20), (30, 30, 20), ("ERROR", 40, 40), (5, 5, 5)],
)
def test_levels_go_by_name_and_number(
    monkeypatch: pytest.MonkeyPatch, level: object, ours: int, news: int
) -> None:
    for name in ("band_trio", "band_trio.entry"):
        logger = logging.getLogger(name)
        monkeypatch.setattr(logger, "level", logger.level)
    monkeypatch.setattr(log, "_NEWS", ("band_trio.entry",))
    log.set_levels(log.level_of(level))

    assert logging.getLogger("band_trio.runtime").getEffectiveLevel() == ours
    assert logging.getLogger("band_trio.entry.running").getEffectiveLevel() == news


def test_a_traceback_in_the_log_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    [mine] = [h for h in _handlers_added() if not isinstance(h, logging.NullHandler)]
    try:
        raise ValueError("no fuel")
    except ValueError:
        record = logging.getLogger("x").makeRecord(
            "x", logging.ERROR, "f", 1, "turn %s failed", ("m1",), sys.exc_info()
        )
    mine.handle(record)

    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith(" ERROR   turn m1 failed")
    assert lines[1] == "Traceback (most recent call last):"
    assert lines[-1] == "ValueError: no fuel"


def _handlers_added() -> list[logging.Handler]:
    root = logging.getLogger()
    before = list(root.handlers)
    log.add_handler()
    added = [each for each in root.handlers if each not in before]
    for each in added:
        root.removeHandler(each)
    return added


# --------------------------------------------------------------------------- where it is called


@case("C91")
def test_it_is_refused_in_another_thread() -> None:
    told: list[BandConfigError] = []

    def call() -> None:
        try:
            band_trio.run(EchoAdapter(), agent_id="a1", api_key="k")
        except BandConfigError as exc:
            told.append(exc)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()

    [error] = told
    assert "main thread" in str(error)


@case("C91")
async def test_it_is_refused_inside_a_trio_run() -> None:  # noqa: ASYNC124 - runs in trio
    with pytest.raises(BandConfigError, match=r"trio is running already: use `await agent\.run"):
        band_trio.run(EchoAdapter(), agent_id="a1", api_key="k")


@case("C91")
def test_importing_the_printed_program_starts_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(place))
    (place / "printed.py").write_text(FIRST)

    assert type(load_target("printed:Echo")).__name__ == "Echo"


# --------------------------------------------------------------------------- targets that run agents

AGENT = "Agent.create(adapter=Echo(), agent_id='a1', api_key='k')"


@case("C91")
@for_each(
    "end",
    [
        "band_trio.run(Echo())",
        f"trio.run({AGENT}.run)",
        f"async def main():\n    async with {AGENT}: pass\ntrio.run(main)",
        (
            "async def main():\n    async with trio.open_nursery() as nursery:\n"
            f"        await nursery.start({AGENT}.run)\ntrio.run(main)"
        ),
    ],
)
def test_a_module_that_runs_an_agent_while_it_is_imported_is_refused(
    cli: Cli, place: Path, end: str
) -> None:
    head = FIRST.partition("if __name__")[0]
    sys.modules.pop("needy", None)
    (place / "needy.py").write_text(f"import trio\nfrom band_trio import Agent\n{head}\n{end}\n")
    ended = cli("run", "needy:Echo")

    assert ended.code == Exit.USAGE
    assert "needy runs an agent while it is imported" in ended.complaint
    assert 'under `if __name__ == "__main__":`' in ended.complaint


@case("C91")
@for_each("end", ["band_trio.run(Echo())", f"trio.run({AGENT}.run)"])
def test_a_factory_that_runs_an_agent_is_refused(cli: Cli, place: Path, end: str) -> None:
    head = FIRST.partition("if __name__")[0]
    text = f"import trio\nfrom band_trio import Agent\n{head}\ndef main():\n    {end}\n"
    sys.modules.pop("needy", None)
    (place / "needy.py").write_text(text)
    ended = cli("run", "needy:main")

    assert ended.code == Exit.USAGE
    assert "needy:main runs an agent" in ended.complaint
    assert "return the agent" in ended.complaint


def test_a_module_may_use_trio_for_something_else(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(place))
    (place / "asks.py").write_text(
        f"import trio\ntrio.run(trio.sleep, 0)\n{FIRST}\ndef make(): trio.run(trio.sleep, 0); "
        "return Echo()\n"
    )

    assert type(load_target("asks:make")).__name__ == "Echo"


@case("C91")
def test_a_failure_of_the_import_is_still_told_as_such(place: Path) -> None:
    (place / "needy.py").write_text("raise BaseExceptionGroup('x', [ValueError('no fuel')])")
    sys.path.insert(0, str(place))
    try:
        with pytest.raises(CliError, match="importing 'needy' failed"):
            load_target("needy:Echo")
    finally:
        sys.path.remove(str(place))


@case("C91")
@pytest.mark.slow
def test_ctrl_c_ends_a_target_that_runs_trio_while_it_is_imported(
    place: Path, program: Callable[..., Program]
) -> None:
    (place / "needy.py").write_text(
        "import os, signal, trio\nasync def main():\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n    await trio.sleep_forever()\ntrio.run(main)\n"
    )
    ended = program("run", "needy:Echo").end()

    assert ended.code == Exit.FORCED
    assert ended.err == "band-trio: interrupted\n"

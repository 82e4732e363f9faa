"""The examples do what they say that one can expect."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import trio

from band_trio.localband import LocalAgent, LocalBand, open_local_band
from band_trio.tools.conversation import replace_uuid_mentions, strip_leading_mentions
from tests.marks import case
from tests.support.for_each import for_each

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def expected(path: Path) -> list[str]:
    """Return what an example promises."""
    return re.findall(r"^# expects: (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)


def in_the_room(path: Path) -> list[tuple[str, str]]:
    """Return the promised answers, each with its question."""
    promise = re.compile(r'in the room, "(.+)" as the answer to "@your-name/\S+ (.+)"')
    found = [promise.fullmatch(line) for line in expected(path)]
    return [(match[1], match[2]) for match in found if match]


@for_each("path", EXAMPLES, ids=lambda path: path.stem)
def test_each_example_is_a_short_script_that_says_what_to_expect(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert text.startswith("# /// script\n# requires-python = ")
    assert len(text.splitlines()) <= 65
    assert expected(path)


ALONE = [path for path in EXAMPLES if expected(path) and not in_the_room(path)]
IMPORT_AND_RUN = """
import gc, importlib.util, logging, os, runpy, signal, sys, threading, trio
run = trio.run
def refuse(*args, **options): raise AssertionError("trio was started")
trio.run = refuse
alone, every = sys.argv[1].split(":"), sys.argv[2].split(":")
for path in every:
    spec = importlib.util.spec_from_file_location("example", path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    assert threading.active_count() == 1, path
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, path
    assert not logging.getLogger().handlers, path
print("imported", flush=True)
trio.run = run
gc.freeze()
for path in alone:
    if not (child := os.fork()):
        for number, name in (1, "out"), (2, "err"):
            file = f"{os.path.basename(path)}.{name}"
            os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), number)
        sys.argv[:] = [path]
        sys.path.insert(0, os.path.dirname(path))
        runpy.run_path(path, run_name="__main__")
        gc.collect()  # what is open still is told
        sys.stdout.flush()
        os._exit(0)  # taking all modules apart takes a second
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Imports all examples in one process; then runs those that need nobody else in one of their own
each, which has the time of the import from the first."""


@case("C91")
@pytest.mark.slow
def test_importing_an_example_starts_nothing_and_running_it_writes_what_it_promises(
    tmp_path: Path,
) -> None:
    environ = {k: v for k, v in os.environ.items() if not k.startswith("BAND_")}
    lists = [":".join(map(str, paths)) for paths in (ALONE, EXAMPLES)]
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", IMPORT_AND_RUN, *lists],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
        env={
            **environ,
            "PYTHONPATH": str(ROOT),
            "OPENAI_API_KEY": "none",
            "TMPDIR": str(tmp_path),
        },
    )
    written = {
        path.name: [
            (tmp_path / f"{path.name}.{name}").read_text().splitlines() for name in ("out", "err")
        ]
        for path in ALONE
    }

    assert ended.stderr == ""
    assert written == {path.name: [expected(path), []] for path in ALONE}
    assert ended.stdout.split() == ["imported", *["0"] * len(ALONE)]
    assert ended.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("as_program", [True, False])
@pytest.mark.parametrize(("name", "attribute"), [("01_echo", "Echo"), ("02_rules", "desk")])
async def test_it_answers_as_a_program_and_by_the_command_line(
    name: str, attribute: str, as_program: bool, tmp_path: Path
) -> None:
    path = ROOT / "examples" / f"{name}.py"
    (tmp_path / path.name).write_text(path.read_text(encoding="utf-8"))
    async with open_local_band(user_name="Your Name") as band:
        account = band.register_agent(attribute)
        by_command = ["-m", "band_trio", "run", f"{name}:{attribute}"]
        command = [sys.executable, *([path.name] if as_program else by_command)]
        await _check(band, account, path, command, tmp_path)


async def _check(
    band: LocalBand, account: LocalAgent, path: Path, command: list[str], place: Path
) -> None:
    """Run an example as a program and compare its answers with what it promises."""
    environ = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(place),
        "BAND_REST_URL": band.rest_url,
        "BAND_AGENT_ID": account.id,
        "BAND_API_KEY": account.api_key,
    }
    promised = in_the_room(path)
    assert len(promised) == len(expected(path))
    room = await band.user.create_room(members=[account])
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            run = partial(trio.run_process, command, env=environ, cwd=place, check=False)
            process = await nursery.start(run)
            for answer, question in promised:
                message = await band.user.send(room, question, mentions=[account])
                await band.until(lambda m=message: band.state(m, account) == "processed")  # type: ignore[misc]
                row = (await band.user.messages(room))[-1]
                assert row["sender_id"] == account.id
                people = [{"id": account.id, "handle": account.handle}]
                said = replace_uuid_mentions(strip_leading_mentions(row["content"]), people)
                pattern = re.escape(answer).replace("…", ".+")
                assert re.fullmatch(pattern, said), said
            process.send_signal(signal.SIGINT)

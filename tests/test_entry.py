"""The README's first program, as it is printed: what the README says of it is seen from outside."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final

import pytest
import trio

from band_trio.entry.exits import Exit
from tests.marks import case, guarantee
from tests.support.for_each import for_each
from tests.support.scripts import (
    FIRST,
    PROGRAMS,
    ROOT,
    Scene,
    Script,
    open_scene,
    with_call,
    with_handler,
)

pytestmark = pytest.mark.slow

READY = "ready; Ctrl-C to stop"
SLOW = with_handler(
    "print('handling', file=sys.stderr, flush=True)",
    "await trio.sleep(1)",
    "await tools.send_message('done', mentions=[msg.sender_id])",
)
DEAD = "http://127.0.0.1:1"
"""A port that nothing listens on."""


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncGenerator[Scene]:
    async with open_scene(tmp_path) as here:
        yield here


async def handling(scene: Scene, script: Script) -> str:
    """Write to the agent; return the id of the message once its handler runs."""
    await script.until(READY)
    message = await scene.say()
    await script.until("handling")
    return message


# --------------------------------------------------------------------------- the three steps


@case("C91")
@pytest.mark.parametrize("where", ["environment", "file", "entry"])
async def test_the_printed_program_answers_and_says_when_it_is_ready(
    scene: Scene, where: str
) -> None:
    keys = f"agent_id: {scene.account.id}\napi_key: {scene.account.api_key}\n"
    if where == "file":
        (scene.place / "agent_config.yaml").write_text(keys)
    elif where == "entry":
        entry = "{" + keys.strip().replace("\n", ", ") + "}"
        (scene.place / "agent_config.yaml").write_text(f"other: {{}}\nEcho: {entry}\n")
    environ = scene.credentials if where == "environment" else {"LANG": "C"}
    async with scene.running(**environ) as script:
        await script.until(READY)
        await scene.is_now(await scene.say("hello"), "processed")
        script.process.send_signal(signal.SIGINT)

        assert await script.end() == Exit.OK
    [answer] = await scene.said()
    assert answer.endswith("hello")
    assert "You said: " in answer
    assert "stopped in " in script.log
    assert script.log.count("\x1b") == 0  # nobody looks
    assert scene.account.api_key not in script.log + script.out


@case("C91")
async def test_the_command_runs_the_same_file(scene: Scene) -> None:
    command = (sys.executable, "-m", "band_trio", "run", "echo:Echo")
    async with scene.running(command=command) as script:
        await script.until(READY)
        await scene.is_now(await scene.say(), "processed")
        script.process.send_signal(signal.SIGTERM)

        assert await script.end() == Exit.OK
    assert len(await scene.said()) == 1


# --------------------------------------------------------------------------- what happens when …


@guarantee(67, 69)
@case("C91")
async def test_the_handler_raises(scene: Scene) -> None:
    async with scene.running(with_handler("raise ValueError('no fuel')")) as script:
        await script.until(READY)
        for _ in range(2):  # it goes on
            await scene.is_now(await scene.say(), "failed")
        script.process.send_signal(signal.SIGINT)

        assert await script.end() == Exit.OK
    assert script.log.count("Traceback") == 2
    assert "ValueError: no fuel" in script.log
    assert 'echo.py", line' in script.log
    assert len(await scene.said("error")) == 2


@guarantee(67)
@case("C91")
async def test_the_handler_says_and_does_nothing(scene: Scene) -> None:
    async with scene.running(with_handler("pass")) as script:
        await script.until(READY)
        await scene.is_now(await scene.say(), "failed")
        await script.until("turn ended without a reply")
    assert "WARNING" in script.log


@guarantee(47)
@case("C91")
async def test_the_handler_hangs(scene: Scene) -> None:
    hanging = with_handler("await trio.sleep_forever()")
    limit = {"BAND_MAX_CYCLE_SECONDS": "0.3"}
    async with scene.running(hanging, **scene.credentials, **limit) as script:
        await script.until(READY)
        message = await scene.say()
        await scene.is_now(message, "failed")
    delivery = scene.band.world.messages[message].deliveries[scene.account.id]
    assert "max_cycle_seconds" in str(delivery.attempts[-1].error)
    assert len(await scene.said("error")) == 1


@guarantee(4, 25, 62)
@case("C91")
async def test_the_connection_drops_in_a_turn(scene: Scene) -> None:
    async with scene.running(SLOW) as script:
        first = await handling(scene, script)
        assert scene.band.cut(scene.account)
        missed = [await scene.say("one"), await scene.say("two")]
        await script.until("WARNING")
        for message in (first, *missed):
            await scene.is_now(message, "processed")
        await script.until("epoch 2")
        script.process.send_signal(signal.SIGINT)

        assert await script.end() == Exit.OK
    assert [scene.band.attempts(m, scene.account) for m in (first, *missed)] == [["success"]] * 3


@guarantee(17, 49)
@case("C91")
async def test_a_person_presses_stop(scene: Scene) -> None:
    async with scene.running(SLOW) as script:
        message = await handling(scene, script)
        await scene.band.user.stop(scene.room)
        await trio.sleep(1.2)
        assert await scene.said() == []
        assert scene.band.state(message, scene.account) not in {"processed", "failed"}
        await scene.band.user.play(scene.room)
        await scene.is_now(message, "processed")


@guarantee(51, 52)
@case("C75")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_the_first_signal_lets_the_turn_finish(scene: Scene, number: int) -> None:
    async with scene.running(SLOW) as script:
        message = await handling(scene, script)
        script.process.send_signal(number)
        await script.until(f"stopping: {signal.Signals(number).name}, 1 turn running, up to 30 s")
        later = await scene.say("too late")

        assert await script.end() == Exit.OK
    assert scene.band.state(message, scene.account) == "processed"
    assert len(await scene.said()) == 1
    assert scene.band.attempts(later, scene.account) == []
    assert "1 settled, 0 abandoned" in script.log.splitlines()[-1]
    assert "Traceback" not in script.log


@guarantee(51, 53)
@case("C91")
async def test_the_grace_is_over(scene: Scene) -> None:
    short = SLOW.replace("band_trio.run(Echo())", "band_trio.run(Echo(), grace=0.1)")
    async with scene.running(short) as script:
        message = await handling(scene, script)
        script.process.send_signal(signal.SIGTERM)

        assert await script.end() == Exit.FAILED
    assert "0 settled, 1 abandoned" in script.log
    assert "Traceback" not in script.log
    assert await scene.said() == []
    async with scene.running() as script:  # it is served again
        await scene.is_now(message, "processed")
    assert len(await scene.said()) == 1


@case("C53", "C75")
@pytest.mark.parametrize("blocks", [False, True])
async def test_the_same_signal_again_ends_the_process(scene: Scene, blocks: bool) -> None:
    source = SLOW.replace("await trio.sleep(1)", "time.sleep(60)") if blocks else SLOW
    async with scene.running(source) as script:
        message = await handling(scene, script)
        script.process.send_signal(signal.SIGINT)
        await trio.sleep(0.2)
        assert script.process.poll() is None
        script.process.send_signal(signal.SIGINT)

        assert await script.end() == Exit.FORCED
    assert "second signal" in script.log
    assert "Traceback" not in script.log
    assert scene.band.state(message, scene.account) not in {"processed", "failed"}


@case("C75")
async def test_the_other_signal_at_once_is_the_same_request(scene: Scene) -> None:
    async with scene.running(SLOW) as script:  # the other order: tests/cli/test_signals.py
        message = await handling(scene, script)
        script.process.send_signal(signal.SIGTERM)
        script.process.send_signal(signal.SIGINT)

        assert await script.end() == Exit.OK
    assert scene.band.state(message, scene.account) == "processed"
    assert script.log.count("stopping: ") == 1


def _unshare() -> list[str]:
    """Return the command that makes what follows process 1 of a namespace of its own."""
    command = ["unshare", "--pid", "--fork", "--kill-child"]
    for extra in ([], ["--user", "--map-root-user"]):
        if (
            shutil.which("unshare")
            and not subprocess.run(
                [*command, *extra, "true"], capture_output=True, check=False
            ).returncode
        ):
            return [*command, *extra]
    return []


def _child_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text())


@case("C75")
async def test_as_process_1_of_a_container(scene: Scene) -> None:
    if not (unshare := _unshare()):
        pytest.skip("this machine permits no pid namespaces (unshare --pid)")
    source = SLOW.replace("print('handling'", "print('handling as', __import__('os').getpid()")
    command = (*unshare, sys.executable, "echo.py")
    async with scene.running(source, command=command) as script:
        message = await handling(scene, script)
        await script.until("handling as 1\n")
        os.kill(_child_of(script.process.pid), signal.SIGTERM)

        assert await script.end() == Exit.OK
    assert scene.band.state(message, scene.account) == "processed"
    assert "1 settled, 0 abandoned" in script.log


@guarantee(61)
@case("C91")
async def test_the_same_agent_is_started_twice(scene: Scene) -> None:
    async with scene.running() as first:
        await first.until(READY)
        second = scene.place / "second"
        second.mkdir()
        again = Scene(scene.band, scene.account, scene.room, second)
        shared = {**scene.credentials, "TMPDIR": str(scene.place)}
        async with again.running(**shared) as script:
            assert await script.end() == Exit.FAILED
        assert "already runs on this host" in script.last_line
        await scene.is_now(await scene.say(), "processed")


@case("C18")
@pytest.mark.parametrize(("end", "code"), [("sys.exit(7)", 7), ("raise KeyboardInterrupt", 130)])
async def test_the_handler_ends_the_program(scene: Scene, end: str, code: int) -> None:
    async with scene.running(with_handler(end)) as script:
        await script.until(READY)
        await scene.say()

        assert await script.end() == code
    assert "Traceback" not in script.log


# --------------------------------------------------------------------------- it cannot start


@case("C53", "C91")
async def test_a_dead_url_is_told_at_once_and_a_signal_ends_the_start(scene: Scene) -> None:
    dead = {**scene.credentials, "BAND_REST_URL": DEAD}
    async with scene.running(**dead) as script:
        await script.until("cannot be reached")
        assert "WARNING" in script.log
        assert DEAD in script.log
        script.process.send_signal(signal.SIGINT)

        assert await script.end() == Exit.OK
    assert "stopping: SIGINT" in script.log
    assert "Traceback" not in script.log


@case("C91")
async def test_a_dead_url_ends_it_when_the_patience_is_over(scene: Scene) -> None:
    options = "config=band_trio.AgentConfig(start_patience_seconds=0.5)"
    dead = {**scene.credentials, "BAND_REST_URL": DEAD}
    async with scene.running(with_call(f"band_trio.run(Echo(), {options})"), **dead) as script:
        assert await script.end() == Exit.FAILED
    assert "cannot be reached" in script.last_line


@case("C91")
async def test_a_wrong_key_is_one_line(scene: Scene) -> None:
    wrong = {**scene.credentials, "BAND_API_KEY": "thnv_a_this_is_the_wrong_one"}
    async with scene.running(**wrong) as script:
        assert await script.end() == Exit.FAILED
    assert "refused the key" in script.last_line
    assert "wrong_one" not in script.log


async def test_an_error_of_the_application_has_its_traceback_without_the_key(scene: Scene) -> None:
    raising = (
        f"async def on_started(self, *about):\n        raise OSError('{scene.account.api_key}!')"
    )
    source = FIRST.replace("async def on_message", f"{raising}\n\n    async def on_message")
    async with scene.running(source) as script:
        assert await script.end() == Exit.FAILED
    assert 'echo.py", line' in script.log
    assert script.log.splitlines()[-1].startswith("band-trio: OSError: ")
    assert scene.account.api_key not in script.log


WHO = {"BAND_AGENT_ID": "a", "BAND_API_KEY": "k"}
DESK = "desk: {agent_id: d, api_key: k}\n"
AGENT = "band_trio.Agent.create(adapter=Echo(), agent_id='a', api_key='b')"


REFUSED: Final = [
    # arguments, variables, agent_config.yaml, what the line says
    ("Echo()", {}, "", ["no agent id (agent_id= or BAND_AGENT_ID) and no API key"]),
    ("Echo()", {}, DESK, ["agent_config.yaml has no agent 'Echo'", "desk", "name="]),
    ("Echo()", {"BAND_AGENT_ID": "a"}, DESK, ["no API key", "'Echo'", "name="]),
    ("Echo(), name='dusk'", WHO, DESK, ["no agent 'dusk'", "Did you mean 'desk'?"]),
    ("Echo(), config_path='a.yaml'", WHO, DESK, ["a.yaml does not exist"]),
    ("Echo()", {**WHO, "BAND_MAX_CYCLE_SECONDS": "soon"}, "", ["BAND_MAX_CYCLE_SECONDS"]),
    ("Echo()", {**WHO, "BAND_REST_URL": "http://b.example"}, "", ["not encrypted"]),
    ("Echo", WHO, "", ["Echo()"]),
    ("Echo(), grace=-1", WHO, "", ["grace must be zero or more seconds, not -1"]),
    ("Echo(), level='loud'", WHO, "", ["level must be", "WARNING", "'loud'"]),
    (f"{AGENT}, api_key='c', rest_url='d'", {}, "", ["leave out api_key, rest_url"]),
]
FORKS: Final = """
import gc, json, os, signal, sys, band_trio
gc.freeze()
for place, environ, source in json.loads(sys.argv[1]):
    if not (child := os.fork()):
        signal.alarm(10)  # it was to end at once
        os.chdir(place)
        os.environ.update(environ)
        os.dup2(os.open("stderr", os.O_WRONLY | os.O_CREAT), 2)
        exec(compile(source, "echo.py", "exec"), {"__name__": "__main__"})
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Runs programs one by one, each in a process of its own; they share the time of the import."""


@pytest.fixture
def refusals(tmp_path: Path) -> list[tuple[int, str]]:
    """Run all that is refused; return exit codes and what was written to stderr."""
    programs = []
    for number, (arguments, environ, file, _) in enumerate(REFUSED):
        place = tmp_path / str(number)
        place.mkdir()
        if file:
            (place / "agent_config.yaml").write_text(file)
        programs.append((str(place), environ, with_call(f"band_trio.run({arguments})")))
    mine = {k: v for k, v in os.environ.items() if not k.upper().startswith("BAND_")}
    ended = subprocess.run(
        [sys.executable, "-c", FORKS, json.dumps(programs)],
        env={**mine, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    return [
        (int(code), (tmp_path / str(number) / "stderr").read_text())
        for number, code in enumerate(ended.stdout.split())
    ]


@case("C91")
@for_each("number", range(len(REFUSED)), ids=[f"{row[0]} {row[1]} {row[2]}" for row in REFUSED])
def test_what_cannot_be_used_is_one_line_and_exit_2(
    refusals: list[tuple[int, str]], number: int
) -> None:
    code, told = refusals[number]

    assert code == Exit.USAGE, told
    [line] = told.splitlines()
    assert line.startswith("band-trio: ")
    for word in REFUSED[number][3]:
        assert word in line


# --------------------------------------------------------------------------- the bare form

RECIPE = next(text for text in PROGRAMS if "open_signal_receiver" in text)
BARE = SLOW.replace("band_trio.run(Echo())", "pass").replace("import sys, time, trio", "import sys")


@case("C75")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_the_recipe_for_signals_lets_the_turn_finish(scene: Scene, number: int) -> None:
    source = f"""{RECIPE}
{BARE}
agent = band_trio.Agent.create(adapter=Echo(), agent_id={scene.account.id!r},
                               api_key={scene.account.api_key!r})
trio.run(main, agent)
print(agent.report)
"""
    async with scene.running(source) as script:
        message = await scene.say()
        await script.until("handling")
        script.process.send_signal(number)

        assert await script.end() == 0
    assert scene.band.state(message, scene.account) == "processed"
    assert "ShutdownReport(graceful=True, turns_finished=1, " in script.out
    assert script.log == "handling\n"


@case("C75")
async def test_a_second_ctrl_c_cuts_off_the_turn_of_the_recipe(scene: Scene) -> None:
    source = f"""{RECIPE}
{BARE.replace("sleep(1)", "sleep(30)")}
agent = band_trio.Agent.create(adapter=Echo(), agent_id={scene.account.id!r},
                               api_key={scene.account.api_key!r})
trio.run(main, agent)
"""
    async with scene.running(source) as script:
        message = await scene.say()
        await script.until("handling")
        for _ in range(2):
            script.process.send_signal(signal.SIGINT)
            await trio.sleep(0.3)
        with trio.fail_after(10):
            assert await script.end() != 0
    assert scene.band.state(message, scene.account) not in {"processed", "failed"}

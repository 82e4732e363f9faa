"""`serve` and `run` as programs: what they print, signals, exit codes.

What happens to an agent that runs is the same for `band_trio.run`: see tests/test_entry.py.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import httpx  # noqa: ASYNC127 - a client that is not ours
import pytest

from band_trio.entry.exits import Exit
from tests.cli.conftest import Program
from tests.marks import case

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
Start = Callable[..., Program]


@attrs.frozen
class Platform:
    """A `serve` that runs, seen by its person, with one agent in one room."""

    rest_url: str
    user_key: str
    agent_id: str
    api_key: str
    room_id: str

    @property
    def environ(self) -> dict[str, str]:
        """What `run` needs."""
        return {
            "BAND_REST_URL": self.rest_url,
            "BAND_AGENT_ID": self.agent_id,
            "BAND_API_KEY": self.api_key,
        }

    def say(self, content: str) -> str:
        """Write to the agent; return the message's id."""
        mentions = [{"id": self.agent_id}]
        body = {"message": {"content": content, "mentions": mentions}}
        message_id: str = self.post(f"/chats/{self.room_id}/messages", body)["id"]
        return message_id

    def post(self, path: str, body: Any) -> Any:
        """Act as the person."""
        return _post(self.rest_url, self.user_key, path, body)


def _post(rest_url: str, key: str, path: str, body: Any) -> Any:
    url = f"{rest_url}/api/v1/me{path}"
    answer = httpx.post(url, json=body, headers={"X-API-Key": key}, trust_env=False)
    assert answer.is_success, answer.text
    return answer.json()["data"]


@pytest.fixture(scope="module")
def served() -> Generator[tuple[str, str]]:
    """Run one platform for all tests of this file; give its URL and the person's key."""
    with subprocess.Popen(
        [sys.executable, "-m", "band_trio", "serve", "--json"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        where = json.loads(process.stdout.readline())
        assert where.keys() == {"rest_url", "ws_url", "user_key"}
        try:
            yield where["rest_url"], where["user_key"]
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=10) == Exit.OK
        finally:
            process.kill()


@pytest.fixture
def platform(served: tuple[str, str]) -> Platform:
    """Set the scene: one agent in one room."""
    rest_url, key = served
    row = {"agent": {"name": "Echo", "description": "Repeats"}}
    made = _post(rest_url, key, "/agents/register", row)
    agent_id = made["agent"]["id"]
    room_id = _post(rest_url, key, "/chats", {"chat": {}})["id"]
    member = {"participant": {"participant_id": agent_id, "role": "member"}}
    _post(rest_url, key, f"/chats/{room_id}/participants", member)
    return Platform(rest_url, key, agent_id, made["credentials"]["api_key"], room_id)


def test_serve_prints_urls_and_key_and_ends_gracefully(program: Start) -> None:
    serving = program("serve")
    lines = [serving.line() for _ in range(3)]

    assert lines[0].startswith("REST      http://127.0.0.1:")
    assert lines[1].startswith("socket    ws://127.0.0.1:")
    assert lines[2].startswith("user key  thnv_u_")
    serving.signal(signal.SIGTERM)
    ended = serving.end()
    assert ended.code == Exit.OK
    assert ended.err == ""


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_commands_that_serve_prints_work_as_they_are(program: Start) -> None:
    serving = program("serve")
    lines = list(iter(serving.line, "ready; Ctrl-C to stop\n"))
    commands = [first + rest for first, rest in pairwise(lines) if first.startswith("  curl ")]
    assert len(commands) == 4
    made = _run_in_shell(commands[0])["data"]
    agent = made["agent"]["id"]
    room = _run_in_shell(commands[1])["data"]["id"]
    for command in commands[2:]:
        told = _run_in_shell(command.replace("ROOM", room).replace("AGENT", agent))
        assert told["data"]["id"]
    serving.signal(signal.SIGINT)

    assert serving.end().code == Exit.OK


def _run_in_shell(command: str) -> Any:
    done = subprocess.run(
        ["sh", "-c", command.replace("curl -s", "curl -s --noproxy '*'", 1)],
        capture_output=True,
        timeout=20,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", [("serve",), ("run", "made_up:echo")])
def test_a_signal_while_the_command_is_imported_ends_it_quietly(
    program: Start, place: Path, number: int, command: tuple[str, ...]
) -> None:
    # Imported by the package before anything else of weight: the signal comes just then.
    (place / "attrs.py").write_text(f"import os\nos.kill(os.getpid(), {int(number)})\n")
    ended = program(*command, PYTHONPATH=f"{place}{os.pathsep}{ROOT}").end()

    assert (ended.code, ended.out) == (Exit.FORCED, "")
    assert ended.err == "band-trio: interrupted\n"


def test_serve_on_a_port_that_is_taken_is_one_line(platform: Platform, program: Start) -> None:
    port = platform.rest_url.rpartition(":")[2]
    ended = program("serve", "--port", port).end()

    assert ended.code == Exit.FAILED
    assert port in ended.complaint
    assert "already in use" in ended.complaint


@case("C53")
def test_run_starts_answers_and_stops_with_the_first_signal(
    platform: Platform, program: Start
) -> None:
    running = program("run", "made_up:Slow", **platform.environ)
    log = running.log_until("ready")
    assert len(log) <= 6
    text = "".join(log)
    for words in (
        platform.rest_url,
        "connected to ws://",
        "agent Echo",
        platform.agent_id,
        "rooms 1",
        "band_no_reply",
    ):
        assert words in text
    platform.say("hello")
    running.log_until("handling")
    running.signal(signal.SIGINT)
    ended = running.end()

    assert ended.code == Exit.OK
    stopping, stopped = ended.err.splitlines()
    assert "stopping: SIGINT, 1 turn running, up to 30 s" in stopping
    assert "1 settled, 0 abandoned" in stopped
    assert platform.api_key not in text + ended.err


@case("C51")
def test_a_stop_without_enough_grace_is_not_graceful(platform: Platform, program: Start) -> None:
    running = program("run", "made_up:Slow", "--grace", "0.1", **platform.environ)
    running.log_until("ready")
    platform.say("hello")
    running.log_until("handling")
    running.signal(signal.SIGTERM)
    ended = running.end()

    assert ended.code == Exit.FAILED
    assert "0 settled, 1 abandoned" in ended.err


@case("C18")
@pytest.mark.parametrize(("adapter", "code"), [("Quits", 7), ("Interrupts", 130)])
def test_a_handler_may_end_the_process(
    platform: Platform, program: Start, adapter: str, code: int
) -> None:
    running = program("run", f"made_up:{adapter}", **platform.environ)
    running.log_until("ready")
    platform.say("hello")
    ended = running.end()

    assert ended.code == code
    assert "Traceback" not in ended.err
    assert "ExceptionGroup" not in ended.err


def test_an_error_while_cleaning_up_is_told_and_counts(platform: Platform, program: Start) -> None:
    running = program("run", "made_up:Untidy", **platform.environ)
    running.log_until("ready")
    running.signal(signal.SIGINT)
    ended = running.end()

    assert ended.code == Exit.FAILED
    assert "the disk is full" in ended.err


def test_a_wrong_key_is_one_line_that_names_the_url(platform: Platform, program: Start) -> None:
    wrong = "thnv_a_this_is_the_wrong_one"
    ended = program("run", "made_up:echo", **{**platform.environ, "BAND_API_KEY": wrong}).end()

    assert ended.code == Exit.FAILED
    assert platform.rest_url in ended.err.splitlines()[-1]
    assert "refused the key" in ended.err.splitlines()[-1]
    assert wrong not in ended.err
    assert "Traceback" not in ended.err

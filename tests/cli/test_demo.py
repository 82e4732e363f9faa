"""The demo: what it shows, and that it fails when the platform or an agent does."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from io import StringIO
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from band_trio.cli import demo, demo_agents, texts
from band_trio.cli.demo import Demo
from band_trio.cli.demo_contacts import ContactsDemo
from band_trio.cli.transcript import Transcript
from band_trio.entry.console import Console
from band_trio.entry.exits import Exit
from band_trio.entry.signals import StopSignals
from band_trio.localband import LocalBand, open_local_band
from band_trio.tools.protocol import AgentToolsProtocol
from band_trio.types import PlatformMessage

pytestmark = pytest.mark.slow

SCENES = [
    texts.SCENE_QUESTION,
    texts.SCENE_DELEGATION,
    texts.SCENE_TWO_ROOMS,
    texts.SCENE_FAILURE,
    texts.SCENE_CUT,
    texts.SCENE_STOP,
    texts.SCENE_SUMMARY,
]
SHOWN = [
    # a question answered through a tool call, with states and indicator
    r"Clerk: processing 'What is 6 times 7\?'",
    r"Clerk: working …",
    r'Clerk calls band_send_message \{"content":"6 times 7 is 42."',
    r"Clerk → Demo User: 6 times 7 is 42\.",
    r"Clerk: processed 'What is 6 times 7\?'",
    # a peer is found, brought in, and does the work
    r"Guide calls band_lookup_peers",
    r"Guide gets .*Polly: Translates",
    r'Guide calls band_add_participant \{"identifier":"Polly"\}',
    r"Polly joins the room",
    r"Guide → Polly: Translate: good morning",
    r"Guide → Demo User: Polly says: bonjour\.",
    # a handler that raises
    r"Clerk: failed 'What is 1 divided by 0\?', ZeroDivisionError",
    r"Clerk posts an event, error:",
    r"Clerk → Demo User: That is 3\.",
    # a cut in mid-turn
    r"Clerk is disconnected",
    r"Demo User → Clerk: What is 7 times 8\?",
    r"Clerk is connected again \(connection 2\)",
    r"Clerk → Demo User: 7 times 8 is 56\.",
    # the stop
    r"all agents are told to stop",
    r"Clerk → Demo User: 1, 2$",
    r"Clerk stopped gracefully: .* 1 settled, 0 abandoned",
    # the summary
    r"^messages +15 for agents, in 7 rooms$",
    r"^settled +15: 14 processed, 1 failed \(1 meant to\)$",
    r"^reconnects +1$",
    r"^lost +0$",
    r"^Nothing was lost, repeated or out of order\.$",
]


async def perform() -> tuple[Exit, str]:
    """Run the demo in memory; return its exit code and what it wrote."""
    stream = StringIO()
    code = await Demo(Console(stream), memory=True).run()
    return code, stream.getvalue()


def headlines(text: str) -> list[str]:
    """Return the headlines of a transcript."""
    return re.findall(r"^== (.+)$", text, re.MULTILINE)


def assert_in_order(text: str, patterns: list[str]) -> None:
    """Check that each pattern is found, behind the one before it."""
    place = 0
    for pattern in patterns:
        found = re.compile(pattern, re.MULTILINE).search(text, place)
        assert found, f"{pattern!r} is not where it belongs in:\n{text}"
        place = found.start()


async def test_the_demo_shows_all_scenes_and_succeeds(autojump_clock: MockClock) -> None:
    code, text = await perform()

    assert code == Exit.OK
    assert headlines(text) == SCENES
    assert_in_order(text, SHOWN[:14])
    # The stop may come in another order, and so may the lines around the cut.
    for pattern in SHOWN[14:]:
        assert re.search(pattern, text, re.MULTILINE), pattern


async def test_two_rooms_go_on_at_the_same_time_each_in_order(autojump_clock: MockClock) -> None:
    _, text = await perform()
    answers = re.findall(r"(North|South) +Clerk → Demo User: Step (\d)", text)

    assert [step for room, step in answers if room == "North"] == ["1", "2", "3"]
    assert [step for room, step in answers if room == "South"] == ["1", "2", "3"]
    assert {room for room, _ in answers[:2]} == {"North", "South"}


async def test_an_agent_that_answers_twice_fails_the_demo(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def talkative(transcript: Transcript) -> demo_agents.DemoAdapter:
        rules = demo_agents.polly(transcript)
        say = rules._send

        async def twice(text: str, msg: PlatformMessage, tools: AgentToolsProtocol) -> None:
            await say(text, msg, tools)
            await tools.send_message("And once more.", mentions=[transcript.band.user.id])

        monkeypatch.setattr(rules, "_send", twice)
        return rules

    monkeypatch.setitem(demo_agents.MAKERS, "Polly", talkative)
    code, text = await perform()

    assert code == Exit.FAILED
    assert "Travel/Polly has 2 answers to 1 messages" in text
    assert "Nothing was lost" not in text


async def test_a_platform_that_loses_a_mark_fails_the_demo(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def keep_marks_away(band: LocalBand) -> None:
        await trio.lowlevel.checkpoint()
        band.faults.refuse(503, route="processed", times=None)

    _disturb(monkeypatch, keep_marks_away)
    code, text = await perform()

    assert code == Exit.FAILED
    assert "'What is 6 times 7?' is processing, not processed" in text
    assert "not finished within" in text


def _disturb(
    monkeypatch: pytest.MonkeyPatch, disturb: Callable[[LocalBand], Awaitable[None]]
) -> None:
    @asynccontextmanager
    async def disturbed(**options: Any) -> AsyncGenerator[LocalBand]:
        async with open_local_band(**options) as band:
            await disturb(band)
            yield band

    monkeypatch.setattr(demo, "open_local_band", disturbed)


class _Trigger(StringIO):
    """Sends the first signal once a line was written."""

    def __init__(self, line: str, signals: StopSignals) -> None:
        super().__init__()
        self._line, self._signals = line, signals

    def write(self, text: str) -> int:
        if self._line in text and self._signals.first is None:
            self._signals.handle(signal.SIGINT, None)
        return super().write(text)


async def perform_until(line: str, *, keep: bool) -> tuple[Exit, str]:
    """Run the demo in memory; the first signal comes when *line* is written."""
    signals = StopSignals()
    stream = _Trigger(line, signals)
    code = await Demo(Console(stream), keep=keep, memory=True, signals=signals).run()
    return code, stream.getvalue()


async def test_the_demo_stays_up_on_request(autojump_clock: MockClock) -> None:
    code, text = await perform_until("ready; Ctrl-C to stop", keep=True)

    assert code == Exit.OK
    up = text.index("ready; Ctrl-C to stop")
    assert "Nothing was lost" in text[:up]
    assert "user key  thnv_u_" in text[:up]
    assert "Clerk stopped gracefully" in text[up:]
    assert "is disconnected: the link is shutting down" not in text[:up]


async def test_an_interrupted_demo_stops_gracefully_and_judges_nothing(
    autojump_clock: MockClock,
) -> None:
    code, text = await perform_until("Clerk: working", keep=False)

    assert code == Exit.OK
    assert headlines(text) == [texts.SCENE_QUESTION]
    assert "Clerk stopped gracefully: in" in text
    assert "interrupted; not judged" in text
    assert "Nothing was lost" not in text


def test_the_demo_runs_as_a_program_in_a_pipe() -> None:
    began = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-m", "band_trio", "demo"],
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stderr == ""
    assert headlines(ended.stdout) == SCENES
    assert "\x1b" not in ended.stdout
    assert time.monotonic() - began < 20


async def test_two_agents_of_different_people_get_to_know_each_other(
    autojump_clock: MockClock,
) -> None:
    shown = StringIO()
    assert await ContactsDemo(Console(shown), memory=True).run() is Exit.OK
    text = shown.getvalue()
    for line in (
        "Scout posts an event, task: Contact request from @demo-user/planner",
        "Scout posts an event, thought: Approved",
        "Planner → Scout: Which day is the best one?",
        "Planner → Demo User: The best day is Sunday.",
        texts.CONTACTS_GOOD,
    ):
        assert line in text, text

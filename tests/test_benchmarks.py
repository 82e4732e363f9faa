"""Each benchmark runs, and what it prints has all its rows; the sizes are as small as they go."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.journey import profiled

ROOT = Path(__file__).parent.parent

pytestmark = pytest.mark.slow


def run(name: str, *arguments: str) -> dict[str, list[str]]:
    """Run a benchmark; return the figures of each row by the row's name."""
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    rows = [re.split(r"\s{2,}", line.strip()) for line in done.stdout.splitlines()]
    return {name: figures for name, *figures in rows}


def are_positive(figures: list[str]) -> bool:
    return bool(figures) and all(float(figure) > 0 for figure in figures)


@pytest.mark.parametrize("extra", [(), ("--replies",)], ids=["settle", "replies"])
def test_throughput(extra: tuple[str, ...]) -> None:
    rows = run("throughput", "--messages=12", "--rooms=3", "--rounds=1", *extra)

    for name in (
        "bare loop, one connection each",
        "bare loop, httpx pool",
        "bare loop, httpx client",
        "agent, live",
        "agent, backlog",
    ):
        assert len(rows[name]) == 6
        assert are_positive(rows[name])
    assert rows["bare loop, one connection each"][1] == "1.00"


def test_latency() -> None:
    rows = run("latency", "--messages=3")

    for name in ("bare loop, claim and settle", "agent, sent to claimed", "agent, sent to settled"):
        assert len(rows[name]) == 2
        assert are_positive(rows[name])
    assert float(rows["agent, sent to claimed"][0]) < float(rows["agent, sent to settled"][0])


def test_rooms() -> None:
    rows = run("rooms", "--rooms=30", "--few=2", "--messages=30", "--rounds=1")

    assert len(rows["30 rooms"]) == len(rows["2 rooms"]) == 4
    assert are_positive(rows["30 rooms"])


def test_first_burst() -> None:
    rows = run("first_burst", "3x2", "5x1", "--rounds=1")

    for name in ("3 rooms x 2", "5 rooms x 1"):
        for burst in ("first", "second"):
            figures = rows[f"{name}, {burst} burst"]
            assert len(figures) == 3
            assert are_positive(figures)
            assert float(figures[2]) >= 2  # each message is claimed and settled


def test_idle() -> None:
    rows = run("idle", "--rooms=30", "--traced-rooms=10", "--rest=0.5", "--settling=0")

    assert are_positive(rows["ready"])
    assert are_positive(rows["all rooms read"])
    assert float(rows["ready"][0]) <= float(rows["all rooms read"][0])
    assert are_positive(rows["process, MB"])
    assert are_positive(rows["Python objects, kB/room"])
    assert are_positive(rows["of a core, %"])
    assert float(rows["requests/s"][0]) >= 0


def test_journey_shows_each_step() -> None:
    rows = run("journey", "--show")

    assert int(rows["files in all"][0]) > 10
    assert any("ExecutionContext" in name or "Room" in name for name in rows)


def test_a_message_stays_in_few_files() -> None:
    """Counts frames, not time: it is the same on every machine."""
    journey = profiled()

    assert journey.changes <= 60
    assert len(journey.files) <= 35


def test_imports() -> None:
    rows = run("imports", "--rounds=1")

    assert rows.keys() >= {"nothing", "the dependencies", "band_trio"}
    assert are_positive(rows["band_trio"])


def test_bridge() -> None:
    rows = run("bridge", "--times=5", "--rounds=1")

    for name in ("a call", "a callback", "a turn without a bridge", "a turn over the bridge"):
        assert len(rows[name]) == 2
        assert are_positive(rows[name])


def test_journal() -> None:
    rows = run("journal", "--messages=60", "--examples=2")

    for way in ("alone", "played", "driven"):
        assert are_positive(rows[way])

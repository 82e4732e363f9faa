"""Each benchmark runs, and what it prints has all its rows; the sizes are as small as they go."""

from __future__ import annotations

import pytest

from benchmarks.journey import profiled
from tests.support.benchmark import Benchmark, are_positive
from tests.support.for_each import for_each

pytestmark = pytest.mark.slow


@pytest.fixture
def benchmark(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Benchmark:
    return Benchmark(capsys, monkeypatch)


@for_each("extra", [(), ("--replies",)], ids=["settle", "replies"])
def test_throughput(benchmark: Benchmark, extra: tuple[str, ...]) -> None:
    rows = benchmark.run("throughput", "--messages=12", "--rooms=3", "--rounds=1", *extra)

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


def test_latency(benchmark: Benchmark) -> None:
    rows = benchmark.run("latency", "--messages=3")

    for name in ("bare loop, claim and settle", "agent, sent to claimed", "agent, sent to settled"):
        assert len(rows[name]) == 2
        assert are_positive(rows[name])
    assert float(rows["agent, sent to claimed"][0]) < float(rows["agent, sent to settled"][0])


def test_rooms(benchmark: Benchmark) -> None:
    rows = benchmark.run("rooms", "--rooms=30", "--few=2", "--messages=30", "--rounds=1")

    assert len(rows["30 rooms"]) == len(rows["2 rooms"]) == 4
    assert are_positive(rows["30 rooms"])


def test_first_burst(benchmark: Benchmark) -> None:
    rows = benchmark.run("first_burst", "3x2", "5x1", "--rounds=1")

    for name in ("3 rooms x 2", "5 rooms x 1"):
        for burst in ("first", "second"):
            figures = rows[f"{name}, {burst} burst"]
            assert len(figures) == 3
            assert are_positive(figures)
            assert float(figures[2]) >= 2  # each message is claimed and settled


def test_idle(benchmark: Benchmark) -> None:
    rows = benchmark.run("idle", "--rooms=30", "--traced-rooms=10", "--rest=0.5", "--settling=0")

    assert are_positive(rows["ready"])
    assert are_positive(rows["all rooms read"])
    assert float(rows["ready"][0]) <= float(rows["all rooms read"][0])
    assert are_positive(rows["process, MB"])
    assert are_positive(rows["Python objects, kB/room"])
    assert are_positive(rows["of a core, %"])
    assert float(rows["requests/s"][0]) >= 0


def test_journey_shows_each_step(benchmark: Benchmark) -> None:
    rows = benchmark.run("journey", "--show")

    assert int(rows["files in all"][0]) > 10
    assert any("ExecutionContext" in name or "Room" in name for name in rows)


def test_a_message_stays_in_few_files() -> None:
    """Counts frames, not time: it is the same on every machine."""
    journey = profiled()

    assert journey.changes <= 60
    assert len(journey.files) <= 35


def test_imports(benchmark: Benchmark) -> None:
    rows = benchmark.run("imports", "--rounds=1")

    assert rows.keys() >= {"nothing", "the dependencies", "band_trio"}
    assert are_positive(rows["band_trio"])


def test_bridge(benchmark: Benchmark) -> None:
    rows = benchmark.run("bridge", "--times=5", "--rounds=1")

    for name in ("a call", "a callback", "a turn without a bridge", "a turn over the bridge"):
        assert len(rows[name]) == 2
        assert are_positive(rows[name])


def test_journal(benchmark: Benchmark) -> None:
    rows = benchmark.run("journal", "--messages=60", "--examples=2")

    for way in ("alone", "played", "driven"):
        assert are_positive(rows[way])

"""How fast the journal of a room is: what it is told and asked per second, without a loop.

The room and the platform around it are those of its state machine in the tests. "Alone" is the
time inside the journal's own methods, "played" with all that plays the room, "driven" with
hypothesis, which chooses what happens, and with everything that is checked after each step.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from band_trio.config.agent import SessionConfig
from band_trio.runtime.journal.journal import Journal
from benchmarks.harness import table
from tests.machine.journal_room import Room
from tests.machine.test_journal_machine import JournalMachine

METHODS: Final = (
    "next", "pushed", "listed", "chosen", "claim_answered", "run_began", "turn_ended",
    "mark_answered", "read_began", "read_ended",
)  # fmt: skip
BURST: Final = 20
"""Messages that are pushed at once."""


def play(messages: int) -> tuple[int, float]:
    """Run so many messages in bursts; return the moves and the seconds of processor time."""
    room = Room(SessionConfig())
    while room.journal.reads.dirty:
        room.go_on()
    began, moves = time.process_time(), room.moves
    for _ in range(messages // BURST):
        room.now += 2.0
        for posted in [room.post() for _ in range(BURST)]:
            room.push(posted.row())
        while room.platform.actionable():
            room.go_on()
        room.platform.messages.clear()
    return room.moves - moves, time.process_time() - began


def alone(messages: int) -> tuple[int, float]:
    """Do the same, and return how often the journal's methods were called and their seconds."""
    calls, seconds, depth = 0, 0.0, 0

    def timed(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def run(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls, seconds, depth
            depth += 1
            began = time.perf_counter()
            try:
                return method(*args, **kwargs)
            finally:
                depth -= 1
                if not depth:
                    calls, seconds = calls + 1, seconds + time.perf_counter() - began

        return run

    real = {name: getattr(Journal, name) for name in METHODS}
    for name, method in real.items():
        setattr(Journal, name, timed(method))
    try:
        play(messages)
    finally:
        for name, method in real.items():
            setattr(Journal, name, method)
    return calls, seconds


def drive(examples: int) -> tuple[int, float]:
    """Run the state machine; return the moves and the seconds of processor time."""
    moves = 0

    class Counted(JournalMachine):
        def teardown(self) -> None:
            nonlocal moves
            super().teardown()
            moves += self.room.moves

    began = time.process_time()
    run_state_machine_as_test(
        Counted,
        settings=settings(
            max_examples=examples, stateful_step_count=40, deadline=None, database=None,
            phases=[Phase.generate], suppress_health_check=list(HealthCheck),
        ),
    )  # fmt: skip
    return moves, time.process_time() - began


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=2000)
    parser.add_argument("--examples", type=int, default=100)
    options = parser.parse_args(argv)
    ways = {
        "alone": alone(options.messages),
        "played": play(options.messages),
        "driven": drive(options.examples),
    }
    rows = [
        (name, f"{moves}", f"{moves / seconds:.0f}", f"{seconds / moves * 1e6:.1f}")
        for name, (moves, seconds) in ways.items()
    ]
    table("the journal alone", ("", "moves", "moves/s", "us each"), rows)


if __name__ == "__main__":
    main()

"""The demo's verdict can fail: records with a flaw are recognised, those without pass."""

from __future__ import annotations

from typing import Any

import attrs

from band_trio.cli.demo_summary import Summary
from band_trio.cli.verdict import Asked, Conversation, Step, judge, rooms_at_once
from tests.support.for_each import for_each


def asked(number: int, state: str = "processed", **more: object) -> Asked:
    """Make a message that was run once."""
    fields: dict[str, object] = {"attempts": ("success",), **more}
    return Asked(f"m{number}", f"message {number}", state, **fields)  # type: ignore[arg-type]


def run(*numbers: int, at: float = 0.0) -> tuple[Step, ...]:
    """Return the steps of messages that ran one after the other, a second each."""
    steps = []
    for place, number in enumerate(numbers):
        steps += [Step(f"m{number}", True, at + place), Step(f"m{number}", False, at + place + 0.9)]
    return tuple(steps)


GOOD = Conversation(
    agent="Clerk",
    room="Desk",
    asked=(asked(1), asked(2), asked(3, "failed", attempts=("failed",), must_fail=True)),
    steps=run(1, 2, 3),
    answers=2,
    errors=1,
)


def test_a_flawless_record_passes() -> None:
    verdict = judge([GOOD])

    assert verdict.problems == []
    assert (verdict.messages, verdict.settled, verdict.failed, verdict.meant_to_fail) == (
        3,
        3,
        1,
        1,
    )


def _with(number: int, other: Asked) -> Conversation:
    return attrs.evolve(GOOD, asked=tuple(other if a.id == f"m{number}" else a for a in GOOD.asked))


LOST = {
    "never claimed": _with(1, asked(1, "delivered", attempts=())),
    "still running": _with(1, asked(1, "processing", attempts=("processing",))),
    "failed without being meant to": _with(1, asked(1, "failed", attempts=("failed",))),
    "processed although it was to fail": _with(3, asked(3, must_fail=True)),
    "marked but never run": attrs.evolve(GOOD, steps=run(2, 3)),
    "not answered": attrs.evolve(GOOD, answers=1),
    "the room was not told": attrs.evolve(GOOD, errors=0),
}
REPEATED = {
    "run twice": attrs.evolve(GOOD, steps=run(1, 2, 1, 3)),
    "two attempts": _with(1, asked(1, attempts=("failed", "success"))),
    "answered twice": attrs.evolve(GOOD, answers=3),
    "reported twice": attrs.evolve(GOOD, errors=2),
}
DISORDERED = {
    "swapped": attrs.evolve(GOOD, steps=run(2, 1, 3)),
    "unknown": attrs.evolve(GOOD, steps=run(1, 2, 3, 9)),
    "two at once": attrs.evolve(
        GOOD, steps=(Step("m1", True), Step("m2", True), Step("m1", False), *run(3))
    ),
}


@for_each("talk", LOST.values(), ids=LOST)
def test_a_lost_message_is_noticed(talk: Conversation) -> None:
    assert judge([GOOD, talk]).lost


@for_each("talk", REPEATED.values(), ids=REPEATED)
def test_a_repeated_message_is_noticed(talk: Conversation) -> None:
    assert judge([GOOD, talk]).repeated


@for_each("talk", DISORDERED.values(), ids=DISORDERED)
def test_a_message_out_of_order_is_noticed(talk: Conversation) -> None:
    assert judge([GOOD, talk]).out_of_order


def test_rooms_at_once_counts_rooms_and_not_messages() -> None:
    north = attrs.evolve(GOOD, room="North", steps=run(1, 2, 3))
    south = attrs.evolve(GOOD, room="South", steps=run(1, 2, 3, at=0.5))
    later = attrs.evolve(GOOD, room="Later", steps=run(1, at=10))

    assert rooms_at_once([north]) == 1
    assert rooms_at_once([north, later]) == 1
    assert rooms_at_once([north, south, later]) == 2
    assert rooms_at_once([]) == 0


@for_each(
    "flaw",
    [
        {"verdict": judge([attrs.evolve(GOOD, answers=0)])},
        {"at_once": 1},
        {"reconnects": 0},
        {"unfinished": ("scene 3",)},
    ],
    ids=lambda flaw: next(iter(flaw)),
)
def test_the_summary_names_each_problem(flaw: dict[str, Any]) -> None:
    good = Summary(judge([GOOD]), rooms=1, at_once=2, reconnects=1)
    bad = attrs.evolve(good, **flaw)

    assert good.problems == []
    assert good.lines()[-1][0].startswith("Nothing was lost")
    assert len(bad.problems) == 1
    assert any(bad.problems[0] in line for line, _ in bad.lines())
    assert not any(line.startswith("Nothing was lost") for line, _ in bad.lines())

"""Was anything lost, repeated or out of order? A pure function of records.

What the platform stored is one witness, what the agents' observers saw is the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import attrs


@attrs.frozen
class Asked:
    """One message for an agent, as the platform stored it."""

    id: str
    text: str
    state: str
    """What the platform has: `processed`, `failed`, or something unfinished."""
    attempts: tuple[str, ...]
    """How each run ended, as the platform counted them."""
    must_fail: bool = False
    """The scene wants its handler to raise."""

    @property
    def wanted(self) -> str:
        """The state that it must end in."""
        return "failed" if self.must_fail else "processed"


@attrs.frozen
class Step:
    """A handler began or ended, as the agent's observer saw it."""

    message_id: str
    begins: bool
    at: float = 0.0


@attrs.frozen(kw_only=True)
class Conversation:
    """Everything between one room and one agent."""

    agent: str
    room: str
    asked: tuple[Asked, ...]
    """In the order of the platform."""
    steps: tuple[Step, ...]
    """In the order in which they happened."""
    answers: int
    """Messages that the agent sent to the room: one per message that it processed."""
    errors: int
    """Error events that the room shows from the agent: one per failed message."""

    @property
    def begun(self) -> list[str]:
        """Ids in the order in which handlers began."""
        return [step.message_id for step in self.steps if step.begins]


@attrs.frozen
class Verdict:
    """Problems in words, by kind."""

    messages: int
    settled: int
    failed: int
    meant_to_fail: int
    lost: tuple[str, ...]
    repeated: tuple[str, ...]
    out_of_order: tuple[str, ...]

    @property
    def problems(self) -> list[str]:
        """Everything that is wrong."""
        return [*self.lost, *self.repeated, *self.out_of_order]


def judge(conversations: Sequence[Conversation]) -> Verdict:
    """Compare what was asked with what came of it."""
    asked = [each for talk in conversations for each in talk.asked]
    return Verdict(
        messages=len(asked),
        settled=sum(each.state in ("processed", "failed") for each in asked),
        failed=sum(each.state == "failed" for each in asked),
        meant_to_fail=sum(each.must_fail for each in asked),
        lost=tuple(problem for talk in conversations for problem in _lost(talk)),
        repeated=tuple(problem for talk in conversations for problem in _repeated(talk)),
        out_of_order=tuple(problem for talk in conversations for problem in _disorder(talk)),
    )


def _where(talk: Conversation, text: str | None = None) -> str:
    return f"{talk.room}/{talk.agent}" + (f" {text!r}" if text is not None else "")


def _lost(talk: Conversation) -> Iterable[str]:
    begun = set(talk.begun)
    for each in talk.asked:
        if each.state != each.wanted:
            yield f"{_where(talk, each.text)} is {each.state}, not {each.wanted}"
        elif each.id not in begun:
            yield f"{_where(talk, each.text)} is {each.state}, but no handler ever ran"
    wanted = sum(not each.must_fail for each in talk.asked)
    if talk.answers < wanted:
        yield f"{_where(talk)} has {talk.answers} answers to {wanted} messages"
    failing = len(talk.asked) - wanted
    if talk.errors < failing:
        yield f"{_where(talk)} shows {talk.errors} errors for {failing} failed messages"


def _repeated(talk: Conversation) -> Iterable[str]:
    runs = Counter(talk.begun)
    for each in talk.asked:
        count = max(runs[each.id], len(each.attempts))
        if count > 1:
            yield f"{_where(talk, each.text)} was run {count} times"
    wanted = sum(not each.must_fail for each in talk.asked)
    if talk.answers > wanted:
        yield f"{_where(talk)} has {talk.answers} answers to {wanted} messages"
    if talk.errors > len(talk.asked) - wanted:
        yield f"{_where(talk)} shows {talk.errors} errors"


def _disorder(talk: Conversation) -> Iterable[str]:
    known = {each.id: number for number, each in enumerate(talk.asked)}
    first = list(dict.fromkeys(talk.begun))
    for unknown in (each for each in first if each not in known):
        yield f"{_where(talk)} ran {unknown}, which the platform does not have"
    places = [known[each] for each in first if each in known]
    if places != sorted(places):
        yield f"{_where(talk)} ran its messages in the order {[place + 1 for place in places]}"
    running = 0
    for step in talk.steps:
        running += 1 if step.begins else -1
        if running > 1:
            yield f"{_where(talk)} ran two messages at once"
            break


def rooms_at_once(conversations: Iterable[Conversation]) -> int:
    """Return in how many rooms handlers ran at the same time, at most."""
    steps = sorted(
        (step.at, step.begins, talk.room) for talk in conversations for step in talk.steps
    )
    running: Counter[str] = Counter()
    most = 0
    for _, begins, room in steps:
        running[room] += 1 if begins else -1
        most = max(most, sum(count > 0 for count in running.values()))
    return most

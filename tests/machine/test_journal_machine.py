"""A journal that is driven at random, without a loop, a clock or a request.

`pytest tests/machine --hypothesis-profile=deep` runs ten thousand examples and more.
"""

from __future__ import annotations

from itertools import cycle, islice
from typing import Final

import attrs
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from band_trio.config.agent import SessionConfig
from band_trio.protocol.events import Mode
from band_trio.protocol.rest import ChatMessage
from band_trio.runtime.journal import entries
from band_trio.runtime.journal.entries import Phase
from tests.machine.journal_model import FAULTS, Fault
from tests.machine.journal_room import HowEnded, Room, Where
from tests.marks import case, guarantee

_EXAMPLES: Final = {"ci": 60, "deep": 10_000}
_STEPS: Final = {"ci": 40, "deep": 60}
_PROFILE: Final = settings.get_current_profile_name()
SETTINGS: Final = settings(
    max_examples=_EXAMPLES.get(_PROFILE, 20),
    stateful_step_count=_STEPS.get(_PROFILE, 40),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
SMALL: Final = {
    Phase.LISTED: 6,
    Phase.CONFIRMED: 3,
    Phase.ASIDE: 3,
    Phase.REFUSED: 6,
    Phase.GIVEN_UP: 2,
}
"""Bounds that are hit often."""
SESSION: Final = SessionConfig(
    retry_base_seconds=4, retry_cap_seconds=30, hold_seconds=12, refused_recheck_seconds=100,
    idle_resync_seconds=60, idle_resync_max_seconds=120, room_hints=3, room_unsettled=2,
)  # fmt: skip

ENDS: Final[tuple[HowEnded, ...]] = ("done", "failed", "not accepted")
faults = st.sampled_from(FAULTS)
answers = st.sampled_from([(fault, how) for fault in FAULTS for how in ENDS])
stands: st.SearchStrategy[Where | None] = st.sampled_from(
    [None, "choose", "claim", "turn", "mark", "page"]
)
places = st.integers(0, 20)
NEAR: Final = 12
"""Steps in which a room comes to any place, if it has something to do."""
MESSAGES: Final = 14
"""Most messages of one example."""


class JournalMachine(RuleBasedStateMachine):
    """Messages and their pushes, answers of every kind, controls, memberships, connections."""

    room: Room
    late: list[ChatMessage]
    """Pushes under way: they arrive later, in any order, or never."""
    controls: int

    @initialize(
        budget=st.integers(1, 3),
        before=st.lists(st.sampled_from(["new", "live", "failed", "processed"]), max_size=4),
        live=st.booleans(),
    )
    def begin(self, budget: int, before: list[str], live: bool) -> None:
        self.room = Room(attrs.evolve(SESSION, max_message_retries=budget))
        self.late, self.controls = [], 0
        for how in before:
            posted = self.room.post()
            self.late.append(posted.row())
            posted.live, posted.failed = how == "live", int(how == "failed")
            posted.processed = how == "processed"
        if live:  # it has read its list, and is idle
            self.go_on_well(50)

    # ------------------------------------------------------------------ messages

    @rule(pushes=st.lists(st.sampled_from(["now", "twice", "behind", "later", "lost"]), max_size=3))
    def say(self, pushes: list[str]) -> None:
        behind = []
        for push in pushes[: MESSAGES - len(self.room.watch.notes)]:
            row = self.room.post().row()
            for _ in range({"now": 1, "twice": 2}.get(push, 0)):
                self.room.push(row)
            if push in ("later", "twice"):
                self.late.append(row)
            elif push == "behind":
                behind.append(row)
            self.room.now += 0.125
        for row in behind:
            self.room.push(row)

    @rule(which=places)
    def arrive(self, which: int) -> None:
        if self.late:
            self.room.push(self.late[which % len(self.late)])

    @rule(which=places, pushed=st.booleans(), deleted=st.booleans())
    def edit(self, which: int, pushed: bool, deleted: bool) -> None:
        messages = self.room.platform.actionable()
        if not messages:
            return
        posted = messages[which % len(messages)]
        self.late.append(posted.row())
        posted.text, posted.deleted = posted.text + 1, deleted
        if pushed and not deleted:
            self.room.push(posted.row())

    @rule(which=places)
    def consume(self, which: int) -> None:
        rows = [p.row() for p in self.room.platform.actionable() if self.room.may_consume(p)]
        if rows and self.room.at is not None:
            self.room.consume(rows[which % len(rows)])

    # ------------------------------------------------------------------ answers

    @rule(answers=st.lists(answers, min_size=1, max_size=8))
    def answer(self, answers: list[tuple[Fault, HowEnded]]) -> None:
        for fault, how in answers:
            self.room.step(fault, how)

    @rule(answers=st.lists(answers, min_size=1, max_size=4), steps=st.integers(1, 40))
    def go_on(self, answers: list[tuple[Fault, HowEnded]], steps: int) -> None:
        for fault, how in islice(cycle(answers), steps):
            self.room.go_on(fault, how)

    @rule(steps=st.integers(1, 40))
    def go_on_well(self, steps: int) -> None:
        for _ in range(steps):
            self.room.go_on()

    @rule(fault=faults)
    def settle(self, fault: Fault) -> None:
        self.room.retry_marks(fault)

    @rule(seconds=st.sampled_from([0.25, 1.0, 3.0, 10.0, 40.0, 130.0]))
    def pass_time(self, seconds: float) -> None:
        self.room.now += seconds

    # ------------------------------------------------------------------ controls, connections

    @rule(
        mode=st.sampled_from(["interrupt", "stop", "play"]), push=st.integers(0, 2), during=stands
    )
    def control(self, mode: Mode, push: int, during: Where | None) -> None:
        self._go_to(during)
        if mode != "interrupt":
            self.room.platform.stopped = mode == "stop"
        self.controls += 1
        for _ in range(push if self.room.at is not None else 0):
            self.room.control(mode, f"{self.controls}")

    @rule(what=st.sampled_from(["joined", "new_epoch", "breaks", "leave"]), during=stands)
    def disturb(self, what: str, during: Where | None) -> None:
        self._go_to(during)
        if self.room.at is None:
            self.room.come_back()
        else:
            getattr(self.room, what)()

    def _go_to(self, where: Where | None) -> None:
        for _ in range(NEAR if where is not None else 0):
            if self.room.at is None or self.room.at.what == where:
                return
            self.room.go_on()

    # ------------------------------------------------------------------ what must hold

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "room"):
            self.room.watch.check()

    def teardown(self) -> None:
        if hasattr(self, "room"):
            self.room.finish()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for phase, capacity in SMALL.items():
        monkeypatch.setitem(entries.CAPACITY, phase, capacity)


@guarantee(1, 4, 5, 11, 12, 14, 19, 21, 26, 34, 36, 50, 77)
@case("C95")
@pytest.mark.usefixtures("small")
def test_one_journal() -> None:
    run_state_machine_as_test(JournalMachine, settings=SETTINGS)

"""The states of a message for one agent, against a model that is too simple to be wrong."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from band_trio.localband import control, posting
from band_trio.localband.delivery import Inbox, Shelf, State
from band_trio.localband.paging import View
from band_trio.localband.party import Agent
from band_trio.localband.room import Message
from band_trio.localband.world import World
from band_trio.stores.refusal import Refusal

START = datetime(2026, 1, 1, tzinfo=UTC)


def make_world() -> World:
    ids, ticks = count(1), count()
    return World(lambda: START + timedelta(seconds=next(ticks)), lambda: f"id-{next(ids)}")


class DeliveryMachine(RuleBasedStateMachine):
    """The model per (message, agent): the list of attempts, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.world = make_world()
        self.user = self.world.add_user("Ann")
        self.agents = [self.world.add_agent(self.user, name, "d") for name in ("One", "Two")]
        self.room = self.world.create_room(self.user, None)
        for agent in self.agents:
            self.world.add_participant(self.room, self.user, agent.id, "member")
        self.attempts: dict[tuple[str, str], list[str]] = {}
        self.order: dict[str, list[str]] = {agent.id: [] for agent in self.agents}
        self.stopped = False

    agents: list[Agent]

    def message(self, index: int) -> Message | None:
        texts = [row for row in self.room.messages if row.message_type == "text"]
        return texts[index % len(texts)] if texts else None

    @rule(
        mentioned=st.sets(st.integers(0, 1), min_size=1),
        kind=st.sampled_from(["mention", "reference"]),
    )
    def send(self, mentioned: set[int], kind: str) -> None:
        agents = [self.agents[i] for i in sorted(mentioned)]
        items = [{"id": agent.id, "kind": kind} for agent in agents]
        body = {"message": {"content": "hi", "mentions": items}}
        sent = posting.post_message(self.world, self.room, self.user, body)
        if kind == "mention":
            for agent in agents:
                self.order[agent.id].append(sent.id)

    @rule(who=st.integers(0, 1))
    def note(self, who: int) -> None:
        if not self.stopped:
            body = {"event": {"content": "x", "message_type": "thought"}}
            posting.post_event(self.world, self.room, self.agents[who], body)

    @rule(who=st.integers(0, 1), index=st.integers(0, 50))
    def claim(self, who: int, index: int) -> None:
        message, agent = self.message(index), self.agents[who]
        if message is None:
            return
        delivery = posting.claim(self.world, self.room, agent, message.id)
        if self.stopped:
            assert delivery is None
            return
        runs = self.attempts.setdefault((message.id, agent.id), [])
        if not runs or runs[-1] != "processing":
            runs.append("processing")
        assert delivery is not None
        assert delivery.attempt_number == len(runs)

    @rule(who=st.integers(0, 1), index=st.integers(0, 50), good=st.booleans())
    def settle(self, who: int, index: int, good: bool) -> None:
        message, agent = self.message(index), self.agents[who]
        if message is None:
            return
        state = State.PROCESSED if good else State.FAILED
        runs = self.attempts.setdefault((message.id, agent.id), [])
        live = bool(runs) and runs[-1] == "processing"
        if not live and not self.stopped:
            with pytest.raises(Refusal) as caught:
                posting.settle(self.world, self.room, agent, message.id, state, {"error": "e"})
            assert caught.value.status == 422
            assert caught.value.details == {"/processing_attempt": ["must be started first"]}
            return
        answer = posting.settle(self.world, self.room, agent, message.id, state, {"error": "e"})
        assert (answer is None) is self.stopped
        if not self.stopped:
            runs[-1] = "success" if good else "failed"

    @rule()
    def stop(self) -> None:
        control.stop_room(self.world, self.room)
        self.stopped = True

    @rule()
    def play(self) -> None:
        control.play_room(self.world, self.room)
        self.stopped = False

    def expected(self, agent: Agent, wanted: set[str | None]) -> list[str]:
        """Ids addressed to *agent* whose last attempt is one of *wanted* (None: no attempt)."""
        rows = []
        for message_id in self.order[agent.id]:
            runs = self.attempts.get((message_id, agent.id), [])
            if (runs[-1] if runs else None) in wanted:
                rows.append(message_id)
        return rows

    @invariant()
    def lists_say_what_the_attempts_say(self) -> None:
        open_ones: set[str | None] = {None, "processing", "failed"}
        wanted: dict[Shelf, set[str | None]] = {
            Shelf.OPEN: open_ones,
            Shelf.PENDING: {None, "failed"},
            Shelf.PROCESSING: {"processing"},
            Shelf.FAILED: {"failed"},
            Shelf.PROCESSED: {"success"},
            Shelf.ALL: {None, "processing", "failed", "success"},
        }
        for agent in self.agents:
            inbox = self.room.inboxes.get(agent.id, Inbox())
            for shelf, states in wanted.items():
                listed = [self.room.messages[n].id for n in inbox.rows(shelf)]
                assert listed == self.expected(agent, states), shelf
            oldest = self.expected(agent, open_ones)[:1] if not self.stopped else []
            found = posting.next_message(self.room, agent)
            assert ([found.id] if found else []) == oldest

    @invariant()
    def attempts_are_listed(self) -> None:
        for (message_id, agent_id), runs in self.attempts.items():
            shown: dict[str, Any] = self.world.messages[message_id].render()["metadata"]
            attempts = shown.get("delivery_status", {}).get(agent_id, {}).get("attempts", [])
            assert [each["status"] for each in attempts] == runs
            assert [each["attempt_number"] for each in attempts] == list(range(1, len(runs) + 1))


TestDelivery = DeliveryMachine.TestCase


def test_times_never_repeat_even_when_the_clock_stands() -> None:
    world = World(lambda: START, lambda: "x")
    stamps = [world.stamp() for _ in range(5)]

    assert stamps == sorted(set(stamps))


def test_a_repeated_claim_changes_nothing() -> None:
    world = make_world()
    user = world.add_user("Ann")
    agent = world.add_agent(user, "One", "d")
    room = world.create_room(user, None)
    world.add_participant(room, user, agent.id, "member")
    body = {"message": {"content": "hi", "mentions": [{"id": agent.id}]}}
    message = posting.post_message(world, room, user, body)
    posting.claim(world, room, agent, message.id)
    before = message.render()
    posting.claim(world, room, agent, message.id)

    assert message.render() == before


def test_failed_needs_a_reason_that_can_be_seen() -> None:
    world = make_world()
    user = world.add_user("Ann")
    agent = world.add_agent(user, "One", "d")
    room = world.create_room(user, None)
    world.add_participant(room, user, agent.id, "member")
    body = {"message": {"content": "hi", "mentions": [{"id": agent.id}]}}
    message = posting.post_message(world, room, user, body)
    posting.claim(world, room, agent, message.id)
    for bad in (None, {}, {"error": " \u200b"}, {"error": 5}):
        with pytest.raises(Refusal) as caught:
            posting.settle(world, room, agent, message.id, State.FAILED, bad)
        assert caught.value.details is not None
        assert list(caught.value.details) == ["/error"]

    posting.settle(world, room, agent, message.id, State.FAILED, {"error": "no"})
    assert message.deliveries[agent.id].attempts[0].error == "no"


def test_a_busy_room_stays_fast() -> None:
    """20 000 messages: the index, not the history, is what `next` and a page look at."""
    rows = list(range(20_000))
    inbox = Inbox()
    for number in rows:
        inbox.add(number)
    looked_at = 0

    class Counting(list[int]):
        def __getitem__(self, key: Any) -> Any:
            nonlocal looked_at
            looked_at += len(range(*key.indices(len(self)))) if isinstance(key, slice) else 1
            return super().__getitem__(key)

    for number in rows[:10_000]:
        inbox.move(number, State.NONE, State.PROCESSED)
    view = View("x", Counting(inbox.rows(Shelf.OPEN)))
    first = view.page({"limit": 100}, 20)
    view.page({"limit": 100, "cursor": first.metadata["next_cursor"]}, 20)

    assert inbox.oldest == 10_000
    assert looked_at < 250

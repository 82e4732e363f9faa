"""The table of topics: any interleaving of wishes, answers, ends and time converges."""

from __future__ import annotations

import math

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from band_trio.link.channel.topics import TopicChange, TopicTable
from band_trio.protocol.phoenix import CLOSE, ERROR, JOIN, LEAVE, REPLY, Frame, Signal

FIRST = "agent_control:a"
TOPICS = [f"chat_room:{n}" for n in range(6)]
PARALLEL = 3


class TopicMachine(RuleBasedStateMachine):
    """A platform that is a dict: topic → the join that holds. The table must come to agree."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.refs = 0
        self.inbox: list[Frame] = []
        """Frames of ours that the platform has not handled."""
        self.holds: dict[str, str] = {}
        self.reports: list[tuple[str, TopicChange]] = []
        self.dirty = False
        self.table = TopicTable(FIRST, PARALLEL, 10.0, self.next_ref, self.report, lambda: None)
        self.table.changed = self.note_change
        self.table.begin()
        self.settle()

    def next_ref(self) -> str:
        self.refs += 1
        return str(self.refs)

    def report(self, topic: str, change: TopicChange, reason: str) -> None:
        assert topic in self.table.wanted
        self.reports.append((topic, change))

    def note_change(self) -> None:
        self.dirty = True

    def settle(self) -> None:
        """What the keeper does after each change and each timer."""
        self.dirty = False
        self.inbox += self.table.advance(self.now)

    def answer(self, frame: Frame, status: str) -> None:
        if frame.event == JOIN and status == "ok":
            self.holds[frame.topic] = str(frame.ref)
        if frame.event == LEAVE:
            self.holds.pop(frame.topic, None)
        reply = {"status": status, "response": {}}
        self.table.receive(Frame(frame.join_ref, frame.ref, frame.topic, REPLY, reply), self.now)

    @initialize()
    def begin_with_some(self) -> None:
        for topic in TOPICS[:4]:
            self.table.want(topic)
        self.settle()

    @rule(topic=st.sampled_from(TOPICS))
    def want(self, topic: str) -> None:
        self.table.want(topic)

    @rule(topic=st.sampled_from([FIRST, *TOPICS]))
    def unwant(self, topic: str) -> None:
        self.table.unwant(topic)

    @precondition(lambda self: self.dirty)
    @rule()
    def keep(self) -> None:
        self.settle()

    @precondition(lambda self: self.inbox)
    @rule(status=st.sampled_from(["ok", "ok", "error"]))
    def handle_one(self, status: str) -> None:
        self.answer(self.inbox.pop(0), status)

    @precondition(lambda self: self.inbox)
    @rule()
    def lose_one(self) -> None:
        frame = self.inbox.pop(0)
        if frame.event == LEAVE:
            self.holds.pop(frame.topic, None)

    @precondition(lambda self: self.holds)
    @rule(data=st.data(), event=st.sampled_from([ERROR, CLOSE]))
    def end_one(self, data: st.DataObject, event: str) -> None:
        topic = data.draw(st.sampled_from(sorted(self.holds)))
        ref = self.holds.pop(topic)
        self.table.receive(Frame(ref, ref, topic, event), self.now)

    @rule(topic=st.sampled_from(TOPICS), event=st.sampled_from([ERROR, CLOSE, REPLY]))
    def old_frame(self, topic: str, event: str) -> None:
        before = self.table.joined
        self.table.receive(Frame("old", "old", topic, event), self.now)
        assert self.table.joined == before

    @rule(seconds=st.sampled_from([0.1, 1.0, 7.0, 40.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.settle()

    @rule()
    def reconnect(self) -> None:
        self.inbox.clear()
        self.holds.clear()
        self.table.begin()
        self.settle()
        assert [frame.topic for frame in self.inbox] == [FIRST]

    @invariant()
    def limits_hold(self) -> None:
        assert len(self.table._joining) <= PARALLEL
        assert 0 <= self.table.joined <= len(TOPICS) + 1
        assert FIRST in self.table.wanted

    def teardown(self) -> None:
        """When everything is answered, the platform holds exactly what is wanted."""
        for _ in range(400):
            self.settle()
            while self.inbox:
                self.answer(self.inbox.pop(0), "ok")
            self.now = min(self.table.wake_at(), self.now + 30)
        assert set(self.holds) >= set(self.table.wanted)
        assert self.table.pending() == []
        assert self.table.joined == len(self.table.wanted)
        assert set(self.table._members) == set(self.table.wanted)


TestTopics = TopicMachine.TestCase


def new_table() -> TopicTable:
    refs = iter(map(str, range(1, 99)))
    return TopicTable(FIRST, 2, 10, lambda: next(refs), lambda *_: None)


def accept(table: TopicTable, frame: Frame, now: float) -> None:
    reply = Frame(frame.join_ref, frame.ref, frame.topic, REPLY, {"status": "ok"})
    table.receive(reply, now)


def joined(topic: str) -> TopicTable:
    """A table that has joined the first topic and *topic*, at time 0."""
    table = new_table()
    table.want(topic)
    table.begin()
    for _ in (FIRST, topic):
        (frame,) = table.advance(0)
        accept(table, frame, 0)
    assert table.pending() == []
    return table


def test_wishes_before_there_is_a_socket_are_kept_in_order() -> None:
    table = new_table()
    for topic in ("t:1", "t:2", "t:3", "t:1"):
        table.want(topic)
    table.unwant("t:2")
    table.unwant("t:2")
    table.unwant(FIRST)
    assert list(table.wanted) == [FIRST, "t:1", "t:3"]
    assert table.pending() == [FIRST, "t:1", "t:3"]


def test_a_topic_wanted_again_before_it_was_left_stays() -> None:
    table = joined("t:1")
    table.unwant("t:1")
    table.want("t:1")
    assert table.advance(0) == []
    assert table.pending() == []


def test_a_topic_that_crashes_while_it_is_to_be_left_is_forgotten() -> None:
    table = joined("t:1")
    table.unwant("t:1")
    table.receive(Frame(None, None, "t:1", ERROR), 0)
    assert table.advance(60) == []
    table.want("t:1")
    assert [frame.event for frame in table.advance(60)] == [JOIN]


def test_a_topic_that_waits_for_its_next_join_is_dropped_at_once() -> None:
    table = joined("t:1")
    table.receive(Frame(None, None, "t:1", ERROR), 0)
    table.unwant("t:1")
    assert table.advance(60) == []
    assert table.receive(Frame(None, None, "t:1", "message_created"), 60) is Signal.STALE


def test_a_leave_without_an_answer_ends_after_its_time() -> None:
    table = joined("t:1")
    table.unwant("t:1")
    assert [frame.event for frame in table.advance(0)] == [LEAVE]
    assert table.joined == 1
    table.want("t:1")
    assert table.advance(0.9) == []
    assert [frame.event for frame in table.advance(1)] == [JOIN]


def test_a_join_that_is_unwanted_before_its_answer_is_left_and_not_reported() -> None:
    heard: list[str] = []
    table = joined("t:1")
    table.report = lambda topic, change, reason: heard.append(change)
    table.want("t:2")
    (join,) = table.advance(0)
    table.unwant("t:2")
    accept(table, join, 0)
    assert [frame.event for frame in table.advance(0)] == [LEAVE]
    assert heard == []


def test_nothing_is_joined_before_the_first_topic_is_answered() -> None:
    table = new_table()
    table.want("chat_room:1")
    table.begin()
    assert [frame.topic for frame in table.advance(0)] == [FIRST]
    assert table.advance(9.9) == []
    assert [frame.topic for frame in table.advance(10)] == ["chat_room:1"]  # it had its time


def test_the_back_off_of_a_topic_begins_anew_after_a_long_life() -> None:
    table = new_table()
    table.begin()
    now = 0.0
    (frame,) = table.advance(now)
    waits = []
    for life in (0.0, 0.0, 0.0, 31.0):
        table.receive(Frame(frame.ref, frame.ref, FIRST, REPLY, {"status": "ok"}), now)
        ended = now = now + life
        table.receive(Frame(frame.ref, frame.ref, FIRST, ERROR), now)
        frames: list[Frame] = []
        while not frames:
            now += 0.01
            frames = table.advance(now)
        (frame,) = frames
        waits.append(now - ended)

    for wait, most in zip(waits, [0.5, 1, 2, 0.5], strict=True):
        assert most / 2 <= wait <= most + 0.02


def test_a_join_that_was_answered_wakes_nobody() -> None:
    machine = TopicMachine()
    for topic in TOPICS:
        machine.table.want(topic)
    while machine.inbox or machine.dirty:
        machine.settle()
        while machine.inbox:
            machine.answer(machine.inbox.pop(0), "ok")
    assert not machine.table.pending()
    assert machine.table.wake_at() == math.inf

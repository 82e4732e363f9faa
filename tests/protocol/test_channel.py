"""The life of one topic: against a platform that is too simple to be wrong, and case by case."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from band_trio.protocol.errors import LocalStateError
from band_trio.protocol.phoenix import (
    CLOSE,
    ERROR,
    JOIN,
    LEAVE,
    REPLY,
    Channel,
    Frame,
    Phase,
    Signal,
)
from tests.marks import guarantee
from tests.support.for_each import for_each

TOPIC = "chat_room:r1"


class ChannelMachine(RuleBasedStateMachine):
    """One client and one platform, joined by two pipes that are slow but in order.

    The platform knows one thing: the join that holds, if any. What must be true of the client
    follows from that alone once both pipes are empty.
    """

    def __init__(self) -> None:
        super().__init__()
        self.channel = Channel(TOPIC)
        self.last_ref = 0
        self.abandoned = False  # a join or leave may have worked without our knowing
        self.up: deque[Frame] = deque()
        self.down: deque[Frame] = deque()
        self.holds: str | None = None
        self.pushes: dict[str | None, int] = {}
        self.heard: dict[str | None, int] = {}

    def ref(self) -> str:
        self.last_ref += 1
        return str(self.last_ref)

    # the client

    @precondition(lambda self: self.channel.phase is not Phase.LEAVING)
    @rule()
    def join(self) -> None:
        ref = self.ref()
        frame = self.channel.join(ref)
        assert frame == Frame(ref, ref, TOPIC, JOIN, {})
        self.abandoned = False
        self.up.append(frame)

    @precondition(lambda self: self.channel.phase in (Phase.JOINED, Phase.JOINING))
    @rule()
    def leave(self) -> None:
        ref = self.ref()
        frame = self.channel.leave(ref)
        assert frame == Frame(self.channel.join_ref, ref, TOPIC, LEAVE, {})
        self.up.append(frame)

    @precondition(lambda self: self.channel.phase in (Phase.JOINING, Phase.LEAVING))
    @rule()
    def give_up_waiting(self) -> None:
        self.channel.abandon()
        self.abandoned = True
        assert self.channel.phase is Phase.IDLE

    @precondition(lambda self: self.channel.phase is Phase.LEAVING)
    @rule()
    def joining_while_leaving_is_our_bug(self) -> None:
        with pytest.raises(LocalStateError):
            self.channel.join("x")

    @precondition(lambda self: self.channel.phase in (Phase.IDLE, Phase.LEAVING))
    @rule()
    def leaving_what_is_not_joined_is_our_bug(self) -> None:
        with pytest.raises(LocalStateError):
            self.channel.leave("x")

    # the platform

    @precondition(lambda self: self.up)
    @rule(ok=st.booleans())
    def answer(self, ok: bool = True) -> None:
        frame = self.up.popleft()
        if frame.event == JOIN:
            if self.holds is not None:  # the old join ends first
                self.down.append(Frame(self.holds, self.holds, TOPIC, CLOSE))
            self.holds = frame.ref if ok else None
        elif self.holds == frame.join_ref:
            self.holds = None
        status: dict[str, Any] = {"status": "ok" if ok else "error", "response": {}}
        self.down.append(Frame(frame.join_ref, frame.ref, TOPIC, REPLY, status))

    @precondition(lambda self: self.holds)
    @rule()
    def push(self) -> None:
        count = self.pushes[self.holds] = self.pushes.get(self.holds, 0) + 1
        self.down.append(Frame(self.holds, None, TOPIC, "message_created", {"n": count}))

    @precondition(lambda self: self.holds)
    @rule(event=st.sampled_from([ERROR, CLOSE]))
    def end(self, event: str) -> None:
        self.down.append(Frame(self.holds, self.holds, TOPIC, event))
        self.holds = None

    # the pipe down

    @precondition(lambda self: self.down)
    @rule()
    def deliver(self) -> None:
        frame = self.down.popleft()
        before = self.channel.phase
        signal = self.channel.receive(frame)
        after = self.channel.phase
        if frame.join_ref != self.channel.join_ref:
            assert signal is Signal.STALE
        if signal is Signal.STALE:
            assert after is before
        elif signal is Signal.PUSH:
            assert before is after is Phase.JOINED
            self.heard[frame.join_ref] = self.heard.get(frame.join_ref, 0) + 1
            assert frame.payload["n"] == self.heard[frame.join_ref]  # in order, none missing
        elif signal is Signal.JOINED:
            assert (before, after) == (Phase.JOINING, Phase.JOINED)
        elif signal is Signal.LEFT:
            assert (before, after) == (Phase.LEAVING, Phase.IDLE)
        else:
            ended = {ERROR: Signal.CRASHED, CLOSE: Signal.CLOSED, REPLY: Signal.REJECTED}
            assert signal is ended[frame.event]
            assert before in (Phase.JOINED, Phase.JOINING)
            assert after is Phase.IDLE

    @invariant()
    def both_agree_when_nothing_is_under_way(self) -> None:
        if self.up or self.down:
            return
        assert self.channel.phase in (Phase.JOINED, Phase.IDLE)
        if self.channel.phase is Phase.JOINED:
            assert self.channel.join_ref == self.holds
            assert self.heard.get(self.holds) == self.pushes.get(self.holds)
        elif not self.abandoned:
            assert self.holds is None

    def teardown(self) -> None:
        while self.up or self.down:
            if self.up:
                self.answer(ok=True)
            if self.down:
                self.deliver()
        self.both_agree_when_nothing_is_under_way()


TestChannel = ChannelMachine.TestCase


# --------------------------------------------------------------------------- case by case


def ok(ref: str, join_ref: str | None = None) -> Frame:
    return Frame(join_ref or ref, ref, TOPIC, REPLY, {"status": "ok", "response": {}})


@pytest.fixture
def joined() -> Channel:
    channel = Channel(TOPIC)
    channel.join("7")
    assert channel.receive(ok("7")) is Signal.JOINED
    return channel


@guarantee(28)
def test_a_late_end_of_an_old_join_kills_nothing(joined: Channel) -> None:
    for event in (ERROR, CLOSE, REPLY, "message_created"):
        assert joined.receive(Frame("3", "3", TOPIC, event, {"status": "ok"})) is Signal.STALE
    assert joined.receive(Frame("7", None, TOPIC, "message_created")) is Signal.PUSH

    assert joined.receive(Frame("7", "7", TOPIC, ERROR)) is Signal.CRASHED
    assert joined.phase is Phase.IDLE
    assert joined.join("9").ref == "9"


def test_a_crash_during_a_join_ends_it(joined: Channel) -> None:
    joined.join("8")

    assert joined.receive(Frame("8", "8", TOPIC, ERROR)) is Signal.CRASHED
    assert joined.receive(ok("8")) is Signal.STALE
    assert joined.phase is Phase.IDLE


def test_frames_without_a_join_reference_are_accepted(joined: Channel) -> None:
    assert joined.receive(Frame(None, None, TOPIC, "message_created")) is Signal.PUSH
    assert joined.receive(Frame(None, None, TOPIC, CLOSE)) is Signal.CLOSED
    assert joined.receive(Frame(None, None, TOPIC, CLOSE)) is Signal.STALE


def test_pushes_before_the_join_reply_do_not_count() -> None:
    channel = Channel(TOPIC)
    channel.join("1")

    assert channel.receive(Frame("1", None, TOPIC, "message_created")) is Signal.STALE


def test_the_first_reply_decides_a_join(joined: Channel) -> None:
    refused = Frame("7", "7", TOPIC, REPLY, {"status": "error", "response": {"reason": "late"}})

    assert joined.receive(refused) is Signal.STALE
    assert joined.phase is Phase.JOINED


@for_each(
    ("payload", "reason"),
    [
        ({"status": "error", "response": {"reason": "unauthorized"}}, "unauthorized"),
        ({"status": "error", "response": {"reason": {"odd": 1}}}, "no reason given"),
        ({"status": "error", "response": "unauthorized"}, "no reason given"),
        ({"status": "error"}, "no reason given"),
        ({"status": "OK"}, "no reason given"),
        ({"status": ["ok"]}, "no reason given"),
        ({}, "no reason given"),
    ],
)
def test_everything_but_ok_rejects_a_join(payload: dict[str, object], reason: str) -> None:
    channel = Channel(TOPIC)
    channel.join("1")

    assert channel.receive(Frame("1", "1", TOPIC, REPLY, payload)) is Signal.REJECTED
    assert (channel.phase, channel.reason) == (Phase.IDLE, reason)


def test_a_reply_to_another_request_decides_nothing(joined: Channel) -> None:
    joined.join("8")
    for join_ref in (None, "8"):
        assert joined.receive(Frame(join_ref, "7", TOPIC, REPLY, {"status": "ok"})) is Signal.STALE
        assert joined.receive(Frame(join_ref, None, TOPIC, REPLY, {"status": "ok"})) is Signal.STALE
    assert joined.phase is Phase.JOINING


def test_a_rejoin_replaces_the_join(joined: Channel) -> None:
    joined.join("8")

    assert joined.receive(Frame("7", "7", TOPIC, CLOSE)) is Signal.STALE
    assert joined.receive(ok("8")) is Signal.JOINED
    assert joined.receive(Frame("8", None, TOPIC, "message_created")) is Signal.PUSH


@pytest.mark.parametrize("event", [ERROR, CLOSE])
def test_an_end_completes_a_leave(joined: Channel, event: str) -> None:
    joined.leave("8")

    assert joined.receive(Frame("7", None, TOPIC, "message_created")) is Signal.STALE
    assert joined.receive(Frame("7", "7", TOPIC, event)) is Signal.LEFT
    assert joined.receive(ok("8", "7")) is Signal.STALE
    assert joined.phase is Phase.IDLE


def test_the_join_reply_does_not_complete_a_leave() -> None:
    channel = Channel(TOPIC)
    channel.join("1")
    channel.leave("2")

    assert channel.receive(ok("1")) is Signal.STALE
    assert channel.receive(ok("2", "1")) is Signal.LEFT


def test_a_late_answer_to_an_abandoned_leave_is_stale(joined: Channel) -> None:
    joined.leave("8")
    joined.abandon()

    assert joined.receive(ok("8", "7")) is Signal.STALE
    joined.join("9")
    assert joined.receive(ok("8", "7")) is Signal.STALE
    assert joined.phase is Phase.JOINING

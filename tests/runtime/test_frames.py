"""Bad frames, and everything else hanging: the dispatcher goes on, at once."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from band_trio import SessionConfig
from band_trio.link.channel.state import LinkListener
from band_trio.runtime.journal import journal
from band_trio.runtime.membership import presence
from band_trio.runtime.room import journals
from band_trio.runtime.room.execution import ExecutionContext
from band_trio.runtime.run.dispatcher import Dispatcher
from band_trio.runtime.turn import roster
from band_trio.trace import Controlled, EpochBegan, RoomServed, Started
from tests.marks import guarantee
from tests.runtime.harness import Call, Stage, reply, stage
from tests.runtime.views import hang
from tests.support.for_each import for_each

# ------------------------------------------------------------------ frames of no use

Bad = Callable[[str, str], str]
"""Given a room's id and the reference of its join: the text of one frame."""


def on_room(event: str, payload: Any) -> Bad:
    def make(room: str, joined: str) -> str:
        return json.dumps([joined, None, f"chat_room:{room}", event, payload])

    return make


def raw(text: str) -> Bad:
    return lambda room, joined: text


COUNTED: dict[str, Bad] = {
    "no json": raw("{"),
    "empty": raw(""),
    "a number": raw("7"),
    "an object": raw('{"topic": "x"}'),
    "too short": raw('["1", "2", "topic"]'),
    "too long": raw('["1", "2", "topic", "event", {}, {}]'),
    "odd refs": raw('[{}, [], "chat_room:x", "event", {}]'),
    "topic is no text": raw('["1", null, 5, "event", {}]'),
    "no payload": on_room("message_created", None),
    "payload is a list": on_room("message_created", [1, 2]),
    "no id": on_room("message_created", {"content": "x"}),
    "id is a number": on_room("message_created", {"id": 5, "content": "x"}),
    "deep": raw("[" * 50_000),
}
IGNORED: dict[str, Bad] = {
    "unknown event": on_room("message_exploded", {"id": "x"}),
    "unknown topic": raw(json.dumps([None, None, "moon:1", "message_created", {"id": "x"}])),
    "reply to nothing": raw(json.dumps(["9", "9", "chat_room:x", "phx_reply", {"status": "ok"}])),
    "stale join": raw(json.dumps(["99999", None, "chat_room:x", "phx_close", {}])),
    "heartbeat of theirs": raw(json.dumps([None, "7", "phoenix", "heartbeat", {}])),
}


async def ready(here: Stage, text: str = "first") -> str:
    """Make a room and run one message in it, so that its topics are joined."""
    room = await here.room()
    await here.settled(await here.say(room, text))
    await trio.sleep(1)
    return room


@guarantee(78)
@for_each("frame", [*COUNTED, *IGNORED])
async def test_a_bad_frame_costs_that_frame_only(
    frame: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage() as here, here.running() as agent:
        room = await ready(here)
        session = here.band.session(here.account)
        assert session is not None
        before = agent.health().dropped_frames
        text = {**COUNTED, **IGNORED}[frame](room, session.joined[f"chat_room:{room}"] or "")
        reads = len(here.band.log.requests(party_id=here.account.id))
        assert here.band.send_raw(here.account, text)
        await trio.testing.wait_all_tasks_blocked()
        after = agent.health()
        assert after.dropped_frames - before == (frame in COUNTED)
        assert (after.epoch, after.connected) == (1, True)
        assert len(here.band.log.requests(party_id=here.account.id)) == reads, "no side effect"
        message = await here.say(room, "next")
        await trio.testing.wait_all_tasks_blocked()
        assert here.band.state(message, here.account) == "processed", "the live path still works"
        assert len(here.seen(EpochBegan)) == 1


@guarantee(78)
async def test_bad_optional_fields_do_not_cost_the_event(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here, here.running() as agent:
        room = await ready(here)

        def spoil(frame: Any) -> str:
            row = json.loads(frame.dump())
            row[4]["sender_name"] = {"not": "text"}
            row[4]["chat_room_id"] = 5
            row[4]["surprise"] = [1]
            return json.dumps(row)

        here.band.faults.alter(spoil, event="message_created", agent=here.account)
        message = await here.say(room, "odd")
        await trio.testing.wait_all_tasks_blocked()
        assert here.band.state(message, here.account) == "processed"
        assert agent.health().dropped_frames == 0


@guarantee(78)
async def test_a_thousand_bad_frames_between_two_messages(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with stage() as here, here.running() as agent:
        room = await ready(here)
        for number in range(1000):
            here.band.send_raw(here.account, f'["bad", {number}')
        message = await here.say(room, "next")
        await here.settled(message)
        assert agent.health().dropped_frames == 1000
        assert agent.health().epoch == 1
        lines = [r for r in caplog.records if "dropped" in r.getMessage()]
        assert len(lines) <= 5, "repeated lines are counted, not written"


NOISE: dict[str, Bad] = {
    "an invalid event": on_room("message_created", {"id": 5}),
    "a bad field": on_room(
        "message_created",
        {"id": "x", "content": "x", "message_type": "text", "inserted_at": "never"}
        | {"sender_id": "s", "sender_type": "User"},
    ),
    "a control of no room": lambda room, joined: json.dumps(
        [
            *(None, None, "agent_control:{me}", "agent.control"),
            {"mode": "stop", "scope": "room", "agent_id": "a", "correlation_id": "c"},
        ]
    ),
}


@guarantee(78)
@pytest.mark.parametrize("kind", NOISE)
async def test_what_repeats_in_the_log_is_counted(
    kind: str, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with stage() as here, here.running():
        room = await ready(here)
        session = here.band.session(here.account)
        assert session is not None
        frame = NOISE[kind](room, session.joined[f"chat_room:{room}"] or "")
        caplog.clear()
        for _ in range(200):
            here.band.send_raw(here.account, frame.replace("{me}", here.account.id))
            await trio.sleep(0.1)
        lines = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
        assert len(lines) == 3, lines


@guarantee(33)
async def test_a_roster_that_many_rooms_cannot_read_is_a_few_lines(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def decline(call: Call) -> None:
        await call.tools.no_reply("nothing to say")

    async with stage(decline) as here, here.running():
        rooms = [await here.room() for _ in range(20)]
        here.band.faults.refuse(500, route="participants", times=None)
        await here.settled(*[await here.say(room, "M") for room in rooms])
        lines = [m for m in caplog.messages if "the roster could not be read" in m]
        assert len(lines) == 3


# ------------------------------------------------------------------ nothing to wait for


@guarantee(80)
async def test_pushes_take_effect_while_every_request_and_every_hook_hangs(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each in the very moment in which it arrives: no virtual time passes."""
    async with stage() as here:
        session = SessionConfig(hook_seconds=500, control_hook_seconds=500)

        async def hooks(*args: object) -> None:
            await trio.sleep_forever()

        async with here.running(session, grace=0) as agent:
            busy, stopped, left = [await ready(here, f"r{n}") for n in range(3)]
            await here.band.user.add(busy, here.band.register_agent("Other"))
            here.adapter.behaviour = hang
            for hook in ("on_interrupt", "on_cleanup"):
                monkeypatch.setattr(here.adapter, hook, hooks)
            for room in (busy, stopped, left):
                await here.say(room, "hang")
            await trio.testing.wait_all_tasks_blocked()
            assert len(here.adapter.running) == 3
            mine = here.account.id
            here.band.faults.hang(when=lambda facts: facts.agent_id == mine, times=None)
            at = trio.current_time()

            here.band.signal(here.account, "stop", room_id=stopped)
            await here.band.user.remove(left, here.account)
            added = await here.room()
            for number in range(200):
                await here.say(busy, f"m{number}")
            await trio.testing.wait_all_tasks_blocked()

            assert [(e.room_id, e.mode) for e in here.seen(Controlled)] == [(stopped, "stop")]
            assert [call.room_id for call in here.adapter.running] == [busy]
            assert added in [event.room_id for event in here.seen(RoomServed)]
            assert agent.health().rooms == {"turn": 1, "stopped": 1, "sync": 1}
            assert trio.current_time() == at
            await trio.sleep(200)
            assert agent.health().epoch == 1, "heartbeats are answered all the while"
            here.band.faults.clear()
            monkeypatch.undo()


@guarantee(80)
async def test_a_handler_of_one_room_is_started_while_another_blocks_everything_it_can(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        here.adapter.behaviour = reply
        async with here.running():
            slow, quick = await ready(here, "a"), await ready(here, "b")
            here.band.faults.hang(room=slow, times=None)
            await here.say(slow, "stuck")
            await trio.testing.wait_all_tasks_blocked()
            at = trio.current_time()
            await here.settled(await here.say(quick, "now"))
            assert trio.current_time() == at
            assert here.seen(Started)[-1].room_id == quick
            here.band.faults.clear()


@guarantee(80)
def test_what_the_dispatcher_calls_cannot_wait() -> None:
    """The listener and all that it reaches are plain functions, by their source."""
    listener = [name for name in vars(LinkListener) if not name.startswith("_")]
    assert sorted(listener) == ["connected", "disconnected", "joined", "lost", "pushed"]
    functions: list[Any] = [getattr(Dispatcher, name) for name in listener]
    functions += [
        getattr(presence.RoomPresence, name)
        for name in (
            "added",
            "removed",
            "control",
            "control_all",
            "relist",
            "new_epoch",
            "_withdraw",
        )
    ]
    functions += [
        getattr(ExecutionContext, name)
        for name in ("offer", "joined", "control", "new_epoch", "leave", "observe_stop")
    ]
    for whole in (journal.Journal, journals.Journals):
        functions += [each for each in vars(whole).values() if inspect.isfunction(each)]
    functions += [roster.Roster.added, roster.Roster.removed]
    assert not any(inspect.iscoroutinefunction(each) for each in functions)
    tree = ast.parse(inspect.getsource(inspect.getmodule(Dispatcher)))  # type: ignore[arg-type]
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Await | ast.AsyncFor)]


@guarantee(80)
@pytest.mark.parametrize("kind", [ValueError, asyncio.CancelledError])
async def test_a_room_filter_that_raises_is_a_room_not_wanted(
    kind: type[BaseException],
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with stage() as here:
        bad, good = await here.room("bad"), await here.room("good")

        def choose(room_id: str, title: str | None) -> bool:
            if title == "bad":
                raise kind("a filter with a bug")
            return True

        async with here.running(room_filter=choose) as agent:
            late = await here.room("bad")
            for room in (bad, late):
                await here.say(room, "m")
            await here.settled(await here.say(good, "m"))
            await trio.sleep(100)
            assert agent.health().rooms == {"idle": 1}
        assert [call.room_id for call in here.adapter.calls] == [good]
        assert "a filter with a bug" in caplog.text

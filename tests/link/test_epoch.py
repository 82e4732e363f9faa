"""One connection: frames, heartbeats, the writer, and how it ends."""

from __future__ import annotations

import logging
from collections import deque

import pytest
import trio
import trio.testing

from band_trio.errors import BandPolicyError, BandSupersededError
from band_trio.link.channel.socket import MESSAGE_BYTES
from band_trio.protocol.events import chat_room
from band_trio.trace import EpochBegan, EpochEnded, Joined
from tests.link.link_kit import AGENT, CONTROL, KEY, ROOMS, World, open_world
from tests.link.phoenix_peer import until
from tests.marks import case, guarantee
from tests.support.for_each import for_each

ROOM = chat_room("r1")
SUPERSEDE = {"reason": "session.already_connected", "message": "newer", "correlation_id": None}


async def test_connects_with_the_key_in_a_header_and_joins_control_first(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_world() as world:
        world.link.want(ROOMS)
        world.link.want(ROOM)
        await world.start()
        await world.fully_joined()

        upgrade = world.peer.upgrades[0]
        assert upgrade.path == f"/api/v1/socket/websocket?zone=b&vsn=2.0.0&agent_id={AGENT}"
        assert upgrade.headers["x-api-key"] == KEY
        assert world.peer.last.sent("phx_join") == [CONTROL, ROOMS, ROOM]
        assert [f.ref for _, f in world.peer.last.frames] == ["1", "2", "3"]
        assert world.seen.calls == [
            ("connected", 1),
            ("joined", CONTROL),
            ("joined", ROOMS),
            ("joined", ROOM),
        ]
        assert world.trace[0] == EpochBegan(1)
        assert Joined(ROOM, "ok") in world.trace
        assert world.link.health().pending == []


async def test_pushes_reach_the_listener_whatever_the_join_ref(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_world() as world:
        world.link.want(ROOM)
        await world.start()
        await world.fully_joined()
        peer = world.peer.last
        await peer.push(ROOM, "message_created", {"id": "m1"})
        await peer.frame(None, None, ROOM, "message_created", {"id": "m2"})
        await peer.frame("99", None, ROOM, "message_created", {"id": "stale"})
        await peer.frame(None, None, "chat_room:unknown", "message_created", {"id": "foreign"})
        await until(lambda: len(world.seen.of("pushed")) == 2)

        assert world.seen.of("pushed") == [
            (ROOM, "message_created", {"id": "m1"}),
            (ROOM, "message_created", {"id": "m2"}),
        ]


@guarantee(78)
async def test_a_malformed_frame_costs_that_frame_only(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_world() as world:
        world.link.want(ROOM)
        await world.start()
        await world.fully_joined()
        peer = world.peer.last
        bad: list[str | bytes] = ["", "{", "[]", "[1,2,3]", '["1",null,"","x",{}]', b"\xff\xfe"]
        for text in bad:
            await peer.raw(text)
        await peer.push(CONTROL, "supersede", {"reason": 7})
        await peer.push(ROOM, "message_created", {"id": "m1"})
        await until(lambda: world.seen.of("pushed"))

        assert world.link.health().dropped_frames == len(bad) + 1
        assert world.link.is_connected
        assert world.link.epoch == 1


async def test_heartbeats_go_out_and_keep_the_connection(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_world() as world:
        await world.start()
        began = trio.current_time()
        await trio.sleep(3601)

        beats = [at - began for at, f in world.peer.last.frames if f.event == "heartbeat"]
        assert beats == pytest.approx([30.0 * n for n in range(1, 121)])
        assert world.link.epoch == 1
        assert world.link.health().last_heartbeat_reply == pytest.approx(began + 3600)


@guarantee(62)
async def test_a_mute_peer_is_dropped_although_it_pushes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_world() as world:
        world.link.want(ROOM)
        await world.start()
        await world.fully_joined()
        world.peer.mute_heartbeats = True
        peer, began = world.peer.last, world.peer.last.opened_at

        async def chatter() -> None:
            while world.link.epoch == 1 and world.link.is_connected:
                await peer.push(ROOM, "message_created", {"id": "m"})
                await trio.sleep(1.0)

        world.nursery.start_soon(chatter)
        # Not `is_connected`: the next connection may be there before anybody looks.
        await until(lambda: bool(world.seen.of("disconnected")), 100, every=0.05)

        assert 60 <= trio.current_time() - began < 60.3
        assert world.seen.of("disconnected") == [(1, "no heartbeat reply for 60 s")]
        await until(lambda: world.link.is_connected)
        assert world.peer.connections[0].closes == 1  # 1006: the stream went without a goodbye
        assert world.peer.connections[0].close_code == 1006


@case("C46")
async def test_a_reply_behind_unread_frames_is_not_lost(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """2000 frames and then the reply arrive in the very moment when patience is over."""
    async with open_world() as world:
        world.link.want(ROOM)
        await world.start()
        await world.fully_joined()
        world.peer.mute_heartbeats = True
        peer = world.peer.last
        await until(lambda: peer.sent("heartbeat"))
        ref = peer.frames[-1][1].ref
        await trio.sleep_until(peer.opened_at + 60)
        for n in range(2000):
            await peer.push(ROOM, "message_created", {"id": str(n)})
        await peer.frame(None, ref, "phoenix", "phx_reply", {"status": "ok", "response": {}})
        world.peer.mute_heartbeats = False
        await trio.sleep(1)

        assert world.link.epoch == 1
        assert world.link.is_connected
        assert len(world.seen.of("pushed")) == 2000


@guarantee(62)
async def test_one_drop_is_one_reconnect(autojump_clock: trio.testing.MockClock) -> None:
    """The reader sees the end of the stream while the writer fails on a full queue of joins."""
    async with open_world() as world:
        await world.start()
        await world.peer.last.fin()
        for n in range(20):
            world.link.want(chat_room(str(n)))
        await until(lambda: world.link.epoch == 2 and world.link.health().joined == 21)

        assert len(world.peer.attempts) == 2
        assert [call[0] for call in world.seen.of("disconnected")] == [1]
        ended = [event for event in world.trace if isinstance(event, EpochEnded)]
        assert len(ended) == 1


@guarantee(62)
async def test_is_connected_tells_the_truth(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as world:
        before = world.link.is_connected
        await world.start()
        after = world.link.is_connected
        assert (before, after) == (False, True)
        await world.peer.last.close(1001, "going away")
        await until(lambda: world.link.epoch == 2 and world.link.health().joined)
        kinds = [call[0] for call in world.seen.calls]
        by_kind = dict(zip(kinds, world.seen.connected_values, strict=True))
        assert by_kind == {"connected": True, "joined": True, "disconnected": False}


async def test_cancelling_serve_sends_one_close_frame(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_world() as world:
        world.link.want(ROOM)
        await world.start()
        await world.fully_joined()
        began = trio.current_time()
        world.scope.cancel()
        await until(lambda: world.peer.last.over_at is not None)

        connection = world.peer.last
        assert connection.close_code == 1000
        assert connection.sent("phx_leave") == []
        assert trio.current_time() - began < 0.5
        assert world.seen.of("disconnected") == [(1, "the link is shutting down")]


@case("C44")
async def test_a_goodbye_to_a_peer_that_does_not_answer_is_bounded(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_world() as world:
        await world.start()
        world.peer.client_streams[-1].send_all_hook = trio.sleep_forever
        began = trio.current_time()
        world.scope.cancel()
        await until(lambda: world.seen.of("disconnected"))

        assert trio.current_time() - began == pytest.approx(1.0, abs=0.05)


@case("C45")
async def test_a_stuck_writer_ends_the_socket_after_dead_seconds(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_world() as world:
        await world.start()
        world.peer.client_streams[-1].send_all_hook = trio.sleep_forever
        for n in range(600):
            world.link.want(chat_room(str(n)))
        began = world.peer.last.opened_at
        await until(lambda: world.link.epoch == 2, 100, every=0.1)

        assert 60 <= trio.current_time() - began < 61
        await until(lambda: world.link.health().joined == 601)


@case("C45")
async def test_callers_only_queue_and_one_task_writes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Joins, leaves and heartbeats, also of callers that are cancelled; pongs are the library's."""
    async with open_world() as world:
        await world.start()
        writers: set[str] = set()
        stream = world.peer.client_streams[-1]
        deliver = stream.send_all_hook
        assert deliver is not None

        async def note() -> None:
            writers.add(trio.lowlevel.current_task().name)
            await deliver()

        stream.send_all_hook = note
        with trio.CancelScope() as scope:
            scope.cancel()
            for n in range(20):
                world.link.want(chat_room(str(n)))
            await trio.lowlevel.checkpoint()
        await until(lambda: world.link.health().joined == 21)
        world.link.unwant(chat_room("3"))
        with trio.fail_after(1):
            await world.peer.last.websocket.ping(b"x")
        await trio.sleep(100)

        assert world.link.epoch == 1
        assert "heartbeat" in [f.event for _, f in world.peer.last.frames]
        assert world.peer.last.sent("phx_leave") == [chat_room("3")]
        ours = {name for name in writers if "_Reader" not in name}
        assert len(ours) == 1
        assert "_write" in ours.pop()


@case("C45")
async def test_a_slow_peer_costs_the_socket_and_nothing_of_what_was_to_be_said(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A write hangs in the middle; what others queue meanwhile goes out on the next socket."""
    async with open_world() as world:
        await world.start()
        stuck = trio.Event()
        world.peer.client_streams[-1].send_all_hook = stuck.wait
        world.link.want(ROOM)
        await trio.sleep(1)
        world.link.want(chat_room("r2"))
        await until(lambda: world.link.epoch == 2 and world.link.health().joined == 3, 100)
        stuck.set()
        await trio.sleep(1)

        assert chat_room("r2") not in world.peer.connections[0].sent("phx_join")
        assert world.peer.last.sent("phx_join") == [CONTROL, ROOM, chat_room("r2")]
        assert world.link.epoch == 2


async def test_a_message_that_is_too_big_is_named_and_reconnected_with_back_off(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with open_world() as world:
        await world.start()
        await world.peer.last.raw("x" * (MESSAGE_BYTES + 1))
        await until(lambda: world.link.epoch == 2)

        assert world.peer.connections[0].close_code == 1009
        assert str(MESSAGE_BYTES) in world.seen.of("disconnected")[0][1]
        assert str(MESSAGE_BYTES) in caplog.text


@for_each("kind", ["pushed", "joined", "connected", "disconnected", "lost"])
async def test_a_listener_that_raises_ends_serve_with_its_error(
    autojump_clock: trio.testing.MockClock, kind: str
) -> None:
    async with open_world() as world:
        world.seen.raise_on = kind
        world.link.want(ROOM)
        world.peer.join_answers[ROOM] = deque(["no"] if kind == "lost" else [])

        async def provoke() -> None:
            await until(lambda: bool(world.peer.connections))
            await until(lambda: ROOM in world.peer.last.joined)
            await world.peer.last.push(ROOM, "message_created")
            if kind == "disconnected":
                await world.peer.last.fin()

        if kind in ("pushed", "disconnected"):
            world.peer.nursery.start_soon(provoke)
        with pytest.raises(ZeroDivisionError), trio.fail_after(30):
            await world.link.serve()
        assert not world.link.is_connected


@guarantee(60)
async def test_supersede_leaves_serve_typed_with_the_platforms_reason(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_world() as world:
        world.peer.nursery.start_soon(_when_connected, world, "supersede")
        with pytest.raises(BandSupersededError, match="newer") as caught, trio.fail_after(30):
            await world.link.serve()

        assert caught.value.reason == "session.already_connected"
        assert len(world.peer.attempts) == 1
        assert world.seen.of("pushed") == []
        assert not world.link.is_connected


@guarantee(60)
async def test_policy_violation_leaves_serve_typed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_world() as world:
        world.peer.nursery.start_soon(_when_connected, world, "1008")
        with pytest.raises(BandPolicyError, match="do not do that"), trio.fail_after(30):
            await world.link.serve()
        assert len(world.peer.attempts) == 1


async def test_a_retryable_supersede_reconnects_as_told(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_world() as world:
        await world.start()
        payload = {**SUPERSEDE, "retryable": True, "retry_after": 9}
        await world.peer.last.push(CONTROL, "supersede", payload)
        await trio.sleep(1)
        assert world.link.is_connected
        await world.peer.last.close(1000)
        closed = trio.current_time()
        await until(lambda: world.link.epoch == 2)

        assert 9 <= trio.current_time() - closed < 10


@for_each("told", [-5, 10**400], ids=["negative", "huge"])
async def test_an_impossible_wait_of_a_supersede_does_not_end_the_run(
    told: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_world() as world:
        await world.start()
        payload = {**SUPERSEDE, "retryable": True, "retry_after": told}
        await world.peer.last.push(CONTROL, "supersede", payload)
        await world.peer.last.close(1000)
        await until(lambda: world.link.epoch == 2, 4000, every=1)


@for_each(("code", "low", "high"), [(1012, 1, 5), (1013, 30, 60), (1001, 0, 0.5)])
async def test_close_codes_decide_the_wait(
    autojump_clock: trio.testing.MockClock, code: int, low: float, high: float
) -> None:
    async with open_world() as world:
        await world.start()
        await world.peer.last.close(code)
        closed = trio.current_time()
        await until(lambda: world.link.epoch == 2, 100)

        assert low <= world.peer.last.opened_at - closed <= high


async def _when_connected(world: World, what: str) -> None:
    await until(lambda: world.peer.connections and CONTROL in world.peer.last.joined)
    if what == "supersede":
        await world.peer.last.push(CONTROL, "supersede", SUPERSEDE)
    else:
        await world.peer.last.close(1008, "do not do that")

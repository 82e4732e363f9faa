"""All connections of a run: refused upgrades, patience, back-off, conflicts, topics."""

from __future__ import annotations

import itertools
import json
import logging
from collections import deque
from typing import Any

import pytest
import trio
import trio.testing

from band_trio.config.agent import ConflictPolicy
from band_trio.errors import (
    AgentAlreadyRunningError,
    BandAuthError,
    BandConfigError,
    BandConnectionError,
)
from band_trio.kit.logs import thinned_lines
from band_trio.protocol.events import chat_room, room_participants
from tests.link.link_kit import CONTROL, KEY, ROOMS, WHERE, World, open_world
from tests.link.phoenix_peer import Refusal, until
from tests.marks import case, guarantee
from tests.support.for_each import for_each

ROOM = chat_room("r1")
OTHER = room_participants("r1")


def body(code: str, message: str, **more: Any) -> bytes:
    return json.dumps({"error": {"code": code, "message": message, **more}}).encode()


async def serve_until_it_ends(world: World, patience: float = 120) -> BaseException:
    with pytest.raises((BandConnectionError, BandConfigError)) as caught:
        await world.link.serve(trio.current_time() + patience)
    return caught.value


# --------------------------------------------------------------------------- the first connection


@guarantee(60)
@case("C43")
@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_is_terminal_at_once(
    autojump_clock: trio.testing.MockClock, status: int
) -> None:
    async with open_world() as world:
        world.peer.refusals.append(Refusal(status))
        began = trio.current_time()
        error = await serve_until_it_ends(world)

        assert isinstance(error, BandAuthError)
        assert WHERE in str(error)
        assert KEY not in str(error)
        assert trio.current_time() == began
        assert world.me_requests == []


@guarantee(60)
@case("C43")
@for_each("status", [400, 404, 426])
async def test_a_wrong_address_is_terminal_with_the_servers_reason(
    autojump_clock: trio.testing.MockClock, status: int
) -> None:
    async with open_world() as world:
        reason = f"not so, {KEY}"
        world.peer.refusals.append(Refusal(status, body("invalid", reason)))
        error = await serve_until_it_ends(world)

        assert isinstance(error, BandConfigError)
        assert "not so" in str(error)
        assert KEY not in str(error)


@case("C43")
@for_each(
    "refusal",
    [
        Refusal(429, headers=((b"Retry-After", b"7"),)),
        Refusal(503, body("tracking_failed", "soon", retry_after=7)),
        Refusal(503, body("tracking_failed", "soon", retry_after="7")),
    ],
    ids=["header", "body", "numeric string"],
)
@for_each("again", [False, True], ids=["first", "reconnect"])
async def test_a_told_wait_is_obeyed_on_every_connect(
    autojump_clock: trio.testing.MockClock, refusal: Refusal, again: bool
) -> None:
    async with open_world() as world:
        if again:
            await world.start()
            world.peer.refusals.append(refusal)
            await world.peer.last.fin()
            await until(lambda: world.link.epoch == 2)
        else:
            world.peer.refusals.append(refusal)
            await world.start()
        refused, accepted = world.peer.attempts[-2:]

        assert 7 <= accepted - refused < 8


@case("C43")
@for_each("opening", [OSError("refused"), "fin", "HTTP/1.1 500 Oops\r\n\r\n", "what?\r\n\r\n"])
async def test_other_failures_back_off_until_it_works(
    autojump_clock: trio.testing.MockClock, opening: Exception | str
) -> None:
    async with open_world() as world:
        world.peer.openings.extend([opening] * 3)
        began = trio.current_time()
        await world.start()

        assert len(world.peer.attempts) == 4
        assert 0 < trio.current_time() - began < 0.5 + 1 + 2 + 1
        assert world.link.epoch == 1


async def test_patience_ends_with_the_last_error(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "band_trio")
    async with open_world() as world:
        world.peer.openings.extend([OSError("no route")] * 500)
        began = trio.current_time()
        error = await serve_until_it_ends(world, 30)

        assert type(error) is BandConnectionError
        assert WHERE in str(error)
        assert "no route" in str(error)
        assert trio.current_time() - began == pytest.approx(30)
        assert [r.levelname for r in caplog.records] == ["WARNING"]
        assert WHERE in caplog.text
        assert "zone" not in caplog.text
        assert "\n" not in caplog.messages[0]


async def test_patience_covers_a_silent_handshake(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as world:
        world.peer.openings.extend(["silent"] * 9)
        began = trio.current_time()
        error = await serve_until_it_ends(world, 5)

        assert type(error) is BandConnectionError
        assert trio.current_time() - began == pytest.approx(5)


@case("C44")
async def test_a_silent_handshake_is_bounded_by_our_own_scope(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_world() as world:
        world.peer.openings.append("silent")
        began = trio.current_time()
        await world.start()

        assert 10 <= world.peer.attempts[1] - began <= 10.5


@pytest.mark.parametrize("answer", ["unauthorized", "ignore"])
async def test_joining_control_is_part_of_the_first_connect(
    autojump_clock: trio.testing.MockClock, answer: str
) -> None:
    async with open_world() as world:
        world.peer.join_answers[CONTROL] = deque([answer])
        await world.start()

        assert world.link.epoch == 2
        assert [call[0] for call in world.seen.of("disconnected")] == [1]


@case("C43")
async def test_a_conflict_is_waited_for_within_its_limit(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_world(conflict_policy=ConflictPolicy.REJECT) as world:
        refusal = Refusal(409, body("connection_conflict", "live"), ((b"Retry-After", b"8"),))
        world.peer.refusals.extend([refusal] * 99)
        began = trio.current_time()
        error = await serve_until_it_ends(world)

        assert isinstance(error, AgentAlreadyRunningError)
        assert [at - began for at in world.peer.attempts] == pytest.approx([0, 8, 16, 24, 30])
        assert all("on_conflict=reject" in upgrade.path for upgrade in world.peer.upgrades)


async def test_a_conflict_that_outlasts_the_patience_is_still_named(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_world(conflict_policy=ConflictPolicy.REJECT) as world:
        world.peer.refusals.extend([Refusal(409)] * 99)
        assert isinstance(await serve_until_it_ends(world, 3), AgentAlreadyRunningError)


async def test_a_conflict_that_goes_away_lets_us_in(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_world(conflict_policy=ConflictPolicy.REJECT) as world:
        world.peer.refusals.append(Refusal(409))
        await world.start()
        await world.peer.last.fin()
        await until(lambda: world.link.epoch == 2)

        assert "on_conflict" not in world.peer.upgrades[-1].path


# --------------------------------------------------------------------------- reconnects


@case("C43")
@for_each("status", [400, 404, 409, 426, 500])
async def test_a_reconnect_survives_what_ends_a_first_connect(
    autojump_clock: trio.testing.MockClock, status: int
) -> None:
    async with open_world() as world:
        await world.start()
        world.peer.refusals.extend([Refusal(status)] * 3)
        await world.peer.last.fin()
        await until(lambda: world.link.epoch == 2)

        assert len(world.peer.attempts) == 5
        assert world.me_requests == []


@guarantee(60)
@case("C43")
@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_reconnect_asks_once_whether_the_key_is_good(
    autojump_clock: trio.testing.MockClock, status: int
) -> None:
    async with open_world() as world:
        await world.start()
        world.peer.refusals.append(Refusal(status))
        await world.peer.last.fin()
        await until(lambda: world.link.epoch == 2)
        assert len(world.me_requests) == 1

        world.peer.refusals.append(Refusal(status))
        world.me_statuses.append(500)
        await world.peer.last.fin()
        await until(lambda: world.link.epoch == 3)
        assert len(world.me_requests) == 2


@guarantee(60)
@case("C43")
async def test_a_key_that_was_withdrawn_ends_the_run(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_world() as world:
        world.me_statuses.append(401)

        async def withdraw() -> None:
            await until(lambda: world.link.health().joined)
            world.peer.refusals.append(Refusal(403))
            await world.peer.last.fin()

        world.peer.nursery.start_soon(withdraw)
        error = await serve_until_it_ends(world)

        assert isinstance(error, BandAuthError)
        assert len(world.me_requests) == 1
        assert len(world.peer.attempts) == 2


async def test_back_off_grows_to_its_cap_and_forgets_after_a_stable_connection(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_world() as world:
        await world.start()
        world.peer.openings.extend([OSError("down")] * 25)
        await world.peer.last.fin()
        await until(lambda: world.link.epoch == 2, 4000, every=0.5)
        waits = [b - a for a, b in itertools.pairwise(world.peer.attempts[1:])]
        assert all(wait <= 30 for wait in waits)
        assert max(waits) > 10
        assert waits[0] <= 1

        await trio.sleep(61)
        await world.peer.last.fin()
        fell = trio.current_time()
        await until(lambda: world.link.epoch == 3)
        assert world.peer.attempts[-1] - fell <= 0.5


async def test_reconnecting_rejoins_in_order_with_fresh_references(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_world() as world:
        for topic in (ROOMS, ROOM, OTHER):
            world.link.want(topic)
        await world.start()
        await world.fully_joined()
        await world.peer.last.fin()
        await until(lambda: world.link.epoch == 2)
        await world.fully_joined()

        assert world.peer.last.sent("phx_join") == [CONTROL, ROOMS, ROOM, OTHER]
        assert [f.ref for _, f in world.peer.last.frames] == ["5", "6", "7", "8"]


async def test_repeated_trouble_is_logged_sparsely(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "band_trio")
    with thinned_lines(trio.current_time):
        async with open_world() as world:
            await world.start()
            world.peer.openings.extend([OSError("down")] * 30)
            await world.peer.last.fin()
            await until(lambda: world.link.epoch == 2, 4000, every=0.5)
            took = trio.current_time() - world.peer.connections[0].opened_at

            down = [m for m in caplog.messages if "is down" in m]
            assert 3 <= len(down) <= 4 + took / 60
            assert any("more like it" in m for m in down)


# --------------------------------------------------------------------------- topics


@guarantee(28)
@case("C41")
async def test_a_rejected_topic_is_joined_again_until_it_works(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_world() as world:
        world.peer.join_answers[ROOM] = deque(["unauthorized"] * 8 + ["ignore", "ok"])
        world.link.want(ROOM)
        world.link.want(OTHER)
        await world.start()
        await until(lambda: OTHER in world.peer.last.joined)
        assert world.link.health().pending == [ROOM]
        await until(lambda: ROOM in world.peer.last.joined, 300, every=0.5)
        await world.fully_joined()

        tries = [at for at, f in world.peer.last.frames if (f.event, f.topic) == ("phx_join", ROOM)]
        waits = [b - a for a, b in itertools.pairwise(tries)]
        expected = [0.5, 1, 2, 4, 8, 16, 30, 30, 40]
        for wait, most in zip(waits, expected, strict=True):
            assert most / 2 <= wait <= most + 0.05
        assert world.seen.of("lost")[0] == (ROOM, "rejected: unauthorized")
        assert world.seen.of("lost")[-1] == (ROOM, "timed out")
        assert world.link.epoch == 1


@guarantee(28)
@case("C41")
@for_each("topic", [ROOM, ROOMS, CONTROL])
@for_each("event", ["phx_error", "phx_close"])
async def test_a_topic_that_ends_on_a_healthy_socket_is_joined_again(
    autojump_clock: trio.testing.MockClock, topic: str, event: str
) -> None:
    async with open_world() as world:
        for each in (ROOMS, ROOM, OTHER):
            world.link.want(each)
        await world.start()
        await world.fully_joined()
        peer = world.peer.last
        old = peer.joined[topic]
        world.peer.join_answers[topic] = deque(["crashed"])
        await peer.frame(old, old, topic, event, {})
        await until(lambda: world.link.health().pending == [topic])
        await world.fully_joined()

        assert peer.joined[topic] != old
        assert sorted(peer.sent("phx_join")) == sorted([CONTROL, ROOMS, ROOM, OTHER, topic, topic])
        assert [call[0] for call in world.seen.of("joined")].count(topic) == 2
        assert world.link.epoch == 1


@guarantee(28)
@case("C40")
async def test_a_late_end_of_an_old_join_changes_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_world() as world:
        world.link.want(ROOM)
        await world.start()
        await world.fully_joined()
        peer = world.peer.last
        old = peer.joined[ROOM]
        await peer.frame(old, old, ROOM, "phx_error", {})
        await until(lambda: peer.joined[ROOM] != old)
        for event in ("phx_error", "phx_close"):
            await peer.frame(old, old, ROOM, event, {})
        await peer.push(ROOM, "message_created", {"id": "m"})
        await until(lambda: world.seen.of("pushed"))
        assert world.link.health().pending == []

        await peer.frame(None, None, ROOM, "phx_error", {})
        await until(lambda: world.link.health().pending == [ROOM])
        await world.fully_joined()


@guarantee(28)
async def test_control_that_is_rejected_on_a_reconnect_does_not_hold_up_the_rest(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_world() as world:
        world.link.want(ROOM)
        await world.start()
        world.peer.join_answers[CONTROL] = deque(["ignore", "no"])
        await world.peer.last.fin()
        await until(lambda: world.link.epoch == 2)
        await world.fully_joined()

        assert world.peer.last.sent("phx_join") == [CONTROL, ROOM, CONTROL, CONTROL]
        assert world.link.epoch == 2


@pytest.mark.parametrize("mute", [False, True])
async def test_an_unwanted_topic_is_left_and_can_be_wanted_again(
    autojump_clock: trio.testing.MockClock, mute: bool
) -> None:
    async with open_world() as world:
        world.link.want(ROOM)
        await world.start()
        await world.fully_joined()
        peer, world.peer.mute_leaves = world.peer.last, mute
        began = trio.current_time()
        world.link.unwant(ROOM)
        world.link.want(ROOM)
        world.link.unwant(ROOM)
        await until(lambda: peer.sent("phx_leave") == [ROOM])
        await peer.frame(None, None, ROOM, "message_created", {"id": "late"})
        world.link.want(ROOM)
        await until(lambda: peer.sent("phx_join") == [CONTROL, ROOM, ROOM])

        assert trio.current_time() - began <= (1.1 if mute else 0.1)
        await world.fully_joined()
        assert world.seen.of("pushed") == []
        assert len(peer.sent("phx_leave")) == 1


@guarantee(29)
@case("C42")
async def test_many_topics_join_in_parallel_within_the_limit(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_world() as world:
        world.peer.join_latency = 0.2
        rooms = [chat_room(str(n)) for n in range(150)]
        for topic in rooms:
            world.link.want(topic)
        world.peer.join_answers[rooms[7]] = deque(["no"] * 3)
        await world.start()
        began = trio.current_time()
        world.link.want(ROOM)
        await world.fully_joined()

        joins = [f.topic for _, f in world.peer.last.frames if f.event == "phx_join"]
        assert joins[: len(rooms) + 1] == [CONTROL, *rooms]
        assert len(joins) == 1 + 150 + 1 + 3
        assert trio.current_time() - began < 6  # retries queue behind first joins
        times = [at for at, f in world.peer.last.frames if f.event == "phx_join"]
        assert max(sum(t <= u < t + 0.19 for u in times) for t in times) == 16


# --------------------------------------------------------------------------- the whole


@guarantee(25)
async def test_after_every_reconnect_the_listener_hears_of_epoch_and_topics(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_world() as world:
        world.link.want(ROOM)
        await world.start()
        for epoch in (1, 2, 3):
            await until(lambda number=epoch: world.link.epoch == number)  # type: ignore[misc]
            await world.fully_joined()
            await world.peer.last.fin()
        await until(lambda: len(world.seen.of("disconnected")) == 3)

        expected: list[tuple[Any, ...]] = []
        for epoch in (1, 2, 3):
            expected += [("connected", epoch), ("joined", CONTROL), ("joined", ROOM)]
            expected.append(("disconnected", epoch, world.seen.of("disconnected")[epoch - 1][1]))
        assert world.seen.calls[: len(expected)] == expected


async def test_serving_can_be_cancelled_at_every_step(
    autojump_clock: trio.testing.MockClock,
) -> None:
    started = 0
    for steps in range(60):
        async with open_world() as world:
            world.link.want(ROOM)
            scope = trio.CancelScope()
            world.peer.nursery.start_soon(_cancel_after, scope, steps)
            began = trio.current_time()
            with scope:
                await world.link.serve()
            assert scope.cancelled_caught
            assert trio.current_time() - began <= 1.0
            assert not world.link.is_connected
            assert world.link.health().joined == 0
            assert len(world.seen.of("connected")) == len(world.seen.of("disconnected"))
            started += bool(world.seen.of("joined"))
            for stream in world.peer.client_streams[: len(world.peer.upgrades)]:
                with pytest.raises(trio.ClosedResourceError):
                    await stream.send_all(b"x")
    assert 0 < started < 60


async def _cancel_after(scope: trio.CancelScope, steps: int) -> None:
    for _ in range(steps):
        await trio.lowlevel.checkpoint()
    scope.cancel()


@case("C60")
async def test_the_key_is_in_no_log_line_at_any_level(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with open_world() as world:
        world.peer.refusals.extend([Refusal(500, body("x", KEY)), Refusal(429, KEY.encode())])
        world.peer.openings.append(OSError(KEY))
        world.peer.join_answers[ROOM] = deque([KEY])
        world.link.want(ROOM)
        await world.start()
        await world.fully_joined()
        await world.peer.last.close(4000, KEY)
        await until(lambda: world.link.epoch == 2)
        assert KEY not in repr(world.link)
        assert KEY not in str(world.seen.calls)

    # The WebSocket library itself logs close reasons, and no peer but this one puts a key there.
    lines = [r.getMessage() for r in caplog.records if "websocket closed" not in r.getMessage()]
    assert not [line for line in lines if KEY in line]
    assert len(lines) > 10

"""Faults: each does what it says, as often as it says, and to nobody else."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import httpx  # noqa: ASYNC127 - a client that is not ours
import pytest
import trio

from band_trio.localband import LocalAgent, LocalBand, LocalRoom, open_local_band
from band_trio.localband.records import PushRecord
from band_trio.protocol.phoenix import Frame
from tests.localband.kit import Refused, Rest, open_rest, open_socket


async def furnish(band: LocalBand) -> tuple[LocalAgent, LocalRoom]:
    agent = band.register_agent("Scribe")
    return agent, await band.user.create_room(None, [agent])


async def say(band: LocalBand, rest: Rest, room: LocalRoom) -> httpx.Response:
    body = {"message": {"content": "x", "mentions": [{"id": band.user.id}]}}
    return await rest("POST", f"/agent/chats/{room.id}/messages", body)


async def said(band: LocalBand, room: LocalRoom) -> int:
    return len(await band.user.messages(room))


async def test_a_refusal_writes_nothing(band: LocalBand) -> None:
    agent, room = await furnish(band)
    rule = band.faults.refuse(429, retry_after=7, route="post_message", room=room, agent=agent)
    async with open_rest(band, agent) as rest:
        answer = await say(band, rest, room)
        assert answer.status_code == 429
        assert answer.headers["retry-after"] == "7"
        assert answer.json()["error"]["retry_after"] == 7
        assert await said(band, room) == 0
        assert (await say(band, rest, room)).status_code == 201
    assert rule.hits == 1
    assert [(r.status, r.committed) for r in band.log.requests("post_message")] == [
        (429, False),
        (201, True),
    ]


async def test_an_answer_lost_after_the_write(band: LocalBand) -> None:
    agent, room = await furnish(band)
    band.faults.drop_after_commit(503, route="post_message")
    async with open_rest(band, agent) as rest:
        assert (await say(band, rest, room)).status_code == 503
    assert await said(band, room) == 1


@pytest.mark.parametrize("commit", [True, False])
async def test_a_connection_cut_before_or_after_the_write(band: LocalBand, commit: bool) -> None:
    agent, room = await furnish(band)
    band.faults.cut_request(commit=commit, route="post_message")
    async with open_rest(band, agent) as rest:
        with pytest.raises(httpx.RemoteProtocolError):
            await say(band, rest, room)
        assert await said(band, room) == commit
        assert (await say(band, rest, room)).status_code == 201
    assert band.log.requests("post_message")[0].status is None


async def test_the_platform_can_be_unreachable(memory_band: LocalBand) -> None:
    agent, room = await furnish(memory_band)
    memory_band.faults.unreachable(agent=agent, times=2)
    async with open_rest(memory_band, agent) as rest:
        for _ in range(2):
            with pytest.raises(httpx.ConnectError):
                await say(memory_band, rest, room)
        assert await said(memory_band, room) == 0
        assert (await say(memory_band, rest, room)).status_code == 201


@pytest.mark.parametrize("commit", [True, False])
async def test_a_request_that_hangs_until_it_is_lifted(band: LocalBand, commit: bool) -> None:
    agent, room = await furnish(band)
    rule = band.faults.hang(commit=commit, route="post_message")
    statuses: list[int] = []
    async with open_rest(band, agent) as rest:

        async def post() -> None:
            statuses.append((await say(band, rest, room)).status_code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(post)
            await band.until(lambda: rule.hits == 1)
            assert (await rest("GET", "/agent/me")).status_code == 200
            assert await said(band, room) == commit
            assert statuses == []
            rule.lift()
    assert statuses == [201 if commit else 503]


async def test_a_client_without_patience_never_stops_the_platform(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_local_band(memory=True) as band:
        agent, room = await furnish(band)
        band.faults.delay(20, route="post_message")
        async with open_rest(band, agent) as rest:
            with trio.move_on_after(1) as patience:
                await say(band, rest, room)
            assert patience.cancelled_caught
            began = trio.current_time()
            await band.until(lambda: bool(band.world.rooms[room.id].messages))
            assert trio.current_time() - began == 19


@pytest.mark.parametrize("answer", [True, False])
async def test_delays(autojump_clock: trio.testing.MockClock, answer: bool) -> None:
    async with open_local_band(memory=True) as band:
        agent, room = await furnish(band)
        band.faults.delay(3, answer=answer, route="post_message")
        began, asked = trio.current_time(), datetime.fromisoformat(band.world.stamp())
        async with open_rest(band, agent) as rest:
            assert (await say(band, rest, room)).status_code == 201
        assert trio.current_time() - began == 3
        written = datetime.fromisoformat((await band.user.messages(room))[0]["inserted_at"])
        assert round((written - asked).total_seconds()) == (0 if answer else 3)


async def test_the_client_s_own_read_timeout_counts(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_local_band(memory=True) as band:
        agent, room = await furnish(band)
        band.faults.hang(route="post_message")
        async with open_rest(band, agent) as rest:
            with pytest.raises(httpx.ReadTimeout):
                await say(band, rest, room)


async def test_odd_answers(band: LocalBand) -> None:
    agent, room = await furnish(band)
    band.faults.odd_answer(b"<html>", route="post_message")
    async with open_rest(band, agent) as rest:
        answer = await say(band, rest, room)
    assert (answer.status_code, answer.content) == (200, b"<html>")
    assert await said(band, room) == 1


async def test_rules_match_exactly_and_are_used_up(memory_band: LocalBand) -> None:
    agent, room = await furnish(memory_band)
    other, elsewhere = await furnish(memory_band)
    message = await memory_band.user.send(room, "x", [agent])
    faults = memory_band.faults
    rules = [
        faults.refuse(500, agent=other),
        faults.refuse(500, room=elsewhere),
        faults.refuse(500, message="nobody"),
        faults.refuse(500, method="DELETE"),
        faults.refuse(500, when=lambda facts: b"needle" in facts.body),
        faults.refuse(418, route="processing", message=message, skip=1, times=2),
    ]
    path = f"/agent/chats/{room.id}/messages/{message}/processing"
    async with open_rest(memory_band, agent) as rest:
        statuses = [(await rest("POST", path)).status_code for _ in range(4)]
    assert statuses == [200, 418, 418, 200]
    assert [rule.hits for rule in rules] == [0, 0, 0, 0, 0, 2]
    faults.clear()
    assert faults.requests == []


# --------------------------------------------------------------------------- pushes


async def pushed(socket: Any) -> list[str]:
    """Return the ids pushed so far, by asking for a heartbeat behind them."""
    ids = []
    ref = socket.ref()
    await socket.send(None, ref, "phoenix", "heartbeat", {})
    while (frame := await socket.receive())[2] != "phoenix":
        ids.append(frame[4].get("id", frame[3]))
    return ids


async def test_pushes_suppressed_doubled_held(band: LocalBand) -> None:
    agent, room = await furnish(band)
    async with open_socket(band, agent) as socket:
        await socket.join(f"chat_room:{room.id}")
        band.faults.suppress(event="message_created", agent=agent)
        lost = await band.user.send(room, "lost", [agent])
        assert await pushed(socket) == []
        assert band.state(lost, agent) == "none"
        band.faults.duplicate(3, room=room)
        twice = await band.user.send(room, "three times", [agent])
        assert await pushed(socket) == [twice] * 3
        rule = band.faults.hold(topic=f"chat_room:{room.id}")
        late = [await band.user.send(room, f"{n}", [agent]) for n in range(3)]
        assert await pushed(socket) == []
        assert rule.release(reverse=True) == 3
        assert await pushed(socket) == late[::-1]
        more = await band.user.send(room, "more", [agent])
        rule.lift()
        direct = await band.user.send(room, "direct", [agent])
        assert await pushed(socket) == [more, direct]
    sent = [row.sent for row in band.log.of(PushRecord) if row.payload_id == lost]
    assert sent == [False]


async def test_pushes_altered(memory_band: LocalBand) -> None:
    agent, room = await furnish(memory_band)

    def strip(frame: Frame) -> Frame:
        return Frame(None, None, frame.topic, frame.event, frame.payload)

    async with open_socket(memory_band, agent) as socket:
        await socket.join(f"chat_room:{room.id}")
        memory_band.faults.alter(strip)
        memory_band.faults.alter(lambda _: "[1,2]")
        memory_band.faults.alter(lambda _: None)
        for _ in range(3):
            await memory_band.user.send(room, "x", [agent])
        assert (await socket.receive())[0] is None
        assert await socket.receive() == [1, 2]
        assert await pushed(socket) == []


async def test_pushes_delayed(autojump_clock: trio.testing.MockClock) -> None:
    async with open_local_band(memory=True) as band:
        agent, room = await furnish(band)
        async with open_socket(band, agent) as socket:
            await socket.join(f"chat_room:{room.id}")
            band.faults.delay_push(2)
            began = trio.current_time()
            late = await band.user.send(room, "late", [agent])
            soon = await band.user.send(room, "soon", [agent])
            assert (await socket.receive())[4]["id"] == soon
            assert (await socket.receive())[4]["id"] == late
            assert trio.current_time() - began == 2


# --------------------------------------------------------------------------- sockets


async def test_joins_rejected_and_ignored(band: LocalBand) -> None:
    agent, room = await furnish(band)
    topic = f"chat_room:{room.id}"
    band.faults.reject_join(topic, reason="busy", times=2)
    band.faults.ignore_join(topic)
    async with open_socket(band, agent) as socket:
        for _ in range(2):
            assert (await socket.join(topic))["response"] == {"reason": "busy"}
        await socket.send("50", "50", topic, "phx_join", {})
        assert await pushed(socket) == []
        assert (await socket.join(topic))["status"] == "ok"


async def test_upgrades_refused(band: LocalBand) -> None:
    agent, _ = await furnish(band)
    band.faults.refuse_upgrade(429, retry_after=12, agent=agent)
    band.faults.refuse_upgrade(503, "tracking_failed", times=1)
    band.faults.refuse_upgrade(403, empty=True)
    seen = []
    for _ in range(3):
        with pytest.raises(Refused) as caught:
            async with open_socket(band, agent):
                pass
        seen.append(caught.value)
    assert [each.status for each in seen] == [429, 503, 403]
    assert seen[0].error["retry_after"] == 12
    assert seen[0].error["code"] == "too_many_requests"
    assert seen[0].headers["retry-after"] == "12"
    assert seen[1].error["code"] == "tracking_failed"
    assert seen[2].body == b""
    async with open_socket(band, agent) as socket:
        assert await socket.heartbeat()


async def test_heartbeats_muted_alone(band: LocalBand) -> None:
    agent, room = await furnish(band)
    rule = band.faults.mute_heartbeats(agent)
    async with open_socket(band, agent) as socket:
        await socket.send(None, "50", "phoenix", "heartbeat", {})
        assert (await socket.join(f"chat_room:{room.id}"))["status"] == "ok"
        rule.lift()
        assert (await socket.heartbeat())[3] == "phx_reply"


async def test_channels_crash_and_close(band: LocalBand) -> None:
    agent, room = await furnish(band)
    topic = f"chat_room:{room.id}"
    async with open_socket(band, agent) as socket:
        await socket.join(topic)
        assert band.send_frame(agent, topic, "phx_error", {}, join_ref="99")
        assert (await socket.receive())[0] == "99"
        assert len(await pushed_after(band, socket, room, agent)) == 1
        assert band.send_frame(agent, topic, "phx_error", {})
        assert (await socket.receive())[:4] == ["1", None, topic, "phx_error"]
        assert await pushed_after(band, socket, room, agent) == []
        await socket.join(topic)
        assert len(await pushed_after(band, socket, room, agent)) == 1


async def pushed_after(
    band: LocalBand, socket: Any, room: LocalRoom, agent: LocalAgent
) -> list[str]:
    await band.user.send(room, "x", [agent])
    return await pushed(socket)


async def test_a_platform_that_does_not_read(memory_band: LocalBand) -> None:
    agent, room = await furnish(memory_band)
    async with open_socket(memory_band, agent) as socket:
        await socket.join(f"chat_room:{room.id}")
        assert memory_band.stop_reading(agent)
        await socket.send(None, "50", "phoenix", "heartbeat", {})  # the read that was under way
        assert (await socket.receive())[3] == "phx_reply"
        await socket.send(None, "51", "phoenix", "heartbeat", {})
        wanted = await memory_band.user.send(room, "x", [agent])
        assert (await socket.receive())[4]["id"] == wanted
        await trio.testing.wait_all_tasks_blocked()


async def test_signals_by_hand(memory_band: LocalBand) -> None:
    agent, room = await furnish(memory_band)
    async with open_socket(memory_band, agent) as socket:
        await socket.join(f"agent_control:{agent.id}")
        memory_band.signal(agent, "stop", room_id=room.id, correlation_id="c1")
        memory_band.signal(agent, "stop", room_id=room.id, correlation_id="c1")
        frames = [await socket.receive() for _ in range(2)]
    assert {frame[4]["correlation_id"] for frame in frames} == {"c1"}
    assert not memory_band.world.rooms[room.id].is_stopped(agent.id)

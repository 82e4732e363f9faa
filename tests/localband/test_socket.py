"""The channels, on both faces."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio_websocket

from band_trio.localband import Cut, LocalBand, open_local_band
from band_trio.localband.records import SocketRecord
from band_trio.protocol import events
from band_trio.protocol.rest import ChatMessage
from band_trio.protocol.structure import structure
from tests.localband.kit import Gone, Refused, open_rest, open_socket
from tests.support.for_each import for_each

OK = {"status": "ok", "response": {}}


def rejected(reason: str) -> dict[str, Any]:
    return {"status": "error", "response": {"reason": reason}}


async def test_joins_heartbeats_and_leaves(band: LocalBand) -> None:
    agent, other = band.register_agent("Scribe"), band.register_agent("Other")
    room = await band.user.create_room(None, [agent])
    foreign = await band.user.create_room(None, [other])
    async with open_socket(band, agent) as socket:
        for topic in ("agent_control", "agent_rooms", "agent_contacts"):
            assert await socket.join(f"{topic}:{agent.id}") == OK
            assert await socket.join(f"{topic}:{other.id}") == rejected("unauthorized")
        for topic in ("chat_room", "room_participants"):
            assert await socket.join(f"{topic}:{room.id}") == OK
            assert await socket.join(f"{topic}:{foreign.id}") == rejected("unauthorized")
        assert await socket.join("nonsense") == rejected("unmatched topic")
        beat = await socket.heartbeat()
        assert beat == [None, str(socket.refs), "phoenix", "phx_reply", OK]
        await socket.send("9", "90", "chat_room:x", "shout", {})
        assert (await socket.receive())[1:] == [
            "90",
            "chat_room:x",
            "phx_reply",
            rejected("unmatched topic"),
        ]
        await socket.send("7", "91", f"chat_room:{room.id}", "phx_leave", {})
        assert (await socket.receive())[1:] == ["91", f"chat_room:{room.id}", "phx_reply", OK]
        assert (await socket.receive())[3] == "phx_close"
        await band.user.send(room, "unheard", [agent])
        assert (await socket.heartbeat())[3] == "phx_reply"


async def test_only_work_is_pushed_to_an_agent(band: LocalBand) -> None:
    agent, other = band.register_agent("Scribe"), band.register_agent("Other")
    room = await band.user.create_room(None, [agent, other])
    async with open_socket(band, agent) as socket, open_rest(band, agent) as rest:
        await socket.join(f"chat_room:{room.id}")
        await band.user.send(room, "not you", [other])
        event = {"event": {"content": "x", "message_type": "thought"}}
        await rest.data("POST", f"/agent/chats/{room.id}/events", event)
        text = {"message": {"content": "mine", "mentions": [{"id": other.id}]}}
        await rest.data("POST", f"/agent/chats/{room.id}/messages", text)
        reference = {"content": "r", "mentions": [{"id": agent.id, "kind": "reference"}]}
        await rest(
            "POST", f"/me/chats/{room.id}/messages", {"message": reference}, key=band.user_key
        )
        wanted = await band.user.send(room, "for you", [agent])
        frame = await socket.receive()

        assert frame[:2] == ["1", None]
        assert frame[2:4] == [f"chat_room:{room.id}", "message_created"]
        message = structure(frame[4], ChatMessage)
        assert message.id == wanted
        assert message.mentions(agent.id)
        assert message.content == f"@[[{agent.id}]] for you"
        assert band.state(wanted, agent) == "delivered"

        await band.user.stop(room)
        unseen = await band.user.send(room, "while stopped", [agent])
        assert (await socket.heartbeat())[3] == "phx_reply"
        assert band.state(unseen, agent) == "none"


async def test_a_second_join_replaces_the_first(band: LocalBand) -> None:
    agent = band.register_agent("Scribe")
    room = await band.user.create_room(None, [agent])
    async with open_socket(band, agent) as socket:
        await socket.join(f"chat_room:{room.id}")
        await socket.join(f"chat_room:{room.id}")
        await band.user.send(room, "hi", [agent])
        assert (await socket.receive())[0] == "2"
        assert (await socket.heartbeat())[3] == "phx_reply"


async def test_members_and_rooms_are_told(band: LocalBand) -> None:
    agent, other = band.register_agent("Scribe"), band.register_agent("Other", "Finds")
    async with open_socket(band, agent) as socket, open_rest(band, agent) as rest:
        await socket.join(f"agent_rooms:{agent.id}")
        room = await band.user.create_room("Plans", [agent])
        added = await socket.receive()
        assert added[3] == "room_added"
        assert (added[4]["id"], added[4]["title"]) == (room.id, "Plans")
        assert added[4]["inserted_at"]
        assert added[4]["updated_at"]
        own = await rest.data("POST", "/agent/chats", {"chat": {}})
        assert (await socket.receive())[4]["id"] == own["id"]
        await socket.join(f"room_participants:{room.id}")
        await band.user.add(room, other)
        arrived = await socket.receive()
        assert arrived[3] == "participant_added"
        assert arrived[4] == {
            "id": other.id,
            "name": "Other",
            "type": "Agent",
            "handle": "demo-user/other",
            "description": "Finds",
            "is_remote": True,
            "is_external": True,
        }
        await band.user.remove(room, other)
        assert (await socket.receive())[3] == "participant_removed"
        await band.user.remove(room, agent)
        gone = await socket.receive()
        assert (gone[3], gone[4]["id"]) == ("room_removed", room.id)
        await socket.send("8", "80", f"room_participants:{room.id}", "phx_leave", {})
        assert (await socket.receive())[4] == OK
        assert (await socket.receive())[3] == "phx_close"
        await band.user.add(room, agent)
        assert (await socket.receive())[3] == "room_added"
        await socket.join(f"room_participants:{room.id}")
        await band.user.delete_room(room)
        deleted = [await socket.receive() for _ in range(2)]
        assert [frame[3] for frame in deleted] == ["room_deleted", "room_removed"]
        assert deleted[0][4] == {"id": room.id}


async def test_signals_carry_what_clients_check(band: LocalBand) -> None:
    agent = band.register_agent("Scribe")
    room = await band.user.create_room(None, [agent])
    async with open_socket(band, agent) as socket:
        await socket.join(f"agent_control:{agent.id}")
        await band.user.stop(room)
        await band.user.play(room)
        await band.user.interrupt(agent)
        frames = [await socket.receive() for _ in range(3)]
        signals = [structure(frame[4], events.AgentControl) for frame in frames]

    assert [(s.mode, s.scope, s.room_id) for s in signals] == [
        ("stop", "room", room.id),
        ("play", "room", room.id),
        ("interrupt", "agent", None),
    ]
    assert len({s.correlation_id for s in signals}) == 3
    assert all(frame[4]["execution_id"] for frame in frames)


async def test_a_newer_socket_supersedes_the_older(band: LocalBand) -> None:
    agent = band.register_agent("Scribe")
    async with open_socket(band, agent) as older:
        await older.join(f"agent_control:{agent.id}")
        async with open_socket(band, agent) as newer:
            told = await older.receive()
            assert told[3] == "supersede"
            assert structure(told[4], events.Supersede).retryable is False
            with pytest.raises(Gone) as caught:
                await older.receive()
            assert caught.value.code == 1000
            assert await newer.join(f"agent_control:{agent.id}") == OK
            assert band.hub.is_online(agent.id)
    await band.until(lambda: not band.hub.is_online(agent.id))


async def test_a_polite_newcomer_is_refused(band: LocalBand) -> None:
    agent = band.register_agent("Scribe")
    query = f"vsn=2.0.0&agent_id={agent.id}&on_conflict="
    async with open_socket(band, agent, query + "reject") as socket:
        with pytest.raises(Refused) as caught:
            async with open_socket(band, agent, query + "reject"):
                pass
        assert caught.value.status == 409
        assert caught.value.error["code"] == "connection_conflict"
        assert await socket.join(f"agent_control:{agent.id}") == OK
    with pytest.raises(Refused) as caught:
        async with open_socket(band, agent, query + "nonsense"):
            pass
    assert (caught.value.status, caught.value.error["code"]) == (400, "invalid_on_conflict")


async def test_bad_credentials_are_refused(band: LocalBand) -> None:
    agent, other = band.register_agent("Scribe"), band.register_agent("Other")
    for who, query, key in (
        (agent, "", "wrong"),
        (other, "", agent.api_key),
        (agent, "vsn=2.0.0", agent.api_key),
        (agent, "vsn=2.0.0&agent_id=nobody", band.user_key),
    ):
        with pytest.raises(Refused) as caught:
            async with open_socket(band, who, query, key=key):
                pass
        assert caught.value.status == 403


async def test_a_person_may_connect_as_an_own_agent(band: LocalBand) -> None:
    agent = band.register_agent("Scribe")
    async with open_socket(band, agent, key=band.user_key) as socket:
        assert await socket.join(f"agent_control:{agent.id}") == OK


async def test_the_serializer_is_mandatory(band: LocalBand) -> None:
    agent = band.register_agent("Scribe")
    async with open_socket(band, agent, f"agent_id={agent.id}") as socket:
        with pytest.raises(Gone) as caught:
            await socket.receive()
    assert caught.value.code == 1011


async def test_a_person_sees_everything(band: LocalBand) -> None:
    agent = band.register_agent("Scribe")
    room = await band.user.create_room(None, [agent])
    async with open_socket(band, None) as first, open_socket(band, None) as second:
        for topic in (
            f"user_rooms:{band.user.id}",
            f"chat_room:{room.id}",
            f"room_activity:{room.id}",
        ):
            assert await first.join(topic) == OK
        assert await first.join(f"agent_control:{agent.id}") == rejected("unauthorized")
        assert await second.join(f"chat_room:{room.id}") == OK
        message = await band.user.send(room, "hi", [agent])
        assert (await second.receive())[3] == "message_created"
        async with open_rest(band, agent) as rest:
            base = f"/agent/chats/{room.id}"
            await rest.data("POST", f"{base}/messages/{message}/processing")
            await rest.data("POST", f"{base}/activity", {"working": True})
            event = {"event": {"content": "x", "message_type": "thought"}}
            await rest.data("POST", f"{base}/events", event)
        await band.user.create_room("New")
        frames = [await first.receive() for _ in range(5)]

    assert [frame[3] for frame in frames] == [
        "message_created",
        "message_updated",
        "activity",
        "event_created",
        "room_added",
    ]
    status = frames[1][4]["metadata"]["delivery_status"][agent.id]
    assert (status["status"], status["current_attempt"]) == ("processing", 1)
    assert status["attempts"][0]["started_at"]


@for_each("how", list(Cut))
async def test_a_cut_needs_no_close_frame(band: LocalBand, how: Cut) -> None:
    agent = band.register_agent("Scribe")
    async with open_socket(band, agent) as socket:
        await socket.heartbeat()
        assert band.cut(agent, how)
        with pytest.raises(Gone) as caught:
            await socket.receive()
        assert caught.value.code == 1006
        await band.until(lambda: band.session(agent) is None)
    async with open_socket(band, agent) as socket:
        assert (await socket.heartbeat())[3] == "phx_reply"
    assert not band.cut("nobody")


async def test_silence_is_noticed_by_nobody(band: LocalBand) -> None:
    agent = band.register_agent("Scribe")
    async with open_socket(band, agent) as socket:
        await socket.heartbeat()
        assert band.silence(agent)
        await socket.send(None, "50", "phoenix", "heartbeat", {})
        with trio.move_on_after(0.05) as waiting:
            await socket.receive()
        assert waiting.cancelled_caught
        assert band.session(agent) is not None
    assert [row.what for row in band.log.of(SocketRecord)].count("heartbeat") == 1


async def test_closing_with_a_code(band: LocalBand) -> None:
    agent = band.register_agent("Scribe")
    async with open_socket(band, agent) as socket:
        await socket.heartbeat()
        assert band.send_raw(agent, "nonsense")
        assert band.close(agent, 1012, "restart")
        assert await socket.ws.get_message() == "nonsense"
        with pytest.raises(Gone) as caught:
            await socket.receive()
    assert caught.value.code == 1012


async def test_garbage_is_ignored(band: LocalBand) -> None:
    agent = band.register_agent("Scribe")
    async with open_socket(band, agent) as socket:
        for text in ("", "{", "[]", "[1,2,3]", '[null,null,"","x",{}]', '[[],[],"a","b",{}]'):
            await socket.ws.send_message(text)
        assert (await socket.heartbeat())[3] == "phx_reply"


async def stay(band: LocalBand, ends: list[int]) -> None:
    async with open_socket(band, band.register_agent("Scribe")) as socket:
        try:
            await socket.receive()
        except Gone as gone:
            ends.append(gone.code)


@for_each("memory", [True, False])
async def test_closing_the_platform_closes_the_sockets(memory: bool) -> None:
    ends: list[int] = []
    began = 0.0
    async with trio.open_nursery() as clients:
        with trio.fail_after(3):
            async with open_local_band(memory=memory) as band:
                for _ in range(2):
                    clients.start_soon(stay, band, ends)  # noqa: ASYNC111 - outliving it is the test
                await band.until(lambda: len(band.hub.sessions) == 2)
                began = trio.current_time()
    assert trio.current_time() - began < 0.4
    assert ends == [1000, 1000]


async def test_an_idle_peer_is_closed(autojump_clock: trio.testing.MockClock) -> None:
    async with open_local_band(memory=True, idle_seconds=45) as band:
        agent = band.register_agent("Scribe")
        async with open_socket(band, agent) as socket:
            began = trio.current_time()
            for _ in range(3):
                await trio.sleep(40)
                await socket.heartbeat()
            with pytest.raises(trio_websocket.ConnectionClosed) as caught:
                await socket.ws.get_message()
            assert caught.value.reason is not None
            assert caught.value.reason.code == 1000
            assert trio.current_time() - began == 165


async def test_a_peer_that_never_asks_is_dropped(autojump_clock: trio.testing.MockClock) -> None:
    async with open_local_band(memory=True) as band:
        agent = band.register_agent("Scribe")
        open_stream = band.connection(agent)["config"].open_stream
        assert open_stream is not None
        stream = await open_stream(band.ws_url)
        began = trio.current_time()
        assert await stream.receive_some() == b""
        assert trio.current_time() - began == 10


async def test_no_frame_is_too_large(memory_band: LocalBand) -> None:
    agent = memory_band.register_agent("Scribe")
    room = await memory_band.user.create_room(None, [agent])
    async with open_socket(memory_band, agent) as socket:
        await socket.join(f"chat_room:{room.id}")
        await memory_band.user.send(room, "\u20ac" * 170_000, [agent])
        assert len((await socket.receive())[4]["content"]) > 170_000
        # Quotes are escaped in JSON, so that this one would be larger than clients accept.
        await memory_band.user.send(room, '"' * 524_200, [agent])
        assert (await socket.heartbeat())[3] == "phx_reply"


async def test_sockets_are_recorded(memory_band: LocalBand) -> None:
    agent = memory_band.register_agent("Scribe")
    async with open_socket(memory_band, agent) as socket:
        await socket.join(f"agent_control:{agent.id}")
        await socket.join("chat_room:x")
        await socket.heartbeat()
    await memory_band.until(lambda: memory_band.session(agent) is None)

    rows = [(row.what, row.detail) for row in memory_band.log.of(SocketRecord)]
    assert rows == [
        ("opened", ""),
        ("joined", f"agent_control:{agent.id}"),
        ("rejected", "chat_room:x: unauthorized"),
        ("heartbeat", ""),
        ("ended", "peer gone"),
    ]

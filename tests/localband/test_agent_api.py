"""The REST interface for agents, on both faces."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import Any

from band_trio.localband import LocalBand
from band_trio.protocol import rest as bodies
from band_trio.protocol.structure import structure
from tests.localband.kit import NOBODY, Rest, collect, furnish, open_rest, refused
from tests.support.for_each import for_each


async def test_me_has_everything_that_clients_need(band: LocalBand) -> None:
    agent = band.register_agent("Scribe", "Takes notes")
    async with open_rest(band, agent) as rest:
        me = await rest.data("GET", "/agent/me")

    assert me["handle"] == "demo-user/scribe"
    assert me["description"] == "Takes notes"
    assert me["feature_flags"] == {"ff_file_transfer": True, "ff_room_tasks": True}
    assert structure(me, bodies.AgentMe).owner_uuid == band.user.id


async def test_answers_are_dated_by_the_platforms_clock(band: LocalBand) -> None:
    async with open_rest(band, band.register_agent("Scribe")) as rest:
        for path, status in (("/agent/me", 200), ("/agent/nonsense", 404)):
            before = band.world.clock().replace(microsecond=0)
            answer = await rest("GET", path)
            assert answer.status_code == status
            assert before <= parsedate_to_datetime(answer.headers["date"]) <= band.world.clock()


async def test_keys_open_their_own_routes_only(band: LocalBand) -> None:
    agent = band.register_agent("Scribe")
    async with open_rest(band, agent) as rest:
        refused(await rest("GET", "/agent/me", key="wrong"), 401, "unauthorized")
        refused(await rest("GET", "/agent/me", key=band.user_key), 403, "forbidden")
        refused(await rest("GET", "/me/profile"), 403, "forbidden")
        refused(await rest("GET", "/agent/nonsense"), 404, "not_found")
        refused(await rest("DELETE", "/agent/me"), 405, "method_not_allowed")


async def test_rooms_of_others_do_not_exist(band: LocalBand) -> None:
    _, other, room = await furnish(band)
    paths = ["", "/messages", "/messages/next", "/context", "/participants"]
    async with open_rest(band, other) as rest:
        for path in paths:
            hidden = await rest("GET", f"/agent/chats/{room.id}{path}")
            missing = await rest("GET", f"/agent/chats/{NOBODY}{path}")
            errors = [refused(each, 404, "not_found") for each in (hidden, missing)]
            assert errors[0]["message"] == errors[1]["message"]
        malformed = await rest("GET", "/agent/chats/nonsense/messages")
        assert "/chat_id" in refused(malformed, 422, "validation_error")["details"]


async def test_checks_come_in_the_order_of_the_contract(band: LocalBand) -> None:
    agent, other, room = await furnish(band)
    path = f"/agent/chats/{room.id}/messages"
    bad: dict[str, Any] = {"message": {}}
    async with open_rest(band, agent) as rest:
        refused(await rest("POST", path + "?x=1", bad, key="wrong"), 401, "unauthorized")
        refused(await rest("POST", path + "?x=1", bad, key=band.user_key), 403, "forbidden")
        refused(await rest("POST", path + "?x=1", bad, key=other.api_key), 404, "not_found")
        await band.user.stop(room)
        stopped = refused(await rest("POST", path + "?x=1", bad), 403, "forbidden")
        assert stopped["message"] == "Agent execution is stopped"
        await band.user.play(room)
        refused(await rest("POST", path + "?x=1", bad), 422, "validation_error")
        refused(await rest("POST", path, bad), 422, "validation_error")


async def test_bodies_that_are_no_json_or_no_object(memory_band: LocalBand) -> None:
    agent, _, room = await furnish(memory_band)
    async with open_rest(memory_band, agent) as rest:
        path = f"/api/v1/agent/chats/{room.id}/messages"
        refused(await rest.http.post(path, content=b"{"), 400, "bad_request")
        for body in (b"", b"[]", b"5", b'{"message":[]}'):
            refused(await rest.http.post(path, content=body), 422, "validation_error")


@for_each(
    ("query", "pointer", "problem"),
    [
        ("nonsense=1", "/nonsense", "Unexpected field: nonsense"),
        ("status=open", "/status", "Invalid value for enum"),
        ("sort_order=up", "/sort_order", "Invalid value for enum"),
        ("limit=0", "/limit", "must be greater than or equal to 1"),
        ("limit=101", "/limit", "must be less than or equal to 100"),
        ("page=x", "/page", "must be an integer"),
        ("cursor=x", "/cursor", "is invalid"),
        ("cursor=YWxsfDM=", "/cursor", "belongs to another sort or filter"),
        ("page=1&limit=5", "/page", "cannot be combined with cursor or limit"),
    ],
)
async def test_queries_are_checked(
    memory_band: LocalBand, query: str, pointer: str, problem: str
) -> None:
    agent, _, room = await furnish(memory_band)
    async with open_rest(memory_band, agent) as rest:
        answer = await rest("GET", f"/agent/chats/{room.id}/messages?{query}")

    assert refused(answer, 422, "validation_error")["details"] == {pointer: [problem]}


async def test_a_message_is_claimed_and_settled(band: LocalBand) -> None:
    agent, _, room = await furnish(band)
    first = await band.user.send(room, "one", [agent])
    second = await band.user.send(room, "two", ["@" + agent.handle])
    path = f"/agent/chats/{room.id}/messages"
    async with open_rest(band, agent) as rest:
        assert (await rest.data("GET", f"{path}/next"))["id"] == first
        claimed = await rest("POST", f"{path}/{first}/processing")
        assert claimed.status_code == 200
        answer = {"id": first, "success": True, "status": "processing", "attempt_number": 1}
        assert claimed.json()["data"] == answer
        assert (await rest.data("GET", f"{path}/next"))["id"] == first
        assert (await rest.data("POST", f"{path}/{first}/processed"))["status"] == "processed"
        again = refused(await rest("POST", f"{path}/{first}/processed"), 422, "validation_error")
        assert again["details"]["/processing_attempt"]
        assert (await rest.data("GET", f"{path}/next"))["id"] == second
        await rest.data("POST", f"{path}/{second}/processing")
        failed = await rest.data("POST", f"{path}/{second}/failed", {"error": "boom"})
        assert (failed["status"], failed["attempt_number"]) == ("failed", 1)
        assert (await rest.data("GET", f"{path}/next"))["id"] == second
        reopened = await rest.data("POST", f"{path}/{first}/processing")
        assert reopened["attempt_number"] == 2
        assert (await rest.data("GET", f"{path}/next"))["id"] == first
        refused(await rest("POST", f"{path}/{NOBODY}/processing"), 404, "not_found")

    assert band.state(second, agent) == "failed"
    assert band.attempts(first, agent) == ["success", "processing"]
    assert band.unprocessed(agent) == [first, second]


async def test_stop_answers_every_question_and_play_ends_it(band: LocalBand) -> None:
    agent, late, room = await furnish(band)
    message = await band.user.send(room, "one", [agent])
    base = f"/agent/chats/{room.id}"
    async with open_rest(band, agent) as rest:
        await rest.data("POST", f"{base}/messages/{message}/processing")
        await band.user.stop(room)
        for verb in ("processing", "processed", "failed"):
            answer = await rest("POST", f"{base}/messages/{message}/{verb}")
            assert (answer.status_code, answer.content) == (204, b"")
        assert (await rest("GET", f"{base}/messages/next")).status_code == 204
        assert await rest.data("POST", f"{base}/activity", {"working": True}) == {"working": False}
        event = {"event": {"content": "x", "message_type": "thought"}}
        text = {"message": {"content": "x", "mentions": [{"id": band.user.id}]}}
        for path, body in (("events", event), ("messages", text)):
            error = refused(await rest("POST", f"{base}/{path}", body), 403, "forbidden")
            assert "execution is stopped" in error["message"]
        for path in ("messages", "context", "participants"):
            assert (await rest("GET", f"{base}/{path}")).status_code == 200
        refused(await rest("POST", f"{base}/messages/{NOBODY}/processing"), 404, "not_found")

        await band.user.add(room, late)
        assert not band.world.rooms[room.id].is_stopped(late.id)
        await band.user.play(room)
        assert (await rest.data("GET", f"{base}/messages/next"))["id"] == message
        assert await rest.data("POST", f"{base}/activity", {"working": True}) == {"working": True}
        done = await rest.data("POST", f"{base}/messages/{message}/processed")
        assert done["attempt_number"] == 1


@for_each(
    "body",
    [
        None,
        {},
        {"working": "yes"},
        {"working": True, "activity": 5},
        {"working": True, "activity": {"kind": "dance"}},
        {"working": True, "activity": {"kind": "memory", "name": 5}},
    ],
)
async def test_activity_is_checked(memory_band: LocalBand, body: Any) -> None:
    agent, _, room = await furnish(memory_band)
    async with open_rest(memory_band, agent) as rest:
        answer = await rest("POST", f"/agent/chats/{room.id}/activity", body)

    refused(answer, 422, "validation_error")


async def test_activity_is_echoed(memory_band: LocalBand) -> None:
    agent, _, room = await furnish(memory_band)
    path = f"/agent/chats/{room.id}/activity"
    async with open_rest(memory_band, agent) as rest:
        for body in (
            {"working": True},
            {"working": True, "activity": None},
            {"working": True, "activity": {"kind": "tool_call", "name": "x"}},
            {"working": False},
        ):
            assert (await rest.data("POST", path, body))["working"] is body["working"]

    assert memory_band.world.working == {(room.id, agent.id): False}


@for_each(
    ("event", "pointer"),
    [
        ({"content": " ", "message_type": "thought"}, "/event/content"),
        ({"content": "x" * 16_385, "message_type": "thought"}, "/event/content"),
        ({"content": "x", "message_type": "text"}, "/event/message_type"),
        ({"content": "x", "message_type": "system"}, "/event/message_type"),
        ({"content": "x", "message_type": "task", "metadata": []}, "/event/metadata"),
        (
            {"content": "x", "message_type": "task", "metadata": {"a": "x" * 65_536}},
            "/event/metadata",
        ),
        ({"content": "x", "message_type": "attention"}, "/event/metadata/kind"),
    ],
)
async def test_events_are_checked(
    memory_band: LocalBand, event: dict[str, Any], pointer: str
) -> None:
    agent, _, room = await furnish(memory_band)
    async with open_rest(memory_band, agent) as rest:
        answer = await rest("POST", f"/agent/chats/{room.id}/events", {"event": event})

    assert pointer in refused(answer, 422, "validation_error")["details"]
    assert memory_band.world.rooms[room.id].messages == []


async def test_events_are_shown_and_never_delivered(memory_band: LocalBand) -> None:
    agent, _, room = await furnish(memory_band)
    body = {"content": "x", "message_type": "error", "metadata": {"delegation": 1, "failure": {}}}
    async with open_rest(memory_band, agent) as rest:
        receipt = await rest.data("POST", f"/agent/chats/{room.id}/events", {"event": body})
        assert receipt["message_type"] == "error"
        null = {"event": {"content": "y", "message_type": "thought", "metadata": None}}
        await rest.data("POST", f"/agent/chats/{room.id}/events", null)
        context = await rest.data("GET", f"/agent/chats/{room.id}/context")

    assert [row["content"] for row in context] == ["x", "y"]
    assert context[0]["metadata"] == {"failure": {}}


async def test_context_is_what_was_said_by_and_to_the_agent(memory_band: LocalBand) -> None:
    agent, other, room = await furnish(memory_band)
    await memory_band.user.add(room, other)
    await memory_band.user.send(room, "to both", [agent, other])
    await memory_band.user.send(room, "to other", [other])
    async with open_rest(memory_band, agent) as rest:
        body = {"message": {"content": "mine", "mentions": [{"id": memory_band.user.id}]}}
        await rest.data("POST", f"/agent/chats/{room.id}/messages", body)
        answer = (await rest("GET", f"/agent/chats/{room.id}/context?page=1&page_size=5")).json()

    assert [row["content"].rpartition("]] ")[2] for row in answer["data"]] == ["to both", "mine"]
    assert answer["meta"] == answer["metadata"]
    assert answer["metadata"]["total_count"] == 2


async def test_participants_by_the_rules(band: LocalBand) -> None:
    agent, other, room = await furnish(band)
    base = f"/agent/chats/{room.id}/participants"

    def add(who: str, **more: Any) -> dict[str, Any]:
        return {"participant": {"participant_id": who, **more}}

    async with open_rest(band, agent) as rest:
        refused(await rest("POST", base, add(NOBODY)), 404, "not_found")
        refused(await rest("POST", base, add("nonsense")), 422, "validation_error")
        refused(await rest("POST", base, add(other.id, role="boss")), 422, "validation_error")
        refused(await rest("POST", base, add(other.id, role="admin")), 403, "forbidden")
        added = await rest("POST", base, add(other.id))
        assert added.status_code == 201
        row = added.json()["data"]
        assert (row["role"], row["status"], row["type"]) == ("member", "inactive", "Agent")
        refused(await rest("POST", base, add(other.id)), 409, "conflict")
        rows = await rest.data("GET", base)
        assert [each["id"] for each in rows] == [band.user.id, agent.id, other.id]
        assert {each["type"] for each in rows} == {"User", "Agent"}
        refused(await rest("DELETE", f"{base}/{band.user.id}"), 403, "forbidden")
        refused(await rest("DELETE", f"{base}/{other.id}"), 403, "forbidden")
        refused(await rest("DELETE", f"{base}/{NOBODY}"), 404, "not_found")
        gone = await rest.data("DELETE", f"{base}/{agent.id}")
        assert gone["id"] == agent.id
        refused(await rest("POST", base, add(agent.id)), 404, "not_found")


async def test_an_agent_owns_the_room_it_creates(band: LocalBand) -> None:
    agent, other, _ = await furnish(band)
    async with open_rest(band, agent) as rest:
        created = await rest("POST", "/agent/chats", {"chat": {"task_id": None}})
        assert created.status_code == 201
        room = created.json()["data"]
        assert (room["title"], room["task_id"]) == (None, None)
        base = f"/agent/chats/{room['id']}"
        for body in (
            {"participant_id": other.id, "role": "admin"},
            {"participant_id": band.user.id},
        ):
            await rest.data("POST", f"{base}/participants", {"participant": body})
        refused(await rest("DELETE", f"{base}/participants/{agent.id}"), 403, "forbidden")
        refused(await rest("DELETE", f"{base}/participants/{band.user.id}"), 403, "forbidden")
        await rest.data("DELETE", f"{base}/participants/{other.id}")
        renamed = await rest.data("PATCH", base, {"chat": {"title": "  Plans  "}})
        assert renamed["title"] == "Plans"
        titles: list[Any] = ["", "a\nb", "x" * 121, None, 5]
        for bad in titles:
            refused(await rest("PATCH", base, {"chat": {"title": bad}}), 422, "validation_error")
        assert (await rest.data("GET", base))["title"] == "Plans"


async def test_only_the_owner_renames(memory_band: LocalBand) -> None:
    agent, _, room = await furnish(memory_band)
    async with open_rest(memory_band, agent) as rest:
        answer = await rest("PATCH", f"/agent/chats/{room.id}", {"chat": {"title": "x"}})

    refused(answer, 403, "forbidden")


async def test_chats_and_peers_are_paged_by_number(memory_band: LocalBand) -> None:
    agent = memory_band.register_agent("Scribe")
    rooms = [(await memory_band.user.create_room(f"R{n}", [agent])).id for n in range(5)]
    others = [memory_band.register_agent(f"Peer {n}").id for n in range(3)]
    async with open_rest(memory_band, agent) as rest:
        seen = []
        for page in (1, 2, 3):
            answer = (await rest("GET", f"/agent/chats?page={page}&page_size=2")).json()
            assert answer["metadata"] == {
                "page": page,
                "page_size": 2,
                "total_count": 5,
                "total_pages": 3,
            }
            seen += [row["id"] for row in answer["data"]]
        assert seen == rooms
        assert (await rest("GET", "/agent/chats?page=4&page_size=2")).json()["data"] == []
        peers = await rest.data("GET", "/agent/peers?page=1&page_size=50")
        assert {row["id"] for row in peers} == {*others, memory_band.user.id}
        absent = await rest.data("GET", f"/agent/peers?not_in_chat={rooms[0]}")
        assert {row["id"] for row in absent} == set(others)
        assert all(structure(row, bodies.Peer).handle for row in absent)


async def test_requests_are_recorded(memory_band: LocalBand) -> None:
    agent, _, room = await furnish(memory_band)
    async with open_rest(memory_band, agent) as rest:
        await rest("GET", f"/agent/chats/{room.id}/messages/next")
        await rest("GET", "/agent/me", key="wrong")

    rows = memory_band.log.requests()
    assert [(r.route, r.status, r.party_id, r.room_id) for r in rows] == [
        ("next", 204, agent.id, room.id),
        ("me", 401, None, None),
    ]
    assert not any(agent.api_key in repr(row) for row in memory_band.log.rows)


async def test_cursors_walk_every_list_once(memory_band: LocalBand) -> None:
    agent, _, room = await furnish(memory_band)
    sent = [await memory_band.user.send(room, f"{n}", [agent]) for n in range(7)]
    base = f"/agent/chats/{room.id}"
    async with open_rest(memory_band, agent) as rest:
        assert await collect(rest, f"{base}/messages?", 3) == sent
        assert await collect(rest, f"{base}/messages?sort_order=desc&", 3) == sent[::-1]
        assert await collect(rest, f"{base}/messages?status=all&", 7) == sent
        assert await collect(rest, f"{base}/context?", 2) == sent
    async with open_rest(memory_band) as rest:
        assert await collect(rest, f"/me/chats/{room.id}/messages?", 3) == sent[::-1]


async def test_a_cursor_is_stable_unless_cursors_drift(memory_band: LocalBand) -> None:
    agent, _, room = await furnish(memory_band)
    sent = [await memory_band.user.send(room, f"{n}", [agent]) for n in range(4)]
    path = f"/agent/chats/{room.id}/messages"

    async def second_page(rest: Rest) -> list[str]:
        first = (await rest("GET", f"{path}?limit=2")).json()
        claimed = first["data"][0]["id"]
        await rest.data("POST", f"{path}/{claimed}/processing")
        await rest.data("POST", f"{path}/{claimed}/processed")
        cursor = first["metadata"]["next_cursor"]
        return [row["id"] for row in await rest.data("GET", f"{path}?limit=2&cursor={cursor}")]

    async with open_rest(memory_band, agent) as rest:
        assert await second_page(rest) == sent[2:]
        memory_band.world.drifting_cursors = True
        assert await second_page(rest) == []

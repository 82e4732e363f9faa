"""Contacts: the rules, both faces of them, and who is told."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, Final, TypeVar

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from band_trio.localband import LocalBand, LocalUser, open_local_band
from band_trio.stores.contacts import Action, Contacts
from band_trio.stores.refusal import Refusal
from tests.localband.kit import Rest, open_rest, open_socket, refused
from tests.marks import case
from tests.support.for_each import for_each

ADD: Final = "/agent/contacts/add"
RESPOND: Final = "/agent/contacts/requests/respond"


async def test_a_request_is_made_told_and_approved(band: LocalBand) -> None:
    scribe = band.register_agent("Scribe")
    ann = band.add_user("Ann")
    finder = band.register_agent("Finder", owner=ann)
    async with (
        open_rest(band, scribe) as rest,
        open_rest(band, finder) as other,
        open_socket(band, finder) as socket,
        open_socket(band, scribe) as own,
    ):
        await socket.join(f"agent_contacts:{finder.id}")
        await own.join(f"agent_contacts:{scribe.id}")
        asked = await rest("POST", ADD, {"handle": "@ann/finder", "message": "let us talk"})
        assert asked.status_code == 201
        assert asked.json()["data"]["status"] == "pending"
        request_id = asked.json()["data"]["id"]
        told = await socket.receive()
        assert told[3] == "contact_request_received"
        assert told[4]["from_handle"] == scribe.handle
        assert told[4]["message"] == "let us talk"
        lists = await other("GET", "/agent/contacts/requests")
        assert [row["id"] for row in lists.json()["data"]["received"]] == [request_id]
        assert lists.json()["metadata"]["received"] == {"total": 1, "total_pages": 1}
        answer = {"action": "approve", "request_id": request_id}
        assert (await other.data("POST", RESPOND, answer))["status"] == "approved"
        for each in (socket, own):
            updated, added = await each.receive(), await each.receive()
            assert (updated[3], updated[4]["status"]) == ("contact_request_updated", "approved")
            assert added[3] == "contact_added"
            assert None not in added[4].values(), "clients refuse null there"
        (row,) = (await rest("GET", "/agent/contacts")).json()["data"]
        assert (row["handle"], row["name"], row["type"]) == ("ann/finder", "Finder", "Agent")
        assert (await rest.data("POST", "/agent/contacts/remove", {"contact_id": row["id"]})) == {
            "status": "removed"
        }
        assert [(await each.receive())[3] for each in (socket, own)] == ["contact_removed"] * 2
        assert (await other("GET", "/agent/contacts")).json()["data"] == []


@for_each(
    ("path", "body", "status"),
    [
        (ADD, {}, 400),
        (ADD, {"handle": "@"}, 400),
        (ADD, {"handle": "nobody"}, 404),
        (ADD, {"handle": "demo-user/scribe"}, 409),
        (ADD, {"handle": "asked"}, 409),
        (ADD, {"handle": "known"}, 409),
        (ADD, {"handle": "other", "message": "x" * 501}, 422),
        ("/agent/contacts/remove", {}, 400),
        ("/agent/contacts/remove", {"handle": 5}, 400),
        ("/agent/contacts/remove", {"handle": "other"}, 404),
        (RESPOND, {"action": "approve"}, 400),
        (RESPOND, {"action": "allow", "handle": "asked"}, 400),
        (RESPOND, {"action": "approve", "handle": "other"}, 404),
        (RESPOND, {"action": "cancel", "handle": "other"}, 404),
        (RESPOND, {"action": "approve", "request_id": "the sent one"}, 403),
        (RESPOND, {"action": "cancel", "handle": "known"}, 409),
    ],
)
async def test_what_does_not_fit_is_refused(path: str, body: dict[str, Any], status: int) -> None:
    async with open_local_band(memory=True) as band:
        scribe = band.register_agent("Scribe")
        known, _, _ = (band.add_user(name) for name in ("Known", "Asked", "Other"))
        async with open_rest(band, scribe) as rest:
            await _check_refusal(rest, known, path, body, status)


async def _check_refusal(
    rest: Rest, known: LocalUser, path: str, body: dict[str, Any], status: int
) -> None:
    sent = (await rest.data("POST", ADD, {"handle": "known"}))["id"]
    await known.answer_contact(sent, "approve")
    pending = (await rest.data("POST", ADD, {"handle": "asked"}))["id"]
    body = {k: pending if v == "the sent one" else v for k, v in body.items()}
    assert (await rest("POST", path, body)).status_code == status


async def test_who_has_asked_already_is_approved_at_once(memory_band: LocalBand) -> None:
    band, scribe = memory_band, memory_band.register_agent("Scribe")
    ann = band.add_user("Ann")
    await ann.request_contact(scribe.handle, "hello")
    async with open_rest(band, scribe) as rest:
        assert (await rest.data("POST", ADD, {"handle": "ann"}))["status"] == "approved"
    assert await ann.contacts() == [scribe.handle]
    await ann.remove_contact("@" + scribe.handle)
    assert await ann.contacts() == []


async def test_a_person_has_the_same_by_routes(memory_band: LocalBand) -> None:
    band = memory_band
    ann, bob = band.add_user("Ann", role="admin"), band.add_user("Bob")
    async with (
        open_rest(band, ann) as rest,
        open_rest(band, bob) as other,
    ):
        ask = {"contact_request": {"recipient_handle": "bob", "message": "hi"}}
        request = await rest.data("POST", "/me/contacts/requests", ask)
        assert (request["requester_id"], request["recipient_id"]) == (ann.id, bob.id)
        sent = (await rest("GET", "/me/contacts/requests/sent?status=pending")).json()["data"]
        received = (await other("GET", "/me/contacts/requests")).json()["data"]
        assert [row["id"] for row in sent] == [row["id"] for row in received] == [request["id"]]
        path = f"/me/contacts/requests/{request['id']}"
        assert (await rest("POST", f"{path}/approve")).status_code == 403
        assert (await other.data("POST", f"{path}/approve"))["status"] == "approved"
        assert (await other("POST", f"{path}/reject")).status_code == 409
        (row,) = (await rest("GET", "/me/contacts")).json()["data"]
        assert (row["contact_id"], row["contact_type"], row["status"]) == (bob.id, "User", "active")
        who = await rest.data("POST", "/me/contacts/resolve", {"handle": "@bob"})
        assert who == {"type": "User", "handle": "bob", "name": "Bob"}
        assert (await rest("POST", "/me/contacts/resolve", {"handle": "x"})).status_code == 404
        assert (await rest("POST", "/me/contacts/remove", {"handle": "bob"})).status_code == 200
        again = await other.data(
            "POST", "/me/contacts/requests", {"contact_request": {"recipient_handle": "ann"}}
        )
        gone = await other.data("DELETE", f"/me/contacts/requests/{again['id']}")
        assert gone["status"] == "cancelled"
        for refused_path in ("/me/contacts/requests/nothing", f"/me/contacts/requests/{bob.id}"):
            expected = 404 if bob.id in refused_path else 422
            assert (await other("DELETE", refused_path)).status_code == expected


async def test_handles_are_found_in_any_case(memory_band: LocalBand) -> None:
    band, ann = memory_band, memory_band.add_user("Ann")
    await ann.request_contact("@Demo-USER")
    assert [r.status for r in band.world.contacts.sent(ann.id)] == ["pending"]
    async with open_rest(band) as rest:
        asked = {"contact_request": {"recipient_handle": "ANN"}}
        assert (await rest.data("POST", "/me/contacts/requests", asked))["status"] == "approved"
        await rest.data("POST", "/me/contacts/remove", {"handle": "Ann"})


async def test_a_person_ends_a_contact_by_either_of_its_ids(memory_band: LocalBand) -> None:
    band, ann, bob = memory_band, memory_band.add_user("Ann"), memory_band.add_user("Bob")
    async with open_rest(band, ann) as rest:
        for key in ("id", "contact_id"):
            await ann.request_contact("bob")
            await bob.request_contact("ann")
            (row,) = (await rest("GET", "/me/contacts")).json()["data"]
            assert row["user"]["email"]
            stranger = {"contact_id": band.user.id}
            refused(await rest("POST", "/me/contacts/remove", stranger), 404, "not_found")
            async with open_rest(band) as other:  # whose it is not
                body = {"contact_id": row["id"]}
                refused(await other("POST", "/me/contacts/remove", body), 404, "not_found")
            await rest.data("POST", "/me/contacts/remove", {"contact_id": row[key]})
            assert await bob.contacts() == []


async def test_a_refusal_points_into_the_body(memory_band: LocalBand) -> None:
    for body, pointer in (
        ({"handle": "x", "message": "x" * 501}, "/message"),
        ({"contact_request": {"recipient_handle": "x", "message": 5}}, "/contact_request/message"),
    ):
        agent = memory_band.register_agent("Scribe") if "handle" in body else None
        path = ADD if agent is not None else "/me/contacts/requests"
        async with open_rest(memory_band, agent) as rest:
            error = refused(await rest("POST", path, body), 422, "validation_error")
        assert list(error["details"]) == [pointer]


async def test_what_a_deleted_agent_leaves_ends_for_the_others(memory_band: LocalBand) -> None:
    band, ann = memory_band, memory_band.add_user("Ann")
    scribe, gone = band.register_agent("Scribe"), band.register_agent("Gone", owner=ann)
    await ann.request_contact("demo-user")
    await band.user.request_contact(gone.handle)
    async with (
        open_rest(band, scribe) as rest,
        open_rest(band, gone) as theirs,
        open_rest(band) as person,
        open_rest(band, ann) as owner,
        open_socket(band, scribe) as socket,
    ):
        first = (await rest.data("POST", ADD, {"handle": gone.handle}))["id"]
        await theirs.data("POST", RESPOND, {"action": "reject", "request_id": first})
        asked = (await rest.data("POST", ADD, {"handle": gone.handle}))["id"]
        await socket.join(f"agent_contacts:{scribe.id}")
        await owner.data("DELETE", f"/me/agents/{gone.id}")
        assert (await socket.receive())[3:] == [
            "contact_request_updated",
            {"id": asked, "status": "expired"},
        ]
        late = await rest("POST", RESPOND, {"action": "cancel", "request_id": asked})
        refused(late, 409, "conflict")
        sent = await rest.data("GET", "/agent/contacts/requests?sent_status=all")
        assert [row["status"] for row in sent["sent"]] == ["rejected", "expired"]
        (row,) = await person.data("GET", "/me/contacts/requests/sent")
        assert (row["status"], row["recipient"]["handle"]) == ("expired", gone.handle)
        other = band.register_agent("Gone", owner=ann)
        assert other.handle == gone.handle
        assert (await rest.data("POST", ADD, {"handle": other.handle}))["status"] == "pending"


# --------------------------------------------------------------------------- people


@case("C90")
async def test_two_people_and_their_agents_share_a_room(band: LocalBand) -> None:
    ann = band.add_user("Ann")
    scribe, finder = band.register_agent("Scribe"), band.register_agent("Finder", owner=ann)
    room = await band.user.create_room("Both", [scribe])
    async with open_rest(band, band.user) as rest:
        path = f"/me/chats/{room.id}/participants"
        body = {"participant": {"participant_id": finder.id}}
        refused(await rest("POST", path, body), 403, "forbidden")
        await band.user.request_contact(finder.handle)
        (asked,) = band.world.contacts.received(finder.id)
        async with open_rest(band, finder) as theirs:
            await theirs.data("POST", RESPOND, {"action": "approve", "request_id": asked.id})
        assert (await rest("POST", path, body)).status_code == 201
        rows = (await rest("GET", "/me/peers?type=User")).json()["data"]
        assert rows == [], "a person who is no contact is not shown"
    written = [
        await band.say_as(scribe, room, "I look it up", [finder]),
        await band.say_as(finder.handle, room, "thinking", message_type="thought"),
        await band.say_as(band.user, room, "thanks", ["@ann/finder"]),
    ]
    rows = await band.user.messages(room)
    assert [row["id"] for row in rows] == written
    assert [row["sender_name"] for row in rows] == ["Scribe", "Finder", "Demo User"]
    with pytest.raises(LookupError, match="nobody here is 'nobody'"):
        await band.say_as("nobody", room, "x")


@case("C90")
async def test_two_people_in_one_room_by_rest_alone(band: LocalBand) -> None:
    async with open_rest(band) as rest:

        async def data(key: str, method: str, path: str, body: Any = None) -> Any:
            answer = await rest(method, path, body, key=key)
            assert answer.is_success, answer.text
            return answer.json()["data"]

        async def register(key: str, name: str) -> tuple[str, str, str]:
            agent = {"agent": {"name": name, "description": "An agent"}}
            made = await data(key, "POST", "/me/agents/register", agent)
            return made["agent"]["id"], made["agent"]["handle"], made["credentials"]["api_key"]

        own, person = band.user_key, {"user": {"name": "Ann"}}
        made = await data(own, "POST", "/me/users", person)
        ann, ann_id = made["credentials"]["api_key"], made["user"]["id"]
        scribe, scribe_handle, scribe_key = await register(own, "Scribe")
        finder, finder_handle, finder_key = await register(ann, "Finder")
        room = (await data(own, "POST", "/me/chats", {"chat": {"title": "Both"}}))["id"]
        members, posts = f"chats/{room}/participants", f"chats/{room}/messages"
        for handle, key in ((finder_handle, finder_key), ("ann", ann)):
            asked = {"contact_request": {"recipient_handle": handle}}
            request = (await data(own, "POST", "/me/contacts/requests", asked))["id"]
            if key is ann:
                await data(ann, "POST", f"/me/contacts/requests/{request}/approve")
            else:
                await data(key, "POST", RESPOND, {"action": "approve", "request_id": request})
        for party in (scribe, finder, ann_id):
            body = {"participant": {"participant_id": party}}
            await data(own, "POST", f"/me/{members}", body)
        for key, base, to in (
            (scribe_key, "agent", finder), (finder_key, "agent", ann_id), (ann, "me", scribe),
        ):  # fmt: skip
            message = {"message": {"content": "so it was", "mentions": [{"id": to}]}}
            await data(key, "POST", f"/{base}/{posts}", message)
        for key in (own, ann):
            rows = await data(key, "GET", f"/me/{posts}")
            assert [row["sender_id"] for row in rows] == [ann_id, finder, scribe]
        assert scribe_handle == "demo-user/scribe"


async def test_peers_are_the_own_people_and_contacts(memory_band: LocalBand) -> None:
    band, ann = memory_band, memory_band.add_user("Ann")
    scribe, other = band.register_agent("Scribe"), band.register_agent("Other")
    band.register_agent("Hidden", owner=ann)
    async with open_rest(band, scribe) as rest:
        await rest.data("POST", ADD, {"handle": "ann"})
        (asked,) = band.world.contacts.received(ann.id)
        await ann.answer_contact(asked.id, "approve")
        rows = await rest.data("GET", "/agent/peers?page_size=100")
        found = {row["name"]: (row["source"], row["is_contact"]) for row in rows}
    assert found == {
        "Demo User": ("registry", False),
        "Ann": ("contact", True),
        other.name: ("registry", False),
    }


async def test_lists_of_peers_have_pages_of_their_own_size(memory_band: LocalBand) -> None:
    agents = [memory_band.register_agent(f"A{n}") for n in range(25)]
    for agent, size in ((agents[0], 100), (None, 20)):
        path = "/agent/peers" if agent is not None else "/me/peers"
        async with open_rest(memory_band, agent) as rest:
            answer = (await rest("GET", path)).json()
        assert answer["metadata"]["page_size"] == size
        assert answer["metadata"]["total_count"] == 25
        assert len(answer["data"]) == min(size, 25)


async def test_an_admin_creates_people(memory_band: LocalBand) -> None:
    band, root = memory_band, memory_band.add_user("Root", role="admin")
    async with open_rest(band, root) as rest, open_rest(band, band.add_user("P")) as plain:
        made = await rest.data("POST", "/me/users", {"user": {"name": "Cy Nic"}})
        assert made["user"]["handle"] == "cy-nic"
        assert band.world.keys[made["credentials"]["api_key"]].name == "Cy Nic"
        refused(await plain("POST", "/me/users", {"user": {"name": "x"}}), 403, "forbidden")
        changed = await rest.data("PUT", "/me/profile", {"user": {"last_name": "Beer"}})
        assert (changed["first_name"], changed["last_name"]) == ("Root", "Beer")
        assert changed["role"] == "admin"


# --------------------------------------------------------------------------- the rules, in any order


@attrs.frozen
class Somebody:
    id: str
    handle: str
    name: str = ""
    kind: str = "User"


PEOPLE: Final = [Somebody(f"id-{name}", name) for name in ("ann", "bob", "cy")]
PERSON = st.sampled_from(PEOPLE)
ACTION: Final = st.sampled_from(list[Action](["approve", "reject", "cancel"]))
Pair = TypeVar("Pair", frozenset[str], tuple[str, str])


class Rules(RuleBasedStateMachine):
    """Against the plainest model: a set of pairs, a set of pending (from, to)."""

    def __init__(self) -> None:
        super().__init__()
        ids, times = count(), count()
        by_handle = {person.handle: person for person in PEOPLE}
        self.store = Contacts(lambda _: f"{next(ids)}", lambda: f"{next(times):05}", by_handle.get)
        self.pairs: set[frozenset[str]] = set()
        self.pending: set[tuple[str, str]] = set()
        self.final: dict[str, str] = {}

    def attempt(self, do: Callable[[], object], *, works: bool) -> None:
        try:
            do()
        except Refusal:
            assert not works
        else:
            assert works

    @rule(by=PERSON, to=PERSON)
    def ask(self, by: Somebody, to: Somebody) -> None:
        pair = frozenset({by.id, to.id})
        works = by is not to and pair not in self.pairs and (by.id, to.id) not in self.pending
        self.attempt(lambda: self.store.ask(by, to.handle), works=works)
        if works and (to.id, by.id) in self.pending:
            self.pending.remove((to.id, by.id))
            self.pairs.add(pair)
        elif works:
            self.pending.add((by.id, to.id))

    @rule(by=PERSON, to=PERSON, action=ACTION)
    def respond(self, by: Somebody, to: Somebody, action: Action) -> None:
        key = (by.id, to.id) if action == "cancel" else (to.id, by.id)
        works = key in self.pending
        self.attempt(lambda: self.store.respond(by, action, handle=to.handle), works=works)
        if works:
            self.pending.remove(key)
            if action == "approve":
                self.pairs.add(frozenset(key))

    @rule(by=PERSON, to=PERSON)
    def remove(self, by: Somebody, to: Somebody) -> None:
        pair = frozenset({by.id, to.id})
        self.attempt(lambda: self.store.remove(by, handle=to.handle), works=pair in self.pairs)
        self.pairs.discard(pair)

    @rule(by=PERSON, data=st.data())
    def remove_by_id(self, by: Somebody, data: st.DataObject) -> None:
        contacts = list(self.store.contacts.values())
        if contacts:
            contact = data.draw(st.sampled_from(contacts))
            pair = frozenset(each.id for each in contact.pair)
            self.attempt(lambda: self.store.remove(by, contact_id=contact.id), works=by.id in pair)
            self.pairs -= {pair} if by.id in pair else set()

    @rule(by=PERSON, action=ACTION, data=st.data())
    def respond_by_id(self, by: Somebody, action: Action, data: st.DataObject) -> None:
        """Also to what is final, and to what is not one's own."""
        requests = list(self.store.requests.values())
        if requests:
            request = data.draw(st.sampled_from(requests))
            key = (request.requester.id, request.recipient.id)
            works = request.status == "pending" and by.id == key[action != "cancel"]
            self.attempt(lambda: self.store.respond(by, action, request_id=request.id), works=works)
            if works:
                self.pending.remove(key)
                self.pairs |= {frozenset(key)} if action == "approve" else set()

    @rule(gone=PERSON)
    def forget(self, gone: Somebody) -> None:
        lost, expired = self.store.forget(gone.id)
        assert {frozenset(p.id for p in c.pair) for c in lost} == self.about(gone, self.pairs)
        assert {(r.requester.id, r.recipient.id) for r in expired} == self.about(gone, self.pending)
        assert {request.status for request in expired} <= {"expired"}
        self.pairs -= self.about(gone, self.pairs)
        self.pending -= self.about(gone, self.pending)

    def about(self, person: Somebody, pairs: set[Pair]) -> set[Pair]:
        return {pair for pair in pairs if person.id in pair}

    @invariant()
    def both_sides_agree(self) -> None:
        assert {frozenset(p.id for p in c.pair) for c in self.store.contacts.values()} == self.pairs
        for person in PEOPLE:
            others = {contact.other(person.id).id for contact in self.store.of(person.id)}
            assert others == {o for pair in self.pairs if person.id in pair for o in pair} - {
                person.id
            }
            asked = [(each.requester.id, person.id) for each in self.store.received(person.id)]
            assert sorted(asked) == sorted(key for key in self.pending if key[1] == person.id)
            told = [(person.id, r.recipient.id) for r in self.store.sent(person.id, "pending")]
            assert sorted(told) == sorted(key for key in self.pending if key[0] == person.id)
        assert len({frozenset(key) for key in self.pending}) == len(self.pending), "one per pair"

    @invariant()
    def what_is_answered_stays_answered(self) -> None:
        for request in self.store.requests.values():
            assert self.final.setdefault(request.id, request.status) in (request.status, "pending")
            self.final[request.id] = request.status


def test_the_rules_hold_in_any_order() -> None:
    run_state_machine_as_test(Rules, settings=settings(stateful_step_count=30))

"""Mentions: every word of refusal, and what is stored."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from band_trio.localband import posting
from band_trio.localband.mentions import Mentioned, rewrite
from band_trio.localband.party import Agent, Party, User
from band_trio.localband.room import Room
from band_trio.localband.world import World
from band_trio.stores.refusal import Refusal
from tests.localband.test_delivery import make_world
from tests.support.for_each import for_each


class Scene:
    """A person, two agents in the room, one outside."""

    def __init__(self) -> None:
        self.world: World = make_world()
        self.user: User = self.world.add_user("Demo")
        self.scribe = self.world.add_agent(self.user, "Scribe", "d")
        self.finder = self.world.add_agent(self.user, "Fact Finder", "d")
        self.second = self.world.add_agent(self.user, "Scribe Two", "d")
        self.outside = self.world.add_agent(self.user, "Outside", "d")
        self.room: Room = self.world.create_room(self.user, None)
        for agent in (self.scribe, self.finder):
            self.world.add_participant(self.room, self.user, agent.id, "member")

    def post(self, mentions: Any, content: Any = "hi", **more: Any) -> Any:
        body = {"message": {"content": content, "mentions": mentions, **more}}
        return posting.post_message(self.world, self.room, self.user, body)


@pytest.fixture
def scene() -> Scene:
    return Scene()


@for_each(
    ("mentions", "code"),
    [
        (None, "mentions_required"),
        ([], "mentions_required"),
        ([{}], "mention_missing_identifier"),
        ([{"name": "Scribe"}], "mention_missing_identifier"),
        ([{"id": None, "handle": ""}], "mention_missing_identifier"),
        ([{"handle": "demo/nobody"}], "handle_not_found"),
        ([{"handle": "demo/outside"}], "handle_not_found"),
        ([{"id": "id-of-nobody"}], "mentioned_participant_not_in_room"),
        ([{"id": "OUTSIDE"}], "mentioned_participant_not_in_room"),
        ([{"id": "SCRIBE", "kind": None}], "invalid_mention_kind"),
        ([{"id": "SCRIBE", "kind": "shout"}], "invalid_mention_kind"),
        ([{"id": "USER"}], "cannot_mention_self"),
        ([{"handle": "@demo"}], "cannot_mention_self"),
        ([{"id": "SCRIBE"}, {"handle": "demo/scribe"}], "duplicate_mentions"),
        ([{"id": "SCRIBE"}, {"id": "SCRIBE", "kind": "reference"}], "duplicate_mentions"),
        (["SCRIBE"], "validation_error"),
        ("SCRIBE", "validation_error"),
        ([{"id": 5}], "validation_error"),
    ],
)
def test_a_refused_mention_writes_nothing(scene: Scene, mentions: Any, code: str) -> None:
    ids = {"SCRIBE": scene.scribe.id, "OUTSIDE": scene.outside.id, "USER": scene.user.id}
    if isinstance(mentions, list):
        mentions = [
            {**m, "id": ids.get(m["id"], m["id"])} if isinstance(m, dict) and "id" in m else m
            for m in mentions
        ]
    with pytest.raises(Refusal) as caught:
        scene.post(mentions)

    assert (caught.value.status, caught.value.code) == (422, code)
    if code != "validation_error":
        assert caught.value.message == code
    assert caught.value.details
    assert scene.room.messages == []


@for_each(
    ("content", "problem"),
    [
        (None, "can't be blank"),
        ("", "can't be blank"),
        (" \n\t\u200b", "can't be blank"),
        (7, "must be a string"),
        ("é" * 262_145, "should be at most 524288 byte(s)"),
    ],
)
def test_content_must_be_visible_and_fit(scene: Scene, content: Any, problem: str) -> None:
    with pytest.raises(Refusal) as caught:
        scene.post([{"id": scene.scribe.id}], content)

    assert caught.value.code == "validation_error"
    assert caught.value.details == {"/message/content": [problem]}


def test_the_largest_content_fits(scene: Scene) -> None:
    assert scene.post([{"id": scene.scribe.id}], "é" * 262_144)


@for_each(
    ("ids", "code"),
    [
        (None, "validation_error"),
        ("x", "validation_error"),
        (["x"] * 11, "validation_error"),
        (["x"], "unknown_attachment"),
    ],
)
def test_attachments_are_unknown_here(ids: Any, code: str) -> None:
    scene = Scene()
    with pytest.raises(Refusal) as caught:
        scene.post([{"id": scene.scribe.id}], attachment_ids=ids)

    assert caught.value.code == code
    assert scene.room.messages == []
    assert scene.post([{"id": scene.scribe.id}], attachment_ids=[])


def test_null_and_empty_handles_beside_an_id_are_fine(scene: Scene) -> None:
    for handle in (None, ""):
        message = scene.post([{"id": scene.scribe.id, "handle": handle}])
        assert message.addressed_to(scene.scribe.id)


def test_a_reference_is_no_work(scene: Scene) -> None:
    message = scene.post([{"id": scene.scribe.id}, {"id": scene.finder.id, "kind": "reference"}])

    assert posting.next_message(scene.room, scene.scribe) is message
    assert posting.next_message(scene.room, scene.finder) is None
    assert message is not None
    kinds = [item.get("kind") for item in message.render()["metadata"]["mentions"]]
    assert kinds == [None, "reference"]


@for_each(
    ("content", "mentioned", "stored"),
    [
        ("please review", ["S"], "<S> please review"),
        ("@demo/scribe please review", ["S"], "<S> please review"),
        ("@Scribe, and @SCRIBE!", ["S"], "<S>, and <S>!"),
        ("ask @Fact Finder or @fact-finder", ["F"], "ask <F> or <F>"),
        ("@demo/scribe tell @demo", ["S", "D"], "<S> tell <D>"),
        ("@demo/scribe", ["D"], "<D> @demo/scribe"),
        ("mail me@demo today", ["D"], "<D> mail me@demo today"),
        ("<F> first", ["S", "F"], "<S> <F> first"),
        ("both", ["S", "F"], "<S> <F> both"),
        ("@Scribe Two and @Scribe", ["S", "T"], "<T> and <S>"),
    ],
)
def test_mentions_are_stored_as_tokens(
    scene: Scene, content: str, mentioned: list[str], stored: str
) -> None:
    parties: dict[str, Party] = {
        "S": scene.scribe,
        "F": scene.finder,
        "D": scene.user,
        "T": scene.second,
    }

    def expand(text: str) -> str:
        for short, party in parties.items():
            text = text.replace(f"<{short}>", f"@[[{party.id}]]")
        return text

    assert rewrite(expand(content), [Mentioned(parties[m]) for m in mentioned]) == expand(stored)


@given(st.text(max_size=40), st.text(min_size=1, max_size=12))
def test_a_stored_message_names_everybody(content: str, name: str) -> None:
    user = User("u", name, "ann", "k", "t")
    agent = Agent("a", name[::-1], "ann/x", "d", user, "k", "t", "t")
    stored = rewrite(content, [Mentioned(user), Mentioned(agent)])

    assert "@[[u]]" in stored
    assert "@[[a]]" in stored
    assert rewrite(stored, [Mentioned(user), Mentioned(agent)]).count("@[[u]]") >= 1

"""Whether a row of a room is what was posted, however the platform has stored it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
from hypothesis import given
from hypothesis import strategies as st

from band_trio.kit.hygiene import without_surrogates
from band_trio.localband.mentions import Mentioned, rewrite
from band_trio.localband.party import User
from band_trio.protocol.rest import ChatMessage
from band_trio.tools.sent import SentPost
from tests.marks import guarantee
from tests.support.for_each import for_each

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PEOPLE = [
    {"id": "7c0a-1", "handle": "maria", "name": "Maria López"},
    {"id": "7c0a-2", "handle": "demo/scribe", "name": "Scribe"},
    {"id": "7c0a-3", "handle": "@demo", "name": "D. E. Mo"},
]
POST = SentPost("me", NOW, "the answer", "text", ["7c0a-1"], PEOPLE)
ROW = ChatMessage(
    "m1", "@[[7c0a-1]] the answer", "text", "me", "Agent", inserted_at=NOW,
    metadata={"mentions": [{"id": "7c0a-1", "handle": "maria"}]},
)  # fmt: skip


def stored(content: str, ids: list[str]) -> ChatMessage:
    """Return the row that the embedded platform makes of a post."""
    parties = [
        Mentioned(User(each["id"], each["name"], each["handle"].lstrip("@"), "key", "then"))
        for each in PEOPLE
        if each["id"] in ids
    ]
    metadata = {"mentions": [each.render() for each in parties]}
    return attrs.evolve(
        ROW, content=rewrite(without_surrogates(content), parties), metadata=metadata
    )


_PIECES = st.one_of(
    st.text(max_size=6),
    st.sampled_from(
        ["@maria", "@Maria López", "@maria-lópez", "@demo", "@demo/scribe", "@Scribe", "@@maria",
         "@D. E. Mo", "@7c0a-1", "@[[7c0a-1]]", "@[[7c0a-9]]", "a@maria.de", " ", "\n", ", ", "."]
    ),
)  # fmt: skip


@guarantee(83)
@given(
    st.lists(_PIECES, max_size=8).map("".join),
    st.lists(st.sampled_from([p["id"] for p in PEOPLE]), unique=True),
)
def test_a_post_is_known_again_however_its_mentions_were_rewritten(
    content: str, ids: list[str]
) -> None:
    post = attrs.evolve(POST, content=content, mentioned=ids)
    assert post.is_row(stored(content, ids))
    assert not post.is_row(stored(f"{content} more", ids))
    assert not post.is_row(attrs.evolve(stored(content, ids), sender_id="somebody"))


@guarantee(83)
@for_each(
    ("changes", "same"),
    [
        ({}, True),
        ({"content": "@[[7c0a-1]]  the\r\nanswer\n"}, True),
        ({"metadata": {}}, True),
        ({"metadata": {"mentions": "odd"}}, True),
        ({"inserted_at": NOW + timedelta(1)}, True),
        ({"inserted_at": NOW - timedelta(seconds=1)}, False),
        ({"inserted_at": None}, False),
        ({"sender_id": "you"}, False),
        ({"message_type": "thought"}, False),
        ({"content": "@[[7c0a-1]] another answer"}, False),
        ({"metadata": {"mentions": [{"id": "7c0a-2"}]}}, False),
        ({"metadata": {"mentions": [{"id": "7c0a-1"}, {"id": "7c0a-2"}]}}, False),
        ({"metadata": {"mentions": [{"id": ["7c0a-1"]}, 7]}}, False),
    ],
)
def test_what_makes_a_row_the_post(changes: dict[str, Any], same: bool) -> None:
    assert POST.is_row(attrs.evolve(ROW, **changes)) is same


@guarantee(83)
def test_a_character_composed_in_two_ways_is_one() -> None:
    post = attrs.evolve(POST, content="lo\u0301pez")
    assert post.is_row(attrs.evolve(ROW, content="l\u00f3pez"))


@guarantee(83)
def test_events_mention_nobody_whatever_their_metadata_says() -> None:
    post = attrs.evolve(POST, content="hm", message_type="thought", mentioned=None)
    metadata = {"mentions": [{"id": "x"}]}
    assert post.is_row(attrs.evolve(ROW, content="hm", message_type="thought", metadata=metadata))

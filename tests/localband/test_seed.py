"""Who and what is there from the start, from a YAML file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from band_trio.errors import BandConfigError
from band_trio.localband import open_local_band
from tests.localband.kit import open_rest
from tests.support.for_each import for_each

SCRIBE: Final = "3f0e8b54-6c54-4a53-8d0e-3f6f3f7a0c11"
ROOM: Final = "11111111-2222-4333-8444-555555555555"
SEED: Final = f"""
people:
  - name: Ann
    role: admin
    key: ann-key
    contacts: [bob]
    agents:
      - {{name: Scribe, id: {SCRIBE}, key: scribe-key}}
  - name: Bob
rooms:
  - title: Plans
    id: {ROOM}
    owner: ann
    members: [ann/scribe, bob]
    messages:
      - {{from: ann, to: [ann/scribe], text: hello}}
      - {{from: ann/scribe, text: looking, type: thought}}
      - {{from: ann/scribe, to: [bob], text: welcome}}
"""


async def test_a_seed_is_the_same_after_each_start(tmp_path: Path) -> None:
    file = tmp_path / "seed.yaml"
    file.write_text(SEED, encoding="utf-8")
    for _ in range(2):
        async with open_local_band(memory=True, seed=file) as band:
            assert (band.user.name, band.user_key) == ("Ann", "ann-key")
            (scribe,) = band.agents()
            assert (scribe.id, scribe.api_key, scribe.handle) == (
                SCRIBE,
                "scribe-key",
                "ann/scribe",
            )
            rows = await band.user.messages(ROOM)
            assert [row["content"] for row in rows] == [
                f"@[[{SCRIBE}]] hello",
                "looking",
                rows[2]["content"],
            ]
            assert [row["message_type"] for row in rows] == ["text", "thought", "text"]
            assert band.unprocessed(scribe) == [rows[0]["id"]]
            assert await band.user.contacts() == ["bob"]
            async with open_rest(band, scribe) as rest:
                assert (await rest.data("GET", "/agent/me"))["id"] == SCRIBE
                waiting = await rest.data("GET", f"/agent/chats/{ROOM}/messages/next")
                assert waiting["id"] == rows[0]["id"]


@for_each(
    ("seed", "told"),
    [
        ({}, "required field missing @ seed.people"),
        ({"people": []}, "one person is needed"),
        (
            {"people": [{"name": 5}]},
            "expected str @ seed.people[0].name",
        ),
        ({"people": [{"name": "A", "keys": "x"}]}, "extra fields found (keys)"),
        ({"people": [{"name": "A", "id": "x"}]}, "the id 'x' is no UUID"),
        (
            {"people": [{"name": "A", "key": "k"}, {"name": "B", "key": "k"}]},
            "the key is given twice",
        ),
        ({"people": [{"name": "A", "contacts": ["b"]}]}, "nobody has the handle 'b'"),
        ({"people": [{"name": "A"}], "rooms": [{"owner": "x"}]}, "nobody has the handle 'x'"),
        (
            {
                "people": [{"name": "A"}],
                "rooms": [{"owner": "a", "messages": [{"from": "a", "text": "x"}]}],
            },
            "mentions_required",
        ),
    ],
)
async def test_a_seed_that_does_not_fit_is_refused_with_its_place(
    seed: dict[str, Any], told: str
) -> None:
    with pytest.raises(BandConfigError) as caught:
        async with open_local_band(memory=True, seed=seed):
            pass
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_file_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(BandConfigError, match="cannot be read"):
        async with open_local_band(memory=True, seed=tmp_path / "none.yaml"):
            pass

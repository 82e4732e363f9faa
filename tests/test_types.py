"""Small readers of the shared vocabulary."""

from __future__ import annotations

from typing import Any

import pytest

from band_trio.types import delivery_status_for_agent, is_contact_hub_turn


@pytest.mark.parametrize(
    ("metadata", "status"),
    [
        ({"delivery_status": {"me": {"status": "processed"}, "x": {"status": "failed"}}},
         "processed"),
        ({"delivery_status": {"x": {"status": "failed"}}}, None),
        ({"delivery_status": {"me": {"status": 3}}}, None),
        ({"delivery_status": {"me": "processed"}}, None),
        ({"delivery_status": []}, None),
        ({}, None),
        (None, None),
    ],
)  # fmt: skip
def test_the_delivery_status_of_an_agent(metadata: Any, status: str | None) -> None:
    assert delivery_status_for_agent(metadata, "me") == status


def test_hub_turns_are_known_by_type_and_id() -> None:
    assert is_contact_hub_turn(sender_type="System", sender_id="contact-events")
    assert not is_contact_hub_turn(sender_type="User", sender_id="contact-events")
    assert not is_contact_hub_turn(sender_type="System", sender_id="u")

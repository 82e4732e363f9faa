"""Messages as the platform would list them, for tests without one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from band_trio.protocol.rest import ChatMessage

ME = "agent-1"
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def row(
    name: str,
    at: float | None = 0.0,
    *,
    sender: str = "user-1",
    kind: str = "text",
    mentions: tuple[str, ...] = (ME,),
    status: str | None = None,
    attempts: list[str] | None = None,
) -> ChatMessage:
    """Return a message; *at* is in seconds from `BEGAN`, *attempts* are their statuses."""
    delivery: dict[str, Any] = {"status": status or "delivered"}
    if attempts is not None:
        delivery["attempts"] = [{"status": each} for each in attempts]
    return ChatMessage(
        id=name,
        content=f"@[[{ME}]] {name}",
        message_type=kind,
        sender_id=sender,
        sender_type="User",
        inserted_at=None if at is None else BEGAN + timedelta(seconds=at),
        metadata={
            "mentions": [{"id": each} for each in mentions],
            "delivery_status": {ME: delivery},
        },
    )

"""What happened on a stage, as short lists to compare with."""

from __future__ import annotations

from typing import Any

import trio

from band_trio.trace import Claimed, Marked, Read, Recorded, Started
from tests.runtime.harness import Behaviour, Call, Stage, reply


def starts(here: Stage) -> list[str]:
    """Return the ids of the messages whose handler was started, in order."""
    return [event.message_id for event in here.seen(Started)]


def started_at(here: Stage, message_id: str) -> list[float]:
    """Return when the handler was started for a message, in trio's time."""
    return [
        when
        for when, event in here.trace
        if isinstance(event, Started) and event.message_id == message_id
    ]


def claims(here: Stage) -> list[tuple[str, str]]:
    """Return (message, answer) of each claim that was answered."""
    return [(event.message_id, str(event.answer)) for event in here.seen(Claimed)]


def records(here: Stage) -> list[tuple[str, str]]:
    """Return (message, kind) of each record."""
    return [(event.message_id, event.kind) for event in here.seen(Recorded)]


def marks(here: Stage) -> list[tuple[str, str]]:
    """Return (kind, result) of each try to mark."""
    return [(event.kind, event.result) for event in here.seen(Marked)]


def reads(here: Stage, room: str) -> list[str]:
    """Return the kinds of lists that were read for a room, in order."""
    return [event.kind for event in here.seen(Read) if event.room_id == room]


def sent(here: Stage, route: str, message_id: str | None = None) -> list[float]:
    """Return when the platform got requests of a route, in seconds since it was opened."""
    return [
        row.at
        for row in here.band.log.requests(route, party_id=here.account.id)
        if message_id in (None, row.message_id)
    ]


def push_again(here: Stage, room: str, payload: dict[str, Any]) -> bool:
    """Push a message once more, as it was or is."""
    return here.band.send_frame(here.account, f"chat_room:{room}", "message_created", payload)


def payload(here: Stage, message_id: str) -> dict[str, Any]:
    """Return a message as the platform would push it now."""
    return dict(here.band.world.messages[message_id].render())


def lasting(seconds: float) -> Behaviour:
    """Return a behaviour that takes its time and then replies."""

    async def work(call: Call) -> None:
        await trio.sleep(seconds)
        await reply(call)

    return work


async def hang(call: Call) -> None:
    """Never end by itself."""
    await trio.sleep_forever()


async def fail(call: Call) -> None:
    """Fail the turn."""
    await trio.lowlevel.checkpoint()
    raise ValueError("no")

"""One turn without a runtime: build a message, run the adapter, judge what it did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any, Final

import attrs
import trio

from band_trio.contract import AgentInput, FrameworkAdapter
from band_trio.errors import BandConfigError, InputNotAccepted
from band_trio.kit.leaves import leaf_errors, lone_leaf, program_end
from band_trio.kit.nurseries import hidden_nursery
from band_trio.testing.fake_tools import FakeAgentTools
from band_trio.testing.seeds import FAKE_ROOM, FAKE_TIME
from band_trio.tools.failures import (
    FAILURE_KEY,
    MISSING_REPLY_FAILURE,
    TURN_FAILURE,
    AgentFailure,
)
from band_trio.types import (
    AdapterFeatures,
    HistoryProvider,
    PlatformConnection,
    PlatformMessage,
    is_contact_hub_turn,
)

_numbers: Final = count(1)


def make_message(content: str, **overrides: Any) -> PlatformMessage:
    """Build a message from a person; *overrides* are fields of `PlatformMessage`."""
    fields: dict[str, Any] = {
        "id": f"incoming-{next(_numbers)}",
        "room_id": FAKE_ROOM,
        "content": content,
        "sender_id": "user-1",
        "sender_type": "User",
        "sender_name": "Maria",
        "message_type": "text",
        "metadata": {},
        "created_at": FAKE_TIME,
    }
    return PlatformMessage(**{**fields, **overrides})


@attrs.frozen
class TurnResult:
    """How a turn ended."""

    record: str
    """`processed`, `failed`, or `not-accepted`: kept for later."""
    replied: bool
    complete: bool
    error: BaseException | None = None
    """What left the adapter."""
    failure: AgentFailure | None = None
    """What the room would see once the message is given up."""


async def run_turn(
    adapter: FrameworkAdapter,
    msg: PlatformMessage,
    tools: FakeAgentTools,
    *,
    history: Iterable[Mapping[str, Any]] = (),
    participants_msg: str | None = None,
    contacts_msg: str | None = None,
    is_session_bootstrap: bool | None = None,
    attempt: int = 1,
) -> TurnResult:
    """Run one turn of *adapter* in a nursery of its own and judge it as the runtime does.

    Errors of the adapter are in the result; cancellation and the end of the program come out.
    The turn is closed afterwards; the next `run_turn` with the same *tools* begins a new one.

    As at the platform, the tools offer what the features of the adapter leave, unless they were
    made with some; an adapter that was not told who the agent is, is told first; and
    *is_session_bootstrap* is true until the adapter completed a turn of this room with these
    tools, and wherever there is a *history* in a first *attempt*. Tools without a room of their own are in that of the
    message, and the other way round.

    Raises:
        BandConfigError: the message and the tools are in different rooms.
    """
    msg = _in_one_room(msg, tools)
    if tools.meets(adapter) and getattr(adapter, "agent_name", None) == "":
        await adapter.on_started("Agent", "An AI assistant")
    items = [dict(item) for item in history]
    if is_session_bootstrap is None:  # the history of a later attempt may be what was said since
        is_session_bootstrap = not tools.is_committed(adapter) or (bool(items) and attempt == 1)
    turn = tools.begin_turn(judged=_is_judged(adapter, msg), attempt=attempt)
    inp = AgentInput(
        msg=msg,
        tools=tools,
        history=HistoryProvider(items),
        participants_msg=participants_msg,
        contacts_msg=contacts_msg,
        is_session_bootstrap=is_session_bootstrap,
        room_id=msg.room_id,
        attempt=attempt,
    )
    error: BaseException | None = None
    try:
        with tools.bound_to(getattr(adapter, "features", None)):
            async with hidden_nursery("the turn") as nursery:
                turn.open_in(nursery)
                await adapter.on_event(inp)
    except BaseException as exc:  # noqa: ASYNC103 - errors of the adapter are the result
        cancelled = any(isinstance(leaf, trio.Cancelled) for leaf in leaf_errors(exc))
        if cancelled or program_end(exc) is not None:
            raise
        error = lone_leaf(exc)
    finally:
        turn.close()
    result = _judged(turn.judged, turn.replied, turn.complete, turn.reported, error)
    if result.record == "processed":
        tools.commit(adapter)
    return result


def _is_judged(adapter: FrameworkAdapter, msg: PlatformMessage) -> bool:
    hub = is_contact_hub_turn(sender_type=msg.sender_type, sender_id=msg.sender_id)
    return bool(getattr(adapter, "judges_turns", False)) and not hub


def _in_one_room(msg: PlatformMessage, tools: FakeAgentTools) -> PlatformMessage:
    if tools.in_any_room:
        tools.room_id = msg.room_id
    elif msg.room_id == FAKE_ROOM:
        return attrs.evolve(msg, room_id=tools.room_id)
    elif msg.room_id != tools.room_id:
        raise BandConfigError(
            f"the message is in room {msg.room_id!r}, the tools are in room {tools.room_id!r}: each "
            "room needs tools of its own."
        )
    return msg


def _judged(
    judged: bool, replied: bool, complete: bool, reported: bool, error: BaseException | None
) -> TurnResult:
    if error is None:
        if complete or not judged:
            return TurnResult("processed", replied, complete)
        return TurnResult("failed", replied, complete, None, MISSING_REPLY_FAILURE)
    if all(isinstance(leaf, InputNotAccepted) for leaf in leaf_errors(error)):
        return TurnResult("not-accepted", replied, complete, error)
    return TurnResult("failed", replied, complete, error, None if reported else TURN_FAILURE)


# --------------------------------------------------------------------------- reading records


def events_of_type(tools: FakeAgentTools, message_type: str) -> list[dict[str, Any]]:
    """Return the posted events of one type."""
    return [event for event in tools.events_sent if event["message_type"] == message_type]


def reported_failures(tools: FakeAgentTools) -> list[dict[str, Any]]:
    """Return the failures that the room was told about, as dicts."""
    return [
        event["metadata"][FAILURE_KEY]
        for event in events_of_type(tools, "error")
        if FAILURE_KEY in (event["metadata"] or {})
    ]


def failure_reports(tools: FakeAgentTools) -> list[tuple[str, str]]:
    """Return provider and message of each failure that the room was told about."""
    return [(failure["provider"], failure["message"]) for failure in reported_failures(tools)]


def feature_kwargs(features: AdapterFeatures | None = None) -> dict[str, Any]:
    """Return *features* as keyword arguments for an adapter; none for None."""
    if features is None:
        return {}
    values = {field.name: getattr(features, field.name) for field in attrs.fields(AdapterFeatures)}
    return {name: value for name, value in values.items() if value is not None}


def platform_connection_stub(agent_id: str = "test-agent-id") -> PlatformConnection:
    """Return a connection that leads nowhere."""
    return PlatformConnection(
        agent_id=agent_id,
        api_key="test-key",
        rest_url="http://localhost:1",
        ws_url="ws://localhost:1/api/v1/socket/websocket",
    )

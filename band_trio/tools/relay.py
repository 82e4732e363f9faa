"""Best-effort helpers for adapters: events that may fail, and the relay of plain model text."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from band_trio.errors import BandError, DeliveryFailedError, RoomExecutionStoppedError
from band_trio.kit.hygiene import has_visible, traceback_text
from band_trio.tools.protocol import AgentToolsProtocol

_log: Final = logging.getLogger(__name__)


async def send_event_safe(
    tools: AgentToolsProtocol,
    content: str,
    message_type: str,
    metadata: Mapping[str, Any] | None = None,
    *,
    log_label: str = "event",
    log_level: int = logging.WARNING,
) -> bool:
    """Post an event if possible; tell whether it was posted.

    Never raises except for a stop and cancellation.
    """
    try:
        return await tools.send_event(content, message_type, metadata) is not None
    except RoomExecutionStoppedError:
        raise
    except BandError as exc:
        _log.log(log_level, "room %s: %s was not posted: %s", tools.room_id, log_label, exc)
    except Exception as exc:  # noqa: BLE001 - a note about work must not fail the work
        why = traceback_text(exc)
        _log.error("room %s: %s was not posted\n%s", tools.room_id, log_label, why)
    return False


async def relay_reply(
    tools: AgentToolsProtocol, text: str, mentions: Sequence[str | Mapping[str, Any]] | str
) -> bool:
    """Post a model's final plain text, unless the turn has replied or declined already.

    Raises:
        DeliveryFailedError: it could not be sent.
    """
    if tools.turn.replied or not has_visible(text):
        return False
    return await tools.deliver_reply(text, mentions) is not None


def reraise_delivery_cause(error: DeliveryFailedError) -> NoReturn:
    """Raise what made a delivery fail, as if the send had raised it."""
    raise error.cause from error.cause.__cause__

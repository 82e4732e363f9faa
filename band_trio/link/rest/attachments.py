"""What is known of files: found on messages once, remembered for as long as they exist."""

from __future__ import annotations

import logging
import os
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import attrs

from band_trio.protocol.holdings import Attachment

_log: Final = logging.getLogger(__name__)

CACHE_VARIABLE: Final = "BAND_ATTACHMENT_CACHE_MAXSIZE"
CACHE_SIZE: Final = 1000
"""Files remembered by one agent, unless the environment says otherwise."""


def cache_size() -> int:
    """Return how many files are remembered; a value that is no number is logged and ignored."""
    given = os.environ.get(CACHE_VARIABLE, "").strip()
    if not given:
        return CACHE_SIZE
    if given.isascii() and given.isdecimal():
        return int(given)
    _log.warning("%s is no whole number; %d is used", CACHE_VARIABLE, CACHE_SIZE)
    return CACHE_SIZE


def utc_now() -> datetime:
    """Return the time that expiry is compared with."""
    return datetime.now(UTC)


@attrs.define(eq=False)
class AttachmentCache:
    """The files of one agent, by room and id. When full, what was not used longest is dropped."""

    maxsize: int = attrs.field(factory=cache_size)
    now: Callable[[], datetime] = utc_now
    _known: OrderedDict[tuple[str, str], Attachment] = attrs.field(
        factory=OrderedDict, init=False, repr=False
    )

    def find(self, room_id: str, file_id: str) -> Attachment | None:
        """Return a file that is known and has not expired."""
        key = (room_id, file_id)
        found = self._known.get(key)
        if found is None:
            return None
        if self.expired(found):
            del self._known[key]
            return None
        self._known.move_to_end(key)
        return found

    def note(self, room_id: str, attachment: Attachment) -> None:
        """Remember a file."""
        key = (room_id, attachment.id)
        self._known[key] = attachment
        self._known.move_to_end(key)
        while len(self._known) > self.maxsize:
            self._known.popitem(last=False)

    def expired(self, attachment: Attachment) -> bool:
        """Tell whether a file is gone by now."""
        return attachment.expires_at is not None and attachment.expires_at <= self.now()

    def __len__(self) -> int:
        return len(self._known)

"""What may serve as an id or as a cursor: opaque text that fits into a path, a key and a log line.

The bounds: a path holds two ids at most, a query one cursor, and a character takes up to twelve
bytes there. With 256 and 4096 characters no URL comes near the 65 536 bytes at which HTTP
libraries refuse it. The platform's ids are UUIDs of 36 characters.
"""

from __future__ import annotations

from typing import Annotated, Final

import attrs

ID_CHARS: Final = 256
CURSOR_CHARS: Final = 4096


@attrs.frozen
class Opaque:
    """Marks text that must be readable as it stands: printable, not empty, of bounded length."""

    most: int
    """Characters."""
    stand_in: str | None = None
    """Taken in place of text that is not; None refuses what holds it."""

    def accepts(self, value: object) -> bool:
        """Tell whether *value* is such text.

        U+FFFD stands where something could not be decoded: what it was, nobody knows.
        """
        return (
            isinstance(value, str)
            and 0 < len(value) <= self.most
            and value.isprintable()
            and "\ufffd" not in value
        )

    def __str__(self) -> str:
        return f"1 to {self.most} printable characters"


ID: Final = Opaque(ID_CHARS)
CURSOR: Final = Opaque(CURSOR_CHARS)

Id = Annotated[str, ID]
"""An id of the platform: what holds an unreadable one is unreadable itself."""
Reference = Annotated[str, Opaque(ID_CHARS, stand_in="")]
"""The id of something else, without which the rest is of use all the same."""
Cursor = Annotated[str, CURSOR]
"""Where a page of a list begins."""

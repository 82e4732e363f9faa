"""Whether a row of a room is what a tool has posted, as the platform may have stored it.

Mentions stand as marks in stored content, and those that the text does not name are put in front
(platform docs, Mentions). So both texts are compared without what mentions look like, without
white space at their ends and with one form of each character.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import attrs

from band_trio.kit.hygiene import without_surrogates
from band_trio.protocol.rest import ChatMessage

_LEADING: Final = re.compile(r"^(?:@ )+")


@attrs.frozen
class SentPost:
    """A post of the agent that may be in its room."""

    sender_id: str
    since: datetime
    """When the message was written that the turn is about: the post is not older."""
    content: str
    message_type: str
    mentioned: Sequence[str] | None
    """Ids; None for an event, which mentions nobody."""
    people: Sequence[Mapping[str, Any]]
    """Who is in the room, as far as known: names and handles that the text may hold."""

    def is_row(self, row: ChatMessage) -> bool:
        """Tell whether *row* is this post."""
        return (
            row.sender_id == self.sender_id
            and row.message_type == self.message_type
            and row.inserted_at is not None
            and row.inserted_at >= self.since
            and self._mentions_the_same(row.metadata.get("mentions"))
            and self._bare(row.content) == self._bare(self.content)
        )

    def _mentions_the_same(self, entries: object) -> bool:
        if self.mentioned is None or not isinstance(entries, list):  # or they are not shown
            return True
        ids = (entry.get("id") for entry in entries if isinstance(entry, dict))
        return sorted(each for each in ids if isinstance(each, str)) == sorted(self.mentioned)

    def _bare(self, content: str) -> str:
        """Return a content without its leading mentions, the others as a bare `@`."""
        names = "|".join(map(re.escape, sorted(self._spellings(), key=len, reverse=True)))
        mention = rf"@(?:\[\[[^\[\]\s]+\]\]|(?:{names})(?![\w/-])|[\w/-]+)"
        text = unicodedata.normalize("NFC", without_surrogates(content))
        text = " ".join(re.sub(mention, "@", text, flags=re.IGNORECASE).split())
        return _LEADING.sub("", f"{text} ").strip()

    def _spellings(self) -> Iterable[str]:
        """Return what may stand behind an `@` for those who are mentioned."""
        for person in self.people:
            if person.get("id") in (self.mentioned or ()):
                for name in (person.get("handle"), person.get("name")):
                    if isinstance(name, str) and name.strip():
                        yield unicodedata.normalize("NFC", name.strip().lstrip("@"))

"""Mentions: what a client sends becomes parties and `@[[id]]` tokens (platform docs, Mentions)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from band_trio.localband.party import Party
from band_trio.stores.refusal import invalid, word

_POINTER: Final = "/message/mentions"
KINDS: Final = ("mention", "reference")


@attrs.frozen
class Mentioned:
    """A party that a message names."""

    party: Party
    kind: str = "mention"
    written: str | None = None
    """The display name as it stands in the text, if the client said so."""

    @property
    def delivers(self) -> bool:
        """Whether this makes the message work for the party; references never do."""
        return self.kind == "mention"

    def render(self) -> dict[str, Any]:
        """Return the item of `metadata.mentions`."""
        row = {"id": self.party.id, "handle": self.party.handle, "name": self.party.name}
        if not self.delivers:
            row["kind"] = self.kind
        return row


def resolve(items: Any, members: Mapping[str, Party], sender: Party) -> list[Mentioned]:
    """Find the parties that *items* name among the *members* of the room (id → party).

    Raises:
        Refusal: 422 with the word for what is wrong; nothing may be written then.
    """
    if items is None or items == []:
        raise word("mentions_required", _POINTER)
    if not isinstance(items, list):
        raise invalid(_POINTER, "must be a list")
    found: list[Mentioned] = []
    seen: set[str] = set()
    for index, item in enumerate(items):
        pointer = f"{_POINTER}/{index}"
        mentioned = _resolve_one(item, members, pointer)
        if mentioned.party is sender:
            raise word("cannot_mention_self", pointer)
        if mentioned.party.id in seen:
            raise word("duplicate_mentions", pointer)
        seen.add(mentioned.party.id)
        found.append(mentioned)
    return found


def _resolve_one(item: Any, members: Mapping[str, Party], pointer: str) -> Mentioned:
    if not isinstance(item, dict):
        raise invalid(pointer, "must be an object")
    for name in ("id", "handle", "name"):
        if not isinstance(item.get(name), str | None):
            raise invalid(f"{pointer}/{name}", "must be a string")
    kind = item.get("kind", "mention")
    if kind not in KINDS:
        raise word("invalid_mention_kind", f"{pointer}/kind")
    if item.get("id"):
        party = members.get(item["id"])
        if party is None:
            raise word("mentioned_participant_not_in_room", pointer)
    elif item.get("handle"):
        party = _by_handle(item["handle"], members.values())
        if party is None:
            raise word("handle_not_found", pointer)
    else:
        raise word("mention_missing_identifier", pointer)
    return Mentioned(party, kind, item.get("name") or None)


def _by_handle(handle: str, parties: Iterable[Party]) -> Party | None:
    wanted = handle.removeprefix("@").lower()
    return next((party for party in parties if party.handle.lower() == wanted), None)


def token(party_id: str) -> str:
    """Return how a mention of that party stands in stored content."""
    return f"@[[{party_id}]]"


def rewrite(content: str, mentions: Sequence[Mentioned]) -> str:
    """Return *content* as it is stored: tokens in place of names, missing ones in front."""
    names: dict[str, str] = {}
    for mention in mentions:
        for name in _names(mention):
            names.setdefault(name.lower(), token(mention.party.id))
    # The longest first, or `@demo` would take the beginning of `@demo/scribe`.
    longest = sorted(names, key=len, reverse=True)
    pattern = "|".join(re.escape(name) for name in longest)
    content = re.sub(
        rf"(?<![\w@])@({pattern})(?![\w/-])",
        lambda match: names.get(match[1].lower(), match[0]),
        content,
        flags=re.IGNORECASE,
    )
    missing = [t for m in mentions if (t := token(m.party.id)) not in content]
    return "".join(f"{t} " for t in missing) + content


def _names(mention: Mentioned) -> Iterable[str]:
    party = mention.party
    yield party.handle
    for name in (party.name, mention.written):
        if name and name.strip():
            yield name.strip()
            yield "-".join(name.split())

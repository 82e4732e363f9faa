"""Whom a text means: names, handles and ids against the people of a room.

Pure. Every lookup has exactly one answer or none; where a name fits several people the caller
learns their handles and ids instead of getting one of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from band_trio import texts
from band_trio.errors import BandToolError, MentionError
from band_trio.protocol.rest import Mention
from band_trio.tools.conversation import bare_handle

HINTED: Final = 30
"""Most handles in one hint."""

_MARKER: Final = re.compile(r"@*\[\[\s*(.*?)\s*\]\]", re.DOTALL)
_TRAILING: Final = ",.;:!?"

Person = Mapping[str, Any]
"""Somebody with at least `id`; `handle` and `name` may be missing."""


def clean_mention(text: str) -> str:
    """Return what a mention names, without white space, marker, `@` and trailing punctuation."""
    text = text.strip().rstrip(_TRAILING).strip()
    marker = _MARKER.fullmatch(text)
    if marker:
        return marker[1].strip()
    return text.lstrip("@").strip()


def split_mentions(text: str) -> list[Any]:
    """Read several mentions out of one text: JSON, `[@a]`, or `@a, @b`."""
    text = text.strip()
    if text.startswith(("[", "{")) and not _MARKER.fullmatch(text):
        try:
            parsed = json.loads(text)
        except (ValueError, RecursionError):
            text = text.removeprefix("[").removesuffix("]")
        else:
            return parsed if isinstance(parsed, list) else [parsed]
    parts = (part.strip().strip("\"'") for part in text.split(","))
    return [part for part in parts if part] or [text]


def mention_text(entry: Mapping[str, Any]) -> str | None:
    """Return the id of a mention that is an object, else its handle, else its name."""
    for key in ("id", "handle", "name"):
        value = entry.get(key)
        if isinstance(value, str) and value.strip():
            return value
    return None


# --------------------------------------------------------------------------- one person


def find_person(
    text: str, people: Iterable[Person], *, error: type[BandToolError]
) -> Person | None:
    """Return whom *text* means; None if nobody.

    In this order: exact handle, handle in any case, id, exact name, name in any case. A name
    that equals somebody else's handle or id never wins over it.

    Raises:
        BandToolError: (as *error*) several people fit.
    """
    people = list(people)
    wanted = bare_handle(text)
    folded = wanted.casefold()
    if not wanted:
        return None
    steps = (
        [p for p in people if bare_handle(p.get("handle")) == wanted],
        [p for p in people if bare_handle(p.get("handle")).casefold() == folded],
        [p for p in people if p.get("id") == wanted],
        [p for p in people if _name(p) == wanted],
        [p for p in people if _name(p).casefold() == folded],
    )
    hits = _distinct(next((step for step in steps if step), []))
    if len(hits) > 1:
        raise error(texts.ambiguous(wanted, "; ".join(describe(each) for each in hits)))
    return hits[0] if hits else None


def _name(person: Person) -> str:
    name = person.get("name")
    return name.strip() if isinstance(name, str) else ""


def _distinct(people: Sequence[Person]) -> list[Person]:
    return list({str(person.get("id")): person for person in people}.values())


def describe(person: Person) -> str:
    """Name a person by handle and id, as far as both are known."""
    handle = bare_handle(person.get("handle"))
    return f"@{handle} (id {person.get('id')})" if handle else f"id {person.get('id')}"


# --------------------------------------------------------------------------- all mentions


def mention_entries(mentions: object) -> list[Any]:
    """Return the entries of an argument that may be a list, one text, one object or nothing."""
    if mentions is None:
        return []
    if isinstance(mentions, str):
        return split_mentions(mentions)
    if isinstance(mentions, Mapping):
        return [mentions]
    if isinstance(mentions, Iterable):
        return list(mentions)
    raise MentionError(texts.empty_mention(mentions))


def resolve_entry(entry: object, roster: Sequence[Person]) -> Mention | str:
    """Return whom one entry means, or the cleaned text where nobody in *roster* fits.

    Raises:
        MentionError: nothing is named, or several people fit.
    """
    if isinstance(entry, Mapping):
        given = entry.get("id")
        if isinstance(given, str) and given.strip():
            return _by_id(given.strip(), entry, roster)
        entry = mention_text(entry)
    if not isinstance(entry, str):
        raise MentionError(texts.empty_mention(entry))
    name = clean_mention(entry)
    if not name:
        raise MentionError(texts.empty_mention(entry))
    # A display name may itself end with punctuation ("J. R."): the longer form gets a chance too.
    for form in dict.fromkeys([name, entry.strip()]):
        person = find_person(form, roster, error=MentionError)
        if person is not None:
            return Mention(str(person["id"]), bare_handle(person.get("handle")) or None)
    return name


def _by_id(given: str, entry: Mapping[str, Any], roster: Sequence[Person]) -> Mention:
    known = next((person for person in roster if person.get("id") == given), entry)
    return Mention(given, bare_handle(known.get("handle")) or None)


def to_send(mentions: Iterable[Mention], agent_id: str | None) -> list[Mention]:
    """Return *mentions* without doubles and without the agent itself, in order.

    Raises:
        MentionError: nobody is left.
    """
    kept = {mention.id: mention for mention in mentions if mention.id != agent_id}
    if not kept:
        raise MentionError(texts.NO_MENTION)
    return list(kept.values())


def mentionable(roster: Iterable[Person], agent_id: str | None) -> list[str]:
    """Return the handles that can be mentioned, with `@`, without the agent's own."""
    handles = (
        bare_handle(person.get("handle")) for person in roster if person.get("id") != agent_id
    )
    return [f"@{handle}" for handle in dict.fromkeys(handles) if handle]


def with_handles_hint(text: str, handles: Sequence[str]) -> str:
    """Add to *text*, once, whom one can mention."""
    if texts.HINT in text or texts.NOBODY_TO_MENTION in text:
        return text
    if not handles:
        return f"{text} {texts.NOBODY_TO_MENTION}"
    more = f" and {len(handles) - HINTED} more" if len(handles) > HINTED else ""
    return f"{text} {texts.HINT}{', '.join(handles[:HINTED])}{more}."


def append_mention_handles_hint(error: MentionError, handles: Sequence[str]) -> MentionError:
    """Return *error* with the hint in its text; one that has it already stays as it is."""
    text = str(error)
    hinted = with_handles_hint(text, handles)
    return error if hinted == text else MentionError(hinted)

"""The messages of one turn: what is older than it, and what it adds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

import attrs

from band_trio.adapters.repeats import causes, class_names, may_pass
from band_trio.errors import ProviderRunError

M = TypeVar("M")

AsFirst = Callable[[M], M | None]
"""Returns a message as the first of a list; None if it cannot be."""

_NOT_OF_CONTENT: Final = frozenset({401, 402, 408, 409, 429})
"""Refusals of who asks, or when; the others may be about what the request holds."""
_UNREADABLE: Final = frozenset({"JSONDecodeError", "ModelAPIError", "UnexpectedModelBehavior"})
"""Classes of errors about an answer, by name: the request was accepted then."""

_MISREAD: Final = (TypeError, AttributeError, LookupError)
"""How SDKs fail over an answer that is none of their API's."""


def is_refusal(exc: BaseException) -> bool:
    """Tell whether a request may have failed for what it holds: refused, or never built.

    Where that cannot be told it counts as one: what no request can hold must not stay in a room.
    """
    if isinstance(exc, ProviderRunError) or may_pass(exc):
        return False
    status = getattr(exc, "status_code", None)
    if isinstance(status, int):
        return 400 <= status < 500 and status not in _NOT_OF_CONTENT
    return all(_UNREADABLE.isdisjoint(class_names(each)) for each in causes(exc))


def may_pass_shorter(exc: BaseException) -> bool:
    """Tell whether a request that failed may be accepted with less in it."""
    return is_refusal(exc) and not isinstance(exc, _MISREAD)


@attrs.frozen
class Talk(Generic[M]):
    """The messages of one turn; lists of messages, of which only `messages` grows."""

    before: list[M]
    """What was kept before the turn."""
    messages: list[M]
    """What the model is sent."""
    first: M
    """The turn's first message, without what is older and has been joined to it."""
    older: int
    """How many of `messages` are older than the turn; the next one may hold older text, too."""

    def cut(self, place: int, as_first: AsFirst[M]) -> Talk[M]:
        """Return the talk from *place* on, which is not newer than the turn's first message."""
        return Talk(
            from_place(self.before, place, as_first),
            from_place(self.messages, place, as_first),
            self.first,
            self.older - place,
        )

    def halved(self, as_first: AsFirst[M]) -> Talk[M] | None:
        """Return the talk without the older half of what is older; None where nothing is."""
        if not self.before:
            return None
        for place in range(max(1, (self.older + 1) // 2), self.older):
            if as_first(self.messages[place]) is not None:
                return self.cut(place, as_first)
        return Talk([], [self.first, *self.messages[self.older + 1 :]], self.first, 0)


def start_of(messages: list[M], limit: int, as_first: AsFirst[M]) -> int:
    """Return where the newest *limit* messages begin, at one that can be the first.

    Where the last turn alone is longer, all of it stays: it is never cut in two.
    """
    surplus = len(messages) - limit
    if surplus <= 0:
        return 0
    places = [*range(surplus, len(messages)), *range(surplus - 1, 0, -1)]
    return next((place for place in places if as_first(messages[place]) is not None), 0)


def from_place(messages: list[M], place: int, as_first: AsFirst[M]) -> list[M]:
    """Return *messages* from *place* on, the first of them made fit to be that."""
    if not place:
        return messages
    if place >= len(messages):
        return []
    first = as_first(messages[place])
    return messages[place + 1 :] if first is None else [first, *messages[place + 1 :]]

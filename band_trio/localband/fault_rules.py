"""What a fault rule is: the facts it looks at, what it does, and how often."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Generic, TypeVar

import attrs
import trio

from band_trio.localband.party import Ref, id_of
from band_trio.localband.routes import Reply
from band_trio.protocol.phoenix import Frame

# --------------------------------------------------------------------------- what rules look at


@attrs.frozen
class RequestFacts:
    """What is known of a REST request before anything is done about it."""

    method: str
    path: str
    route: str
    agent_id: str | None
    """Whose key it is; a person's id for a person."""
    room_id: str | None
    message_id: str | None
    body: bytes = b""


@attrs.frozen
class PushFacts:
    """A push on its way to one socket."""

    agent_id: str
    frame: Frame

    @property
    def room_id(self) -> str | None:
        """The room of the topic."""
        kind, _, subject = self.frame.topic.partition(":")
        return subject if kind in ("chat_room", "room_participants", "room_tasks") else None

    @property
    def message_id(self) -> str | None:
        """The id in the payload."""
        value = self.frame.payload.get("id")
        return value if isinstance(value, str) else None


@attrs.frozen
class JoinFacts:
    """A join, or a heartbeat (topic `phoenix`)."""

    agent_id: str
    topic: str


@attrs.frozen
class UpgradeFacts:
    """A request to open a socket."""

    agent_id: str | None
    query: Mapping[str, str]


# --------------------------------------------------------------------------- what rules do


class Cut(StrEnum):
    """How a connection is cut."""

    FIN = "fin"
    """The peer sees an orderly end of the bytes, without a close frame."""
    RST = "rst"
    """The peer sees a reset."""


@attrs.frozen
class RequestFault:
    """Steps, in this order: wait, act or not, hang, wait, cut or answer."""

    delay: float = 0
    """Seconds before the platform acts."""
    commit: bool = True
    """Whether the platform acts on the request."""
    hang: bool = False
    """No answer until the rule is lifted."""
    delay_answer: float = 0
    """Seconds between the act and the answer."""
    cut: bool = False
    """End the connection instead of answering."""
    unreachable: bool = False
    """In memory: the request never reaches the platform, and the client can tell."""
    answer: Reply | None = None
    """Answered in place of the real answer."""
    raw: bytes | None = None
    """The body of *answer*, as it is."""


class PushAction(StrEnum):
    """What happens to a push; see the methods of `Faults`."""

    SUPPRESS = "suppress"
    DELAY = "delay"
    DUPLICATE = "duplicate"
    HOLD = "hold"
    ALTER = "alter"


Alter = Callable[[Frame], Frame | str | None]
"""Returns the frame to send instead, raw text, or None for nothing."""


@attrs.frozen
class PushFault:
    """An action on pushes with its numbers."""

    action: PushAction
    seconds: float = 0
    copies: int = 2
    alter: Alter | None = None


@attrs.frozen
class JoinFault:
    """Reject a join with *reason*, or ignore it when that is None."""

    reason: str | None


@attrs.frozen
class UpgradeFault:
    """The refusal of a socket."""

    answer: Reply


@attrs.frozen
class MuteFault:
    """Heartbeats get no reply."""


Facts = TypeVar("Facts")
Action = TypeVar("Action")


@attrs.define(eq=False)
class Rule(Generic[Facts, Action]):
    """A fault and when it strikes."""

    action: Action
    matches: Callable[[Facts], bool] = attrs.field(repr=False)
    times: int | None
    """Strikes left; None for no limit."""
    skip: int = 0
    """Matches to let pass before the first strike."""
    hits: int = 0
    """Strikes so far."""
    lifted: trio.Event = attrs.field(factory=trio.Event, repr=False)
    held: list[Callable[[], None]] = attrs.field(factory=list, repr=False)

    def lift(self) -> None:
        """End the fault: nothing matches any more, hanging requests are answered, held pushes go."""
        self.lifted.set()
        self.release()

    def release(self, *, reverse: bool = False) -> int:
        """Send the pushes that are held, in order or the other way round; return how many."""
        held, self.held = self.held, []
        for send in reversed(held) if reverse else held:
            send()
        return len(held)

    def strikes(self, facts: Facts) -> bool:
        """Tell whether the rule applies now, and count it."""
        if self.lifted.is_set() or self.times == 0 or not self.matches(facts):
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.times is not None:
            self.times -= 1
        self.hits += 1
        return True


RequestRule = Rule[RequestFacts, RequestFault]
PushRule = Rule[PushFacts, PushFault]
JoinRule = Rule[JoinFacts, JoinFault]
UpgradeRule = Rule[UpgradeFacts, UpgradeFault]
MuteRule = Rule[JoinFacts, MuteFault]


def first(rules: list[Rule[Facts, Action]], facts: Facts) -> Rule[Facts, Action] | None:
    return next((rule for rule in rules if rule.strikes(facts)), None)


def matcher(when: Callable[[Any], bool] | None, **wanted: Ref | None) -> Callable[[Any], bool]:
    """Build a predicate: each word that was given must equal the fact of that name."""
    exact = {name: id_of(value) for name, value in wanted.items() if value is not None}

    def matches(facts: Any) -> bool:
        return all(getattr(facts, name) == value for name, value in exact.items()) and (
            when is None or when(facts)
        )

    return matches

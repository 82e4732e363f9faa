"""Faults as rules: what to break, where, and how often (for tests and for rehearsing outages).

Each method of `Faults` adds a rule and returns it. Rules are tried in the order in which they were
added and the first that matches strikes; a rule with `times` is used up after that many strikes,
the others go on until `lift()`. Matching words that are left out match everything. Rooms, messages
and agents may be given as ids or as objects that have an `id`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final, Generic, Protocol, TypeVar

import attrs
import trio

from band_trio.localband.routes import Reply
from band_trio.protocol.phoenix import Frame


class Identified(Protocol):
    """Anything with an id."""

    @property
    def id(self) -> str: ...


Ref = str | Identified


def id_of(ref: Ref) -> str:
    """Return the id of a reference."""
    return ref if isinstance(ref, str) else ref.id


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
        return subject if kind in ("chat_room", "room_participants") else None

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


def _first(rules: list[Rule[Facts, Action]], facts: Facts) -> Rule[Facts, Action] | None:
    return next((rule for rule in rules if rule.strikes(facts)), None)


def _matcher(when: Callable[[Any], bool] | None, **wanted: Ref | None) -> Callable[[Any], bool]:
    """Build a predicate: each word that was given must equal the fact of that name."""
    exact = {name: id_of(value) for name, value in wanted.items() if value is not None}

    def matches(facts: Any) -> bool:
        return all(getattr(facts, name) == value for name, value in exact.items()) and (
            when is None or when(facts)
        )

    return matches


@attrs.define(eq=False)
class Faults:
    """The rules of one platform."""

    requests: list[RequestRule] = attrs.field(factory=list)
    pushes: list[PushRule] = attrs.field(factory=list)
    joins: list[JoinRule] = attrs.field(factory=list)
    upgrades: list[UpgradeRule] = attrs.field(factory=list)
    heartbeats: list[MuteRule] = attrs.field(factory=list)

    def clear(self) -> None:
        """Lift every rule."""
        rules: list[Rule[Any, Any]] = [
            *self.requests,
            *self.pushes,
            *self.joins,
            *self.upgrades,
            *self.heartbeats,
        ]
        for rule in rules:
            rule.lift()
        for kind in (self.requests, self.pushes, self.joins, self.upgrades, self.heartbeats):
            kind.clear()

    # ------------------------------------------------------------------ REST

    def on_request(
        self,
        fault: RequestFault,
        *,
        route: str | None = None,
        method: str | None = None,
        room: Ref | None = None,
        message: Ref | None = None,
        agent: Ref | None = None,
        when: Callable[[RequestFacts], bool] | None = None,
        times: int | None = 1,
        skip: int = 0,
    ) -> RequestRule:
        """Add any fault of requests; the other methods are short forms of this one."""
        matches = _matcher(
            when, route=route, method=method, room_id=room, message_id=message, agent_id=agent
        )
        rule = RequestRule(fault, matches, times, skip)
        self.requests.append(rule)
        return rule

    def refuse(
        self,
        status: int = 503,
        code: str | None = None,
        *,
        message_text: str = "Injected fault",
        retry_after: float | str | None = None,
        details: Mapping[str, list[str]] | None = None,
        **match: Any,
    ) -> RequestRule:
        """Answer *status* without acting."""
        answer = error_reply(status, code, message_text, retry_after, details)
        return self.on_request(RequestFault(commit=False, answer=answer), **match)

    def delay(self, seconds: float, *, answer: bool = False, **match: Any) -> RequestRule:
        """Act late, or with *answer* act at once and answer late."""
        fault = RequestFault(delay_answer=seconds) if answer else RequestFault(delay=seconds)
        return self.on_request(fault, **match)

    def drop_after_commit(
        self, status: int = 500, code: str | None = None, **match: Any
    ) -> RequestRule:
        """Act, then answer as if something had gone wrong."""
        answer = error_reply(status, code, "Injected fault after the write", None, None)
        return self.on_request(RequestFault(answer=answer), **match)

    def hang(self, *, commit: bool = True, **match: Any) -> RequestRule:
        """Act or not, then never answer; `lift()` lets the answer go."""
        return self.on_request(RequestFault(commit=commit, hang=True), **match)

    def cut_request(self, *, commit: bool = True, **match: Any) -> RequestRule:
        """Act or not, then cut the connection without an answer."""
        return self.on_request(RequestFault(commit=commit, cut=True), **match)

    def unreachable(self, **match: Any) -> RequestRule:
        """Let the request fail before anything is sent (in memory; on loopback: cut)."""
        return self.on_request(RequestFault(commit=False, cut=True, unreachable=True), **match)

    def odd_answer(
        self, body: bytes, *, status: int = 200, commit: bool = True, **match: Any
    ) -> RequestRule:
        """Act or not, then answer with a body of any shape."""
        headers = {"content-type": "application/json"}
        fault = RequestFault(commit=commit, answer=Reply(status, None, headers), raw=body)
        return self.on_request(fault, **match)

    # ------------------------------------------------------------------ pushes

    def on_push(
        self,
        fault: PushFault,
        *,
        event: str | None = None,
        topic: str | None = None,
        room: Ref | None = None,
        message: Ref | None = None,
        agent: Ref | None = None,
        when: Callable[[PushFacts], bool] | None = None,
        times: int | None = 1,
        skip: int = 0,
    ) -> PushRule:
        """Add any fault of pushes; the other methods are short forms of this one."""

        def named(facts: PushFacts) -> bool:
            frame = facts.frame
            return event in (None, frame.event) and topic in (None, frame.topic)

        matches = _matcher(when, room_id=room, message_id=message, agent_id=agent)
        rule = PushRule(fault, lambda facts: named(facts) and matches(facts), times, skip)
        self.pushes.append(rule)
        return rule

    def suppress(self, **match: Any) -> PushRule:
        """Swallow pushes; what they tell of is true and listed all the same."""
        return self.on_push(PushFault(PushAction.SUPPRESS), **match)

    def delay_push(self, seconds: float, **match: Any) -> PushRule:
        """Send pushes late; others overtake them."""
        return self.on_push(PushFault(PushAction.DELAY, seconds=seconds), **match)

    def duplicate(self, copies: int = 2, **match: Any) -> PushRule:
        """Send pushes several times."""
        return self.on_push(PushFault(PushAction.DUPLICATE, copies=copies), **match)

    def hold(self, **match: Any) -> PushRule:
        """Keep pushes back until `release()`, in order or reversed."""
        return self.on_push(PushFault(PushAction.HOLD), **{"times": None, **match})

    def alter(self, change: Alter, **match: Any) -> PushRule:
        """Send something else instead: another frame, raw text, or nothing."""
        return self.on_push(PushFault(PushAction.ALTER, alter=change), **match)

    # ------------------------------------------------------------------ sockets

    def _on_join(
        self,
        reason: str | None,
        topic: str | None,
        agent: Ref | None,
        when: Callable[[JoinFacts], bool] | None,
        times: int | None,
    ) -> JoinRule:
        rule = JoinRule(JoinFault(reason), _matcher(when, topic=topic, agent_id=agent), times)
        self.joins.append(rule)
        return rule

    def reject_join(
        self,
        topic: str | None = None,
        *,
        reason: str = "unauthorized",
        agent: Ref | None = None,
        when: Callable[[JoinFacts], bool] | None = None,
        times: int | None = 1,
    ) -> JoinRule:
        """Answer joins with an error."""
        return self._on_join(reason, topic, agent, when, times)

    def ignore_join(
        self,
        topic: str | None = None,
        *,
        agent: Ref | None = None,
        when: Callable[[JoinFacts], bool] | None = None,
        times: int | None = 1,
    ) -> JoinRule:
        """Never answer joins."""
        return self._on_join(None, topic, agent, when, times)

    def refuse_upgrade(
        self,
        status: int = 503,
        code: str | None = None,
        *,
        retry_after: float | str | None = None,
        empty: bool = False,
        agent: Ref | None = None,
        when: Callable[[UpgradeFacts], bool] | None = None,
        times: int | None = 1,
    ) -> UpgradeRule:
        """Refuse sockets with *status*; *empty* leaves the body out."""
        answer = error_reply(status, code, "Injected refusal", retry_after, None)
        if empty:
            answer = Reply(status, None, answer.headers)
        rule = UpgradeRule(UpgradeFault(answer), _matcher(when, agent_id=agent), times)
        self.upgrades.append(rule)
        return rule

    def mute_heartbeats(self, agent: Ref | None = None, *, times: int | None = None) -> MuteRule:
        """Leave heartbeats without a reply; everything else goes on."""
        rule = MuteRule(MuteFault(), _matcher(None, agent_id=agent), times)
        self.heartbeats.append(rule)
        return rule

    # ------------------------------------------------------------------ asked by the platform

    def for_request(self, facts: RequestFacts) -> RequestRule | None:
        """Return the rule that strikes this request."""
        return _first(self.requests, facts)

    def for_push(self, facts: PushFacts) -> PushRule | None:
        """Return the rule that strikes this push."""
        return _first(self.pushes, facts)

    def for_join(self, facts: JoinFacts) -> JoinRule | None:
        """Return the rule that strikes this join."""
        return _first(self.joins, facts)

    def for_upgrade(self, facts: UpgradeFacts) -> UpgradeRule | None:
        """Return the rule that strikes this upgrade."""
        return _first(self.upgrades, facts)

    def mutes(self, facts: JoinFacts) -> bool:
        """Tell whether this heartbeat stays without a reply."""
        return _first(self.heartbeats, facts) is not None


_CODES: Final = {
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    409: "conflict",
    422: "validation_error",
    429: "too_many_requests",
    503: "unavailable",
}


def error_reply(
    status: int,
    code: str | None,
    message: str,
    retry_after: float | str | None,
    details: Mapping[str, list[str]] | None,
) -> Reply:
    """Build the answer of a fault, with the header and the body field for waiting."""
    error: dict[str, Any] = {
        "code": code or _CODES.get(status, "internal_error"),
        "message": message,
        "request_id": "fault",
    }
    if details is not None:
        error["details"] = dict(details)
    headers: dict[str, str] = {}
    if retry_after is not None:
        headers["retry-after"] = str(retry_after)
        if isinstance(retry_after, int | float):
            error["retry_after"] = int(retry_after)
    return Reply(status, {"error": error}, headers)

"""Faults as rules: what to break, where, and how often (for tests and for rehearsing outages).

Each method of `Faults` adds a rule and returns it. Rules are tried in the order in which they were
added and the first that matches strikes; a rule with `times` is used up after that many strikes,
the others go on until `lift()`. Matching words that are left out match everything. Rooms, messages
and agents may be given as ids or as objects that have an `id`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from band_trio.localband.fault_rules import (
    Alter,
    JoinFacts,
    JoinFault,
    JoinRule,
    MuteFault,
    MuteRule,
    PushAction,
    PushFacts,
    PushFault,
    PushRule,
    RequestFacts,
    RequestFault,
    RequestRule,
    Rule,
    UpgradeFacts,
    UpgradeFault,
    UpgradeRule,
    first,
    matcher,
)
from band_trio.localband.party import Ref
from band_trio.localband.routes import Reply


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
        matches = matcher(
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

        matches = matcher(when, room_id=room, message_id=message, agent_id=agent)
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
        rule = JoinRule(JoinFault(reason), matcher(when, topic=topic, agent_id=agent), times)
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
        rule = UpgradeRule(UpgradeFault(answer), matcher(when, agent_id=agent), times)
        self.upgrades.append(rule)
        return rule

    def mute_heartbeats(self, agent: Ref | None = None, *, times: int | None = None) -> MuteRule:
        """Leave heartbeats without a reply; everything else goes on."""
        rule = MuteRule(MuteFault(), matcher(None, agent_id=agent), times)
        self.heartbeats.append(rule)
        return rule

    # ------------------------------------------------------------------ asked by the platform

    def for_request(self, facts: RequestFacts) -> RequestRule | None:
        """Return the rule that strikes this request."""
        return first(self.requests, facts)

    def for_push(self, facts: PushFacts) -> PushRule | None:
        """Return the rule that strikes this push."""
        return first(self.pushes, facts)

    def for_join(self, facts: JoinFacts) -> JoinRule | None:
        """Return the rule that strikes this join."""
        return first(self.joins, facts)

    def for_upgrade(self, facts: UpgradeFacts) -> UpgradeRule | None:
        """Return the rule that strikes this upgrade."""
        return first(self.upgrades, facts)

    def mutes(self, facts: JoinFacts) -> bool:
        """Tell whether this heartbeat stays without a reply."""
        return first(self.heartbeats, facts) is not None


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

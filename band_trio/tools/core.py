"""What all tools of one turn share: the fence, the ledger, the roster and the limits of a call.

The tools object is made once per turn, so making it costs a few assignments; methods are wrapped
once, when their class is defined.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import cached_property, partial, wraps
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar, cast

import attrs
import trio

from band_trio import texts
from band_trio.errors import (
    BandApiError,
    BandConnectionError,
    BandToolError,
    OutcomeUnknownError,
    RoomExecutionStoppedError,
)
from band_trio.features import CustomToolDef
from band_trio.link.rest.routes import UNREADABLE, Route, says_stopped
from band_trio.protocol.rest import Page, Participant, Peer
from band_trio.tools.context import RoomContext
from band_trio.tools.conversation import bare_handle
from band_trio.tools.custom import CustomTools
from band_trio.tools.definitions import ToolDefinition
from band_trio.tools.direct import AnswersNames, argument_check
from band_trio.tools.flights import FlightLostError, Flights
from band_trio.tools.ledger import Ledger, TurnListener
from band_trio.tools.mentions import mentionable
from band_trio.tools.rest_port import ToolRest
from band_trio.tools.results import without_nulls
from band_trio.types import AdapterFeatures, ToolCallOutcome, ToolCategory, TurnEffect

_log: Final = logging.getLogger(__name__)

ROSTER_FIELDS: Final = ("id", "name", "type", "handle", "description")
"""What is known of a participant between turns."""

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")
C = TypeVar("C", bound="ToolCore")
Method = Callable[Concatenate[C, P], Coroutine[Any, Any, R]]


def fenced(
    method: Method[C, P, R], inputs: type[attrs.AttrsInstance] | None = None
) -> Method[C, P, R]:
    """Refuse the call when the turn is over or an argument is of a wrong kind; tell the runtime of
    a stop seen in an answer."""
    check = argument_check(method, inputs)

    @wraps(method)
    async def call(self: C, /, *args: P.args, **kwargs: P.kwargs) -> R:
        self.turn.check_open()
        check(args, kwargs)
        try:
            return await method(self, *args, **kwargs)
        except RoomExecutionStoppedError:
            self.turn.tell(lambda listener: listener.stop_observed())
            raise
        except BandApiError as exc:
            if not says_stopped(exc.status, exc):
                raise
            self.turn.tell(lambda listener: listener.stop_observed())
            raise RoomExecutionStoppedError(self.room_id) from exc

    return call


def platform_tool(
    inputs: type[attrs.AttrsInstance],
    category: ToolCategory,
    effect: TurnEffect,
    *,
    room_bound: bool = False,
) -> Callable[[Method[C, P, R]], Method[C, P, R]]:
    """Make a method the platform tool of its name: fenced, and *effect* recorded when it succeeds.

    Its description and arguments are those of *inputs*; *room_bound* says that it acts in the room.
    Dispatch, direct calls and relays all go through the method, so all of them count.
    """

    def wrap(method: Method[C, P, R]) -> Method[C, P, R]:
        row = ToolDefinition(f"band_{method.__name__}", inputs, category, effect, room_bound)
        return recorded(row, method)

    return wrap


def recorded(row: ToolDefinition, method: Method[C, P, R]) -> Method[C, P, R]:
    """Return *method* as what the tool *row* does."""
    guarded = fenced(method, row.input_model)

    @wraps(method)
    async def call(self: C, /, *args: P.args, **kwargs: P.kwargs) -> R:
        result = await guarded(self, *args, **kwargs)
        if result is not None:
            self.turn.record(TurnEffect.OBSERVE if _did_nothing(result) else row.effect)
        return result

    call.definition = row  # type: ignore[attr-defined]
    return call


def tools_of(*families: type) -> list[ToolDefinition]:
    """Return the tools among the methods of *families*."""
    methods = [each for family in families for each in vars(family).values()]
    return [each.definition for each in methods if hasattr(each, "definition")]


def _did_nothing(result: object) -> bool:
    """Tell whether a changing tool found its work done already."""
    return isinstance(result, dict) and result.get("status") == "already_in_room"


_NO_TOOLS: Final = CustomTools()


class ToolCore(AnswersNames):
    """Base of the tools object; see `band_trio.tools.agent_tools.AgentTools`."""

    def __init__(
        self,
        room_id: str,
        rest: ToolRest,
        participants: Iterable[Mapping[str, Any]] | None = None,
        *,
        hub_room_id: str | None = None,
        agent_id: str | None = None,
        features: AdapterFeatures | None = None,
        turn: Ledger | None = None,
        custom_tools: Iterable[CustomToolDef] = (),
    ) -> None:
        self.room_id = room_id
        """The room that these tools act in."""
        self.rest = rest
        """The platform, for what no tool covers. Calls through it bypass fence and ledger."""
        self.agent_id = agent_id
        """The agent itself; None in scripts, where nothing is known to be oneself."""
        self.features = features
        """What the adapter may use; None opens everything to dispatch, for scripts."""
        self.turn: Ledger = turn if turn is not None else Ledger()
        """The ledger of the turn that these tools belong to."""
        self.custom_tools = CustomTools.of(custom_tools) if custom_tools else _NO_TOOLS
        """Tools of the application; those of the platform are looked up first."""
        self._hub_room_id = hub_room_id
        self._roster: list[dict[str, Any]] = [dict(person) for person in participants or ()]

    @classmethod
    def from_context(cls, ctx: RoomContext) -> Self:
        """Make the tools for the turn that *ctx* describes."""
        return cls(
            ctx.room_id,
            ctx.rest,
            ctx.participants,
            hub_room_id=ctx.hub_room_id,
            agent_id=ctx.agent_id,
            features=ctx.features,
            # The context's ledger is the runtime's own, which is what the tools write.
            turn=cast(Ledger, ctx.turn),
        )

    # Calls under way, made with the first one: most turns make few.

    @cached_property
    def _calls(self) -> Flights[ToolCallOutcome]:
        return Flights(keep=True)

    @cached_property
    def _sends(self) -> Flights[dict[str, Any]]:
        return Flights(keep=False)

    @cached_property
    def _roster_reads(self) -> Flights[Page[Participant]]:
        return Flights(keep=False)

    @property
    def participants(self) -> list[dict[str, Any]]:
        """Who is in the room, as far as known: id, name, type, handle, description (a copy)."""
        return [dict(person) for person in self._roster]

    @property
    def is_hub_room(self) -> bool:
        """Whether this is the room in which contact events arrive."""
        return self._hub_room_id is not None and self.room_id == self._hub_room_id

    def available_mention_handles(self) -> list[str]:
        """Return the handles that can be mentioned, with `@`, without the agent's own."""
        return mentionable(self._roster, self.agent_id)

    # ----------------------------------------------------------------- limits of a call

    def _deadline(self) -> float:
        """Return when a call that begins now has to be over (trio time)."""
        return trio.current_time() + self.rest.call_seconds

    @contextmanager
    def _reading(self, deadline: float) -> Generator[None]:
        """Bound requests that change nothing.

        Raises:
            BandToolError: they timed out, or the platform was not reached.
        """
        try:
            with trio.move_on_at(deadline) as scope:
                yield
        except BandConnectionError as exc:
            raise BandToolError(texts.NOT_REACHED) from exc
        if scope.cancelled_caught:
            raise BandToolError(texts.READ_TIMED_OUT)

    @contextmanager
    def _writing(
        self, deadline: float, effect: TurnEffect, *, repeated: bool = False
    ) -> Generator[None]:
        """Bound one request that changes something.

        *repeated* says that the client repeats it by itself: when it gives up, an earlier try
        may have worked.

        A caller that is cancelled in the middle leaves *effect* behind, because the request may
        have worked and running the turn again could do it twice.

        Raises:
            BandToolError: the platform was not reached, so nothing was done.
            OutcomeUnknownError: nobody knows what was done.
        """
        self.turn.check_open()
        try:
            with trio.move_on_at(deadline) as scope:
                yield
        except OutcomeUnknownError:
            raise
        except BandConnectionError as exc:
            if repeated:
                raise OutcomeUnknownError("no answer to any try") from exc
            raise BandToolError(texts.NOT_REACHED) from exc
        except BandApiError as exc:
            if repeated and exc.may_have_worked:
                raise OutcomeUnknownError("no definite answer to any try") from exc
            raise
        except trio.Cancelled:
            self.turn.record(effect)
            raise
        if scope.cancelled_caught:
            raise OutcomeUnknownError("the call timed out after its request was sent")

    @contextmanager
    def _changing(self, *, repeated: bool = False) -> Generator[None]:
        """Bound the one request of a tool that changes something; see `_writing`.

        Raises:
            BandToolError: the platform was not reached, or nobody knows what was done. The turn
                counts as having acted in the second case.
        """
        try:
            with self._writing(self._deadline(), TurnEffect.ACT, repeated=repeated):
                yield
        except OutcomeUnknownError as exc:
            self.turn.record(TurnEffect.ACT)
            raise BandToolError(texts.MAY_HAVE_WORKED) from exc

    async def _ask(self, route: Route[A], /, **values: Any) -> A:
        """Make a request that changes nothing. Errors: see `_reading`, and BandApiError."""
        with self._reading(self._deadline()):
            return await self.rest.request(route, **values)

    async def _change(self, route: Route[A], /, **values: Any) -> A:
        """Make a request that changes something. Errors: see `_changing`, and BandApiError."""
        with self._changing(repeated=route.method != "POST"):
            return await self.rest.request(route, **values)

    # ----------------------------------------------------------------- roster

    async def _refresh_roster(
        self, deadline: float, *, after_a_write: bool = False
    ) -> Page[Participant]:
        """Read who is in the room; an empty answer is a glitch and changes nothing.

        Where a row could not be read, nobody is taken for absent.

        Callers at one moment share one request, and what came of it; a caller that is cancelled
        leaves it to the others. *after_a_write* joins none, which may have begun before.
        """
        if after_a_write:
            self._roster_reads.forget(self.room_id)
        page: Page[Participant] | None = None
        while page is None:
            try:
                with self._reading(deadline):
                    page = await self._roster_reads.run(self.room_id, self._read_roster)
            except FlightLostError:
                continue  # the one who asked first was cancelled
        self.turn.check_open()
        if not page.items:
            # The agent itself is a participant, so a true list is never empty.
            _log.warning("room %s: an empty participant list was ignored", self.room_id)
            return page
        unlisted = {person.get("id"): person for person in self._roster}
        seen = [_merged(unlisted.pop(row.id, None), roster_entry(row)) for row in page.items]
        self._roster = [*seen, *unlisted.values()] if page.dropped else seen
        if page.dropped:
            for person in seen:
                self.turn.tell(partial(_tell_seen, dict(person)))
        else:
            roster = self.participants
            self.turn.tell(lambda listener: listener.roster_read(roster))
        return page

    async def _read_roster(self) -> Page[Participant]:
        try:
            return await self.rest.list_participants(self.room_id)
        except BandApiError as exc:
            if exc.code != UNREADABLE:
                raise
            return Page([])

    def _note_present(self, entry: dict[str, Any]) -> None:
        """Put somebody into the roster at once: the platform may list them only later."""
        known = next((p for p in self._roster if p.get("id") == entry["id"]), None)
        others = [p for p in self._roster if p.get("id") != entry["id"]]
        merged = _merged(known, entry)
        self._roster_reads.forget(self.room_id)  # one under way may not show it
        self._roster = [*others, merged]
        self.turn.tell(lambda listener: listener.participant_seen(dict(merged)))

    def _note_absent(self, participant_id: str) -> None:
        self._roster_reads.forget(self.room_id)
        self._roster = [p for p in self._roster if p.get("id") != participant_id]
        self.turn.tell(lambda listener: listener.participant_gone(participant_id))


def _tell_seen(person: dict[str, Any], listener: TurnListener) -> None:
    listener.participant_seen(person)


def roster_entry(person: Participant | Peer) -> dict[str, Any]:
    """Return what is kept of a participant; missing fields are left out."""
    values = {name: getattr(person, name) for name in ROSTER_FIELDS}
    return without_nulls({**values, "handle": bare_handle(person.handle) or None})


def _merged(known: Mapping[str, Any] | None, fresh: dict[str, Any]) -> dict[str, Any]:
    """Lay *fresh* over what was known: what is missing now does not erase it."""
    return {**known, **fresh} if known else fresh

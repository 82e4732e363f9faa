"""The tool loop that the adapters for models share: ask, run the tools asked for, ask again.

What an adapter adds is the dialect: how its API writes messages, and one request to it.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final, Generic, TypeVar, Unpack

import attrs

from band_trio.adapters.base import SimpleAdapter
from band_trio.adapters.options import ModelConfig
from band_trio.adapters.prompts import repeat_notice, system_updates
from band_trio.adapters.replies import (
    NO_USAGE,
    ModelReply,
    ToolRequest,
    clean_calls,
    declined,
    sendable,
)
from band_trio.adapters.talk import Talk, from_place, is_refusal, may_pass_shorter, start_of
from band_trio.converters.exchanges import INTERRUPTED_TOOL_TEXT
from band_trio.errors import InputNotAccepted, ProviderRunError
from band_trio.features import CustomToolDef
from band_trio.kit.hygiene import (
    error_line,
    redact_credentials,
    without_surrogates,
    without_surrogates_deep,
)
from band_trio.tools.failures import AgentFailure, generic_provider_failure
from band_trio.tools.narration import execute_narrated
from band_trio.tools.protocol import AgentToolsProtocol
from band_trio.tools.relay import relay_reply
from band_trio.types import (
    SYNTHETIC_SENDER_TYPE,
    Capability,
    Emit,
    FeatureKwargs,
    HistoryConverter,
    PlatformMessage,
    ToolCallOutcome,
    ToolFormat,
    TurnUsage,
)

_log: Final = logging.getLogger(__name__)

M = TypeVar("M")
C = TypeVar("C", bound=ModelConfig)

TOO_MANY_ROUNDS: Final = "max_tool_rounds"
TOO_MANY_ROUNDS_TEXT: Final = (
    "The agent kept calling tools over this message without coming to an end, and was stopped."
)


def _without_result(text: str) -> ToolCallOutcome:
    return ToolCallOutcome(text, ok=False, error_message=text)


_INTERRUPTED: Final = _without_result(INTERRUPTED_TOOL_TEXT)
_ONE_TOO_MANY: Final = _without_result(
    "Error: this call was not run; there were too many rounds of calls."
)
REFUSED_RESULT: Final = "(the result of this call is left out: the request with it failed)"
_REFUSED: Final = ToolCallOutcome(REFUSED_RESULT, ok=True)
_CUT: Final = _without_result(
    "Error: this call was not run; the answer was cut by the limit of tokens. Be shorter."
)


class ModelLoopAdapter(SimpleAdapter[list[M]], Generic[M, C]):
    """Base of the adapters for models; *M* is a message of the API, *C* the class of options.

    The messages of a room are kept under its id. Of a turn that was cancelled or failed, what it
    came to is kept, so that the next one knows what was said and done; calls without a result are
    told to be interrupted. A turn whose request was refused, or could not be built, leaves nothing:
    what is wrong may be in its messages; if it has replied, only the newest results are left out.
    A turn that is run once more goes on behind that, and is told that it may have answered.

    A refused request is asked again without the older half of what is older than the turn, until
    it is accepted or nothing older is left: it may have been too long.

    Lists grow by new messages; a message that is in a list is never changed.
    """

    SUPPORTED_EMIT: ClassVar[frozenset[Emit]] = Emit.TOOL_CALLS | Emit.USAGE
    SUPPORTED_CAPABILITIES: ClassVar[frozenset[Capability]] = frozenset(Capability)
    PROVIDER: ClassVar[str]
    """Who is named when the room is told about a failure."""
    TOOL_FORMAT: ClassVar[ToolFormat]

    def __init__(
        self,
        config: C,
        history_converter: HistoryConverter[list[M]],
        *,
        additional_tools: Sequence[CustomToolDef] = (),
        tool_timeout: float | None = None,
        **features: Unpack[FeatureKwargs],
    ) -> None:
        super().__init__(
            history_converter=history_converter,
            additional_tools=additional_tools,
            tool_timeout=tool_timeout,
            **features,
        )
        self.config: C = config
        self.model_selection = config.model
        # One entry for each room that the agent is in; `on_cleanup` removes it.
        self._rooms: dict[str, _Room[M]] = {}

    # ----------------------------------------------------------------- the dialect

    @abstractmethod
    async def ask(
        self, system: str, messages: Sequence[M], tools: list[dict[str, Any]]
    ) -> ModelReply[M]:
        """Send one request to the model and read the answer. Whatever it raises fails the turn."""

    @abstractmethod
    def add_user_text(self, messages: list[M], text: str) -> None:
        """Append *text* as the user's, to the last message where that is the user's."""

    @abstractmethod
    def add_results(
        self,
        messages: list[M],
        calls: Sequence[ToolRequest],
        outcomes: Sequence[ToolCallOutcome],
    ) -> None:
        """Append exactly one result for each call, in order."""

    @abstractmethod
    def call_ids(self, message: M) -> Iterable[str]:
        """Return the ids of the calls that *message* asks for."""

    @abstractmethod
    def with_calls(self, message: M, calls: Sequence[ToolRequest]) -> M:
        """Return a model's *message* with *calls*, which can be sent back, in place of its own.

        They are as many as its own, in order; each has an object for arguments.
        """

    @abstractmethod
    def as_first(self, message: M) -> M | None:
        """Return *message* as the first of a list, without results; None if it cannot be."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be quoted: the provider's key, as far as it is known here."""
        return (self.config.provider_key,) if self.config.provider_key else ()

    # ----------------------------------------------------------------- memory

    async def on_cleanup(self, room_id: str) -> None:
        """Forget a room."""
        self._rooms.pop(room_id, None)

    async def cleanup_all(self) -> None:
        """Forget all rooms."""
        self._rooms.clear()

    def room_messages(self, room_id: str) -> list[M]:
        """Return what is kept of a room (a copy of the list)."""
        room = self._rooms.get(room_id)
        return list(room.messages) if room else []

    def _begun(self, msg: PlatformMessage, history: list[M], *, bootstrap: bool) -> list[M]:
        """Return what a turn begins with: what is kept of the room, else its history.

        What is kept has more than a history of the same beginning: also calls that nobody was told.
        """
        room = self._rooms.get(msg.room_id)
        if room is None or (bootstrap and room.began_with != msg.id):
            return history
        return room.messages

    def _trimmed(self, messages: list[M]) -> list[M]:
        """Return the newest messages, at most `max_history`, beginning with a user's text."""
        start = start_of(messages, self.config.max_history, self.as_first)
        return from_place(messages, start, self.as_first)

    # ----------------------------------------------------------------- a turn

    async def on_message(
        self,
        msg: PlatformMessage,
        tools: AgentToolsProtocol,
        history: list[M],
        participants_msg: str | None,
        contacts_msg: str | None,
        *,
        is_session_bootstrap: bool,
        room_id: str,
    ) -> None:
        """Let the model handle *msg*, with the tools of the room."""
        again = repeat_notice(tools.turn.attempt, self.features)
        updates = [system_updates(each) for each in (participants_msg, contacts_msg, again) if each]
        before = self._begun(msg, history, bootstrap=is_session_bootstrap)
        work = _Work(self._talk(before, [*updates, msg.format_for_llm()]))
        try:
            text = await self._loop(work, tools)
            if self.config.relay_final_text and msg.sender_type != SYNTHETIC_SENDER_TYPE:
                await relay_reply(tools, text, [msg.sender_id])
        finally:
            talk = work.talk
            kept = talk.messages if work.keep else talk.before
            began_with = msg.id if is_session_bootstrap else None
            self._rooms[room_id] = _Room(self._trimmed(kept), began_with)
            await self.emit_usage(tools, work.usage)  # noqa: ASYNC102 - not where it is cancelled

    def _talk(self, before: list[M], texts: list[str]) -> Talk[M]:
        """Return the messages that a turn begins with: *before*, and the user's *texts*."""
        messages, own = list(before), list[M]()
        for text in map(without_surrogates, texts):
            self.add_user_text(messages, text)
            self.add_user_text(own, text)
        talk = Talk(before, messages, own[0], len(messages) - 1)
        return talk.cut(start_of(messages, self.config.max_history, self.as_first), self.as_first)

    async def _loop(self, work: _Work[M], tools: AgentToolsProtocol) -> str:
        """Ask until the model asks for no more tools; return its last text."""
        system = self.config.prompt_for(
            self.agent_name, self.agent_description, self.features, is_hub_room=tools.is_hub_room
        )
        system = without_surrogates(system)
        offered = tools.get_tool_schemas(self.TOOL_FORMAT)
        while (reply := await self._reply(system, offered, work, tools)) is not None:
            if not reply.calls:
                return reply.final_text
            if work.rounds == self.config.max_tool_rounds:
                self._add(work, reply.calls, len(reply.calls) * [_ONE_TOO_MANY])
                rounds = ProviderRunError(TOO_MANY_ROUNDS, f"{work.rounds} rounds of tool calls")
                failure = AgentFailure(self.PROVIDER, TOO_MANY_ROUNDS_TEXT, code=TOO_MANY_ROUNDS)
                await self._failed(rounds, failure, tools)
                break
            work.rounds += 1
            outcomes = await self._run_all(reply, work, tools)
            if declined(reply.calls, outcomes):
                break
        return ""

    async def _reply(
        self,
        system: str,
        offered: list[dict[str, Any]],
        work: _Work[M],
        tools: AgentToolsProtocol,
    ) -> ModelReply[M] | None:
        """Ask once, and keep the answer; None where that failed after the turn has replied."""
        try:
            reply = await self._accepted(system, offered, work, tools)
            work.usage += reply.usage
            if not tools.turn.complete:  # else nothing needs to follow
                reply.check()
            return self._kept(reply, work.talk.messages)
        except InputNotAccepted:
            work.keep = tools.turn.replied
            raise
        except Exception as exc:  # noqa: BLE001 - whatever it is, the room is told and it goes on
            error = exc
        if is_refusal(error):
            work.keep = tools.turn.replied
            self._take_back(work)
        failure = generic_provider_failure(self.PROVIDER, error)
        await self._failed(self._presentable(error), failure, tools)
        return None

    async def _accepted(
        self,
        system: str,
        offered: list[dict[str, Any]],
        work: _Work[M],
        tools: AgentToolsProtocol,
    ) -> ModelReply[M]:
        """Send a request, with less and less of what is older than the turn if it is refused.

        What was left out of the request that is accepted stays out.
        """
        talk = work.talk
        while True:
            try:
                reply = await self.ask(system, talk.messages, offered)
            except Exception as exc:
                shorter = talk.halved(self.as_first) if may_pass_shorter(exc) else None
                if shorter is None:
                    raise
                talk = shorter
                continue
            if talk is not work.talk:
                _log.warning(
                    "room %s: %s has refused the request, and took it without the oldest messages",
                    tools.room_id,
                    self.PROVIDER,
                )
                work.talk = talk
            work.newest = None
            return reply

    def _take_back(self, work: _Work[M]) -> None:
        """Replace the results that the model has not accepted."""
        if work.newest is not None:
            place, calls = work.newest
            del work.talk.messages[place:]
            self._add(work, calls, len(calls) * [_REFUSED])

    def _kept(self, reply: ModelReply[M], messages: list[M]) -> ModelReply[M]:
        """Append an answer to *messages*; return it with calls as they are run."""
        used = (call_id for message in messages for call_id in self.call_ids(message))
        calls = clean_calls(reply.calls, used) if reply.calls else ()
        if reply.message is not None:
            message = without_surrogates_deep(reply.message)
            messages.append(self.with_calls(message, [sendable(call) for call in calls]))
        return attrs.evolve(reply, text=without_surrogates(reply.text), calls=calls)

    async def _failed(
        self, error: Exception, failure: AgentFailure, tools: AgentToolsProtocol
    ) -> None:
        """Tell the room of a failure and raise *error*; after a reply there is none to tell of.

        The room has its answer then: a failed turn would be run again and answer twice.
        """
        room, provider = tools.room_id, self.PROVIDER
        if tools.turn.replied:
            told = error_line(error, self.secrets)  # the only place that tells it
            _log.warning("room %s: %s failed after the reply: %s", room, provider, told)
            return
        _log.warning("room %s: %s failed: %s", room, provider, type(error).__name__)
        await tools.send_failure(failure)
        raise error

    def _presentable(self, exc: Exception) -> Exception:
        """Return *exc*, or an error without the provider's key where its text quotes that.

        What leaves the turn is recorded at the platform.
        """
        secrets, text = self.secrets, str(exc)
        if redact_credentials(text, secrets) == redact_credentials(text):
            return exc
        return ProviderRunError(type(exc).__name__, redact_credentials(text, secrets))

    async def _run_all(
        self, reply: ModelReply[M], work: _Work[M], tools: AgentToolsProtocol
    ) -> list[ToolCallOutcome]:
        """Run the calls of an answer in order, and keep exactly one result for each."""
        outcomes: list[ToolCallOutcome] = []
        try:
            for call in reply.calls:
                half = reply.cut and call is reply.calls[-1]
                outcomes.append(_CUT if half else await self._run(call, tools))
        finally:
            work.newest = (len(work.talk.messages), reply.calls)
            missing = len(reply.calls) - len(outcomes)
            self._add(work, reply.calls, outcomes + missing * [_INTERRUPTED])
        return outcomes

    def _add(
        self, work: _Work[M], calls: Sequence[ToolRequest], outcomes: Sequence[ToolCallOutcome]
    ) -> None:
        self.add_results(
            work.talk.messages,
            [sendable(call) for call in calls],
            [attrs.evolve(each, value=without_surrogates_deep(each.value)) for each in outcomes],
        )

    async def _run(self, call: ToolRequest, tools: AgentToolsProtocol) -> ToolCallOutcome:
        """Run one tool, with events around it where they are wanted."""
        if Emit.TOOL_CALLS in self.features.emit:
            return await execute_narrated(tools, call.name, call.args, shown_id=call.id)
        return await tools.execute_tool_call_structured(call.name, call.args)


@attrs.frozen
class _Room(Generic[M]):
    """What is kept of a room."""

    messages: list[M]
    began_with: str | None
    """The message whose turn was the newest one, if that began with the room's history."""


@attrs.define(eq=False)
class _Work(Generic[M]):
    """How far a turn has come, also where it fails."""

    talk: Talk[M]
    usage: TurnUsage = NO_USAGE
    rounds: int = 0
    keep: bool = True
    """Whether what the turn adds is kept."""
    newest: tuple[int, Sequence[ToolRequest]] | None = None
    """Where results begin that no accepted request has held, and their calls."""

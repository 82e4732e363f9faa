"""The tool loop that the adapters for models share: ask, run the tools asked for, ask again.

What an adapter adds is the dialect: how its API writes messages, and one request to it.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Generic, TypeVar, Unpack

import attrs
import trio

from band_trio.adapters.base import SimpleAdapter
from band_trio.adapters.options import ModelConfig
from band_trio.converters.exchanges import INTERRUPTED_TOOL_TEXT
from band_trio.errors import InputNotAccepted, ProviderRunError
from band_trio.hygiene import has_visible, redact_credentials, without_surrogates
from band_trio.prompts import system_updates
from band_trio.tools.custom import CustomToolDef
from band_trio.tools.definitions import BandTool
from band_trio.tools.failures import AgentFailure, generic_provider_failure
from band_trio.tools.narration import execute_narrated
from band_trio.tools.relay import relay_reply
from band_trio.types import (
    SYNTHETIC_SENDER_TYPE,
    AgentToolsProtocol,
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

NO_USAGE: Final = TurnUsage()
EMPTY_ANSWER: Final = "empty_answer"
REFUSED: Final = "refused"
TOO_MANY_ROUNDS: Final = "max_tool_rounds"
TOO_MANY_ROUNDS_TEXT: Final = (
    "The agent kept calling tools over this message without coming to an end, and was stopped."
)
_INTERRUPTED: Final = ToolCallOutcome(
    INTERRUPTED_TOOL_TEXT, ok=False, error_message=INTERRUPTED_TOOL_TEXT
)


@attrs.frozen
class ToolRequest:
    """A call that a model asks for."""

    id: str
    name: str
    args: Any
    """An object, or the model's own text where that is none."""


@attrs.frozen
class ModelReply(Generic[M]):
    """What a model answered, read."""

    message: M | None
    """The answer as it is sent back in the next request; None where nothing is to be kept."""
    text: str
    calls: tuple[ToolRequest, ...] = ()
    usage: TurnUsage = NO_USAGE
    refused: bool = False
    """The model, or a filter in front of it, declined to answer."""


class ModelLoopAdapter(SimpleAdapter[list[M]], Generic[M, C]):
    """Base of the adapters for models; *M* is a message of the API, *C* the class of options.

    The messages of a room are kept under its id. Of a turn that was cancelled, what it came to is
    kept, so that the next one knows what was said and done; calls without a result are told to be
    interrupted. A turn that failed leaves nothing: what made it fail may be in its messages. A
    turn that is run once more begins where its first run began.

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

    def _begun(self, msg: PlatformMessage) -> list[M]:
        """Return what was kept before *msg*, also where the turn of *msg* is run once more."""
        room = self._rooms.get(msg.room_id)
        if room is None:
            return []
        return room.before if room.message_id == msg.id else room.messages

    def _trimmed(self, messages: list[M]) -> list[M]:
        """Return the newest messages, at most `max_history`, beginning with a user's text.

        Where the last turn alone is longer, all of it stays: it is never cut in two.
        """
        surplus = len(messages) - self.config.max_history
        if surplus <= 0:
            return messages
        places = [*range(surplus, len(messages)), *range(surplus - 1, 0, -1)]
        for place in places:
            first = self.as_first(messages[place])
            if first is not None:
                return [first, *messages[place + 1 :]]
        return messages

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
        before = history if is_session_bootstrap else self._begun(msg)
        messages = list(before)
        for update in (participants_msg, contacts_msg):
            if update:
                self.add_user_text(messages, without_surrogates(system_updates(update)))
        self.add_user_text(messages, without_surrogates(msg.format_for_llm()))
        messages = self._trimmed(messages)
        spent = _Spent()
        kept = before
        try:
            text = await self._loop(messages, tools, spent)
            if self.config.relay_final_text and msg.sender_type != SYNTHETIC_SENDER_TYPE:
                await relay_reply(tools, text, [msg.sender_id])
            kept = messages
        except trio.Cancelled:
            kept = messages
            raise
        finally:
            self._rooms[room_id] = _Room(self._trimmed(kept), before, msg.id)
            await self.emit_usage(tools, spent.usage)  # noqa: ASYNC102 - not where it is cancelled

    async def _loop(self, messages: list[M], tools: AgentToolsProtocol, spent: _Spent) -> str:
        """Ask until the model asks for no more tools; return its last text."""
        system = self.config.prompt_for(
            self.agent_name, self.agent_description, self.features, is_hub_room=tools.is_hub_room
        )
        offered = tools.get_tool_schemas(self.TOOL_FORMAT)
        for _ in range(self.config.max_tool_rounds + 1):
            reply = await self._reply(system, messages, offered, tools, spent)
            if not reply.calls:
                return reply.text
            if spent.rounds == self.config.max_tool_rounds:
                break
            spent.rounds += 1
            outcomes: list[ToolCallOutcome] = []
            try:
                for call in reply.calls:
                    outcomes.append(await self._run(call, tools))
            finally:
                missing = len(reply.calls) - len(outcomes)
                self.add_results(messages, reply.calls, outcomes + missing * [_INTERRUPTED])
            if _declined(reply.calls, outcomes):
                return ""
        await tools.send_failure(
            AgentFailure(self.PROVIDER, TOO_MANY_ROUNDS_TEXT, code=TOO_MANY_ROUNDS)
        )
        raise ProviderRunError(TOO_MANY_ROUNDS, f"{spent.rounds} rounds of tool calls")

    async def _reply(
        self,
        system: str,
        messages: list[M],
        offered: list[dict[str, Any]],
        tools: AgentToolsProtocol,
        spent: _Spent,
    ) -> ModelReply[M]:
        """Ask once, and keep the answer. Failures of the provider are told to the room."""
        try:
            reply = await self.ask(system, messages, offered)
            spent.usage += reply.usage
            _check(reply, tools)
        except InputNotAccepted:
            raise
        except Exception as exc:  # noqa: BLE001 - whatever it is, the room is told and it goes on
            error = exc
        else:
            if reply.message is not None:
                messages.append(reply.message)
            return reply
        _log.warning("room %s: %s failed: %s", tools.room_id, self.PROVIDER, type(error).__name__)
        await tools.send_failure(generic_provider_failure(self.PROVIDER, error))
        raise self._presentable(error)

    def _presentable(self, exc: Exception) -> Exception:
        """Return *exc*, or an error without the provider's key where its text quotes that.

        What leaves the turn is recorded at the platform.
        """
        secrets, text = self.secrets, str(exc)
        if redact_credentials(text, secrets) == redact_credentials(text):
            return exc
        return ProviderRunError(type(exc).__name__, redact_credentials(text, secrets))

    async def _run(self, call: ToolRequest, tools: AgentToolsProtocol) -> ToolCallOutcome:
        """Run one tool, with events around it where they are wanted."""
        if Emit.TOOL_CALLS in self.features.emit:
            return await execute_narrated(tools, call.name, call.args, shown_id=call.id)
        return await tools.execute_tool_call_structured(call.name, call.args)


@attrs.frozen
class _Room(Generic[M]):
    """What is kept of a room."""

    messages: list[M]
    before: list[M]
    """What was kept before the newest message, from which a repeated turn starts again."""
    message_id: str


@attrs.define(eq=False)
class _Spent:
    """What a turn has used up, also where it fails."""

    usage: TurnUsage = NO_USAGE
    rounds: int = 0


def _check(reply: ModelReply[Any], tools: AgentToolsProtocol) -> None:
    """Refuse an answer that is none, unless the turn is complete: then nothing needs to follow.

    Raises:
        ProviderRunError: the model refused, or said nothing.
    """
    if tools.turn.complete:
        return
    if reply.refused:
        raise ProviderRunError(REFUSED, None)
    if not reply.calls and not has_visible(reply.text):
        raise ProviderRunError(EMPTY_ANSWER, None)


def _declined(calls: Sequence[ToolRequest], outcomes: Sequence[ToolCallOutcome]) -> bool:
    """Tell whether a batch has declined to reply, and nothing in it went wrong."""
    return all(outcome.ok for outcome in outcomes) and any(
        call.name == BandTool.NO_REPLY for call in calls
    )

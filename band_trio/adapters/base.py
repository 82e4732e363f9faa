"""`SimpleAdapter`: what to subclass to connect a model, a framework or plain code to a room."""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar, Final, Generic, Self, TypeVar, Unpack, cast

import trio

from band_trio.adapters.features import resolve_features
from band_trio.checks import HOOKS, check_hooks, check_names
from band_trio.contract import AgentInput
from band_trio.errors import BandConfigError
from band_trio.features import CustomToolDef
from band_trio.kit.hygiene import error_line
from band_trio.tools.catalogue import selected_tool_definitions
from band_trio.tools.custom import CustomTools
from band_trio.tools.definitions import BandTool
from band_trio.tools.protocol import AgentToolsProtocol
from band_trio.tools.usage import USAGE_EVENT_TYPE, usage_event
from band_trio.types import (
    AdapterFeatures,
    Capability,
    Emit,
    FeatureKwargs,
    HistoryConverter,
    PlatformConnection,
    PlatformMessage,
    TurnUsage,
)

_log: Final = logging.getLogger(__name__)

H = TypeVar("H")
Cleanup = Callable[[], Awaitable[object]]


class SimpleAdapter(ABC, Generic[H]):
    """Base of adapters. Only `on_message` has to be written.

    It is called once per message that mentions the agent: one at a time in a room, concurrently
    in different rooms. Whatever it keeps per room belongs under the room's id and is dropped in
    `on_cleanup`; what it keeps per turn belongs into locals. *H* is what *history_converter*
    makes of the history; without one it is `HistoryProvider`.
    """

    SUPPORTED_EMIT: ClassVar[frozenset[Emit]] = frozenset()
    """What the adapter can post about its own work."""
    SUPPORTED_CAPABILITIES: ClassVar[frozenset[Capability]] = frozenset()
    """Which tools beside the chat tools it can offer."""

    history_converter: HistoryConverter[H] | None
    custom_tools: CustomTools
    """The application's own tools."""
    features: AdapterFeatures
    """What it may use: asked for at construction, reduced to what the platform offers at start."""
    agent_name: str = ""
    agent_description: str = ""
    model_selection: str | None = None
    """The model in use, for adapters that can switch."""
    _platform: PlatformConnection | None
    _cleanups: list[Cleanup]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Refuse hooks that cannot work, and work although a subclass forgets `super().__init__`.

        Raises:
            BandConfigError: a hook is misspelt or not async, or does not take its arguments.
        """
        check_names(cls, SimpleAdapter)
        self = super().__new__(cls)
        own = (name for name in HOOKS if getattr(cls, name) is not getattr(SimpleAdapter, name))
        # Who writes `on_event` need not care how the one here calls `on_message`.
        calls = cls.on_event is SimpleAdapter.on_event
        check_hooks(self, *(name for name in own if calls or name != "on_message"))
        self.history_converter = None
        self.custom_tools = CustomTools()
        self.features = self._resolved({})
        self._platform = None
        self._cleanups = []
        return self

    def __init__(
        self,
        *,
        history_converter: HistoryConverter[H] | None = None,
        additional_tools: Sequence[CustomToolDef] = (),
        tool_timeout: float | None = None,
        **features: Unpack[FeatureKwargs],
    ) -> None:
        """Take the converter, the application's own tools and the features (`FeatureKwargs`).

        *additional_tools* are functions, or pairs of an arguments class and a function; they are
        offered and called through the tools object of each turn, beside the platform's. One call
        may take *tool_timeout* seconds.

        `emit` left out means everything the adapter supports, `()` means silent. `capabilities`
        left out means none. Both take a member, members joined by `|`, or an iterable of members
        or their texts.

        Raises:
            BandConfigError: a feature, tool or category is unknown or not supported, or a custom
                tool cannot be used.
        """
        self.history_converter = history_converter
        self.custom_tools = CustomTools.of(additional_tools, timeout=tool_timeout)
        self.features = self._resolved(dict(features))
        offered = {row.name for row in selected_tool_definitions(self.features)}
        if self.judges_turns and not offered & {BandTool.SEND_MESSAGE, BandTool.NO_REPLY}:
            _log.warning(
                "%s offers neither band_send_message nor band_no_reply: a model cannot complete "
                "its turns",
                type(self).__name__,
            )

    def _resolved(self, given: dict[str, Any]) -> AdapterFeatures:
        return resolve_features(
            type(self),
            given,
            emit=self.SUPPORTED_EMIT,
            capabilities=self.SUPPORTED_CAPABILITIES,
        )

    # ----------------------------------------------------------------- the one to write

    @abstractmethod
    async def on_message(
        self,
        msg: PlatformMessage,
        tools: AgentToolsProtocol,
        history: H,
        participants_msg: str | None,
        contacts_msg: str | None,
        *,
        is_session_bootstrap: bool,
        room_id: str,
    ) -> None:
        """Handle one message, with *tools*.

        *history* is what was said before it, until a turn of this room was completed
        (*is_session_bootstrap*); later it is empty. Where this is not the first run of the message
        (`tools.turn.attempt` above 1), what the agent itself has said since comes behind it, in
        both cases. *participants_msg* and *contacts_msg* are news for the model, or None. An exception fails the message; `InputNotAccepted` keeps it
        for later.
        """

    # ----------------------------------------------------------------- hooks

    async def on_started(self, agent_name: str, agent_description: str) -> None:
        """Learn who the agent is; called before any message."""
        self.agent_name = agent_name
        self.agent_description = agent_description
        set_name = getattr(self.history_converter, "set_agent_name", None)
        if set_name is not None:
            set_name(agent_name)

    async def on_cleanup(self, room_id: str) -> None:
        """Drop what is kept for a room: it was left, or the agent stops."""

    async def on_interrupt(self, room_id: str, mode: str) -> None:
        """Tell a backend that its turn was ended; *mode* is `interrupt` or `stop`. Do not wait."""

    async def cleanup_all(self) -> None:
        """Drop everything; the agent stops."""

    async def try_handle_control(self, msg: PlatformMessage, tools: AgentToolsProtocol) -> bool:
        """Consume a message before it is claimed, also while a turn runs, by returning True.

        For approvals in chat. Messages are offered only to adapters that override this.
        """
        return False

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold what lives as long as the agent: clients, subprocesses, nurseries.

        Started before `on_started` in a task of its own, cancelled after `cleanup_all`.
        """
        task_status.started()

    @property
    def handles_controls(self) -> bool:
        """Whether messages are offered to `try_handle_control`: where it is overridden."""
        own = getattr(self.try_handle_control, "__func__", None)
        return own is not SimpleAdapter.try_handle_control

    @property
    def judges_turns(self) -> bool:
        """Whether a turn must reply, decline or act; False where returning is success."""
        return True

    def apply_effective_features(self, features: AdapterFeatures) -> None:
        """Take the features that remain after negotiation; called before `on_started`."""
        self.features = features

    # ----------------------------------------------------------------- the runtime's entry

    async def on_event(self, inp: AgentInput) -> None:
        """Convert the history, offer the application's own tools, and call `on_message`."""
        if self.custom_tools.tools:
            inp.tools.use_custom_tools(self.custom_tools)
        history: Any = inp.history
        if self.history_converter is not None:
            history = inp.history.convert(self.history_converter)
        await self.on_message(
            inp.msg,
            inp.tools,
            cast("H", history),
            inp.participants_msg,
            inp.contacts_msg,
            is_session_bootstrap=inp.is_session_bootstrap,
            room_id=inp.room_id,
        )

    @property
    def platform(self) -> PlatformConnection | None:
        """Where the agent is connected; None before it starts. Set by the runtime."""
        return self._platform

    @platform.setter
    def platform(self, connection: PlatformConnection | None) -> None:
        if self._platform is not None and connection is not None and self._cleanups:
            raise BandConfigError(
                f"This {type(self).__name__} was started before, and its clean-ups have run: make "
                "a new one."
            )
        self._platform = connection

    # ----------------------------------------------------------------- for subclasses

    def require_platform(self) -> PlatformConnection:
        """Return where the agent is connected.

        Raises:
            RuntimeError: it has not started.
        """
        if self._platform is None:
            raise RuntimeError(
                f"This {type(self).__name__} is not connected: no agent runs it yet."
            )
        return self._platform

    def add_cleanup(self, cleanup: Cleanup) -> None:
        """Register an async callable to run once all rooms have settled, last one first.

        Its failure is named in the shutdown report. An adapter with clean-ups starts only once.

        Raises:
            RuntimeError: the adapter has been started.
        """
        if self._platform is not None:
            raise RuntimeError("add_cleanup must be called before the agent starts")
        self._cleanups.append(cleanup)

    @property
    def cleanups(self) -> list[Cleanup]:
        """What was registered with `add_cleanup`, in that order (a copy)."""
        return list(self._cleanups)

    async def emit_usage(self, tools: AgentToolsProtocol, usage: TurnUsage) -> None:
        """Post the tokens of a turn, if the adapter emits usage. Never raises.

        Skipped when the turn is cancelled, so that it fits into a `finally`.
        """
        if Emit.USAGE not in self.features.emit or tools.turn.closed:
            return
        if trio.current_effective_deadline() == -math.inf:
            return
        try:
            if not usage.is_empty:
                content, metadata = usage_event(usage)
                await tools.send_event(content, USAGE_EVENT_TYPE, metadata)
        except Exception as exc:  # noqa: BLE001 - bookkeeping must not fail a turn; a stop was told
            _log.warning("room %s: usage was not posted: %s", tools.room_id, error_line(exc))

    async def list_models(self) -> list[str]:
        """Return the models that can be switched to; none by default."""
        return []

    async def apply_model_selection(self, selection: str, *, room_id: str) -> bool:
        """Switch the model; tell whether that was done. Refused by default."""
        return False

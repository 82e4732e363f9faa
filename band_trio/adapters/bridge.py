"""`AsyncioAdapter`: agents made with frameworks that only run on asyncio."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, ClassVar, Final, Generic, TypeVar, Unpack, cast

import attrs
import trio

from band_trio.adapters.asyncio_host import (
    GRACE_SECONDS,
    STOP_SECONDS,
    AsyncioHost,
    open_asyncio_host,
)
from band_trio.adapters.base import SimpleAdapter
from band_trio.adapters.bridged import BridgedTurn
from band_trio.adapters.options import (
    CLOSE_SECONDS,
    PromptConfig,
    config_or_environment,
)
from band_trio.config.options import seconds, text
from band_trio.converters.transcript import TranscriptConverter
from band_trio.errors import (
    BandConfigError,
    InputNotAccepted,
    RoomExecutionStoppedError,
)
from band_trio.features import CustomToolDef
from band_trio.kit.hygiene import error_line
from band_trio.kit.leaves import leaf_errors
from band_trio.tools.failures import generic_provider_failure
from band_trio.tools.protocol import AgentToolsProtocol
from band_trio.tools.relay import relay_reply
from band_trio.types import (
    SYNTHETIC_SENDER_TYPE,
    Capability,
    Emit,
    FeatureKwargs,
    HistoryConverter,
    PlatformMessage,
)

_log: Final = logging.getLogger(__name__)

H = TypeVar("H")

Handler = Callable[[BridgedTurn[H]], Awaitable[str | None]]
"""Handles a turn on asyncio; may return the model's last text."""
Lifespan = Callable[[], AbstractAsyncContextManager[Any]]


@attrs.frozen(kw_only=True)
class AsyncioAdapterConfig(PromptConfig):
    """Options of the `AsyncioAdapter`; `relay_final_text` is about the text a handler returns."""

    ENV_PREFIX: ClassVar[str] = "BAND_ASYNCIO_"

    provider: str = text("asyncio")
    """Who is named when the room is told about a failure; the framework's name."""
    cancel_seconds: float = seconds(GRACE_SECONDS)
    """How long the framework may clean up when a turn is cancelled, before it is abandoned."""
    stop_seconds: float = seconds(STOP_SECONDS)
    """How long the loop may take to stop, before its thread is abandoned."""


class AsyncioAdapter(SimpleAdapter[H], Generic[H]):
    """An agent whose framework runs on asyncio: in one loop, in one worker thread.

    ```python
    async def answer(turn: BridgedTurn[str]) -> str:
        agent = make_agent(turn.system_prompt, tools=[t.as_function() for t in turn.tools])
        return await agent.run(turn.history + turn.prompt)

    adapter = AsyncioAdapter(handler=answer)
    ```

    Give a *handler*, or write `handle` in a subclass. Either runs on asyncio, once per message;
    turns of several rooms run concurrently on the loop. Its tools come back into the turn. When
    the turn is cancelled, the handler's task is too. What it keeps of a room belongs into
    `turn.memory`. *lifespan* makes what lives as long as the
    agent; it is entered and left on the loop, in one task. Without *history_converter* the history
    is a transcript, one text.
    """

    SUPPORTED_EMIT: ClassVar[frozenset[Emit]] = Emit.TOOL_CALLS | Emit.USAGE
    SUPPORTED_CAPABILITIES: ClassVar[frozenset[Capability]] = frozenset(Capability)

    def __init__(
        self,
        config: AsyncioAdapterConfig | None = None,
        *,
        handler: Handler[H] | None = None,
        lifespan: Lifespan | None = None,
        history_converter: HistoryConverter[H] | None = None,
        additional_tools: Sequence[CustomToolDef] = (),
        tool_timeout: float | None = None,
        **features: Unpack[FeatureKwargs],
    ) -> None:
        """Take the parts; custom tools run in trio, for the framework's own use its way.

        Raises:
            BandConfigError: there is neither a handler nor a `handle`, or *config* is none for this
                adapter. Without *config* the options are those of the environment.
        """
        if handler is None and type(self).handle is AsyncioAdapter.handle:
            raise BandConfigError(f"{type(self).__name__} needs a handler.")
        converter = history_converter or cast("HistoryConverter[H]", TranscriptConverter())
        super().__init__(
            history_converter=converter,
            additional_tools=additional_tools,
            tool_timeout=tool_timeout,
            **features,
        )
        self.config = config_or_environment(config, AsyncioAdapterConfig, type(self).__name__)
        self._handler = handler
        self._lifespan = lifespan
        self._host: AsyncioHost | None = None
        self._state: Any = None
        # One entry for each room that the agent is in; `on_cleanup` removes it.
        self._rooms: dict[str, dict[str, Any]] = {}

    # ----------------------------------------------------------------- on asyncio, to override

    async def handle(self, turn: BridgedTurn[H]) -> str | None:
        """Handle one message; runs on asyncio. The last text of the model may be returned.

        An exception fails the message; `InputNotAccepted` keeps it for later.
        """
        if self._handler is None:
            raise NotImplementedError
        return await self._handler(turn)

    def lifespan(self) -> AbstractAsyncContextManager[Any]:
        """Make what lives as long as the agent; used on asyncio. It yields `BridgedTurn.state`."""
        return self._lifespan() if self._lifespan is not None else nullcontext()

    # ----------------------------------------------------------------- on trio

    async def on_cleanup(self, room_id: str) -> None:
        """Forget a room; what overrides this calls it, too."""
        self._rooms.pop(room_id, None)

    async def cleanup_all(self) -> None:
        """Forget all rooms; what overrides this calls it, too."""
        self._rooms.clear()

    @property
    def host(self) -> AsyncioHost:
        """The loop, for subclasses that have more to do there, for example in `on_cleanup`.

        Raises:
            RuntimeError: the adapter is not open.
        """
        if self._host is None:
            raise RuntimeError(
                f"{type(self).__name__} is not open: run its `serve`, as an agent does."
            )
        return self._host

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the loop, and hold `lifespan` open on it."""

        async def opened(state: Any) -> None:
            self._host, self._state = host, state
            task_status.started()
            await trio.sleep_forever()

        async with open_asyncio_host(stop_seconds=self.config.stop_seconds) as host:
            call = host.begin()
            try:
                await call.run(_hold, self.lifespan, call.hop(opened), grace=CLOSE_SECONDS)
            finally:
                self._host = self._state = None

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
        """Have the framework handle *msg*."""
        call = self.host.begin()
        if is_session_bootstrap:
            self._rooms.pop(room_id, None)
        turn = BridgedTurn(
            msg=msg,
            room_id=room_id,
            history=history,
            is_session_bootstrap=is_session_bootstrap,
            participants_msg=participants_msg,
            contacts_msg=contacts_msg,
            attempt=tools.turn.attempt,
            system_prompt=self.config.prompt_for(
                self.agent_name,
                self.agent_description,
                self.features,
                is_hub_room=tools.is_hub_room,
            ),
            state=self._state,
            memory=self._rooms.setdefault(room_id, {}),
            call=call,
            tools=tools,
            emit=self.features.emit,
        )
        last: str | None = None
        try:
            last = await call.run(_handle, self.handle, turn, grace=self.config.cancel_seconds)
        except Exception as exc:
            if not await self._settled(exc, tools):  # noqa: ASYNC120 - a cancellation decides
                raise
        finally:
            await self.emit_usage(tools, turn.usage)  # noqa: ASYNC102 - skipped when cancelled
        if self.config.relay_final_text and last and msg.sender_type != SYNTHETIC_SENDER_TYPE:
            await relay_reply(tools, last, [msg.sender_id])

    async def _settled(self, exc: Exception, tools: AgentToolsProtocol) -> bool:
        """Tell the room of a failure: a fixed text and the class of *exc*.

        True where the turn has replied: nothing is told then, and the turn has not failed. It
        would be run again, and answer twice.
        """
        if any(
            isinstance(e, InputNotAccepted | RoomExecutionStoppedError) for e in leaf_errors(exc)
        ):
            return False  # no failures: the runtime knows what to do about them
        provider = self.config.provider
        if tools.turn.replied:
            told = error_line(exc)  # the only place that tells of it
            _log.warning("room %s: %s failed after the reply: %s", tools.room_id, provider, told)
            return True
        _log.warning("room %s: %s failed: %s", tools.room_id, provider, type(exc).__name__)
        await tools.send_failure(generic_provider_failure(provider, exc))
        return False


# --------------------------------------------------------------------------- on asyncio


async def _hold(lifespan: Lifespan, opened: Callable[[Any], Awaitable[None]]) -> None:
    async with lifespan() as state:
        await opened(state)  # until the adapter closes


async def _handle(handle: Handler[H], turn: BridgedTurn[H]) -> str | None:
    turn.enter()
    last = await handle(turn)
    if last is not None and not isinstance(last, str):
        raise TypeError(
            f"The handler of an AsyncioAdapter must return text or None, not {type(last).__name__}."
        )
    return last

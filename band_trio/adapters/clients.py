"""Adapters for models whose SDK has one async client, which is opened and closed with the agent."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar, Unpack

import trio

from band_trio.adapters.loop import C, M, ModelLoopAdapter
from band_trio.adapters.options import CLOSE_SECONDS
from band_trio.features import CustomToolDef
from band_trio.types import FeatureKwargs, HistoryConverter


class Client(Protocol):
    """What is common to the clients of the SDKs."""

    @property
    def api_key(self) -> str | None: ...

    async def close(self) -> None: ...


K = TypeVar("K", bound=Client)


class ClientAdapter(ModelLoopAdapter[M, C], Generic[M, C, K]):
    """Base of adapters with a client: opened once, in `serve`, and closed there.

    A *client* that is handed in stays open.
    """

    def __init__(
        self,
        config: C,
        history_converter: HistoryConverter[list[M]],
        *,
        client: K | None,
        additional_tools: Sequence[CustomToolDef] = (),
        tool_timeout: float | None = None,
        **features: Unpack[FeatureKwargs],
    ) -> None:
        super().__init__(
            config,
            history_converter,
            additional_tools=additional_tools,
            tool_timeout=tool_timeout,
            **features,
        )
        self._client = client

    @abstractmethod
    def new_client(self) -> K:
        """Make the client that `serve` holds open.

        Raises:
            BandConfigError: there is no key.
        """

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold the client open.

        Raises:
            BandConfigError: there is no key.
        """
        if self._client is not None:
            task_status.started()
            return
        client = self._client = self.new_client()
        try:
            task_status.started()
            await trio.sleep_forever()
        finally:
            self._client = None
            with trio.move_on_after(CLOSE_SECONDS, shield=True):
                await client.close()

    @property
    def client(self) -> K:
        """The client.

        Raises:
            RuntimeError: the adapter is not open.
        """
        if self._client is None:
            raise RuntimeError(
                f"{type(self).__name__} is not open: run its `serve`, as an agent does."
            )
        return self._client

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be quoted: the key, wherever it came from."""
        key = self._client.api_key if self._client is not None else None
        return (*super().secrets, *([key] if key else []))

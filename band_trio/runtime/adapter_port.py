"""Any adapter as the runtime sees it: what it lacks is filled in, what it asks for is negotiated."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import attrs
import trio

from band_trio.contract import FrameworkAdapter
from band_trio.runtime.hooks import Hooks
from band_trio.runtime.lifecycle import ADAPTER, Lifecycle
from band_trio.tools.protocol import AgentToolsProtocol
from band_trio.types import AdapterFeatures, Capability, PlatformConnection, PlatformMessage


def negotiate(features: AdapterFeatures, flags: Mapping[str, Any] | None) -> AdapterFeatures:
    """Drop what the platform does not offer (platform docs, Identity: feature flags).

    Files need `ff_file_transfer`; tasks are dropped where `ff_room_tasks` is present and not
    true. Without flags nothing is dropped.
    """
    if not flags:
        return features
    dropped = set()
    if flags.get("ff_file_transfer") is not True:
        dropped.add(Capability.FILES)
    if flags.get("ff_room_tasks", True) is not True:
        dropped.add(Capability.TASKS)
    return attrs.evolve(features, capabilities=features.capabilities - dropped)


@attrs.define(eq=False)
class AdapterPort:
    """Uniform access to an adapter, a full `SimpleAdapter` or the bare three methods."""

    adapter: FrameworkAdapter
    features: AdapterFeatures = attrs.field(factory=AdapterFeatures, init=False)
    judges: bool = attrs.field(default=False, init=False)
    """Whether its turns are judged; bare adapters succeed by returning."""

    def prepare(self, platform: PlatformConnection, flags: Mapping[str, Any] | None) -> None:
        """Tell the adapter where it is connected and which of its features remain."""
        asked = getattr(self.adapter, "features", None)
        self.features = negotiate(asked or AdapterFeatures(), flags)
        if hasattr(self.adapter, "platform"):
            self.adapter.platform = platform
        self.judges = bool(getattr(self.adapter, "judges_turns", False))
        apply = getattr(self.adapter, "apply_effective_features", None)
        if apply is not None:
            apply(self.features)

    async def serve(
        self, hooks: Hooks, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Run the adapter's own long-lived part, where it has one."""
        serve = getattr(self.adapter, "serve", None)
        if serve is None:
            task_status.started()
        else:
            async with hooks.watched("the adapter's serve", of_end=True):
                await serve(task_status=task_status)

    @property
    def on_interrupt(self) -> Callable[[str, str], Awaitable[None]] | None:
        """The hook for interrupt and stop, if there is one."""
        return getattr(self.adapter, "on_interrupt", None)

    @property
    def chat_control(
        self,
    ) -> Callable[[PlatformMessage, AgentToolsProtocol], Awaitable[bool]] | None:
        """`try_handle_control`, where the adapter has it and wants to be asked."""
        wanted = getattr(self.adapter, "handles_controls", True)  # a bare adapter just has it
        return getattr(self.adapter, "try_handle_control", None) if wanted else None

    async def clean_up(self, hooks: Hooks, lifecycle: Lifecycle, seconds: float) -> None:
        """Run `cleanup_all`, then registered clean-ups in reverse, whatever goes wrong.

        Each gets *seconds*, or its share of what is left, so that one that hangs leaves the next
        ones theirs.
        """
        steps: list[tuple[str, Any]] = []
        whole = getattr(self.adapter, "cleanup_all", None)
        if whole is not None:
            steps.append(("cleanup_all", whole))
        steps += [("clean-up", step) for step in reversed(getattr(self.adapter, "cleanups", []))]
        for done, (name, fn) in enumerate(steps):
            share = (lifecycle.until(ADAPTER) - trio.current_time()) / (len(steps) - done)
            bound = lifecycle.shield(min(seconds, share), ADAPTER)
            await hooks.guard(name, fn, (), bound=bound, cleans_up=True)

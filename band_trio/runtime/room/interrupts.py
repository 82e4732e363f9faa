"""`on_interrupt` of the adapter: runs beside the room's loop, and before its next turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs
import trio

from band_trio.kit.limiter import work_of
from band_trio.protocol.events import Mode
from band_trio.runtime.lifecycle import HOOKS
from band_trio.runtime.turn.services import RoomServices


@attrs.define(eq=False)
class InterruptHooks:
    """The hooks of one room that are still running."""

    _room_id: str
    _services: RoomServices
    running: int = attrs.field(default=0, init=False)
    """How many they are."""
    _ended: trio.Event | None = attrs.field(default=None, init=False)

    def start(self, nursery: trio.Nursery, mode: Mode) -> None:
        """Call the hook in the room's nursery; returns at once."""
        hook = self._services.app.adapter.on_interrupt
        if hook is not None:
            self.running += 1
            nursery.start_soon(self._call, hook, mode, name=f"on_interrupt of {self._room_id}")

    async def wait(self) -> None:
        """Wait until no hook is running; each is bounded by `control_hook_seconds`."""
        while self.running:
            self._ended = trio.Event()
            await self._ended.wait()

    async def _call(self, hook: Callable[[str, str], Awaitable[None]], mode: Mode) -> None:
        services = self._services
        bound = services.lifecycle.shield(services.session.control_hook_seconds, HOOKS)
        try:
            with work_of(self._room_id):
                await services.app.hooks.guard(
                    f"on_interrupt of room {self._room_id}",
                    hook,
                    (self._room_id, mode),
                    bound=bound,
                )
        finally:
            self.running -= 1
            if self._ended is not None:
                self._ended.set()

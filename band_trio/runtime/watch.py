"""Naming code that was told to end and does not: it can shield itself, or swallow the cancellation."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio

from band_trio.nurseries import hidden_nursery


@asynccontextmanager
async def watched(
    what: str,
    seconds: float,
    tell: Callable[[], None],
    beside: Callable[[], Awaitable[None]] = trio.sleep_forever,
) -> AsyncGenerator[None]:
    """Surround code of the application; *tell* is called if it goes on *seconds* after its end.

    Its end is a cancellation from outside. The watch needs no time of its own: it ends with the
    block. *beside* is work for its task, which is idle until then; the block's end cancels it.
    """
    ended = trio.Event()

    async def watch() -> None:
        try:
            await beside()
            await ended.wait()
        finally:
            if not ended.is_set():
                with trio.move_on_after(seconds, shield=True):
                    await ended.wait()
                if not ended.is_set():
                    tell()

    async with hidden_nursery(what) as nursery:
        nursery.start_soon(watch, name=f"watch over {what}")
        try:
            yield
            # Not where the block fails: its error could then not be told from this cancellation.
            nursery.cancel_scope.cancel(reason=f"{what} has ended")
        finally:
            ended.set()

"""Naming code that was told to end and does not: it can shield itself, or swallow the cancellation."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import trio

from band_trio.nurseries import GuardedNursery


@asynccontextmanager
async def watched(
    what: str, seconds: float, tell: Callable[[], None]
) -> AsyncGenerator[GuardedNursery]:
    """Surround code of the application; the nursery is for tasks beside it.

    *tell* is called once, if the block goes on *seconds* after its cancellation. The watch needs no
    time of its own: it ends with the block.
    """
    ended = trio.Event()

    async def watch() -> None:
        try:
            await ended.wait()
        finally:
            with trio.move_on_after(seconds, shield=True):
                await ended.wait()
            if not ended.is_set():
                tell()

    async with GuardedNursery(what) as nursery:
        nursery.start_soon(watch, name=f"watch over {what}")
        try:
            yield nursery
        finally:
            ended.set()

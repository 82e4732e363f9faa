"""How long one step of the loop takes at most, as the others notice it."""

from __future__ import annotations

import time
from typing import Never

import attrs
import trio


@attrs.define(eq=False)
class Gaps:
    """Asks for a turn again and again. What others use of this processor is left out: it counts
    the processor time of this process between two turns."""

    longest: float = 0.0
    """Seconds of processor time."""

    async def watch(self) -> Never:
        last = time.thread_time()
        while True:
            await trio.lowlevel.checkpoint()
            now = time.thread_time()
            self.longest = max(self.longest, now - last)
            last = now

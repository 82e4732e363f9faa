"""An agent in many rooms where nothing happens: its start, its memory, what it does at rest.

The options are the defaults: how fast rooms are read and how often idle ones are polled is part of
what is measured. A second start, in fewer rooms, counts the Python objects; it is no use for times.
"""

from __future__ import annotations

import argparse
import gc
import time
import tracemalloc
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from resource import getpagesize

import attrs
import trio

from benchmarks.harness import Sample, Server, Settle, measure, open_server, running, table


@attrs.define
class Start:
    """A start, and the rest after it."""

    started: Sample = attrs.field(factory=Sample)
    """Until `run` reports that it has started."""
    read: Sample = attrs.field(factory=Sample)
    """Until all topics are joined and the messages of every room were asked for."""
    requests: Counter[str] = attrs.field(factory=Counter)
    """Made until then, by route."""
    before: int = 0
    """Bytes of the process before the start."""
    resident: int = 0
    """Bytes of the process then."""
    traced: int = 0
    """Bytes of Python objects, where they were traced."""
    rest: Sample = attrs.field(factory=Sample)
    """While nothing happens."""
    at_rest: Counter[str] = attrs.field(factory=Counter)
    """Requests made meanwhile, by route."""


def resident() -> int:
    """Return the bytes of memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()


async def start(
    server: Server, rooms: int, rest: float, settling: float = 0, *, trace: bool = False
) -> Start:
    """Start an agent in so many rooms, wait until it has read them, let it rest, stop it."""
    found = Start()
    identity = await server.register(rooms)
    gc.collect()
    found.before = resident()
    if trace:
        tracemalloc.start()
    async with AsyncExitStack() as stack:
        with measure() as found.read:
            with measure(collect=False) as found.started:
                await stack.enter_async_context(running(server, identity, Settle()))
            await server.all_read(identity)
        found.requests = await server.requested(identity)
        gc.collect()
        found.resident = resident()
        if trace:
            found.traced = tracemalloc.get_traced_memory()[0]
            tracemalloc.stop()
        await trio.sleep(settling)
        await server.requested(identity)
        with measure(collect=False) as found.rest:
            await trio.sleep(rest)
        found.at_rest = await server.requested(identity)
    return found


async def compare(size: argparse.Namespace) -> tuple[Start, Start]:
    """Measure a start, and count the objects of another."""
    async with open_server() as server:
        await start(server, 1, 0)  # what is loaded on first use
        plain = await start(server, size.rooms, size.rest, size.settling)
        return plain, await start(server, size.traced_rooms, 0, trace=True)


def show(size: argparse.Namespace, plain: Start, traced: Start) -> None:
    """Print figures."""
    table(
        f"start in {size.rooms} rooms",
        ("", "seconds", "CPU seconds", "CPU us/room"),
        [
            (name, f"{s.wall:.2f}", f"{s.cpu:.2f}", f"{s.cpu / size.rooms * 1e6:.0f}")
            for name, s in (("ready", plain.started), ("all rooms read", plain.read))
        ],
    )
    print(f"  requests until then: {_told(plain.requests, 1)}")
    grown = plain.resident - plain.before
    table(
        "memory",
        ("", "figure"),
        [
            ("process, MB", f"{plain.resident / 1e6:.0f}"),
            ("growth of the process, kB/room", f"{grown / size.rooms / 1e3:.1f}"),
            ("Python objects, kB/room", f"{traced.traced / size.traced_rooms / 1e3:.1f}"),
        ],
    )
    rest = plain.rest
    table(
        f"{rest.wall:.0f} seconds at rest",
        ("", "figure"),
        [
            ("of a core, %", f"{100 * rest.cpu / rest.wall:.2f}"),
            ("requests/s", f"{plain.at_rest.total() / rest.wall:.2f}"),
        ],
    )
    print(f"  requests/s by route: {_told(plain.at_rest, rest.wall)}")


def _told(requests: Counter[str], per: float) -> str:
    counts = (f"{route} {count / per:.4g}" for route, count in requests.most_common())
    return ", ".join(counts) or "none"


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rooms", type=int, default=10_000)
    parser.add_argument("--traced-rooms", type=int, default=1000)
    parser.add_argument("--rest", type=float, default=60.0, help="seconds")
    parser.add_argument(
        "--settling", type=float, default=70.0,
        help="seconds before that",
    )  # fmt: skip
    size = parser.parse_args()
    began = time.perf_counter()
    show(size, *trio.run(compare, size))
    print(f"\ntook {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()

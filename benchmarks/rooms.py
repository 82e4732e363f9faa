"""Many rooms: start-up, memory of an idle room, and whether many are slower than few."""

from __future__ import annotations

import argparse
import gc
import tracemalloc
from pathlib import Path
from typing import Final

import attrs
import trio

from band_trio import SessionConfig
from benchmarks.harness import (
    Sample,
    Server,
    Settle,
    best,
    measure,
    open_server,
    running,
    table,
)

AT_ONCE: Final = {"resync_rate": 10_000.0}
"""The first look at every room is not spread: waiting for it is not what is measured here."""
QUIET: Final = SessionConfig(idle_resync_seconds=3600, idle_resync_max_seconds=3600)
"""Nor are polls of idle rooms."""


@attrs.frozen
class Size:
    """How much is measured."""

    rooms: int = 1000
    few: int = 20
    messages: int = 1000
    rounds: int = 3


@attrs.frozen
class Start:
    """A start with many rooms."""

    started: Sample
    """Until `run` reports that it has started."""
    joined: Sample
    """Until the last topic is joined."""
    requests: dict[str, int]
    """Made until then, by route."""
    rss: int
    """Bytes by which the process has grown."""
    traced: int
    """Bytes of Python objects, where they were traced."""


def resident() -> int:
    """Return the bytes of memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


async def start(server: Server, rooms: int, *, trace: bool) -> Start:
    """Start an agent with so many rooms, wait until it is idle in all of them, stop it."""
    identity = await server.register(rooms)
    gc.collect()
    before = resident()
    if trace:
        tracemalloc.start()
    with measure() as joined:
        with measure(collect=False) as started:
            agent = running(server, identity, Settle(), QUIET, **AT_ONCE)
            await agent.__aenter__()
        await server.call("joined", agent=identity.id, topics=2 + 2 * rooms)
    requests = await server.call("requested", agent=identity.id)
    await server.call("read", agent=identity.id, rooms=rooms)
    gc.collect()
    traced = tracemalloc.get_traced_memory()[0] if trace else 0
    tracemalloc.stop()
    grown = resident() - before
    await agent.__aexit__(None, None, None)
    return Start(started, joined, requests, grown, traced)


async def throughput(server: Server, size: Size) -> dict[int, list[Sample]]:
    """Send the same number of messages over few and over many rooms."""
    few, many = await server.register(size.few), await server.register(size.rooms)
    found: dict[int, list[Sample]] = {size.few: [], size.rooms: []}
    async with (
        running(server, few, Settle(), QUIET),
        running(server, many, Settle(), QUIET, **AT_ONCE),
    ):
        for identity in (few, many):  # rosters and histories are read once
            await server.burst(identity, 2 * len(identity.rooms))
        for _ in range(size.rounds):
            for identity in (few, many):
                with measure() as sample:
                    await server.burst(identity, size.messages)
                found[len(identity.rooms)].append(sample)
    return found


async def compare(size: Size) -> tuple[Start, Start, dict[int, list[Sample]]]:
    """Measure everything."""
    async with open_server() as server:
        await start(server, 1, trace=False)  # what is loaded on first use
        plain = await start(server, size.rooms, trace=False)
        traced = await start(server, size.rooms, trace=True)
        return plain, traced, await throughput(server, size)


def show(size: Size, plain: Start, traced: Start, found: dict[int, list[Sample]]) -> None:
    """Print figures and ratios."""
    table(
        f"start with {size.rooms} rooms",
        ("", "seconds", "CPU seconds", "CPU us/room"),
        [
            (name, f"{s.wall:.2f}", f"{s.cpu:.2f}", f"{s.cpu / size.rooms * 1e6:.0f}")
            for name, s in (("started", plain.started), ("all topics joined", plain.joined))
        ],
    )
    counts = ", ".join(f"{route} {count}" for route, count in sorted(plain.requests.items()))
    print(f"  requests until then: {counts}")
    table(
        "memory of an idle room",
        ("", "kB/room"),
        [
            ("growth of the process", f"{plain.rss / size.rooms / 1e3:.1f}"),
            ("Python objects", f"{traced.traced / size.rooms / 1e3:.1f}"),
        ],
    )
    base = found[size.few]
    table(
        f"{size.messages} messages, best of {size.rounds}",
        ("", "messages/s", "of few", "CPU us/message", "of few"),
        [
            (
                f"{rooms} rooms",
                f"{size.messages / best(samples, 'wall'):.0f}",
                f"{best(base, 'wall') / best(samples, 'wall'):.2f}",
                f"{best(samples, 'cpu') / size.messages * 1e6:.0f}",
                f"{best(samples, 'cpu') / best(base, 'cpu'):.2f}",
            )
            for rooms, samples in found.items()
        ],
    )


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    for field in attrs.fields(Size):
        parser.add_argument(f"--{field.name}", type=int, default=field.default)
    size = Size(**vars(parser.parse_args()))
    show(size, *trio.run(compare, size))


if __name__ == "__main__":
    main()

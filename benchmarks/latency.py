"""One message to an idle agent: how long until it is claimed, and until it is settled.

The bare loop knows of its message: its figure is the claim and the settlement alone. What the
agent needs beyond that is the push and its own work.
"""

from __future__ import annotations

import argparse
from operator import truediv
from statistics import median

import trio

from benchmarks.harness import (
    Identity,
    Post,
    Server,
    Settle,
    bare_connections,
    bare_loop,
    measure,
    open_server,
    running,
    table,
)

PAUSE = 0.02
"""Seconds between two messages: everybody is idle again."""


async def bare(server: Server, identity: Identity, post: Post) -> float:
    """Return the seconds for claiming and settling a message that is known."""
    work = await server.send(identity, 1)
    await trio.sleep(PAUSE)
    with measure(collect=False) as sample:
        await bare_loop(post, work)
    return sample.wall


async def ping(server: Server, identity: Identity) -> tuple[float, float]:
    """Return the seconds from sending until claimed, and until settled."""
    await trio.sleep(PAUSE)
    got = await server.call("ping", agent=identity.id, room=identity.rooms[0])
    return got["claimed"], got["settled"]


async def compare(count: int) -> dict[str, list[float]]:
    """Measure so many messages, ways alternating."""
    found: dict[str, list[float]] = {
        "bare loop, claim and settle": [],
        "agent, sent to claimed": [],
        "agent, sent to settled": [],
    }
    base, claimed, settled = found.values()
    async with open_server() as server:
        plain, idle = await server.register(1), await server.register(1)
        async with (
            bare_connections(server, plain) as post,
            running(server, idle, Settle()),
        ):
            await server.burst(idle, 2)
            for _ in range(count):
                base.append(await bare(server, plain, post))
                until_claimed, until_settled = await ping(server, idle)
                claimed.append(until_claimed)
                settled.append(until_settled)
    return found


def show(found: dict[str, list[float]]) -> None:
    """Print figures and ratios."""
    base = next(iter(found.values()))
    rows = [
        (
            name,
            f"{median(times) * 1e3:.2f}",
            f"{median(map(truediv, times, base)):.2f}",
        )
        for name, times in found.items()
    ]
    table(f"one message at a time, {len(base)} times", ("", "median ms", "of bare"), rows)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=200)
    show(trio.run(compare, parser.parse_args().messages))


if __name__ == "__main__":
    main()

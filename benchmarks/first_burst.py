"""The first messages of many rooms: processor time and requests, against a loop over an httpx client.

An agent starts, joins and reads all its rooms, then each room gets its messages at once, and once
more when all are settled. The loop claims and settles as many messages over an
`httpx.AsyncClient`. Both alternate; each round has an agent and rooms of its own.
"""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Final

import attrs
import trio

from benchmarks.harness import (
    AT_ONCE,
    QUIET,
    Sample,
    Server,
    Settle,
    bare_client,
    bare_loop,
    measure,
    middle,
    open_server,
    ratio,
    running,
    table,
)

IDLE_SECONDS: Final = 0.5
"""An agent that has asked for nothing for so long has finished its start."""


@attrs.frozen
class Shape:
    """So many rooms, so many messages to each of them at once."""

    rooms: int
    each: int

    @classmethod
    def read(cls, text: str) -> Shape:
        """Read `500x2`."""
        rooms, each = map(int, text.split("x"))
        return cls(rooms, each)

    @property
    def messages(self) -> int:
        """How many messages a burst has."""
        return self.rooms * self.each

    def __str__(self) -> str:
        return f"{self.rooms} rooms x {self.each}"


@attrs.define
class Burst:
    """The same burst in each round."""

    agent: list[Sample] = attrs.field(factory=list)
    client: list[Sample] = attrs.field(factory=list)
    requests: Counter[str] = attrs.field(factory=Counter)
    """The agent's, by route, of all rounds."""


async def one_round(server: Server, shape: Shape, bursts: tuple[Burst, ...]) -> None:
    """Start an agent, send the bursts to it, then have the loop do the same."""
    identity = await server.register(shape.rooms)
    async with running(server, identity, Settle(), QUIET, **AT_ONCE):
        await server.all_read(identity)
        await server.quiet(IDLE_SECONDS)
        await server.requested(identity)
        for burst in bursts:
            with measure() as sample:
                await server.burst(identity, shape.messages)
            burst.agent.append(sample)
            burst.requests += await server.requested(identity)
    plain = await server.register(shape.rooms)
    async with bare_client(server, plain) as post:
        for burst in bursts:
            work = await server.send(plain, shape.messages)
            with measure() as sample:
                await bare_loop(post, work)
            burst.client.append(sample)


async def compare(shapes: list[Shape], rounds: int) -> dict[Shape, tuple[Burst, Burst]]:
    """Measure all shapes."""
    found = {shape: (Burst(), Burst()) for shape in shapes}
    async with open_server() as server:
        await one_round(server, Shape(2, 2), (Burst(),))  # what is loaded on first use
        for _ in range(rounds):
            for shape, bursts in found.items():
                await one_round(server, shape, bursts)
    return found


def show(found: dict[Shape, tuple[Burst, Burst]], rounds: int) -> None:
    """Print figures, ratios, and requests by route."""
    rows, routes = [], []
    for shape, bursts in found.items():
        for name, burst in zip(("first", "second"), bursts, strict=True):
            messages = shape.messages
            rows.append(
                (
                    f"{shape}, {name} burst",
                    f"{middle(burst.agent, 'cpu') / messages * 1e6:.0f}",
                    f"{ratio(burst.agent, burst.client, 'cpu'):.2f}",
                    f"{burst.requests.total() / messages / rounds:.2f}",
                )
            )
            each = burst.requests.most_common()
            told = ", ".join(f"{route} {n / messages / rounds:.2f}" for route, n in each)
            routes.append(f"  {shape}, {name} burst: {told}")
    table(
        f"bursts to an agent that was idle, medians of {rounds} rounds",
        ("", "CPU us/message", "of client", "requests/message"),
        rows,
    )
    print("\nrequests/message by route", *routes, sep="\n")


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    shapes = [Shape(500, 2), Shape(2000, 1)]
    parser.add_argument("shapes", nargs="*", type=Shape.read, default=shapes, help="as 500x2")
    parser.add_argument("--rounds", type=int, default=5)
    size = parser.parse_args()
    show(trio.run(compare, size.shapes, size.rounds), size.rounds)


if __name__ == "__main__":
    main()

"""A burst of messages: the running agent against the bare loop "claim, settle".

Live: the agent is connected and idle, the messages are pushed. Backlog: the messages wait at the
platform and the agent starts, so its start is part of the figure. Ways alternate within each
round. With `--replies` the handler answers, and the bare loop posts the same answer. `--parallel`
is how many requests the bare loop has under way: what httpx's pool costs rises with it.
"""

from __future__ import annotations

import argparse
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import attrs
import trio

from benchmarks.harness import (
    PARALLEL,
    Identity,
    Post,
    Reply,
    Sample,
    Server,
    Settle,
    bare_client,
    bare_connections,
    bare_loop,
    bare_pool,
    measure,
    middle,
    open_server,
    ratio,
    reply_body,
    running,
    table,
)


@attrs.frozen
class Size:
    """How much is measured."""

    messages: int = 1000
    rooms: int = 20
    rounds: int = 7
    parallel: int = PARALLEL
    replies: bool = False

    def adapter(self) -> Settle | Reply:
        """Return the adapter whose turns are measured."""
        return Reply() if self.replies else Settle()


Way = Callable[[], Awaitable[Sample]]


async def bare(server: Server, size: Size, identity: Identity, post: Post) -> Sample:
    """Send, then claim and settle what was sent."""
    reply = reply_body(identity) if size.replies else None
    with measure() as sample:
        work = await server.send(identity, size.messages)
        await bare_loop(post, work, reply, parallel=size.parallel)
    return sample


async def live(server: Server, size: Size, identity: Identity) -> Sample:
    """Send to an agent that is running, and wait until everything is settled."""
    with measure() as sample:
        await server.burst(identity, size.messages)
    return sample


async def backlog(server: Server, size: Size) -> Sample:
    """Let an agent start with everything waiting for it."""
    identity = await server.register(size.rooms)
    with measure() as sample:
        await server.send(identity, size.messages)
        async with running(server, identity, size.adapter()):
            await server.call("settled", agent=identity.id)
    return sample


@asynccontextmanager
async def ways(server: Server, size: Size) -> AsyncGenerator[dict[str, Way]]:
    """Prepare everything that is compared; the first way is what the others are divided by."""
    plain, busy = await server.register(size.rooms), await server.register(size.rooms)
    async with (
        bare_connections(server, plain) as over_connections,
        bare_pool(server, plain) as over_pool,
        bare_client(server, plain) as over_client,
        running(server, busy, size.adapter()),
    ):
        await server.burst(busy, 2 * size.rooms)  # rosters and histories are read once
        yield {
            "bare loop, one connection each": partial(bare, server, size, plain, over_connections),
            "bare loop, httpx pool": partial(bare, server, size, plain, over_pool),
            "bare loop, httpx client": partial(bare, server, size, plain, over_client),
            "agent, live": partial(live, server, size, busy),
            "agent, backlog": partial(backlog, server, size),
        }


async def compare(size: Size) -> dict[str, list[Sample]]:
    """Measure all ways, one after the other, for as many rounds as asked for."""
    async with open_server() as server, ways(server, size) as compared:
        found: dict[str, list[Sample]] = {name: [] for name in compared}
        for _ in range(size.rounds):
            for name, way in compared.items():
                found[name].append(await way())
        return found


def show(size: Size, found: dict[str, list[Sample]]) -> None:
    """Print figures and ratios."""
    bases = [found["bare loop, one connection each"], found["bare loop, httpx client"]]
    rows = [
        [name, f"{size.messages / middle(samples, 'wall'):.0f}"]
        + [f"{1 / ratio(samples, base, 'wall'):.2f}" for base in bases]
        + [f"{middle(samples, 'cpu') / size.messages * 1e6:.0f}"]
        + [f"{ratio(samples, base, 'cpu'):.2f}" for base in bases]
        for name, samples in found.items()
    ]
    what = "messages with a reply" if size.replies else "messages"
    table(
        f"{size.messages} {what} over {size.rooms} rooms, medians of {size.rounds} rounds",
        ("", "messages/s", "of bare", "of client", "CPU us/message", "of bare", "of client"),
        rows,
    )


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("messages", "rooms", "rounds", "parallel"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Size(), name))
    parser.add_argument("--replies", action="store_true", help="every message is answered")
    size = Size(**vars(parser.parse_args()))
    show(size, trio.run(compare, size))


if __name__ == "__main__":
    main()

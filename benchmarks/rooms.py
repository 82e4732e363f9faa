"""Whether a message costs more in an agent with many rooms than in one with few."""

from __future__ import annotations

import argparse

import attrs
import trio

from benchmarks.harness import (
    AT_ONCE,
    QUIET,
    Sample,
    Settle,
    measure,
    middle,
    open_server,
    ratio,
    running,
    table,
)


@attrs.frozen
class Size:
    """How much is measured."""

    rooms: int = 1000
    few: int = 20
    messages: int = 1000
    rounds: int = 5


async def compare(size: Size) -> dict[int, list[Sample]]:
    """Send the same number of messages over few and over many rooms, alternately."""
    found: dict[int, list[Sample]] = {size.few: [], size.rooms: []}
    async with open_server() as server:
        few, many = await server.register(size.few), await server.register(size.rooms)
        async with (
            running(server, few, Settle(), QUIET, **AT_ONCE),
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


def show(size: Size, found: dict[int, list[Sample]]) -> None:
    """Print figures and ratios."""
    base = found[size.few]
    table(
        f"{size.messages} messages, medians of {size.rounds} rounds",
        ("", "messages/s", "of few", "CPU us/message", "of few"),
        [
            (
                f"{rooms} rooms",
                f"{size.messages / middle(samples, 'wall'):.0f}",
                f"{1 / ratio(samples, base, 'wall'):.2f}",
                f"{middle(samples, 'cpu') / size.messages * 1e6:.0f}",
                f"{ratio(samples, base, 'cpu'):.2f}",
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
    show(size, trio.run(compare, size))


if __name__ == "__main__":
    main()

"""How long `import band_trio` takes, against its dependencies alone and an empty interpreter."""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys

from benchmarks.harness import table

WAYS = {
    "nothing": "pass",
    "the dependencies": "import trio, httpx, trio_websocket, attrs, cattrs, orjson, filelock, yaml",
    "band_trio": "import band_trio",
}


def seconds(code: str) -> float:
    """Return the processor time of a fresh interpreter that runs *code*."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compare(rounds: int) -> dict[str, float]:
    """Return the median of each way, ways alternating."""
    found: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(rounds):
        for name, code in WAYS.items():
            found[name].append(seconds(code))
    return {name: statistics.median(times) for name, times in found.items()}


def show(found: dict[str, float]) -> None:
    """Print figures and ratios."""
    empty, base = found["nothing"], found["the dependencies"]
    table(
        "import",
        ("", "CPU ms", "beyond nothing", "of the dependencies"),
        [
            (
                name,
                f"{time * 1e3:.0f}",
                f"{(time - empty) * 1e3:.0f}",
                f"{(time - empty) / (base - empty):.2f}",
            )
            for name, time in found.items()
        ],
    )


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    show(compare(parser.parse_args().rounds))


if __name__ == "__main__":
    main()

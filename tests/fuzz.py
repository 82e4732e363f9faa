"""Any request at all, against both REST interfaces of the embedded platform, as they are described.

    python -m tests.fuzz [--examples 5]

schemathesis reads `/openapi.json` and asks: examples, edge values, random ones, and chains of calls.
The ids of a furnished platform are put into the description, so that not everything is a 404. The
answers must be as described; which described statuses were met is printed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from itertools import count
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import trio

from band_trio.localband import LocalBand, contacts, open_local_band
from band_trio.localband.openapi import describe, statuses
from band_trio.localband.rest import AGENT_ROUTES, USER_ROUTES
from band_trio.localband.routes import Route
from band_trio.stores.memories import Reader
from band_trio.stores.tasks import Actor

CHECKS: Final = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "unsupported_method",
)
SECONDS: Final = 40.0
"""Longest run of one interface."""


async def furnish(band: LocalBand) -> dict[str, list[str]]:
    """Fill a platform; return what may stand in a path: parameter → ids."""
    agents = [band.register_agent(name) for name in ("Scribe", "Finder")]
    ann = band.add_user("Ann", role="admin")
    rooms = [(await band.user.create_room(title, agents)).id for title in ("Work", "Rest")]
    messages = [
        await band.say_as(band.user, room, f"number {n}", [agents[0]])
        for room in rooms
        for n in (1, 2)
    ]
    world = band.world
    await band.say_as(agents[0], rooms[0], "thinking", message_type="thought")
    request = contacts.ask(world, ann.party, agents[0].handle)
    contacts.ask(world, band.user.party, ann.handle)
    memory = {"content": "c", "system": "working", "type": "semantic", "segment": "user"}
    own = Reader(agents[0].id, band.user.id)
    kept = [
        world.memories.store(own, {"memory": {**memory, "thought": "t", "subject_id": about}}).id
        for about in (band.user.id, ann.id)
    ]
    tasks = world.tasks_of(world.rooms[rooms[0]])
    for subject in ("one", "two"):
        tasks.create(Actor(agents[0].id, "Scribe", "Agent"), {"subject": subject})
    return {
        "chat_id": rooms,
        "participant_id": [agents[1].id, band.user.id],
        "messages": messages,
        "tasks": ["1", "2", "3"],
        "memories": kept,
        "requests": [request.id],
        "agents": [agent.id for agent in agents],
    }


def with_ids(document: dict[str, Any], ids: dict[str, list[str]]) -> dict[str, Any]:
    """Put ids that are there into the parameters of paths, beside one that is not."""
    for path, operations in document["paths"].items():
        for operation in operations.values():
            for parameter in operation["parameters"]:
                if parameter["in"] != "path":
                    continue
                before = path.partition("{" + parameter["name"] + "}")[0].rstrip("/")
                known = ids.get(parameter["name"]) or ids.get(before.rpartition("/")[2], [])
                nobody = "00000000-0000-4000-8000-000000000000"
                parameter["schema"] = {"type": "string", "enum": [*known, nobody, "x"]}
    return document


async def fuzz(routes: tuple[Route, ...], examples: int) -> tuple[int, dict[str, set[int]]]:
    """Run schemathesis against some routes; return its exit code, and route → statuses met."""
    met: dict[str, set[int]] = defaultdict(set)
    # Ids that are the same each time, so that what is found once is found again.
    ids = count(1)
    async with open_local_band(new_id=lambda: str(UUID(int=next(ids), version=4))) as band:
        known = await furnish(band)
        is_agent = routes[0].caller == "Agent"
        key = band.agents()[0].api_key if is_agent else band.user_key
        document = with_ids(json.loads(json.dumps(describe(routes, server=band.rest_url))), known)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "openapi.json"
            file.write_text(json.dumps(document), encoding="utf-8")
            command = [
                sys.executable, "-m", "schemathesis.cli", "run", str(file), "--url", band.rest_url,
                "--header", f"X-API-Key: {key}", "--checks", ",".join(CHECKS),
                "--phases", "examples,coverage,fuzzing,stateful", "--max-examples", str(examples),
                "--no-color", "--max-time", str(int(SECONDS)), "--seed", "1",
            ]  # fmt: skip
            with trio.fail_after(SECONDS + 30):
                done = await trio.run_process(
                    command, check=False, capture_stdout=True, stderr=subprocess.STDOUT, cwd=folder
                )
        if done.returncode:
            sys.stdout.write(done.stdout.decode(errors="replace"))
        for record in band.log.requests():
            if record.status is not None:
                met[record.route].add(record.status)
    return done.returncode, met


def main() -> int:
    """Run both interfaces; return the worst exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=5, help="random requests per operation")
    options = parser.parse_args()
    worst = 0
    for name, routes in (("agents", AGENT_ROUTES), ("persons", USER_ROUTES)):
        code, met = trio.run(fuzz, routes, options.examples)
        described = {(route.name, status) for route in routes for status in statuses(route)}
        reached = {pair for pair in described if pair[1] in met[pair[0]]}
        total = sum(map(len, met.values()))
        sys.stdout.write(
            f"{name}: exit {code}; {len(reached)} of {len(described)} described statuses met, "
            f"{total} pairs of route and status in all\n"
        )
        for route, status in sorted(described - reached):
            sys.stdout.write(f"  not met: {route} {status}\n")
        worst = max(worst, code)
    return worst


if __name__ == "__main__":
    sys.exit(main())

"""A program that an MCP client starts: the tools of one room in memory."""

from __future__ import annotations

import sys

import trio

from band_trio.mcp import MCPServer, OpenTurns, build_mcp_registrations
from tests.mcp.kit import CHAT, open_turn


async def main() -> None:
    turns = OpenTurns()
    server = MCPServer(build_mcp_registrations(turns.get, CHAT))
    async with open_turn(turns) as turn:
        with trio.move_on_after(float(sys.argv[1])):
            async with trio.open_nursery() as nursery:
                await nursery.start(server.serve_stdio)
                print("printed", flush=True)  # noqa: T201 - where it goes is tested
                print("buffered")  # noqa: T201 - it leaves the process when serving ends
    print("said:", *turn.tools.chat, file=sys.stderr)  # noqa: T201 - the test reads it


if __name__ == "__main__":
    trio.run(main)

"""Turns that run, and clients of the official package."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import httpx2
import trio
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent

from band_trio.mcp.http import LocalMCPServer
from band_trio.mcp.turns import OpenTurns
from band_trio.testing import FakeAgentTools
from band_trio.tools.catalogue import iter_tool_definitions
from band_trio.tools.definitions import ToolDefinition
from band_trio.tools.ledger import Ledger

CHAT: list[ToolDefinition] = iter_tool_definitions()
MARIA = {"id": "u1", "handle": "maria", "name": "Maria"}


@attrs.define(eq=False)
class OpenTurn:
    """A turn that runs until `end`."""

    tools: FakeAgentTools
    _nursery: trio.Nursery

    def end(self) -> None:
        """Cancel it, as an interrupt does."""
        self._nursery.cancel_scope.cancel()


@asynccontextmanager
async def open_turn(
    turns: OpenTurns, room_id: str = "r1", **seeds: Any
) -> AsyncGenerator[OpenTurn]:
    """Open a turn in a room with Maria."""
    seeds = {"participants": [MARIA], "turn": Ledger(), **seeds}
    tools = FakeAgentTools(room_id=room_id, agent_id="me", **seeds)
    with turns.open(tools):
        async with trio.open_nursery() as nursery:
            tools.turn.open_in(nursery)
            yield OpenTurn(tools, nursery)
        tools.turn.close()


@asynccontextmanager
async def serving(server: LocalMCPServer) -> AsyncGenerator[None]:
    """Serve until the block ends; the end has a bound."""
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve)
        yield
        began = trio.current_time()
        nursery.cancel_scope.cancel()
    assert trio.current_time() - began < 2


@asynccontextmanager
async def http_client(
    url: str, headers: dict[str, str], mode: str = "auto"
) -> AsyncGenerator[Client]:
    """Connect over HTTP."""
    async with httpx2.AsyncClient(headers=headers, timeout=5) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


def text_of(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text

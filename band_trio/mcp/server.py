"""`MCPServer`: the protocol, natively on trio, and its simplest transport, stdin and stdout."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, Self, cast

import attrs
import trio
from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server

from band_trio import texts
from band_trio.errors import BandConfigError
from band_trio.kit.hygiene import without_surrogates
from band_trio.mcp.registrations import MCPToolRegistration
from band_trio.tools.definitions import BAND_MCP_SERVER_NAME
from band_trio.tools.results import block_text, is_mcp_content_result, tool_result_text
from band_trio.types import ToolCallOutcome

Request = ServerRequestContext[Any, Any]

LINE_BYTES: Final = 16 * 1024 * 1024
"""Longest message on stdin; a client that sends more is not one."""


class MCPServer:
    """A server of the tools in *registrations*; see `build_mcp_registrations`.

    `serve_stdio` is for programs that a client starts; `LocalMCPServer` serves over HTTP.

    Raises:
        BandConfigError: two tools have one name.
    """

    def __init__(
        self,
        registrations: Iterable[MCPToolRegistration],
        *,
        name: str = BAND_MCP_SERVER_NAME,
        version: str = "",
        instructions: str | None = None,
    ) -> None:
        self.registrations: dict[str, MCPToolRegistration] = {}
        """The tools by name, in the order in which they are listed."""
        for each in registrations:
            if each.name in self.registrations:
                raise BandConfigError(f"two tools have the name {each.name!r}.")
            self.registrations[each.name] = each
        self.name = name
        """What clients call the server; Claude builds its names of the tools from it."""
        self._about: dict[str, Any] = {"version": version, "instructions": instructions}
        self._listed = [
            types.Tool(name=each.name, description=each.description, input_schema=each.input_schema)
            for each in self.registrations.values()
        ]

    def protocol(self, room_of: Callable[[Request], str | None] = lambda _: None) -> Server[Any]:
        """Return the protocol half, for a transport; *room_of* tells the room of a connection."""

        async def list_tools(  # noqa: ASYNC124 - the protocol's handlers are async
            _: Request, __: types.PaginatedRequestParams | None
        ) -> types.ListToolsResult:
            return types.ListToolsResult(tools=self._listed)

        async def call_tool(
            request: Request, params: types.CallToolRequestParams
        ) -> types.CallToolResult:
            tool = self.registrations.get(params.name)
            if tool is None:
                return as_mcp_result(ToolCallOutcome(texts.unknown_tool(params.name), ok=False))
            return as_mcp_result(await tool.execute(params.arguments, room_of(request)))

        return Server(self.name, on_list_tools=list_tools, on_call_tool=call_tool, **self._about)

    async def serve_stdio(
        self,
        *,
        room_id: str | None = None,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve one client on stdin and stdout, until it closes them or this is cancelled.

        With *room_id* the whole connection is for that room: register the tools with
        `room_from_connection`, and they take no `chat_id`.

        Meanwhile what the program prints goes to stderr: stdout belongs to the protocol.
        """
        async with _standard_streams() as (stdin, stdout):
            async with stdio_server(cast("Any", stdin), cast("Any", stdout)) as (read, write):
                server = self.protocol(lambda _: room_id)
                task_status.started()
                await server.run(read, write, server.create_initialization_options())


def as_mcp_result(outcome: ToolCallOutcome) -> types.CallToolResult:
    """Return an outcome in the protocol's form; pictures as what they are."""
    content: list[types.ContentBlock]
    if outcome.ok and is_mcp_content_result(outcome.value):
        content = [_block(block) for block in outcome.value["content"]]
    else:
        content = [_text(outcome.value)]
    return types.CallToolResult(content=content, is_error=not outcome.ok)


def _block(block: Mapping[str, Any]) -> types.ContentBlock:
    mime = without_surrogates(str(block.get("mimeType") or block.get("mime_type") or ""))
    if block["type"] == "image":
        return types.ImageContent(data=_data(block), mime_type=mime or "image/png")
    if block["type"] == "audio":
        return types.AudioContent(data=_data(block), mime_type=mime or "audio/wav")
    return _text(block_text(block))


def _data(block: Mapping[str, Any]) -> str:
    return without_surrogates(str(block["data"]))


def _text(value: Any) -> types.TextContent:
    """Return a result as text; one that UTF-8 cannot encode would end the connection."""
    return types.TextContent(text=without_surrogates(tool_result_text(value)))


# --------------------------------------------------------------------------- stdin and stdout


@asynccontextmanager
async def _standard_streams() -> AsyncGenerator[tuple[_Lines, _Writer]]:
    """Take stdin and stdout as trio streams: a read in a thread could not be cancelled."""
    with _private(0, os.O_RDONLY, os.devnull) as stdin, _private(1, os.O_WRONLY, None) as stdout:
        async with trio.lowlevel.FdStream(stdin) as source, trio.lowlevel.FdStream(stdout) as sink:
            yield _Lines(source), _Writer(sink)


@contextmanager
def _private(fd: int, flags: int, instead: str | None) -> Generator[int]:
    """Yield a descriptor of our own for *fd*; meanwhile *fd* is *instead*, or stderr."""
    (sys.stdin if fd == 0 else sys.stdout).flush()
    wire, given_away = os.dup(fd), os.dup(fd)
    other = os.dup(2) if instead is None else os.open(instead, flags)
    os.dup2(other, fd)
    os.close(other)
    try:
        yield wire  # closed by the stream that takes it
    finally:
        try:
            if fd == 1:
                sys.stdout.flush()  # what was printed meanwhile must not reach the client
        finally:
            os.dup2(given_away, fd)
            os.close(given_away)


@attrs.define(eq=False)
class _Lines:
    """Lines of a byte stream, as the transport iterates over a text file."""

    _stream: trio.abc.ReceiveStream
    _buffer: bytearray = attrs.field(factory=bytearray, init=False)
    _searched: int = attrs.field(default=0, init=False)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        while (end := self._buffer.find(b"\n", self._searched)) < 0:
            self._searched = len(self._buffer)
            if self._searched > LINE_BYTES:
                raise BandConfigError("a message on stdin is too long")
            data = await self._stream.receive_some(65_536)
            if not data:
                raise StopAsyncIteration
            self._buffer += data
        line = bytes(self._buffer[: end + 1])
        del self._buffer[: end + 1]
        self._searched = 0
        return line.decode("utf-8", "replace")


@attrs.define(eq=False)
class _Writer:
    """A byte stream, as the transport writes to a text file. One task writes."""

    _stream: trio.abc.SendStream

    async def write(self, text: str) -> None:
        """Send the text."""
        await self._stream.send_all(text.encode())

    async def flush(self) -> None:
        """Do nothing: what is written is sent."""
        await trio.lowlevel.checkpoint()

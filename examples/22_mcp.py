# /// script
# requires-python = ">=3.11"
# dependencies = ["band-trio[local,mcp]"]
# ///
"""The room tools as an MCP server, for a backend that only speaks MCP, such as a coding agent.

Each turn is opened to the server, which runs the tools inside it. The backend here is a plain MCP
client with two lines of a script.
"""

# expects: the backend sees 8 tools
# expects: Coder: It compiles.
import httpx2
import trio
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from band_trio import Agent, SimpleAdapter, mcp
from band_trio.localband import open_local_band


class BackendAdapter(SimpleAdapter):
    def __init__(self):
        super().__init__()
        self.turns = mcp.OpenTurns()
        tools = mcp.selected_tool_definitions(self.features)
        rows = mcp.build_mcp_registrations(self.turns.get, tools, room_from_connection=True)
        self.server = mcp.LocalMCPServer("band", rows, room_bound=True)

    async def serve(self, *, task_status):  # noqa: ASYNC128 - the server reports it
        await self.server.serve(task_status=task_status)

    async def on_message(self, msg, tools, *news, room_id, **more):
        with self.turns.open(tools):
            await backend(self.server.url_of(room_id), self.server.headers, msg.sender_id)


async def backend(url, headers, asker):
    async with httpx2.AsyncClient(headers=headers) as http:
        async with Client(streamable_http_client(url, http_client=http)) as client:
            print(f"the backend sees {len((await client.list_tools()).tools)} tools")
            args = {"content": "It compiles.", "mentions": [asker]}
            await client.call_tool("band_send_message", args)


async def main():
    async with open_local_band() as band:
        account = band.register_agent("Coder")
        room = await band.user.create_room(members=[account])
        async with Agent.create(adapter=BackendAdapter(), **band.connection(account)):
            message = await band.user.send(room, "does it compile?", mentions=[account])
            await band.until(lambda: band.state(message, account) == "processed")
        print(f"Coder: {(await band.user.messages(room))[-1]['content'].partition(' ')[2]}")


if __name__ == "__main__":
    trio.run(main)

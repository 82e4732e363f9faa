# /// script
# requires-python = ">=3.11"
# dependencies = ["band-trio[local,mcp]"]
# ///
"""The tools of one room as an MCP server on stdin and stdout, for clients that start programs.

Give such a client the command `23_mcp_stdio.py serve` and the variables that are read in `serve`.
Without `serve` this program is the client, a short script, with a platform to try it on.
"""

# expects: the client sees 8 tools
# expects: Coder: It compiles.
import os
import sys

import trio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from band_trio import AgentConfig, AgentTools
from band_trio.config.credentials import Credentials
from band_trio.config.endpoints import resolve_endpoints
from band_trio.link.rest.api import open_api
from band_trio.link.rest.rest import RestClient
from band_trio.localband import open_local_band
from band_trio.mcp import MCPServer, build_mcp_registrations, iter_tool_definitions


async def serve():
    agent = Credentials(os.environ["BAND_AGENT_ID"], os.environ["BAND_API_KEY"])
    async with open_api(resolve_endpoints(), agent, AgentConfig()) as api:  # BAND_REST_URL
        tools = AgentTools(os.environ["ROOM_ID"], RestClient(api), agent_id=agent.agent_id)
        rows = iter_tool_definitions()
        rows = build_mcp_registrations(lambda room_id: tools, rows, room_from_connection=True)
        await MCPServer(rows).serve_stdio(room_id=tools.room_id)


async def main():
    async with open_local_band() as band:
        account = band.register_agent("Coder")
        room = await band.user.create_room(members=[account])
        env = {
            "BAND_AGENT_ID": account.id,
            "BAND_API_KEY": account.api_key,
            "BAND_REST_URL": band.rest_url,
            "ROOM_ID": room.id,
        }
        command = StdioServerParameters(command=sys.executable, args=[__file__, "serve"], env=env)
        async with Client(stdio_client(command)) as client:
            print(f"the client sees {len((await client.list_tools()).tools)} tools")
            args = {"content": "It compiles.", "mentions": [band.user.id]}
            await client.call_tool("band_send_message", args)
        print(f"Coder: {(await band.user.messages(room))[-1]['content'].partition(' ')[2]}")


if __name__ == "__main__":
    trio.run(serve if sys.argv[1:] == ["serve"] else main)

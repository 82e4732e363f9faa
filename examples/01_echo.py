# /// script
# requires-python = ">=3.11"
# dependencies = ["band-trio"]
# ///
# Answers every message that mentions the agent. Runs until Ctrl-C.
# expects: in the room, "You said: @your-name/echo hello" as the answer to "@your-name/echo hello"
import trio

from band_trio import Agent, SimpleAdapter


class Echo(SimpleAdapter):
    async def on_message(self, msg, tools, *rest, **more):
        await tools.send_message(f"You said: {msg.content}", mentions=[msg.sender_id])


# Reads agent_id and api_key of the entry "echo" in agent_config.yaml.
trio.run(Agent.from_config("echo", adapter=Echo()).run)

# /// script
# requires-python = ">=3.11"
# dependencies = ["band-trio"]
# ///
# Answers every message that mentions the agent. Runs until Ctrl-C.
# expects: in the room, "You said: @your-name/echo hello" as the answer to "@your-name/echo hello"
import band_trio


class Echo(band_trio.SimpleAdapter):
    async def on_message(self, msg, tools, *rest, **more):
        await tools.send_message(f"You said: {msg.content}", mentions=[msg.sender_id])


if __name__ == "__main__":
    band_trio.run(Echo())  # reads BAND_AGENT_ID and BAND_API_KEY, or agent_config.yaml

# /// script
# requires-python = ">=3.11"
# dependencies = ["band-trio"]
# ///
"""An agent of rules: functions by pattern, no model. Run it as a program, or with the command line:

    band-trio run 02_rules:desk

Both read BAND_AGENT_ID and BAND_API_KEY, or agent_config.yaml.
"""

# expects: in the room, "2 + 3 = 5" as the answer to "@your-name/desk add 2 3"
# expects: in the room, "In this room: …" as the answer to "@your-name/desk who is here?"
import band_trio
from band_trio.adapters import RuleAdapter, call_tool

desk = RuleAdapter()


@desk.on(r"^add (?P<a>\d+) (?P<b>\d+)")
async def add(msg, tools, match):  # noqa: ASYNC124 - rules are async, also short ones
    """Return text: it is sent to whoever asked."""
    a, b = int(match["a"]), int(match["b"])
    return f"{a} + {b} = {a + b}"


@desk.on(r"^who is here")
async def who(msg, tools, match):
    """Call tools by name, as a model would; errors of the platform fail the message."""
    people = await call_tool(tools, "band_get_participants")
    names = sorted(person["name"] for person in people)
    await call_tool(
        tools,
        "band_send_message",
        content=f"In this room: {', '.join(names)}",
        mentions=[msg.sender_id],
    )


# A message that no rule matches is declined: nothing is said, and the message is settled.

if __name__ == "__main__":
    band_trio.run(desk)
